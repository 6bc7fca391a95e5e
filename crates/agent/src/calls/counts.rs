//! Counting instead of telling: how often, how long, by function and script line, in tables of the
//! thread's own that the command reads.
//!
//! A handler may come in between any two instructions and count too, in the same table. So a row is taken, and each
//! figure changed, by one instruction that an interrupt cannot split.

use super::pool;
use super::record::exchange;
use crate::memory::sys;
use capture::outcome::{Bytes, Outcome};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::Frame;
use wire::calls::{
    BUCKETS, COUNTS, Count, Hook, NO_APPLICATION, Ring, event_line, first_row, library_line,
    row_key,
};

/// What became of a call that has returned.
#[derive(Clone, Copy)]
pub struct Became {
    /// Cycles of the time-stamp counter that the call took.
    pub ticks: u64,
    /// Whether the call returned an error.
    pub failed: bool,
    /// Bytes that it moved or got.
    pub bytes: u64,
}

impl Became {
    /// A call of which nothing is known but how long it took.
    #[inline(always)]
    pub fn of(ticks: u64) -> Self {
        Became {
            ticks,
            failed: false,
            bytes: 0,
        }
    }

    /// A call of a function, by what its hook says of results.
    #[inline(always)]
    pub fn of_function(hook: &Hook, frame: &Frame, result: u64, ticks: u64) -> Self {
        match hook.outcome {
            0 => Became::of(ticks),
            word => {
                let outcome = Outcome::of_word(word);
                let arguments = [0, 1, 2, 3, 4, 5].map(|number| frame.argument(number));
                Became {
                    ticks,
                    failed: outcome.failed(result),
                    bytes: outcome.bytes(&arguments, result),
                }
            }
        }
    }

    /// A system call, of which the kernel's result tells whether it failed.
    #[inline(always)]
    pub fn of_system_call(hook: &Hook, failed: bool, result: u64, ticks: u64) -> Self {
        let moves = Outcome::of_word(hook.outcome).bytes == Some(Bytes::Result);
        Became {
            ticks,
            failed,
            bytes: if moves && !failed { result } else { 0 },
        }
    }
}

/// Adds a call of hook `hook` that has begun and returned to those from the line that `place` tells.
#[inline]
pub fn add(ring: &Ring, hook: u32, place: u32, became: Became) {
    if let Some(row) = row(ring, hook, place) {
        add_to(ring, row, became);
    }
}

/// Adds a call that has begun and returned to a row that this thread has taken.
#[inline(always)]
fn add_to(ring: &Ring, row: u64, became: Became) {
    begun(ring, row);
    returned(ring, row, became);
}

/// As [`add`], if the row is there already and soon found; else nothing is changed, and the answer is no. No
/// other function is called and no vector register used.
#[inline(always)]
pub fn add_at_once(ring: &Ring, hook: u32, place: u32, became: Became) -> bool {
    let table = ring.counts.load(Ordering::Relaxed);
    if table == 0 {
        return false;
    }
    let key = key(hook, place);
    let first = first_row(key);
    for step in 0..AT_ONCE {
        let row = (first + step) % COUNTS;
        // SAFETY: within the table, which is this thread's and never unmapped; the word is aligned.
        let known = unsafe {
            let count = (table as *mut Count).add(row);
            AtomicU64::from_ptr(&raw mut (*count).key).load(Ordering::Relaxed)
        };
        if known == key {
            add_to(ring, row as u64, became);
            return true;
        }
    }
    false
}

/// How many rows [`add_at_once`] looks at.
const AT_ONCE: usize = 4;

/// What names the row of a hook and a line.
#[inline(always)]
fn key(hook: u32, place: u32) -> u64 {
    // Where no line is the application's, the library's is all that tells rows apart.
    let line = match event_line(place) {
        NO_APPLICATION => NO_APPLICATION | library_line(place) << 16,
        line => line,
    };
    row_key(hook, line)
}

