//! A guest's memory, each page read once: a VM's tables are thousands of words.

use crate::memory::GuestMemory;
use std::cell::RefCell;
use std::collections::HashMap;
use vm::{Fault, Memory};

const PAGE: usize = 4096;

/// See the module's text.
pub struct Pages<'a> {
    memory: &'a GuestMemory,
    known: RefCell<HashMap<u64, Option<Box<[u8; PAGE]>>>>,
}

impl<'a> Pages<'a> {
    /// Nothing is read yet.
    pub fn of(memory: &'a GuestMemory) -> Self {
        Pages {
            memory,
            known: RefCell::default(),
        }
    }
}

impl Memory for Pages<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut known = self.known.borrow_mut();
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let begin = at as usize % PAGE;
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE - begin));
            let start = at - begin as u64;
            let page = known.entry(start).or_insert_with(|| {
                let mut page = Box::new([0; PAGE]);
                self.memory.read_bytes(start, &mut page[..]).ok()?;
                Some(page)
            });
            let page = page.as_ref().ok_or(Fault { at })?;
            now.copy_from_slice(&page[begin..begin + now.len()]);
            at = at.wrapping_add(now.len() as u64);
            rest = later;
        }
        Ok(())
    }
}
