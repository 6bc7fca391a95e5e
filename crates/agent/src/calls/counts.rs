//! Counting instead of telling: how often, how long, by function and script line, in tables of the
//! thread's own that the command reads.

use crate::store::mix;
use crate::sys;
use core::sync::atomic::Ordering;
use wire::calls::{self, BUCKETS, COUNTS, Count, Lane};

/// Adds a call of hook `hook` from line `place` that took `ticks`.
#[inline]
pub fn add(lane: &Lane, hook: u32, place: u32, ticks: u64) {
    let table = match lane.counts.load(Ordering::Relaxed) {
        0 => match make(lane) {
            Some(table) => table,
            None => return lose(lane),
        },
        table => table,
    };
    let key = (u64::from(hook) + 1) | (u64::from(place) << 32);
    let first = mix(key, 0) as usize;
    for step in 0..COUNTS {
        let at = (first + step) % COUNTS;
        // SAFETY: within the table, which is this thread's and never unmapped.
        let count = unsafe { &mut *(table as *mut Count).add(at) };
        if count.key == 0 {
            // A handler that comes in between here may take the place; then the next one is tried.
            count.shortest = u64::MAX;
            count.key = key;
        }
        if count.key == key {
            count.calls += 1;
            count.total += ticks;
            count.longest = count.longest.max(ticks);
            count.shortest = count.shortest.min(ticks);
            if let Some(bucket) = count.buckets.get_mut(calls::bucket(ticks)) {
                *bucket += 1;
            }
            return;
        }
    }
    lose(lane)
}

#[cold]
fn lose(lane: &Lane) {
    lane.uncounted.fetch_add(1, Ordering::Relaxed);
}

#[cold]
fn make(lane: &Lane) -> Option<u64> {
    let table = sys::map((COUNTS * size_of::<Count>()) as u64)?;
    lane.counts.store(table, Ordering::Release);
    Some(table)
}

/// Empties a lane's table.
pub fn forget(lane: &Lane) {
    let table = lane.counts.load(Ordering::Relaxed);
    for at in 0..if table == 0 { 0 } else { COUNTS } {
        // SAFETY: as in `add`.
        unsafe {
            (table as *mut Count).add(at).write(Count {
                key: 0,
                calls: 0,
                total: 0,
                longest: 0,
                shortest: 0,
                buckets: [0; BUCKETS],
            });
        }
    }
    lane.uncounted.store(0, Ordering::Relaxed);
}
