//! Which threads are in a range of code: by their program counter, or by a word on their stack. Used by `apply`,
//! `finder` and others here, and by crate `report`.
//!
//! A word on a stack that points into the code is a return address, the program counter that a signal handler goes back to, or a
//! leftover of an earlier call; these cannot be told apart, so each counts. A pointer to a function's first byte does not: no call
//! returns there, and a thread about to run it meets the jump.
//!
//! Stacks of parked fibers are not searched. Such a frame continues in the old code, whose bytes behind the jump are unchanged; the bytes
//! under the jump contain no return address, because the decoder refuses to move a call that returns into them.

use crate::error::Result;
use inject::remote_call::RemoteThread;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::ptrace;
use process::stop::Stop;
use std::ops::Range;

/// The most bytes of one stack that are searched, from the stack pointer on.
const DEEPEST: u64 = 16 << 20;
/// How much is read by one system call.
const PIECE: u64 = 64 << 10;

/// A thread in a range of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Id of the thread.
    pub tid: i32,
    /// Index of the range, among those that were asked about.
    pub range: usize,
    /// Whether it runs there; otherwise it has called from there, or may have.
    pub runs: bool,
}

/// The threads in `ranges`, each once for each range. A range is what counts as inside: for a function, from behind its first byte.
pub(crate) fn inside(
    stop: &Stop,
    remote: &RemoteThread,
    memory: &GuestMemory,
    maps: &Maps,
    ranges: &[Range<u64>],
) -> Result<Vec<Inside>> {
    let mut found = Vec::new();
    for tid in stop.threads() {
        let registers = if tid == remote.pid() {
            *remote.registers()
        } else {
            ptrace::registers(tid)
                .map_err(|errno| ptrace::explain(remote.pid(), "reading registers", errno))?
        };
        let here = |at: u64| ranges.iter().position(|range| range.contains(&at));
        let mut note = |range: usize, runs: bool| {
            let known = |one: &Inside| one.tid == tid && one.range == range;
            if !found.iter().any(known) {
                found.push(Inside { tid, range, runs });
            }
        };
        if let Some(range) = here(registers.rip) {
            note(range, true);
        }
        each_word(memory, maps, registers.rsp, |word| {
            if let Some(range) = here(word) {
                note(range, false);
            }
        });
    }
    Ok(found)
}

/// The stack pointers of threads that stand still.
pub(crate) fn stack_pointers(stop: &Stop, remote: &RemoteThread) -> Vec<u64> {
    let others = stop.threads().filter(|tid| *tid != remote.pid());
    let others = others.filter_map(|tid| Some(ptrace::registers(tid).ok()?.rsp));
    others.chain([remote.registers().rsp]).collect()
}

/// Calls `each` with the words from a stack pointer to the end of its mapping.
fn each_word(memory: &GuestMemory, maps: &Maps, stack: u64, mut each: impl FnMut(u64)) {
    let Some(mapping) = maps.find(stack) else {
        return;
    };
    let end = mapping.end.min(stack.saturating_add(DEEPEST));
    let mut bytes = vec![0; PIECE as usize];
    let mut at = stack & !7;
    while at < end {
        let length = PIECE.min(end - at) as usize;
        let read = memory.read_up_to(at, &mut bytes[..length]);
        for word in bytes[..read].as_chunks::<8>().0 {
            each(u64::from_le_bytes(*word));
        }
        // The stack ends at a guard, or there is nothing more to read.
        if read < length {
            return;
        }
        at += length as u64;
    }
}

/// Threads in words: `2 threads (1201, 1203) are`.
pub(crate) fn in_words(inside: &[Inside]) -> String {
    let mut tids: Vec<i32> = inside.iter().map(|one| one.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    let shown: Vec<String> = tids.iter().take(4).map(i32::to_string).collect();
    let more = if tids.len() > shown.len() {
        ", …"
    } else {
        ""
    };
    let (count, are) = match tids.len() {
        1 => ("a thread".to_owned(), "is"),
        many => (format!("{many} threads"), "are"),
    };
    format!("{count} ({}{more}) {are}", shown.join(", "))
}
