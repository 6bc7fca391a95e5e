//! Copies what arguments point to into the call's record, by programs of crate `capture`, which the command wrote
//! for each function's prototype. Used by `events` and `selection`.
//!
//! ```text
//!   address   bytes (32 bits)   the bytes, padded to whole words   …
//! ```

use super::hooked::{Hooked, Outcome};
use super::places;
use super::record::Record;
use crate::memory::copied::Copied;
use crate::memory::follow::ours;
use capture::{CopyLimits, GuestAccess, Registers, Returned, What, describe, run};
use routine::{Frame, Results};
use vm::{Cut, Memory};
use wire::calls::Ring;

/// Depth to which nested containers are described.
const DEPTH: u8 = 2;
/// Limit of described arguments of a call.
const ARGUMENTS: u64 = 16;

// `Source::Callers` is where the frame says.
const _: () =
    assert!(size_of::<Frame>() - core::mem::offset_of!(Frame, rbp) == capture::CALLERS as usize);

/// Returns the registers of a call in the form of crate `capture`.
#[inline]
pub fn registers(call: &Hooked) -> Registers {
    let frame = call.frame;
    Registers {
        gp: [
            frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
        ],
        sse: call.vectors.map(|xmm| xmm[0]),
        stack: call.stack,
    }
}

/// Returns the results of a call in the form of crate `capture`. Those on the x87 stack are not read.
#[inline]
pub fn returned(results: &Results) -> Returned {
    Returned {
        rax: results.rax,
        rdx: results.rdx,
        sse: [results.xmm[0][0], results.xmm[1][0]],
        x87: [[0; 10]; 2],
    }
}

/// Where what is captured goes.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The running thread's ring.
    pub ring: &'a Ring,
    /// The record, which is reserved there and not ended yet.
    pub record: &'a Record,
    /// The word of the record from which on it is free.
    pub from: u64,
}

/// Runs a program (address and number of its words) and puts what it copies into a record. Returns the word at which
/// that ends.
///
/// # Safety
/// The words are mapped: the command has written them before it told the hook of them.
pub unsafe fn copy(
    [at, count]: [u64; 2],
    call: Hooked,
    outcome: Option<Outcome>,
    into: Destination,
) -> u64 {
    // SAFETY: the caller guarantees that `count` words of a program are mapped at `at`; the command changes none
    // while hooks may run them.
    let words = unsafe { core::slice::from_raw_parts(ours::<u64>(at), count as usize) };
    let returned = outcome.map(|outcome| returned(outcome.results));
    let mut copier = Copier {
        memory: Copied::above(call.stack, Some(into.ring)),
        registers: registers(&call),
        outer: [call.frame.rbp, call.frame.return_address],
        record: into.record,
        next: into.from,
        kept: outcome.map_or(0, |outcome| outcome.kept),
    };
    let registers = copier.registers;
    run(
        words,
        &registers,
        returned.as_ref(),
        CopyLimits::default(),
        &mut copier,
    );
    copier.next
}

/// Copies what the call leads to into a record.
struct Copier<'a> {
    memory: Copied,
    registers: Registers,
    /// The two words below a call's stack arguments: the caller's frame pointer, and the return address.
    outer: [u64; 2],
    record: &'a Record,
    next: u64,
    kept: u64,
}

impl GuestAccess for Copier<'_> {
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        // A system call has no frame: there is no return address on the stack.
        if at == self.registers.stack.wrapping_sub(capture::CALLERS)
            && let Some((outer, rest)) = into.split_first_chunk_mut::<16>()
        {
            let [frame, caller] = self.outer.map(u64::to_le_bytes);
            outer[..8].copy_from_slice(&frame);
            outer[8..].copy_from_slice(&caller);
            return self.memory.read(self.registers.stack, rest).is_ok();
        }
        self.memory.read(at, into).is_ok()
    }

    fn output(&mut self, at: u64, bytes: &[u8]) -> bool {
        let words = (bytes.len() as u64).div_ceil(8);
        if self.next + 2 + words > self.record.body() {
            return false;
        }
        self.record.word(self.next, at);
        self.record.word(self.next + 1, bytes.len() as u64);
        // SAFETY: the bytes were compared with the rest of the record above, which this thread has reserved and
        // not ended yet.
        unsafe {
            ours::<u8>(self.record.address(self.next + 2))
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.next += 2 + words;
        true
    }

    fn describe(&mut self, what: What, word: u64, items: u16, text: u32) -> u32 {
        // Its address, how many bytes it has, how long the text is, the text.
        let room = (self.record.body() * 8).saturating_sub((self.next + 2) * 8);
        let room = (room as usize).min(describe::LONGEST);
        if room <= describe::HEAD {
            return 0;
        }
        let at = self.record.address(self.next + 2);
        // SAFETY: `room` is what is left of the record's body, which this thread has reserved and not ended yet.
        let bytes = unsafe { core::slice::from_raw_parts_mut(ours::<u8>(at), room) };
        let (head, bytes) = bytes.split_at_mut(describe::HEAD);
        let limits = vm::Limits {
            text: text.into(),
            items: items.into(),
            arguments: ARGUMENTS,
            depth: DEPTH,
        };
        let script = places::script();
        let call = script.call(self.registers.gp, self.kept);
        let mut cut = Cut::new(bytes);
        if script
            .describe_word((what.0, word), &call, &limits, &self.memory, &mut cut)
            .is_err()
        {
            return 0;
        }
        let length = cut.length();
        head.copy_from_slice(&(length as u32).to_le_bytes());
        let whole = (describe::HEAD + length) as u64;
        self.record.word(self.next, describe::address(what, word));
        self.record.word(self.next + 1, whole);
        self.next += 2 + whole.div_ceil(8);
        whole as u32
    }
}

#[cfg(test)]
mod tests;
