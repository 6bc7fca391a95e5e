//! The copies of a thread that was not stopped, and what a walk over them needs that is not in them. Used by `whole`.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;

use process::memory::GuestMemory;
use process::snapshot::Copies;
use tracepoint::{LISTED, PAGE};
use vm::{Fault, Memory};

/// The copies of a thread, which notes what is read that is not in them.
pub(super) struct Noted<'a> {
    copies: &'a Copies,
    rest: &'a GuestMemory,
    pages: RefCell<HashSet<u64>>,
    is_whole: Cell<bool>,
}

impl<'a> Noted<'a> {
    /// Where `copies` have nothing, `rest` is read.
    pub(super) fn of(copies: &'a Copies, rest: &'a GuestMemory) -> Self {
        Noted {
            copies,
            rest,
            pages: RefCell::default(),
            is_whole: Cell::new(true),
        }
    }

    /// Returns the pages that were needed, and whether all of them were copied.
    pub(super) fn told(self) -> (HashSet<u64>, bool) {
        (self.pages.into_inner(), self.is_whole.get())
    }

    /// Whether all that was needed until now was copied.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.get()
    }

    /// Notes that these bytes are needed.
    pub(super) fn need(&self, range: &Range<u64>) {
        let first = range.start / PAGE as u64;
        let last = range.end.div_ceil(PAGE as u64).max(first);
        if last - first > LISTED as u64 {
            return self.is_whole.set(false);
        }
        let mut pages = self.pages.borrow_mut();
        // The first page of all is never there, and its address ends the list.
        pages.extend((first.max(1)..last).map(|page| page * PAGE as u64));
        if self.copies.parts(range.clone()).is_none() {
            self.is_whole.set(false);
        }
    }
}

impl Memory for Noted<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), Fault> {
        if self.copies.read(at, into).is_err() {
            self.rest.read(at, into)?;
        }
        self.need(&(at..at.saturating_add(into.len() as u64)));
        Ok(())
    }
}
