//! Moving the threads of a stopped process out of bytes that are about to change.

use inject::remote_call::{RemoteThread, in_restartable_sequence};
use nix::errno::Errno;
use process::error::{Error, Result};
use process::memory::GuestMemory;
use process::ptrace::{self, Registers};
use std::ops::Range;

/// How many bytes above a stack pointer are searched for a saved instruction pointer.
const DEPTH: usize = 64 * 1024;

/// Bytes that are about to be replaced.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// The address of the first.
    pub at: u64,
    /// How many bytes they are.
    pub length: u64,
    /// The address of each instruction among them, and its address in the stub.
    pub moves: &'a [(u64, u64)],
}

/// Moves threads whose instruction pointer is within `changes` to the same instruction in the stub. Returns the index of a
/// change that cannot be made now, because a thread will return into it from a signal handler, stands where no instruction
/// begins, or is inside a restartable sequence, which it must not leave. In that case no thread has been moved.
///
/// A thread at the first byte of a change need not move: it will run the jump. `changes` are by rising address.
pub fn move_out(
    remote: &mut RemoteThread,
    tids: &[i32],
    memory: &GuestMemory,
    changes: &[Changed],
) -> Result<Option<usize>> {
    let inside = |pc: u64| {
        let next = changes.partition_point(|change| change.at <= pc);
        let index = next.checked_sub(1)?;
        (pc > changes[index].at && pc < changes[index].at + changes[index].length).then_some(index)
    };
    let mut moves = Vec::new();
    let all = changes.first().map_or(0, |first| first.at)
        ..changes.last().map_or(0, |last| last.at + last.length);
    let mut stack = vec![0; DEPTH];
    for tid in tids {
        let registers = own_registers(remote, *tid)?;
        if let Some(index) = inside(registers.rip) {
            if in_restartable_sequence(*tid, memory, registers.rip) {
                // The kernel will make the thread begin the sequence again.
                return Ok(Some(index));
            }
            let known = changes[index].moves.iter();
            match known.into_iter().find(|(from, _)| *from == registers.rip) {
                Some((_, to)) => moves.push((*tid, *to)),
                None => return Ok(Some(index)),
            }
        }
        if let Some(index) = returns_into(memory, (registers.rsp, &mut stack), &all, inside) {
            return Ok(Some(index));
        }
    }
    for (tid, to) in moves {
        go_on_at(remote, tid, to)?;
    }
    Ok(None)
}

/// Moves threads that stand at one of `jumps` (address, target) to its target. These are jumps in the padding between
/// functions that are about to be taken out; the padding bytes that were there before are not meant to be executed.
pub fn take_jumps(remote: &mut RemoteThread, tids: &[i32], jumps: &[(u64, u64)]) -> Result<()> {
    if jumps.is_empty() {
        return Ok(());
    }
    for tid in tids {
        let at = own_registers(remote, *tid)?.rip;
        if let Some((_, to)) = jumps.iter().find(|(jump, _)| *jump == at) {
            go_on_at(remote, *tid, *to)?;
        }
    }
    Ok(())
}

/// Whether a thread of a stopped process will continue within `code`.
pub fn stand_in(remote: &RemoteThread, tids: &[i32], code: &Range<u64>) -> Result<bool> {
    for tid in tids {
        if code.contains(&own_registers(remote, *tid)?.rip) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the registers with which a thread will continue. Those of the thread that makes remote calls are saved elsewhere
/// while it works for us.
fn own_registers(remote: &RemoteThread, tid: i32) -> Result<Registers> {
    if tid == remote.pid() {
        Ok(*remote.registers())
    } else {
        ptrace::registers_kept(tid).map_err(|errno| explain(remote, errno))
    }
}

/// Sets the instruction pointer with which a thread will continue.
fn go_on_at(remote: &mut RemoteThread, tid: i32, pc: u64) -> Result<()> {
    let mut registers = own_registers(remote, tid)?;
    registers.rip = pc;
    if tid == remote.pid() {
        remote.go_on_at(pc)
    } else {
        ptrace::set_registers(tid, &registers).map_err(|errno| explain(remote, errno))
    }
}

fn explain(remote: &RemoteThread, errno: Errno) -> Error {
    ptrace::explain(remote.pid(), "moving a thread out of the way", errno)
}

/// Returns the change that a word on the stack points into: an instruction pointer that the kernel may have saved there for
/// a signal handler. A word that is left over from an earlier frame looks the same; then the hook is tried again later.
/// All threads wait for this, so a stack without a word in `all`, where all changes are, takes one comparison a word. `stack`: where the
/// stack pointer is, and room for what lies above it.
fn returns_into(
    memory: &GuestMemory,
    (pointer, stack): (u64, &mut [u8]),
    all: &Range<u64>,
    inside: impl Fn(u64) -> Option<usize>,
) -> Option<usize> {
    // The mapping of the stack may end earlier: an alternate stack may hold only a handler's frame, at its very end.
    let length = memory.read_up_to_guard(pointer, stack);
    let words = stack[..length].as_chunks::<8>().0;
    let length = all.end.saturating_sub(all.start);
    let is_near = |word: &[u8; 8]| u64::from_le_bytes(*word).wrapping_sub(all.start) < length;
    if !words.iter().fold(false, |any, word| any | is_near(word)) {
        return None;
    }
    let mut words = words.iter();
    words.find_map(|word| inside(u64::from_le_bytes(*word)))
}

#[cfg(test)]
mod tests;
