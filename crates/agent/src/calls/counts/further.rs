//! Rows of counts behind a ring's first table. Layout: `wire::calls::further`. Used by `counts` and `tables`.
//!
//! A signal handler may run between any two instructions here, too. So a row is taken by one exchange of the number of rows and one of
//! its key, and is then given its place in the index by another. A row whose place a handler has taken meanwhile for the same key stays
//! empty; its key is found twice, and the command adds both.

use crate::calls::pool;
use crate::memory::follow::ours;
use crate::memory::instruction::exchange;
use crate::memory::sys;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use wire::PAGE;
use wire::calls::further::{
    ALL_COUNTS, INDEX, INDEX_BYTES, REFUSED, TABLE_BYTES, TABLES, first_place,
};
use wire::calls::{COUNTS, Count, Ring};

/// Returns the address of a table, if it was made.
#[inline(always)]
pub fn table(ring: &Ring, number: usize) -> Option<u64> {
    let table = ring.further.tables.get(number)?.load(Ordering::Relaxed);
    (table > REFUSED).then_some(table)
}

/// Returns the row of a key, which is taken if there is none. `None` = there is no room.
#[cold]
#[inline(never)]
pub fn row(ring: &Ring, key: u64) -> Option<u64> {
    let index = match ring.further.index.load(Ordering::Relaxed) {
        0 => {
            made(ring, 0)?;
            ring.further.index.load(Ordering::Relaxed)
        }
        index => index,
    };
    if index <= REFUSED {
        return None;
    }
    let first = first_place(key);
    let mut taken = None;
    for step in 0..INDEX {
        let place = place(index, (first + step) % INDEX);
        let mut known = place.load(Ordering::Relaxed);
        if known == 0 {
            let row = match taken {
                Some(row) => row,
                None => *taken.insert(take(ring, key)?),
            };
            let order = Ordering::Relaxed;
            known = match place.compare_exchange(0, row, order, order) {
                Ok(_) => row,
                // A signal handler that ran in between has taken the place.
                Err(by) => by,
            };
            // A signal handler may also have begun a session, which forgets the rows.
            let used = u64::from(known).saturating_sub(COUNTS as u64) + 1;
            ring.further.used.fetch_max(used, order);
        }
        let is_same = |count| self::key(count).load(Ordering::Relaxed) == key;
        if super::at(ring, known.into()).is_some_and(is_same) {
            return Some(known.into());
        }
    }
    None
}

/// Takes a new row for a key, and makes the table in which it is if need be.
fn take(ring: &Ring, key: u64) -> Option<u16> {
    let used = &ring.further.used;
    loop {
        let number = used.load(Ordering::Relaxed);
        let row = COUNTS as u64 + number;
        if row >= ALL_COUNTS as u64 {
            return None;
        }
        made(ring, number as usize / COUNTS)?;
        let count = super::at(ring, row)?;
        // Where a signal handler has taken the row in between, the next one is tried.
        if exchange(used, number, number + 1) && exchange(self::key(count), 0, key) {
            return Some(row as u16);
        }
    }
}

/// The key of a row.
fn key(count: *mut Count) -> &'static AtomicU64 {
    // SAFETY: the callers have `count` from `super::at`: a row of one of the ring's tables, which are never unmapped. The key is its first
    // word and so aligned, and is changed as an atomic only.
    unsafe { AtomicU64::from_ptr(&raw mut (*count).key) }
}

/// A place of the index.
fn place(index: u64, number: usize) -> &'static AtomicU16 {
    // SAFETY: the index has [`INDEX`] numbers, which the callers stay below, and is never unmapped. It is changed as atomics only.
    unsafe { AtomicU16::from_ptr(ours::<u16>(index).add(number)) }
}

/// Returns the address of a table, which is made if it was not; with the first one, the index.
fn made(ring: &Ring, number: usize) -> Option<u64> {
    let entry = ring.further.tables.get(number)?;
    match entry.load(Ordering::Relaxed) {
        0 => {}
        known => return (known != REFUSED).then_some(known),
    }
    // A signal handler that makes the table in between wins; this mapping is then left as it is, without pages.
    let Some([index, table]) = memory(ring) else {
        exchange(entry, 0, REFUSED);
        return table(ring, number);
    };
    if number == 0 {
        exchange(&ring.further.index, 0, index);
    }
    exchange(entry, 0, table);
    self::table(ring, number)
}

/// Returns room for an index and for a table: a slot of the pool, which outlives the process, or a mapping.
fn memory(ring: &Ring) -> Option<[u64; 2]> {
    let is_in_pool = pool::holds(core::ptr::from_ref(ring).addr() as u64);
    if let Some(slot) = is_in_pool.then(pool::slot_to_spare).flatten() {
        // The first page of a slot says whether a ring is there, so it stays zero.
        return Some([slot + PAGE as u64, slot + pool::size() - TABLE_BYTES as u64]);
    }
    let at = sys::map((INDEX_BYTES + TABLE_BYTES) as u64)?;
    Some([at, at + INDEX_BYTES as u64])
}

/// Empties the rows that were taken and the index.
pub fn forget(ring: &Ring) {
    let further = &ring.further;
    for entry in further.tables.iter().chain([&further.index]) {
        exchange(entry, REFUSED, 0);
    }
    let used = further.used.load(Ordering::Relaxed);
    let index = further.index.load(Ordering::Relaxed);
    if used == 0 || index == 0 {
        return;
    }
    for number in 0..INDEX {
        let place = place(index, number);
        if place.load(Ordering::Relaxed) != 0 {
            place.store(0, Ordering::Relaxed);
        }
    }
    for row in (COUNTS as u64..ALL_COUNTS as u64).take(used as usize) {
        let Some(count) = super::at(ring, row) else {
            break;
        };
        // SAFETY: `count` is a row of this thread's tables, which only it and its handlers write.
        unsafe { core::ptr::write_bytes(count, 0, 1) };
    }
    // A handler that has taken a row in between has changed the number; what is below it is empty, and stays so.
    exchange(&further.used, used, 0);
}

const _: () = assert!(TABLES * COUNTS + COUNTS == ALL_COUNTS);

#[cfg(test)]
mod tests;
