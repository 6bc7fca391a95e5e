//! A cache over any [`Memory`]: reads whole pages, each once, and remembers which pages they were. Used by the crates
//! `languages`, `frames` and `hooks`.
//!
//! A reader of a VM's data structures asks for single words, mostly near each other, and each word would cost a system
//! call (`pread` of `/proc/PID/mem`). The readers of crate `languages` walk tables of names and frames through this cache; `frames::live`
//! also asks [`Pages::read_so_far`] which pages a walk needed, in order to copy exactly those during the next stop.
//!
//! A cached page is never read again, so a value must not be used after the walk it was read for: each walk needs a
//! new cache.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::maps::PAGE;
use vm::{Fault, Memory};

/// Pages that are kept at most (64 MiB), where nothing else is asked for. Beyond that all of them are dropped, so that a walk over millions of
/// objects does not copy the whole process.
const MOST: usize = 1 << 14;

type Page = Option<Box<[u8; PAGE as usize]>>;

/// A cache over a memory; see the module's documentation.
pub struct Pages<'a> {
    memory: &'a dyn Memory,
    most: usize,
    kept: RefCell<BTreeMap<u64, Page>>,
}

impl<'a> Pages<'a> {
    /// An empty cache over `memory`.
    pub fn new(memory: &'a dyn Memory) -> Pages<'a> {
        Self::keeping(MOST, memory)
    }

    /// The same that keeps so many pages at most, for a walk that comes back to few of those that it reads.
    pub fn keeping(most: usize, memory: &'a dyn Memory) -> Pages<'a> {
        Pages {
            memory,
            most,
            kept: RefCell::default(),
        }
    }

    /// Returns the address ranges of the pages read so far, by ascending address; adjacent pages are one range. Pages
    /// that could not be read are left out.
    pub fn read_so_far(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (&at, page) in self.kept.borrow().iter() {
            match ranges.last_mut() {
                _ if page.is_none() => {}
                Some(last) if last.end == at => last.end += PAGE,
                _ => ranges.push(at..at + PAGE),
            }
        }
        ranges
    }

    /// Copies bytes that lie within one page.
    fn piece(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let start = at / PAGE * PAGE;
        let within = (at - start) as usize;
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= self.most && !kept.contains_key(&start) {
            kept.clear();
        }
        let page = kept.entry(start).or_insert_with(|| {
            let mut page = Box::new([0; PAGE as usize]);
            self.memory.read(start, &mut *page).ok().map(|()| page)
        });
        match page {
            Some(page) => into.copy_from_slice(&page[within..within + into.len()]),
            // The page cannot be read whole: copied stacks and segments of core files may begin or end within a page.
            None => self.memory.read(at, into)?,
        }
        Ok(())
    }
}

impl Memory for Pages<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let end = at.checked_add(into.len() as u64).ok_or(Fault { at })?;
        let mut from = at;
        while from < end {
            let next = (from / PAGE + 1).saturating_mul(PAGE).min(end);
            let (start, stop) = ((from - at) as usize, (next - at) as usize);
            self.piece(from, &mut into[start..stop])?;
            from = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Memory up to `end`, in which each byte follows from its address; counts the reads.
    struct Counted {
        end: u64,
        reads: Cell<u32>,
    }

    impl Memory for Counted {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            self.reads.set(self.reads.get() + 1);
            if at + into.len() as u64 > self.end {
                return Err(Fault { at });
            }
            for (byte, at) in into.iter_mut().zip(at..) {
                *byte = (at % 251) as u8;
            }
            Ok(())
        }
    }

    #[test]
    fn each_page_is_read_once() {
        let memory = Counted {
            end: 10 * PAGE + 100,
            reads: Cell::new(0),
        };
        let pages = Pages::new(&memory);
        for at in [PAGE, PAGE + 8, 2 * PAGE - 4, 2 * PAGE + 16, 5 * PAGE] {
            let mut bytes = [0; 8];
            pages.read(at, &mut bytes).expect("there");
            let want: Vec<u8> = (at..at + 8).map(|at| (at % 251) as u8).collect();
            assert_eq!(bytes, want.as_slice());
        }
        assert_eq!(memory.reads.get(), 3);
        assert_eq!(pages.read_so_far(), [PAGE..3 * PAGE, 5 * PAGE..6 * PAGE]);
        // The memory ends within the last page: what lies before its end can be read, and the page is not listed.
        assert!(pages.u64(10 * PAGE + 8).is_ok());
        assert!(pages.u64(10 * PAGE + 200).is_err());
        assert!(pages.u64(u64::MAX - 3).is_err());
        assert_eq!(pages.read_so_far().len(), 2);
    }
}
