//! Reads the agent's numbers of heap slots from outside ([`wire::slots`]). Used by `session::snapshot`, `objects` and
//! `postmortem`.

use inject::records::ReadRecords;
use process::error::Result;
use process::memory::GuestMemory;
use std::mem::offset_of;
use wire::slots::{ROOTS, Table};
use wire::{Ledger, SlotPath};

/// The agent's numbers of heap slots.
pub(crate) struct Slots<'a> {
    memory: &'a GuestMemory,
    roots: u64,
    page_shift: u32,
}

/// The numbers of one page; empty if nothing was born there.
pub(crate) struct Numbers {
    page_shift: u32,
    table: Table,
    numbers: Vec<u32>,
}

impl<'a> Slots<'a> {
    pub(crate) fn of(memory: &'a GuestMemory, ledger: u64) -> Result<Self> {
        let page_shift = memory.half(ledger + offset_of!(Ledger, page_shift) as u64)?;
        Ok(Slots {
            memory,
            roots: memory.word(ledger + offset_of!(Ledger, slot_roots) as u64)?,
            // The value was read from a guest, so it is limited to a plausible range.
            page_shift: page_shift.clamp(12, 24),
        })
    }

    /// The page that `address` lies in.
    pub(crate) fn page(&self, address: u64) -> u64 {
        address >> self.page_shift
    }

    /// All numbers of the page that `address` lies in.
    pub(crate) fn numbers(&self, address: u64) -> Result<Numbers> {
        let table = self.table(SlotPath::of(address, self.page_shift))?;
        let count = Table::numbers(table.step(), self.page_shift) as usize;
        Ok(Numbers {
            page_shift: self.page_shift,
            table,
            numbers: match table.address() {
                0 => Vec::new(),
                at => self.memory.records(at, count)?,
            },
        })
    }

    fn table(&self, path: SlotPath) -> Result<Table> {
        if self.roots == 0 || path.root >= ROOTS {
            return Ok(Table::NONE);
        }
        let word = |table: u64, index: u32| {
            let at = table.wrapping_add(u64::from(index) * 8);
            self.memory.word(at)
        };
        match word(self.roots, path.root)? {
            0 => Ok(Table::NONE),
            tables => Ok(Table::from_word(word(tables, path.page)?)),
        }
    }
}

impl Numbers {
    /// Returns the number of the object at `address`, which lies in this page; 0 if it was born
    /// before lancet came.
    pub(crate) fn of(&self, address: u64) -> u32 {
        let path = SlotPath::of(address, self.page_shift);
        let index = self.table.index(path.grain);
        let number = index.and_then(|index| self.numbers.get(index as usize));
        number.copied().unwrap_or(0)
    }
}
