//! What a hook runs in the guest: any words, over memory that answers with the same bytes. It ends, and within its limits.
#![no_main]

use capture::condition::{self, Facts};
use capture::describe::What;
use capture::{CopyLimits, GuestAccess, Registers, run};
use libfuzzer_sys::fuzz_target;

/// Memory of these bytes, over and over; counts what is asked and given.
struct Echo<'a> {
    bytes: &'a [u8],
    given: usize,
    reads: u32,
}

impl GuestAccess for Echo<'_> {
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        self.reads += 1;
        assert!(into.len() <= CopyLimits::CHUNK && at % 4096 + into.len() as u64 <= 4096);
        for (place, byte) in into.iter_mut().zip(self.bytes.iter().cycle()) {
            *place = *byte;
        }
        !self.bytes.is_empty()
    }

    fn output(&mut self, _: u64, capture: &[u8]) -> bool {
        self.given += capture.len();
        true
    }

    fn describe(&mut self, _: What, _: u64, _: u16, _: u32) -> u32 {
        0
    }
}

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    let limits = CopyLimits {
        bytes: 4096,
        steps: 10_000,
    };
    let mut echo = Echo {
        bytes,
        given: 0,
        reads: 0,
    };
    run(&words, &Registers::default(), None, limits, &mut echo);
    let Echo { given, reads, .. } = echo;
    assert!(
        given <= 4096 && reads <= 20_000,
        "{given} bytes, {reads} reads"
    );

    let facts = Facts {
        registers: &Registers::default(),
        returned: None,
        elapsed: 5,
        lines: condition::line_bits(&words, bytes),
    };
    condition::holds(&words, facts, |at, into| {
        assert!(at % 4096 + into.len() as u64 <= 4096);
        match echo.read(at, into) {
            true => into.len(),
            false => 0,
        }
    });
});
