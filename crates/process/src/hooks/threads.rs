//! Where the threads of a stopped guest stand, and moving them out of bytes that are about to change.

use crate::borrow::Borrowed;
use crate::error::{Error, Result};
use crate::memory::GuestMemory;
use crate::ptrace::{self, Registers};
use nix::errno::Errno;

/// How far up from a stack pointer a saved instruction pointer is looked for.
const DEPTH: usize = 64 * 1024;

/// Bytes that are about to be replaced.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// The first.
    pub at: u64,
    /// How many.
    pub length: u64,
    /// Where each of the instructions in it is, and where it will be.
    pub moves: &'a [(u64, u64)],
}

/// Moves threads that stand within bytes that change; the index of a change that cannot be made now,
/// because a thread will come back into it from a signal handler.
///
/// A thread at the first byte needs no care: it runs the jump. Only instructions behind the first can be
/// in the way. `changes` are by rising address.
pub fn move_out(
    borrowed: &mut Borrowed,
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
    for tid in tids {
        let registers = own_registers(borrowed, *tid)?;
        if let Some(index) = inside(registers.rip) {
            let known = changes[index].moves.iter();
            match known.into_iter().find(|(from, _)| *from == registers.rip) {
                Some((_, to)) => moves.push((*tid, *to)),
                None => return Ok(Some(index)),
            }
        }
        if let Some(index) = returns_into(memory, registers.rsp, inside) {
            return Ok(Some(index));
        }
    }
    for (tid, to) in moves {
        go_on_at(borrowed, tid, to)?;
    }
    Ok(None)
}

/// Sends threads on that stand at the first byte of what is about to be put back, where that is a jump in padding: what
/// stood there before is no code. `jumps` are such places, each with where the jump leads.
pub fn take_jumps(borrowed: &mut Borrowed, tids: &[i32], jumps: &[(u64, u64)]) -> Result<()> {
    for tid in tids {
        let at = own_registers(borrowed, *tid)?.rip;
        if let Some((_, to)) = jumps.iter().find(|(jump, _)| *jump == at) {
            go_on_at(borrowed, *tid, *to)?;
        }
    }
    Ok(())
}

/// The registers that a thread goes on with. The borrowed one stands where we sent it.
fn own_registers(borrowed: &Borrowed, tid: i32) -> Result<Registers> {
    match tid == borrowed.pid() {
        true => Ok(*borrowed.registers()),
        false => ptrace::registers(tid).map_err(|errno| explain(borrowed, errno)),
    }
}

/// Has a thread go on elsewhere.
fn go_on_at(borrowed: &mut Borrowed, tid: i32, pc: u64) -> Result<()> {
    let mut registers = own_registers(borrowed, tid)?;
    registers.rip = pc;
    match tid == borrowed.pid() {
        true => borrowed.go_on_at(pc),
        false => ptrace::set_registers(tid, &registers).map_err(|errno| explain(borrowed, errno)),
    }
}

fn explain(borrowed: &Borrowed, errno: Errno) -> Error {
    ptrace::explain(borrowed.pid(), "moving a thread out of the way", errno)
}

/// Whether a word on the stack looks like an instruction pointer, saved by a signal's delivery, within a
/// change. What is left there from before counts too: then we try again later.
fn returns_into(
    memory: &GuestMemory,
    stack: u64,
    inside: impl Fn(u64) -> Option<usize>,
) -> Option<usize> {
    let mut bytes = vec![0; DEPTH];
    let mut length = DEPTH;
    // The end of the stack may come first.
    while memory.read_bytes(stack, &mut bytes[..length]).is_err() {
        length /= 2;
        if length < 8 {
            return None;
        }
    }
    bytes[..length]
        .chunks_exact(8)
        .find_map(|word| inside(u64::from_le_bytes(word.try_into().ok()?)))
}
