//! Linked lists: interpreters, threads, frames. A list that runs in a circle is found out by Brent's rule:
//! the element at each power of two is remembered, and must not come again. Used by `frames`, `generator`, `greenlet`
//! and others.

use super::Error;
use crate::{Fault, Memory};

/// A walk along a linked list.
pub(super) struct Chain {
    next: Result<u64, Fault>,
    mark: u64,
    steps: u64,
    most: u64,
}

impl Chain {
    /// Begins at the element at `first`; 0 is the end.
    pub(super) fn new(first: Result<u64, Fault>) -> Chain {
        Chain {
            next: first,
            mark: 0,
            steps: 0,
            most: u64::MAX,
        }
    }

    /// Ends with an error behind so many elements.
    pub(super) fn at_most(self, most: u64) -> Chain {
        Chain { most, ..self }
    }

    /// Returns the element that the walk has reached, and goes on to the one whose address is at `offset` in it. After an
    /// error the walk is at its end.
    pub(super) fn step(&mut self, memory: &impl Memory, offset: u64) -> Result<Option<u64>, Error> {
        let found = core::mem::replace(&mut self.next, Ok(0))?;
        if found == 0 {
            return Ok(None);
        }
        if found == self.mark || self.steps == self.most {
            return Err(Error::garbled("end of a list", found));
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.mark = found;
        }
        self.next = memory.u64(found.wrapping_add(offset));
        Ok(Some(found))
    }

    /// Returns the element that comes next.
    pub(super) fn peek(&self) -> Result<u64, Fault> {
        self.next
    }

    /// Ends the walk: there is no further element.
    pub(super) fn end(&mut self) {
        self.next = Ok(0);
    }
}
