//! Counts calls instead of recording them: how often and how long, by function and script line, in tables of each
//! thread that the command reads. Used by `call`, `finish`, `probes` and others.
//!
//! A signal handler may run between any two instructions and count in the same table. So a row is taken, and each
//! figure changed, by one instruction, which an interrupt cannot split.

mod further;

use super::pool;
use crate::memory::follow::ours;
use crate::memory::instruction::{self, exchange, increment, increment_half};
use crate::memory::sys;
use capture::outcome::{Bytes, Outcome};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
pub use further::forget;
use routine::Frame;
use wire::calls::further::{ALL_COUNTS, PROBES, TABLE_BYTES};
use wire::calls::{
    BUCKETS, COUNTS, Count, Hook, NO_APPLICATION, Ring, event_line, first_row, library_line,
    row_key,
};

/// What is known of a call that has returned.
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
    /// A call of which only the time is known.
    #[inline(always)]
    pub fn of(ticks: u64) -> Self {
        Became {
            ticks,
            failed: false,
            bytes: 0,
        }
    }

    /// A call of a function; its hook says what the result means.
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

    /// A system call; the caller knows whether the kernel's result is an error.
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

/// Adds a call of hook `hook`, made from the lines `place`, that has begun and returned.
#[inline]
pub fn add(ring: &Ring, hook: u32, place: u32, became: Became) {
    if let Some(row) = row(ring, hook, place) {
        add_to(ring, row, became);
    }
}

/// Adds a call that has begun and returned to a row of this thread's table.
#[inline(always)]
fn add_to(ring: &Ring, row: u64, became: Became) {
    begun(ring, row);
    returned(ring, row, became);
}

/// Like [`add`], if the row exists and is found at once; otherwise returns false and changes nothing. It calls no
/// other function and uses no vector register.
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
        // SAFETY: `row` is less than [`COUNTS`], the rows of the table, which is this thread's and never unmapped;
        // the word is aligned.
        let known = unsafe {
            let count = ours::<Count>(table).add(row);
            AtomicU64::from_ptr(&raw mut (*count).key).load(Ordering::Relaxed)
        };
        if known == key {
            add_to(ring, row as u64, became);
            return true;
        }
    }
    false
}

/// Number of rows that [`add_at_once`] looks at.
const AT_ONCE: usize = 4;

/// Returns the key of the row of a hook and a line.
#[inline(always)]
fn key(hook: u32, place: u32) -> u64 {
    // Without a line of the application, only the library's line distinguishes rows.
    let line = match event_line(place) {
        NO_APPLICATION => NO_APPLICATION | library_line(place) << 16,
        line => line,
    };
    row_key(hook, line)
}

/// Returns the row of hook `hook` and the lines `place`. `None` = there is no room, and the call is counted as lost.
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
    if let Some(row) = within(ring, table, key, first..first + PROBES) {
        return Some(row);
    }
    further::row(ring, key).or_else(|| in_the_rest(ring, table, key))
}

/// Returns the row of a key behind those places of the first table in which rows are looked for, where no further table can be had.
#[cold]
#[inline(never)]
fn in_the_rest(ring: &Ring, table: u64, key: u64) -> Option<u64> {
    let first = first_row(key);
    let row = within(ring, table, key, first + PROBES..first + COUNTS);
    if row.is_none() {
        lose(ring);
    }
    row
}

/// Looks for the row of a key in places of the first table, and takes the first free one of them if there is none.
#[inline(always)]
fn within(ring: &Ring, table: u64, key: u64, places: Range<usize>) -> Option<u64> {
    for place in places {
        let at = place % COUNTS;
        // SAFETY: `at` is less than [`COUNTS`], the rows of the table, which is this thread's and never unmapped.
        let count = unsafe { ours::<Count>(table).add(at) };
        // SAFETY: the key is the first word of that row and so aligned. It is changed by this thread and its signal
        // handlers only, as an atomic.
        let row = unsafe { AtomicU64::from_ptr(&raw mut (*count).key) };
        let mut known = row.load(Ordering::Relaxed);
        if known == 0 {
            ring.rows[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
            // A signal handler that ran in between may have taken the row.
            exchange(row, 0, key);
            known = row.load(Ordering::Relaxed);
            // A signal handler may also have begun a session, which empties the table and the marks.
            ring.rows[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
        }
        if known == key {
            return Some(at as u64);
        }
    }
    None
}

/// Returns the address of a row of a ring's tables; `None` = the ring has no such table (any more).
#[inline(always)]
fn at(ring: &Ring, row: u64) -> Option<*mut Count> {
    let row = row as usize % ALL_COUNTS;
    let table = match row / COUNTS {
        0 => ring.counts.load(Ordering::Relaxed),
        number => further::table(ring, number - 1)?,
    };
    // A table is never unmapped, and a row within it is below `COUNTS`.
    (table != 0).then(|| ours::<Count>(table).wrapping_add(row % COUNTS))
}

/// Counts the beginning of a call in a row of this thread's table.
#[inline(always)]
pub fn begun(ring: &Ring, row: u64) {
    if let Some(count) = at(ring, row) {
        // SAFETY: `at` returned a row of the ring's table, which is never unmapped, and this thread's own.
        unsafe { increment(&raw mut (*count).begun) };
    }
}

/// Counts the return of a call that this thread has counted as begun in that row.
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
        // SAFETY: `at` returned a row of the ring's table, which is never unmapped, and this thread's own.
        unsafe { increment(&raw mut (*count).errors) };
    }
    if bytes != 0 {
        // SAFETY: `at` returned a row of the ring's table, which is never unmapped, and this thread's own.
        unsafe { instruction::add(&raw mut (*count).bytes, bytes) };
    }
    let bucket = wire::calls::bucket(ticks).min(BUCKETS - 1);
    // SAFETY: `at` returned a row of the ring's table, which is never unmapped, and this thread's own; `bucket` is less than
    // `BUCKETS`, and all words are aligned.
    let (longest, shortest) = unsafe {
        increment(&raw mut (*count).returned);
        instruction::add(&raw mut (*count).total, ticks);
        increment_half((&raw mut (*count).buckets).cast::<u32>().add(bucket));
        (
            AtomicU64::from_ptr(&raw mut (*count).longest),
            AtomicU64::from_ptr(&raw mut (*count).shortest),
        )
    };
    replace(longest, ticks, |known| known < ticks);
    replace(shortest, ticks, |known| known == 0 || known > ticks);
}

/// Counts the return of a call that another thread has counted as begun in that row. This thread counts the call in
/// its own table.
#[cold]
pub fn moved(ring: &Ring, row: u64) {
    if let Some(count) = at(ring, row) {
        // SAFETY: `at` returned a row of the ring's table, which is never unmapped; the word is aligned and changed
        // as an atomic only.
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
        // The table is the last part of the slot.
        ring.records + ring.size
    } else {
        sys::map(TABLE_BYTES as u64)?
    };
    let order = Ordering::Relaxed;
    match ring
        .counts
        .compare_exchange(0, table, Ordering::Release, order)
    {
        Ok(_) => Some(table),
        // A signal handler has made one in between and has counted in it.
        Err(made) => {
            if made != table {
                // SAFETY: the mapping was made just now, and nobody else knows it.
                unsafe { sys::unmap(table, TABLE_BYTES as u64) };
            }
            Some(made)
        }
    }
}

#[cfg(test)]
mod tests;
