//! What a hook runs in the guest: any words, over memory that answers with the same bytes. It ends, and within its limits.
#![no_main]

use capture::{Limits, Registers, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    let limits = Limits {
        bytes: 4096,
        steps: 10_000,
    };
    let (mut given, mut reads) = (0, 0);
    run(
        &words,
        &Registers::default(),
        None,
        limits,
        |at, into| {
            reads += 1;
            assert!(into.len() <= Limits::PIECE && at % 4096 + into.len() as u64 <= 4096);
            for (place, byte) in into.iter_mut().zip(bytes.iter().cycle()) {
                *place = *byte;
            }
            !bytes.is_empty()
        },
        |_, piece| {
            given += piece.len();
            true
        },
    );
    assert!(given <= 4096 && reads <= 20_000, "{given} bytes, {reads} reads");
});
