//! Decodes what follows the fixed part of a record (`wire::calls`). Used by `guest` and `straight`.

use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;

/// Returns the first words, zeros if they are missing, and the rest.
fn halves<const N: usize>(rest: &[u64]) -> ([u64; N], &[u64]) {
    match rest.split_first_chunk::<N>() {
        Some((first, rest)) => (*first, rest),
        None => ([0; N], rest),
    }
}

/// The registers that hold a call's arguments, and the words of copies behind the vector registers. `general`: rdi, rsi,
/// rdx, rcx, r8, r9 and rax, as the reader of rings hands them on.
#[inline]
pub fn arguments(general: [u64; 7], frame: u64, rest: &[u64]) -> (Registers, &[u64]) {
    let (sse, copies) = halves::<8>(rest);
    let [rdi, rsi, rdx, rcx, r8, r9, _] = general;
    let registers = Registers {
        gp: [rdi, rsi, rdx, rcx, r8, r9],
        sse,
        stack: frame,
    };
    (registers, copies)
}

/// The registers that hold what a call returned, and the words of copies behind them. `x87`: how many words of st(0) and
/// st(1) there are.
#[inline]
pub fn results([rax, rdx]: [u64; 2], x87: usize, rest: &[u64]) -> (Returned, &[u64]) {
    let (sse, rest) = halves::<2>(rest);
    let (st, copies) = rest.split_at(x87.min(rest.len()));
    let returned = Returned {
        rax,
        rdx,
        sse,
        x87: x87_registers(st),
    };
    (returned, copies)
}

/// st(0) and st(1): ten bytes of each two words.
fn x87_registers(words: &[u64]) -> [[u8; 10]; 2] {
    let mut registers = [[0; 10]; 2];
    for (register, pair) in registers.iter_mut().zip(words.as_chunks::<2>().0) {
        register[..8].copy_from_slice(&pair[0].to_le_bytes());
        register[8..].copy_from_slice(&pair[1].to_le_bytes()[..2]);
    }
    registers
}

/// Decodes copies of memory: for each its address, its number of bytes, and the bytes, padded to words.
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
