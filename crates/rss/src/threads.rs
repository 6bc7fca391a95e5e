//! Stacks of threads, running ones included, found without a stop.
//!
//! glibc puts the record of a thread, `struct pthread`, at the outer end of its stack, and begins it with what `%fs` leads to:
//!
//! ```text
//!   stackblock ─▶ │ guard │ … ◀ the stack grows │ thread-local variables │ struct pthread │ ◀ stackblock + stackblock_size
//!                                                                  at 0: its own address, at 16 again, at 0x2d0: its id
//! ```
//!
//! (`nptl/descr.h`, `sysdeps/x86_64/nptl/tls.h`: the same in glibc 2.31 to 2.43; `stackblock` and its size are looked for, because they
//! move.) The kernel clears the id when a thread ends; its stack is kept for the next one (`nptl/allocatestack.c`). The id is that of the
//! process's own namespace.

use process::proc_file;
use process::status_file::StatusFile;
use std::collections::HashMap;
use std::ops::Range;

use process::interrupted::InCall;
use process::maps::PAGE;
use process::smaps::Area;
use vm::Memory;

use languages::resident::claims::{Claim, Layer};
use languages::resident::rows::{Kind, Rows};
use process::resident_memory::ResidentMemory;
use process::runs::{Place, Run, within};

/// `tid` in `struct pthread`, and bytes of it that are searched for `stackblock`.
const TID: u64 = 0x2d0;
const RECORD: u64 = 2304;
/// A record is aligned so.
const ALIGN: u64 = 64;
/// The most memory that is searched for records.
const MOST: u64 = 512 << 20;
/// The largest stack that is believed.
const LARGEST: u64 = 1 << 36;

/// The stack of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStack {
    /// Thread id in the PID namespace of lancet.
    pub tid: i32,
    /// Name of the thread, as the kernel has it (`Name` in `/proc/PID/task/TID/status`).
    pub name: String,
    /// The room that it has, in bytes.
    pub mapped: u64,
    /// Bytes of that room that are in memory.
    pub rss: u64,
    /// Bytes from the outer end to the stack pointer; `None` if the thread does not sleep in a system call.
    pub depth: Option<u64>,
    /// How deep a thread has been, in bytes: from the outer end to the furthest page that is in memory or in swap.
    pub deepest: u64,
}

/// What was found.
pub struct Found {
    /// The stacks of threads.
    pub stacks: Vec<ThreadStack>,
    /// The ranges that are whose.
    pub layer: Layer,
    /// How many threads there are whose stacks were not found.
    pub unknown: usize,
    /// Bytes of memory that were not searched, because there is too much.
    pub unsearched: u64,
}

struct Thread {
    tid: i32,
    /// Thread id in the process's own PID namespace, which `struct pthread` has.
    own: i32,
    name: String,
    sp: Option<u64>,
}

/// Finds the stacks of all threads, and the ranges that are whose.
pub fn look(
    pid: i32,
    memory: &ResidentMemory,
    areas: &[Area],
    runs: &[Run],
    taken: &Layer,
    rows: &mut Rows,
) -> Found {
    let threads = threads(pid);
    let by_own: HashMap<i32, &Thread> = threads.iter().map(|thread| (thread.own, thread)).collect();
    let mut claims = Vec::new();
    let mut stacks = Vec::new();
    let mut add = |thread: &Thread, stack: Range<u64>, rows: &mut Rows| {
        let row = rows.id(Kind::Stack, format!("{} {}", thread.tid, thread.name));
        stacks.push(described(thread, &stack, runs));
        claims.push(Claim::new(stack, row));
    };
    let main = areas.iter().find(|area| area.mapping.is_named("[stack]"));
    let first = threads.iter().find(|thread| thread.tid == pid);
    if let (Some(area), Some(thread)) = (main, first) {
        add(thread, area.mapping.start..area.mapping.end, rows);
    }
    let mut ended = Vec::new();
    let sleeping: Vec<u64> = threads.iter().filter_map(|thread| thread.sp).collect();
    let (records, unsearched) = records(memory, &ranges(areas, runs, taken, &sleeping), MOST);
    for (own, stack) in records {
        match by_own.get(&own) {
            Some(thread) if thread.tid != pid => add(thread, stack, rows),
            Some(_) => {}
            None => ended.push(stack),
        }
    }
    if !ended.is_empty() {
        let row = rows.id(Kind::EndedStack, String::new());
        claims.extend(ended.into_iter().map(|stack| Claim::new(stack, row)));
    }
    Found {
        unknown: threads.len().saturating_sub(stacks.len()),
        stacks,
        layer: Layer::of(claims),
        unsearched,
    }
}

fn described(thread: &Thread, stack: &Range<u64>, runs: &[Run]) -> ThreadStack {
    let there = within(runs, stack.start, stack.end);
    let resident = there.iter().filter(|run| run.place != Place::Swap);
    let bytes = resident.map(|run| run.end.min(stack.end) - run.start.max(stack.start));
    ThreadStack {
        tid: thread.tid,
        name: thread.name.clone(),
        mapped: stack.end - stack.start,
        rss: bytes.sum(),
        depth: thread
            .sp
            .filter(|sp| stack.contains(sp))
            .map(|sp| stack.end - sp),
        deepest: there
            .first()
            .map_or(0, |run| stack.end - run.start.max(stack.start)),
    }
}

