//! `lancet patch`: the user's shared library, and the journal in a guest's memory, which the guest may have written.
//!
//! A first byte of 0 means a journal: what follows is memory from address 0x1000 on. Anything else is the first byte of a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patch::image;
use process::memory::GuestMemory;
use std::io::{Seek, SeekFrom, Write};

/// Where the journal begins.
const BASE: u64 = 0x1000;

fuzz_target!(|bytes: &[u8]| {
    match bytes.split_first() {
        Some((0, journal)) => {
            let (mut file, _) = lancet_fuzz::holding(&[]);
            file.seek(SeekFrom::Start(BASE)).expect("a place");
            file.write_all(journal).expect("written");
            // A whole journal is as long as it says, with pages behind it that are zero.
            file.set_len(BASE + 0x10_0000).expect("a length");
            image::journal(&GuestMemory::image(file), BASE);
        }
        Some(_) => image::object(bytes),
        None => {}
    }
});
