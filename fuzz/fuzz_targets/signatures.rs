//! Prototypes from debug information.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prototypes::dwarf::{self, Options};

fuzz_target!(|bytes: &[u8]| {
    let _ = dwarf::read(bytes, Options::default(), &|_| true);
});
