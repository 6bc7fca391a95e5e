//! `lancet stack CORE`: notes, threads, mappings, stacks.
#![no_main]

use frames::live::core::Core;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (_file, path) = lancet_fuzz::holding(bytes);
    let _ = Core::is_one(&path);
    let Ok(mut core) = Core::open(&path) else {
        return;
    };
    let modules = core.modules();
    let _ = core.look(&modules, true);
});