/// The row of hook `hook` and the line that `place` tells; `None` = there is no room, and a call is counted as lost.
#[inline]
pub fn row(ring: &Ring, hook: u32, place: u32) -> Option<u64> {
    let table = match ring.counts.load(Ordering::Relaxed) {
        0 => match make(ring) {
            Some(table) => table,
            None => {
                lose(ring);
                return None;
            }
        },
        table => table,
    };
    let key = key(hook, place);
    let first = first_row(key);
    for step in 0..COUNTS {
        let at = (first + step) % COUNTS;
        // SAFETY: within the table, which is this thread's and never unmapped.
        let count = unsafe { (table as *mut Count).add(at) };
        // SAFETY: the first word of that row, aligned.
        let row = unsafe { AtomicU64::from_ptr(&raw mut (*count).key) };
        let mut known = row.load(Ordering::Relaxed);
        if known == 0 {
            ring.rows[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
            // A handler that came in between may have taken the row.
            exchange(row, 0, key);
            known = row.load(Ordering::Relaxed);
            // It may also have begun a session, which empties the table and the marks.
            ring.rows[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
        }
        if known == key {
            return Some(at as u64);
        }
    }
    lose(ring);
    None
}

/// A row of a ring's table; `None` = the ring has no table (any more).
#[inline(always)]
fn at(ring: &Ring, row: u64) -> Option<*mut Count> {
    let table = ring.counts.load(Ordering::Relaxed);
    // The table is never unmapped, and a row is below `COUNTS`.
    (table != 0).then(|| (table as *mut Count).wrapping_add(row as usize % COUNTS))
}

/// A call of a row that this thread has taken begins.
#[inline(always)]
pub fn begun(ring: &Ring, row: u64) {
    if let Some(count) = at(ring, row) {
        // SAFETY: within the row.
        unsafe {
            asm!("add qword ptr [{}], 1", in(reg) &raw mut (*count).begun, options(nostack));
        }
    }
}

/// A call that this thread has counted as begun in that row has returned.
#[inline(always)]
pub fn returned(ring: &Ring, row: u64, became: Became) {
    let Some(count) = at(ring, row) else {
        return;
    };
    let Became {
        ticks,
        failed,
        bytes,
    } = became;
    if failed {
        // SAFETY: within the row.
        unsafe {
            asm!("add qword ptr [{}], 1", in(reg) &raw mut (*count).errors, options(nostack));
        }
    }
    if bytes != 0 {
        // SAFETY: within the row.
        unsafe {
            asm!("add [{}], {}", in(reg) &raw mut (*count).bytes, in(reg) bytes, options(nostack));
        }
    }
    let bucket = wire::calls::bucket(ticks).min(BUCKETS - 1);
    // SAFETY: within the row, words aligned.
    let (longest, shortest) = unsafe {
        asm!("add qword ptr [{}], 1", in(reg) &raw mut (*count).returned, options(nostack));
        asm!("add [{}], {}", in(reg) &raw mut (*count).total, in(reg) ticks, options(nostack));
        let bucket = (&raw mut (*count).buckets).cast::<u32>().add(bucket);
        asm!("add dword ptr [{}], 1", in(reg) bucket, options(nostack));
        (
            AtomicU64::from_ptr(&raw mut (*count).longest),
            AtomicU64::from_ptr(&raw mut (*count).shortest),
        )
    };
    replace(longest, ticks, |known| known < ticks);
    replace(shortest, ticks, |known| known == 0 || known > ticks);
}

/// A call that another thread has counted as begun in that row has returned on this one, which counts it in its own
/// table.
#[cold]
pub fn moved(ring: &Ring, row: u64) {
    if let Some(count) = at(ring, row) {
        // SAFETY: a word of that row, aligned, which is changed by this instruction alone.
        unsafe { AtomicU64::from_ptr(&raw mut (*count).moved) }.fetch_add(1, Ordering::Relaxed);
    }
}

#[inline(always)]
fn replace(figure: &AtomicU64, by: u64, worse: impl Fn(u64) -> bool) {
    loop {
        let known = figure.load(Ordering::Relaxed);
        if !worse(known) || exchange(figure, known, by) {
            return;
        }
    }
}

#[cold]
fn lose(ring: &Ring) {
    ring.uncounted.fetch_add(1, Ordering::Relaxed);
}

#[cold]
fn make(ring: &Ring) -> Option<u64> {
    let table = if pool::holds(core::ptr::from_ref(ring).addr() as u64) {
        // The slot ends with it.
        ring.records + ring.size
    } else {
        sys::map((COUNTS * size_of::<Count>()) as u64)?
    };
    ring.counts.store(table, Ordering::Release);
    Some(table)
}
