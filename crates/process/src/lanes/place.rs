//! Where lanes are read and written: in the pool that we share with the guest, or in memory of its own.

use crate::error::Result;
use crate::memory::{GuestMemory, Record};
use crate::pool::Pool;
use std::ops::Range;
use std::sync::Arc;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Place {
    /// The guest's.
    pub memory: Arc<GuestMemory>,
    /// What outlives it.
    pub pool: Option<Arc<Pool>>,
}

impl Place {
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

    /// `count` plain records from `at`.
    pub fn records<T: Record>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let shared = self.pool.as_ref().and_then(|pool| pool.records(at, count));
        shared.map_or_else(|| self.memory.records(at, count), Ok)
    }

    /// The lanes that can be read when the guest is gone.
    pub fn lanes_that_stay(&self) -> Vec<u64> {
        self.pool
            .as_ref()
            .map(|pool| pool.lanes())
            .unwrap_or_default()
    }

    /// The pool, in the guest.
    pub fn shared(&self) -> Option<Range<u64>> {
        self.pool.as_ref().map(|pool| pool.range())
    }
}
