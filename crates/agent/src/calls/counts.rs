//! Counting instead of telling: how often, how long, by function and script line, in tables of the
//! thread's own that the command reads.
//!
//! A handler may come in between any two instructions and count too, in the same table. So a row is taken, and each
//! figure changed, by one instruction that an interrupt cannot split.

use super::lane::exchange;
use super::pool;
use crate::store::mix;
use crate::sys;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::calls::{BUCKETS, COUNTS, Calls, Count, Lane, told_line};

/// Adds a call of hook `hook` that took `ticks` to those from the line that `place` tells.
#[inline]
pub fn add((lane, calls): (&Lane, &Calls), hook: u32, place: u32, ticks: u64) {
    let table = match lane.counts.load(Ordering::Relaxed) {
        0 => match make(lane, calls) {
            Some(table) => table,
            None => return lose(lane),
        },
        table => table,
    };
    let key = (u64::from(hook) + 1) | (u64::from(told_line(place)) << 32);
    let first = mix(key, 0) as usize;
    for step in 0..COUNTS {
        let at = (first + step) % COUNTS;
        // SAFETY: within the table, which is this thread's and never unmapped.
        let count = unsafe { (table as *mut Count).add(at) };
        // SAFETY: words of that row, aligned.
        let word = |word: *mut u64| unsafe { AtomicU64::from_ptr(word) };
        // SAFETY: as above; only addresses are made.
        let (row, calls, total, longest, shortest) = unsafe {
            (
                word(&raw mut (*count).key),
                &raw mut (*count).calls,
                &raw mut (*count).total,
                word(&raw mut (*count).longest),
                word(&raw mut (*count).shortest),
            )
        };
        let mut known = row.load(Ordering::Relaxed);
        if known == 0 {
            // A handler that came in between may have taken the row.
            exchange(row, 0, key);
            known = row.load(Ordering::Relaxed);
        }
        if known != key {
            continue;
        }
        let bucket = wire::calls::bucket(ticks).min(BUCKETS - 1);
        // SAFETY: within the row.
        unsafe {
            asm!("add qword ptr [{}], 1", in(reg) calls, options(nostack));
            asm!("add [{}], {}", in(reg) total, in(reg) ticks, options(nostack));
            let bucket = (&raw mut (*count).buckets).cast::<u32>().add(bucket);
            asm!("add dword ptr [{}], 1", in(reg) bucket, options(nostack));
        }
        replace(longest, ticks, |known| known < ticks);
        replace(shortest, ticks, |known| known == 0 || known > ticks);
        return;
    }
    lose(lane)
}

#[inline]
fn replace(figure: &AtomicU64, by: u64, worse: impl Fn(u64) -> bool) {
    loop {
        let known = figure.load(Ordering::Relaxed);
        if !worse(known) || exchange(figure, known, by) {
            return;
        }
    }
}

#[cold]
fn lose(lane: &Lane) {
    lane.uncounted.fetch_add(1, Ordering::Relaxed);
}

#[cold]
fn make(lane: &Lane, calls: &Calls) -> Option<u64> {
    let table = match pool::holds(calls, core::ptr::from_ref(lane).addr() as u64) {
        // The slot ends with it.
        true => lane.ring + lane.size,
        false => sys::map((COUNTS * size_of::<Count>()) as u64)?,
    };
    lane.counts.store(table, Ordering::Release);
    Some(table)
}

/// Empties a lane's table.
pub fn forget(lane: &Lane) {
    let table = lane.counts.load(Ordering::Relaxed);
    for at in 0..if table == 0 { 0 } else { COUNTS } {
        // SAFETY: as in `add`. Pages that nothing was counted in stay untouched.
        unsafe {
            let count = (table as *mut Count).add(at);
            if (*count).key != 0 {
                core::ptr::write_bytes(count, 0, 1);
            }
        }
    }
    lane.uncounted.store(0, Ordering::Relaxed);
}
