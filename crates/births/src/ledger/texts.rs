//! Reads the texts of the books, and the names of kinds.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;

use process::error::Result;
use process::memory::GuestMemory;
use wire::ledger::{ANONYMOUS, TEXT};
use wire::{Kind, Ledger};

use super::{ENTRY, Reader};

impl Reader {
    pub(super) fn kind_name(
        &mut self,
        memory: &GuestMemory,
        kind: &Kind,
        known: &HashMap<u64, Arc<str>>,
    ) -> Result<Arc<str>> {
        if kind.flags & ANONYMOUS == 0 {
            return self.text(memory, kind.name);
        }
        let name = self.anonymous.entry(kind.address).or_insert_with(|| {
            let known = known.get(&kind.address).cloned();
            known.unwrap_or_else(|| format!("#<Class:{:#018x}>", kind.address).into())
        });
        Ok(name.clone())
    }

    pub(super) fn text(&mut self, memory: &GuestMemory, offset: u32) -> Result<Arc<str>> {
        if let Some(known) = self.text.get(&offset) {
            return Ok(known.clone());
        }
        let records = self.records(memory, offset_of!(Ledger, text), TEXT)?;
        let at = records.address(u64::from(offset), 1)?;
        let length = memory.half(at)?;
        records.within_piece(u64::from(offset), 4 + u64::from(length))?;
        self.keep(memory, ENTRY + length as usize)?;
        let mut bytes = vec![0; length as usize];
        memory.read_bytes(at + 4, &mut bytes)?;
        let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
        self.text.insert(offset, text.clone());
        Ok(text)
    }
}
