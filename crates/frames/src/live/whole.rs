//! Whether what was copied of a thread on its processor holds all that leads to its frames. Used by `running`.
//!
//! Two walks find that out: that along the native stack, and those of the readers of the VMs. If one of them reads anything, or wants anything,
//! that was not copied, then what it would see of that belongs to a later moment; the pages are copied the next time.

use std::ops::Range;

use process::maps::PAGE;
use process::pagemap::{Page, Pagemap};
use process::snapshot::{Copies, Thread};
use vm::{Fault, Memory};

use super::noted::Noted;
use super::open::Live;
use super::stack::{self, Process};

/// The native stack of a thread, which notes what is read of it that lies further out than what was copied in a row.
struct Outward<'a> {
    noted: &'a Noted<'a>,
    copies: &'a Copies,
    from: u64,
    mapping: Range<u64>,
}

impl Memory for Outward<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), Fault> {
        if at >= self.from && self.mapping.contains(&at) {
            self.noted.need(&(at..at.saturating_add(into.len() as u64)));
        }
        self.copies.read(at, into)
    }
}

impl Live {
    /// Whether all that leads to a thread's frames was copied; notes what does. Of its stack the part below `stack_end` was copied in a row.
    pub(super) fn is_whole(
        &mut self,
        thread: &Thread,
        stack_end: u64,
        copies: &mut Copies,
    ) -> bool {
        let searched = self.vms.iter().flat_map(|vm| vm.searched(thread));
        let searched: Vec<Range<u64>> = searched.collect();
        for range in &searched {
            add_untouched(self.pid, range, copies);
        }
        let noted = Noted::of(copies, &self.memory);
        for range in &searched {
            noted.need(range);
        }
        // A reader remembers what it does not find, so it is not asked before all that it searches is there.
        let vms = self.vms.iter().filter(|_| noted.is_whole());
        for vm in vms {
            for range in vm.wanted(&noted, thread, copies) {
                noted.need(&range);
            }
            // What says so is needed with them.
            vm.collects(&noted, thread, copies);
        }
        let outward = Outward {
            noted: &noted,
            copies,
            from: stack_end,
            mapping: thread.mapping.clone(),
        };
        let process = Process {
            modules: &self.modules,
            vms: &self.vms,
            memory: &self.memory,
            copies,
        };
        stack::walk(&process, &mut self.unwinder, thread, &outward);
        let (pages, is_whole) = noted.told();
        self.on_processors.need(pages);
        is_whole
    }
}

/// Adds those pages of a range of a stack that hold zeros, because they were never touched: they could not be copied. Such a page was no other
/// one a moment before.
fn add_untouched(pid: i32, range: &Range<u64>, copies: &mut Copies) {
    let range = range.start / PAGE * PAGE..range.end.div_ceil(PAGE) * PAGE;
    if copies.parts(range.clone()).is_some() {
        return;
    }
    let Ok(pagemap) = Pagemap::open(pid) else {
        return;
    };
    let zeros = [0; PAGE as usize];
    for (at, page) in range
        .clone()
        .step_by(PAGE as usize)
        .zip(pagemap.pages(&range))
    {
        if page == Page::Nowhere && copies.parts(at..at + PAGE).is_none() {
            copies.add(at, &zeros);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_never_touched_is_one_of_zeros() {
        // So many zeros are always mapped anew (glibc's largest M_MMAP_THRESHOLD is 32 MiB), and not written.
        let mut bytes = vec![0u8; 1 << 26];
        let at = (bytes.as_ptr() as u64).next_multiple_of(PAGE);
        let first = (at - bytes.as_ptr() as u64) as usize;
        bytes[first] = 7;
        let mut copies = Copies::default();
        let pid = std::process::id() as i32;
        add_untouched(pid, &(at + 8..at + 2 * PAGE), &mut copies);
        let is_added = |page: u64| {
            copies
                .parts(at + page * PAGE..at + (page + 1) * PAGE)
                .is_some()
        };
        assert!(!is_added(0), "it holds something");
        assert!(is_added(1));
        assert!(!is_added(2), "not asked for");
        assert_eq!(bytes[first], 7);
    }
}
