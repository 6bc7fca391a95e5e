//! The memory in which rings lie. Rings in the pool, which the process shares with us, are read without system
//! calls, and also when the process is gone; others are read through `/proc/PID/mem`. Used by `rings`.

use crate::limits::{LEAST_RING, MOST_RING, USER_END};
use crate::pool::Pool;
use inject::records::{ReadRecords, Record};
use process::error::Result;
use process::memory::GuestMemory;
use std::ops::Range;
use std::sync::Arc;

/// The memory of rings; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Backing {
    /// The memory of the process.
    pub memory: Arc<GuestMemory>,
    /// The pool, if the process has one.
    pub pool: Option<Arc<Pool>>,
}

impl Backing {
    /// The word at `at`.
    pub fn word(&self, at: u64) -> Result<u64> {
        let shared = self.pool.as_ref().and_then(|pool| pool.word(at));
        shared.map_or_else(|| self.memory.word(at), Ok)
    }

    /// The 32-bit word at `at`.
    pub fn half(&self, at: u64) -> Result<u32> {
        let shared = self.pool.as_ref().and_then(|pool| pool.half(at));
        shared.map_or_else(|| self.memory.half(at), Ok)
    }

    /// Fills `into` with the words from `at`.
    pub fn read_words(&self, at: u64, into: &mut [u64]) -> Result<()> {
        match &self.pool {
            Some(pool) if pool.read_words(at, into) => Ok(()),
            _ => self.memory.read_words(at, into),
        }
    }

    /// Sets the word at `at`.
    pub fn set_word(&self, at: u64, value: u64) -> Result<()> {
        match &self.pool {
            Some(pool) if pool.set_word(at, value) => Ok(()),
            _ => self.memory.write(at, &value.to_le_bytes()),
        }
    }

    /// The `count` records from address `at` on.
    pub fn records<T: Record>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let shared = self.pool.as_ref().and_then(|pool| pool.records(at, count));
        shared.map_or_else(|| self.memory.records(at, count), Ok)
    }

    /// Addresses of the rings that can be read when the process is gone.
    pub fn rings_that_stay(&self) -> Vec<u64> {
        self.pool
            .as_ref()
            .map(|pool| pool.rings())
            .unwrap_or_default()
    }

    /// The addresses at which the process has the pool.
    pub fn shared(&self) -> Option<Range<u64>> {
        self.pool.as_ref().map(|pool| pool.range())
    }
}

/// Whether a ring can be at this place: its header and its records at addresses of user space.
pub(super) fn is_plausible(address: u64, records: u64, size: u64) -> bool {
    address.is_multiple_of(8)
        && records.is_multiple_of(8)
        && (1..USER_END).contains(&records)
        && size.is_power_of_two()
        && (LEAST_RING..=MOST_RING).contains(&size)
}
