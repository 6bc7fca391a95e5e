//! Reads the guest's memory where an argument may point. An argument may be any number, so each page is proven
//! readable before it is read.

use crate::memory::sys;
use core::cell::Cell;
use vm::{Fault, Memory};
use wire::PAGE;

/// Number of pages that one description remembers as readable.
const PAGES: usize = 8;

/// The guest's memory, with each page proven readable before it is read.
pub struct Proven {
    pages: [Cell<u64>; PAGES],
    next: Cell<usize>,
}

impl Proven {
    /// No page has been proven readable yet.
    pub const fn new() -> Self {
        Proven {
            pages: [const { Cell::new(0) }; PAGES],
            next: Cell::new(0),
        }
    }

    #[inline]
    fn is_readable(&self, at: u64) -> bool {
        let page = at & !(PAGE as u64 - 1);
        if page == 0 {
            return false;
        }
        if self.pages.iter().any(|known| known.get() == page) {
            return true;
        }
        if !sys::is_readable(page) {
            return false;
        }
        self.pages[self.next.get() % PAGES].set(page);
        self.next.set(self.next.get() + 1);
        true
    }
}

impl Memory for Proven {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < into.len() {
            let from = at.wrapping_add(done as u64);
            if !self.is_readable(from) {
                return Err(Fault { at: from });
            }
            let room = PAGE - (from as usize & (PAGE - 1));
            let length = room.min(into.len() - done);
            // SAFETY: the range lies within a page that the kernel has just confirmed to be readable. Another thread
            // may unmap it now, as it may for the function that was given this address.
            unsafe {
                let into = into.as_mut_ptr().add(done);
                core::ptr::copy_nonoverlapping(from as *const u8, into, length);
            }
            done += length;
        }
        Ok(())
    }
}
