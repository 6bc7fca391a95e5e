//! What arguments point to, copied into the call's record: the programs of crate `capture`, which the command
//! wrote for each function's prototype.
//!
//! ```text
//!   address   bytes (32 bits)   the bytes, padded to whole words   …
//! ```

use super::lane::Record;
use crate::sys;
use capture::{Limits, Registers, Returned, run};
use routine::{Frame, Results};
use wire::PAGE;

// `Source::Callers` is where the frame says.
const _: () =
    assert!(size_of::<Frame>() - core::mem::offset_of!(Frame, rbp) == capture::CALLERS as usize);

/// The registers of a call.
fn registers(frame: &Frame) -> Registers {
    Registers {
        gp: [
            frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
        ],
        sse: frame.xmm.map(|xmm| xmm[0]),
        stack: Frame::stack_arguments(frame).addr() as u64,
    }
}

/// Runs a program of `count` words at `at` and puts what it copies into `record` from word `from` on; where it
/// ends.
///
/// # Safety
/// The words are there: the command wrote them before the hook was told of them.
pub unsafe fn copy(
    program: [u64; 2],
    frame: &Frame,
    results: Option<&Results>,
    record: &Record,
    from: u64,
) -> u64 {
    let [at, count] = program;
    // SAFETY: the caller's promise.
    let words = unsafe { core::slice::from_raw_parts(at as *const u64, count as usize) };
    let returned = results.map(|results| Returned {
        rax: results.rax,
        rdx: results.rdx,
        sse: [results.xmm[0][0], results.xmm[1][0]],
        x87: [[0; 10]; 2],
    });
    let mut proven = 0;
    let read = |at: u64, into: &mut [u8]| {
        let page = at & !(PAGE as u64 - 1);
        if page != proven && !sys::is_readable(at) {
            return false;
        }
        proven = page;
        // SAFETY: the page has just been proven readable, and a piece does not cross it. Another thread may
        // unmap it now, as it may for the function that was given this address.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, into.as_mut_ptr(), into.len()) };
        true
    };
    let mut next = from;
    let output = |at: u64, bytes: &[u8]| {
        let words = (bytes.len() as u64).div_ceil(8);
        if next + 2 + words > record.body() {
            return false;
        }
        record.word(next, at);
        record.word(next + 1, bytes.len() as u64);
        // SAFETY: checked against the record's length.
        unsafe {
            (record.address(next + 2) as *mut u8)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        next += 2 + words;
        true
    };
    run(
        words,
        &registers(frame),
        returned.as_ref(),
        Limits::default(),
        read,
        output,
    );
    next
}