fn threads(pid: i32) -> Vec<Thread> {
    let tids = proc_file::threads(pid);
    tids.filter_map(|tid| {
        let status = StatusFile::of_thread(pid, tid).ok()?;
        let own = status.numbers("NSpid").and_then(|ids| ids.last().copied());
        Some(Thread {
            tid,
            own: own.unwrap_or(tid),
            name: status.field("Name").unwrap_or_default().to_owned(),
            sp: InCall::of(pid, tid).map(|call| call.sp),
        })
    })
    .collect()
}

/// The ranges in which records may lie: of memory that nothing else has, where there are pages of the process's own. First those
/// in which threads sleep, by their stack pointers, because all of it may be more than is searched.
fn ranges(areas: &[Area], runs: &[Run], taken: &Layer, sleeping: &[u64]) -> Vec<Range<u64>> {
    let has_thread = |area: &&Area| {
        let mapping = &area.mapping;
        sleeping
            .iter()
            .any(|sp| (mapping.start..mapping.end).contains(sp))
    };
    let plain = areas.iter().filter(|area| is_plain(area));
    let (first, then): (Vec<&Area>, Vec<&Area>) = plain.partition(has_thread);
    let mut ranges = Vec::new();
    for area in first.into_iter().chain(then) {
        let mapping = &area.mapping;
        for run in within(runs, mapping.start, mapping.end) {
            if run.place == Place::Own {
                let (start, end) = (run.start.max(mapping.start), run.end.min(mapping.end));
                ranges.extend(taken.gaps(start..end));
            }
        }
    }
    ranges
}

/// The stacks that records of threads in these ranges lie in, with the ids that these say; and how many bytes were not searched,
/// because `most` were.
fn records(memory: &dyn Memory, ranges: &[Range<u64>], most: u64) -> (Vec<(i32, Range<u64>)>, u64) {
    let mut found = Vec::new();
    let (mut left, mut unsearched) = (most, 0);
    for range in ranges {
        let start = range.start.next_multiple_of(ALIGN);
        let end = range.end.min(start.saturating_add(left));
        unsearched += range.end.saturating_sub(end.max(start));
        left = left.saturating_sub(end.saturating_sub(start));
        for at in (start..end).step_by(ALIGN as usize) {
            if memory.u64(at) == Ok(at)
                && let Some(record) = record(memory, at)
            {
                found.push(record);
            }
        }
    }
    (found, unsearched)
}

/// Whether an area may be a stack that a C library has mapped.
fn is_plain(area: &Area) -> bool {
    let mapping = &area.mapping;
    let named = mapping
        .path
        .as_ref()
        .is_some_and(|path| !path.to_string_lossy().starts_with("[anon"));
    let permissions = mapping.permissions;
    !named && permissions.read && permissions.write && !permissions.shared
}

/// The id and the stack that the record at `at` says, if it is one.
fn record(memory: &dyn Memory, at: u64) -> Option<(i32, Range<u64>)> {
    if memory.u64(at + 16) != Ok(at) {
        return None;
    }
    let tid = memory.u32(at + TID).ok()? as i32;
    let words = (TID..RECORD)
        .step_by(8)
        .map(|offset| memory.u64(at + offset).unwrap_or(0));
    let words: Vec<u64> = words.collect();
    let stack = words.windows(2).find_map(|two| {
        let (start, size) = (two[0], two[1]);
        let end = start.checked_add(size)?;
        let sound = start != 0
            && start.is_multiple_of(PAGE)
            && size.is_multiple_of(PAGE)
            && size <= LARGEST
            && (start..end).contains(&at)
            && end - at <= 2 * PAGE;
        sound.then_some(start..end)
    })?;
    Some((tid, stack))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap as Words;

    /// Memory that is all zeros but for some words.
    struct Sparse(Words<u64, u64>);

    impl Memory for Sparse {
        fn read(&self, address: u64, into: &mut [u8]) -> Result<(), vm::Fault> {
            for (at, byte) in (address..).zip(into) {
                let word = self.0.get(&(at & !7)).copied().unwrap_or(0);
                *byte = word.to_le_bytes()[(at & 7) as usize];
            }
            Ok(())
        }
    }

    impl Sparse {
        /// Puts a record where glibc puts it: at the outer end of a stack.
        fn stack(&mut self, stack: Range<u64>, tid: u64) {
            let at = stack.end - RECORD;
            let words = [
                (0, at),
                (16, at),
                (TID, tid),
                (TID + 0x40, stack.start),
                (TID + 0x48, stack.end - stack.start),
            ];
            for (offset, word) in words {
                self.0.insert(at + offset, word);
            }
        }
    }

    const MEBI: u64 = 1 << 20;

    #[test]
    fn what_is_too_much_is_searched_in_part_and_said() {
        let mut memory = Sparse(Words::new());
        let (first, second) = (16 * MEBI..17 * MEBI, 32 * MEBI..33 * MEBI);
        memory.stack(first.clone(), 1);
        memory.stack(second.clone(), 2);
        let all = [first.clone(), second.clone()];
        let (found, unsearched) = records(&memory, &all, 4 * MEBI);
        assert_eq!((found.len(), unsearched), (2, 0));
        // A larger range in between does not hide what is behind another.
        let all = [first.clone(), 64 * MEBI..96 * MEBI, second];
        let (found, unsearched) = records(&memory, &all, 4 * MEBI);
        assert_eq!(found, [(1, first)]);
        assert_eq!(unsearched, 32 * MEBI + MEBI - 3 * MEBI);
    }
}
