//! `--where` and `--min-time`: whether a call is to be told. The command wrote the conditions as words of crate `capture`.

use super::captures::registers;
use super::scalars::Scalars;
use super::values::Proven;
use capture::Returned;
use capture::condition::{Facts, holds_of};
use routine::{Frame, Results};
use vm::Memory;

/// Whether the call meets its hook's condition: its registers, and where its stack arguments begin. `lines` are the bits of the line that called.
///
/// # Safety
/// The words are there: the command wrote them before the hook was told of them.
#[inline]
pub unsafe fn at_call(program: [u64; 2], frame: (&Frame, u64), lines: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { meets(program, frame, None, 0, lines, 0) }
}

/// The same for the return of a call that took so many cycles. `kept`: see [`Reader::kept`](super::languages::Reader::kept).
///
/// # Safety
/// As for the call.
#[inline]
pub unsafe fn at_return(
    program: [u64; 2],
    frame: (&Frame, u64),
    results: &Results,
    elapsed: u64,
    lines: u32,
    kept: u64,
) -> bool {
    let returned = Returned {
        rax: results.rax,
        rdx: results.rdx,
        sse: [results.xmm[0][0], results.xmm[1][0]],
        x87: [[0; 10]; 2],
    };
    // SAFETY: the caller's promise.
    unsafe { meets(program, frame, Some(&returned), elapsed, lines, kept) }
}

/// # Safety
/// As for the call.
#[inline]
unsafe fn meets(
    [at, count]: [u64; 2],
    frame: (&Frame, u64),
    returned: Option<&Returned>,
    elapsed: u64,
    lines: u32,
    kept: u64,
) -> bool {
    if count == 0 {
        return true;
    }
    // SAFETY: the caller's promise.
    let words = unsafe { core::slice::from_raw_parts(at as *const u64, count as usize) };
    let proven = Proven::new();
    let read = |at, into: &mut [u8]| match proven.read(at, into) {
        Ok(()) => into.len(),
        Err(_) => 0,
    };
    let registers = registers(frame.0, frame.1);
    let facts = Facts {
        registers: &registers,
        returned,
        elapsed,
        lines,
    };
    let mut values = Scalars {
        proven: &proven,
        registers: registers.gp,
        kept,
    };
    holds_of(words, facts, read, &mut values)
}
