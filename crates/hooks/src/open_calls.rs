//! Finds calls that are counted and still open when we leave, by their frames on the stacks of the threads, which stand
//! still. Calls that have begun, are not found and have not returned were left by an exception or a jump. Used by
//! `patcher`.
//!
//! The mark [`COUNTED`] is taken from each frame that is found, so that its return changes no count. Only the stacks
//! that threads run on are searched: a call in a coroutine that is not running counts as left.

use process::error::Result;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::pagemap::{self, Pagemap};
use routine::Frame;
use std::collections::HashMap;
use std::mem::offset_of;
use wire::calls::ticket::{self, COUNTED};

/// Limit of the bytes of a stack that are searched.
const MOST: u64 = 8 << 20;
/// Distance in words from a frame's ticket to its `original`.
const TO_ORIGINAL: usize = (offset_of!(Frame, original) - offset_of!(Frame, ticket)) / 8;
const TO_DESCRIPTOR: usize = (offset_of!(Frame, descriptor) - offset_of!(Frame, ticket)) / 8;

/// Returns ring and row of each open call, and takes [`COUNTED`] from its frame. `hooks`: address of each counting hook,
/// and of its function's moved code; `stacks`: the stack pointer of each thread; `before`: the mappings as they were before the stop.
pub(crate) fn close(
    memory: &GuestMemory,
    session: u32,
    hooks: &HashMap<u64, u64>,
    (stacks, before): (&[u64], &Maps),
) -> Result<Vec<(u64, u64)>> {
    let mut open = Vec::new();
    if hooks.is_empty() {
        return Ok(open);
    }
    // A stack that has come since is in none of those mappings.
    let is_known = |stack: &u64| before.find(*stack).is_some_and(|one| one.permissions.write);
    let now = match stacks.iter().all(is_known) {
        true => None,
        false => Some(Maps::of(memory.pid())?),
    };
    let maps = now.as_ref().unwrap_or(before);
    let pagemap = Pagemap::open(memory.pid()).ok();
    let hooks = Hooks::of(hooks);
    // Room for what is read, which is used again for the next stack.
    let mut room = Vec::new();
    for pointer in stacks {
        // A thread of Ruby has a megabyte on its stack that it mostly never touches.
        for part in pagemap::touched_stack(pagemap.as_ref(), maps, pointer & !7, MOST) {
            let length = (part.end - part.start) as usize;
            room.resize(length.max(room.len()), 0);
            let read = memory.read_up_to(part.start, &mut room[..length]);
            for (at, ring, row) in frames(&room[..read], session, &hooks) {
                let third = memory.word(part.start + at)?;
                memory.write(part.start + at, &(third & !COUNTED).to_le_bytes())?;
                open.push((ring, row));
            }
            if read < length {
                // What lies behind a guard that the kernel does not tell of, or was unmapped meanwhile, is no part of this stack.
                break;
            }
        }
    }
    Ok(open)
}

/// The counting hooks, and between which addresses their records are: nearly no word of a stack is one of those, and all threads wait.
struct Hooks<'a> {
    originals: &'a HashMap<u64, u64>,
    first: u64,
    last: u64,
}

impl<'a> Hooks<'a> {
    fn of(originals: &'a HashMap<u64, u64>) -> Self {
        Hooks {
            originals,
            first: originals.keys().min().copied().unwrap_or(u64::MAX),
            last: originals.keys().max().copied().unwrap_or(0),
        }
    }

    /// Whether these are the address of a hook's record and that of its function's moved code.
    fn have(&self, hook: u64, original: u64) -> bool {
        (self.first..=self.last).contains(&hook) && self.originals.get(&hook) == Some(&original)
    }
}

/// Returns where in these bytes the frames of a session's counting hooks have the third word of their tickets, with ring and row.
fn frames(bytes: &[u8], session: u32, hooks: &Hooks<'_>) -> Vec<(u64, u64, u64)> {
    let windows = bytes.as_chunks::<8>().0.windows(TO_DESCRIPTOR + 1);
    let frame = |(at, frame): (usize, &[[u8; 8]])| {
        let word = |at: usize| u64::from_le_bytes(frame[at]);
        if !hooks.have(word(TO_DESCRIPTOR), word(TO_ORIGINAL)) {
            return None;
        }
        let (its, ring, row) = ticket::open([word(0), word(1), word(2)])?;
        (its == session).then_some(((at as u64 + 2) * 8, ring, row))
    };
    windows.enumerate().filter_map(frame).collect()
}
