//! A ring of a test's own, which no other thread and no table of rings knows.

use super::*;
use crate::memory::sys;
use std::vec::Vec;
use wire::calls::further::{INDEX_BYTES, REFUSED, TABLE_BYTES};

/// A ring with room for records, unmapped at its end.
pub struct Own {
    at: u64,
    bytes: u64,
}

impl Own {
    /// An empty ring with so many bytes of records, a power of two.
    pub fn new(size: u64) -> Self {
        let bytes = PAGE as u64 + TABLE + size;
        let at = sys::map(bytes).expect("memory");
        // SAFETY: the mapping is new, has room for a ring, and nobody else knows it.
        unsafe {
            write(at, 0, 1, 0);
            (*ours::<Ring>(at)).size = size;
        }
        Own { at, bytes }
    }

    /// The ring.
    pub fn ring(&self) -> &'static Ring {
        // SAFETY: `new` has written it. Tests keep no reference longer than this.
        unsafe { &*ours::<Ring>(self.at) }
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// The word of the records at a position, as the reader finds it.
    pub fn word(&self, position: u64) -> u64 {
        let ring = self.ring();
        let at = ring.records + (position * 8) % ring.size;
        // SAFETY: the word lies within the records.
        unsafe { ours::<u64>(at).read() }
    }

    /// The records from a position on, as the reader takes them: position, kind, and the words behind the first. Ends before one that is
    /// still being written and before a room that may still be filled, and frees what was taken.
    pub fn take(&self) -> Vec<(u64, u64, Vec<u64>)> {
        let ring = self.ring();
        let mut found = Vec::new();
        let mut position = ring.taken.0.load(Ordering::Relaxed);
        while position < ring.written.reserved.load(Ordering::Relaxed) {
            let Some((words, kind)) = wire::calls::open(self.word(position), position) else {
                break;
            };
            let is_last = position + words >= ring.written.reserved.load(Ordering::Relaxed);
            if kind == kind::BEGUN || kind == kind::ROOM && is_last {
                break;
            }
            let body = (position + 1..position + words).map(|at| self.word(at));
            found.push((position, kind, body.collect()));
            position += words;
        }
        ring.taken.0.store(position, Ordering::Release);
        found
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let counts = self.ring().counts.load(Ordering::Relaxed);
        let further = &self.ring().further.tables;
        // SAFETY: all mappings are this ring's own; there is no pool, so an index lies before each further table.
        unsafe {
            if counts != 0 {
                sys::unmap(counts, TABLE_BYTES as u64);
            }
            let further = further.iter().map(|table| table.load(Ordering::Relaxed));
            for table in further.filter(|table| *table > REFUSED) {
                let bytes = INDEX_BYTES + TABLE_BYTES;
                sys::unmap(table - INDEX_BYTES as u64, bytes as u64);
            }
            sys::unmap(self.at, self.bytes);
        }
    }
}
