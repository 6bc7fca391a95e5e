//! Reads the large objects that a census has noted one by one. Used by `earlier`.

use std::mem::offset_of;
use std::sync::Arc;

use inject::records::{ReadRecords, implausible};
use process::error::Result;
use process::memory::GuestMemory;
use wire::ledger::LARGE;
use wire::slots::site_of;
use wire::{Large, Ledger};

use super::{DAMAGED, Reader};

/// A large object, as the census found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its address and the number of its slot: as long as both are the same, so is the object.
    pub identity: (u64, u32),
    /// The number of the site where it was born; 0 = before lancet came.
    pub site: u32,
    /// The name of its type.
    pub kind: Arc<str>,
    /// Whether it is the VM's own.
    pub internal: bool,
    /// Bytes of what it holds ([`wire::Large::used`]).
    pub used: u64,
}

impl Reader {
    /// Reads the large objects of the last census, whose kinds `with_rows` has read.
    pub(super) fn large(&self, memory: &GuestMemory) -> Result<Vec<Holder>> {
        let count = memory.word(self.at + offset_of!(Ledger, large_count) as u64)?;
        let at = self.at + offset_of!(Ledger, large) as u64;
        if count > LARGE as u64 {
            return Err(implausible(memory.pid(), at, DAMAGED));
        }
        let all: Vec<Large> = match count {
            0 => Vec::new(),
            count => memory.records(at, count as usize)?,
        };
        let named = all.into_iter().filter_map(|large| {
            let (kind, internal) = self.kinds.get(large.kind as usize)?.clone();
            Some(Holder {
                identity: (large.object, large.number),
                site: site_of(large.number),
                kind,
                internal,
                used: large.used,
            })
        });
        Ok(named.collect())
    }
}
