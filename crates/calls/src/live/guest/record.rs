//! What follows the fixed part of a record (`wire::calls`).

use prototypes::Captures;

/// The first words, if the record has them, and the rest.
pub fn halves<const N: usize>(rest: &[u64]) -> ([u64; N], &[u64]) {
    match rest.split_first_chunk::<N>() {
        Some((first, rest)) => (*first, rest),
        None => ([0; N], rest),
    }
}

/// st(0) and st(1): ten bytes of each two words.
pub fn x87_registers(words: &[u64]) -> [[u8; 10]; 2] {
    let mut registers = [[0; 10]; 2];
    for (register, pair) in registers.iter_mut().zip(words.as_chunks::<2>().0) {
        register[..8].copy_from_slice(&pair[0].to_le_bytes());
        register[8..].copy_from_slice(&pair[1].to_le_bytes()[..2]);
    }
    registers
}

/// Copies of memory: address, bytes, and so many, padded.
pub fn copied(mut words: &[u64]) -> Captures {
    let mut captures = Captures::new();
    while let [at, length, rest @ ..] = words {
        let length = *length as usize;
        let Some((bytes, rest)) = rest.split_at_checked(length.div_ceil(8)) else {
            break;
        };
        captures.add_words(*at, bytes, length);
        words = rest;
    }
    captures
}
