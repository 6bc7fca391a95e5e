//! Moving the threads of a stopped process out of bytes that are about to change. Used by `set`, `lifting` and `open`.

use inject::remote_call::{RemoteThread, in_restartable_sequence};
use nix::errno::Errno;
use process::error::{Error, Result};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::ptrace::{self, Registers};
use std::ops::Range;

/// How many bytes above a stack pointer are searched for a saved instruction pointer.
const DEPTH: usize = 64 * 1024;
/// Changes that are no further apart are in one part ([`parts`]).
const NEAR: u64 = 1 << 20;
/// Stacks that are read at once.
const AT_ONCE: usize = 32;

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
    let (mut moves, mut pointers) = (Vec::new(), Vec::with_capacity(tids.len()));
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
        pointers.push(registers.rsp);
    }
    let parts = parts(changes);
    if let Some(index) = returns_into((memory, remote.maps()), &pointers, &parts, inside) {
        return Ok(Some(index));
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

/// Returns few ranges that hold all changes: about one for the program and each library.
fn parts(changes: &[Changed]) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    for change in changes {
        let end = change.at + change.length;
        match parts.last_mut() {
            Some(last) if change.at < last.end.saturating_add(NEAR) => last.end = end.max(last.end),
            _ => parts.push(change.at..end),
        }
    }
    parts
}

/// Returns the change that a word on a stack points into: an instruction pointer that the kernel may have saved there for
/// a signal handler. A word that is left over from an earlier frame looks the same; then the hook is tried again later.
/// All threads wait for this, so the stacks above `pointers` are read many at a time, up to the ends of their mappings, and a word that is
/// in none of `parts`, where all changes are, takes one comparison for each part.
fn returns_into(
    (memory, maps): (&GuestMemory, &Maps),
    pointers: &[u64],
    parts: &[Range<u64>],
    inside: impl Fn(u64) -> Option<usize>,
) -> Option<usize> {
    let mut stacks = vec![0; DEPTH * AT_ONCE.min(pointers.len())];
    let is_in =
        |word: u64, part: &Range<u64>| word.wrapping_sub(part.start) < part.end - part.start;
    for some in pointers.chunks(AT_ONCE) {
        // The mapping of a stack may end earlier: an alternate stack may hold only a handler's frame, at its very end.
        let place = |pointer: &u64| {
            let end = end_of_readable(maps, *pointer, pointer.saturating_add(DEPTH as u64));
            (*pointer, (end - pointer) as usize)
        };
        let places: Vec<(u64, usize)> = some.iter().map(place).collect();
        let lengths = memory.read_each_up_to_guard(&places, DEPTH, &mut stacks);
        for (stack, length) in stacks.chunks(DEPTH).zip(lengths) {
            let words = stack[..length].as_chunks::<8>().0.iter();
            let words = words.map(|word| u64::from_le_bytes(*word));
            for part in parts {
                // Without a jump for each word, so that several are compared at once.
                if words
                    .clone()
                    .fold(false, |any, word| any | is_in(word, part))
                {
                    let mut near = words.clone().filter(|word| is_in(*word, part));
                    let found = near.find_map(&inside);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
    }
    None
}

/// Returns the end of what can be read from `at` on, up to `most`: a stack may lie in several mappings that follow each other.
fn end_of_readable(maps: &Maps, at: u64, most: u64) -> u64 {
    let mut end = at;
    for mapping in maps.within(at..most) {
        if mapping.start > end || !mapping.permissions.read {
            break;
        }
        end = mapping.end;
    }
    // What was mapped since then is not known; the read ends where it fails.
    if end == at { most } else { end.min(most) }
}

#[cfg(test)]
mod tests;
