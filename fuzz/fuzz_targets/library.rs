//! `lancet stack FILE`: headers, sections, symbols, call frame information, code, imports, DWARF variables.
#![no_main]

use frames::scan::{Decode, Scan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (file, path) = lancet_fuzz::holding(bytes);
    for decode in [Decode::AsNeeded, Decode::Everything] {
        let Ok(scan) = Scan::file(&path, file.try_clone().expect("a descriptor"), decode) else {
            return;
        };
        for frame in scan.frames() {
            let _ = (scan.name(frame), scan.hints(frame), scan.variable(frame));
        }
    }
});
