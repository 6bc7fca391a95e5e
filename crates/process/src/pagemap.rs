//! What the kernel says of single pages (`/proc/PID/pagemap`). Used by `snapshot`, `room` and others here, and by most
//! crates above.
//!
//! A word a page (`fs/proc/task_mmu.c`, `pte_to_pagemap_entry`; Documentation/admin-guide/mm/pagemap.rst): bit 63 says that it is in
//! memory, bit 62 that it is in swap, bit 61 that it is the page of a file or shared, and not one of the process's own. The page numbers
//! that only root sees are not used.
//!
//! Bit 58 says that it is a guard (`MADV_GUARD_INSTALL`, Linux 6.13; the bit is there since 6.15). A guard can neither be read nor
//! written, and splits no mapping: since glibc 2.42 the stacks of several threads lie in one mapping, with guards between them. The entry of
//! a guard in the page table is of the kind that swapped pages have, so bit 62 is set, too; kernels without bit 58 show it as a page in
//! swap.

use crate::proc_file;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::descriptors::open_briefly;
use crate::maps::{Maps, PAGE};

/// Limit of the bytes of one mapping that count as a stack, because the kernel may have merged it with the mapping
/// above.
pub(crate) const LARGEST_STACK: u64 = 64 << 20;

/// Pages that are asked for first where a guard is looked for; twice as many each time. Most stacks end within them.
const FIRST: u64 = 64;
/// The most pages that are asked for at once.
const AT_ONCE: u64 = 1 << 12;

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Neither in memory nor in swap: it was never touched, or was given back.
    Nowhere,
    /// In memory, and the process's own.
    Own,
    /// In memory, and a file's or shared.
    File,
    /// In swap and not in memory.
    Swap,
    /// A guard, which is nothing but forbidden addresses.
    Guard,
}

impl Page {
    /// Returns what a word says.
    pub fn of(word: u64) -> Page {
        let bit = |number: u32| word >> number & 1 != 0;
        match (bit(63), bit(62), bit(61)) {
            _ if bit(58) => Page::Guard,
            (true, _, false) => Page::Own,
            (true, _, true) => Page::File,
            (_, true, _) => Page::Swap,
            _ => Page::Nowhere,
        }
    }
}

/// The file of one process.
#[derive(Debug)]
pub struct Pagemap(std::fs::File);

impl Pagemap {
    /// Opens it; who may trace the process may read it.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(pid: i32) -> io::Result<Self> {
        open_briefly(proc_file::path(pid, "pagemap")).map(Pagemap)
    }

    /// Reads what the pages from the address `from` on are, as many as `words` has room for, and returns how many the kernel told: less at
    /// the end of the addresses that a process can have.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn read(&self, from: u64, words: &mut [[u8; 8]]) -> io::Result<usize> {
        let read = self.0.read_at(words.as_flattened_mut(), from / PAGE * 8)?;
        Ok(read / 8)
    }

    /// Returns what the pages of a range are, by rising address; empty if they cannot be read.
    pub fn pages(&self, range: &Range<u64>) -> Vec<Page> {
        let count = range.end.saturating_sub(range.start) / PAGE;
        let mut words = vec![[0; 8]; usize::try_from(count).unwrap_or(0)];
        let told = self.read(range.start, &mut words).unwrap_or(0);
        words.truncate(told);
        words
            .into_iter()
            .map(|word| Page::of(u64::from_le_bytes(word)))
            .collect()
    }

    /// Returns the beginning of the first guard above an address; `end` if there is none below that.
    fn guard_above(&self, address: u64, end: u64) -> u64 {
        let (mut at, mut count) = (address / PAGE * PAGE, FIRST);
        let limit = end.min(at.saturating_add(LARGEST_STACK));
        while at < limit {
            let part = at..limit.min(at + count * PAGE);
            let pages = self.pages(&part);
            if let Some(found) = pages.iter().position(|page| *page == Page::Guard) {
                return at + found as u64 * PAGE;
            }
            (at, count) = (part.end, AT_ONCE.min(count * 2));
        }
        end
    }

    /// Returns the end of the first guard below an address; `start` if there is none above that.
    fn guard_below(&self, address: u64, start: u64) -> u64 {
        let (mut at, mut count) = (address / PAGE * PAGE, FIRST);
        let limit = start.max(at.saturating_sub(LARGEST_STACK));
        while at > limit {
            let part = limit.max(at.saturating_sub(count * PAGE))..at;
            let pages = self.pages(&part);
            if let Some(found) = pages.iter().rposition(|page| *page == Page::Guard) {
                return part.start + (found as u64 + 1) * PAGE;
            }
            (at, count) = (part.start, AT_ONCE.min(count * 2));
        }
        start
    }
}

/// Returns the part of the mapping around an address that one stack can have: between the guards below and above, or up to the mapping's
/// own bounds; empty if the address is in no mapping. Without `pagemap`, the whole mapping.
pub fn stack_around(pagemap: Option<&Pagemap>, maps: &Maps, address: u64) -> Range<u64> {
    let above = stack_above(pagemap, maps, address);
    above_guard(pagemap, address, above)
}

/// The same from the mapping's beginning, with what other stacks lie below it: the unused part of a stack, which is larger than the used
/// one, is not looked at.
pub fn stack_above(pagemap: Option<&Pagemap>, maps: &Maps, address: u64) -> Range<u64> {
    let Some(mapping) = maps.find(address) else {
        return 0..0;
    };
    let end = pagemap.map(|pagemap| pagemap.guard_above(address, mapping.end));
    mapping.start..end.unwrap_or(mapping.end)
}

/// Returns the part of `stack`, which holds `address`, above the guard below that address.
pub(crate) fn above_guard(
    pagemap: Option<&Pagemap>,
    address: u64,
    stack: Range<u64>,
) -> Range<u64> {
    match pagemap {
        Some(pagemap) if !stack.is_empty() => pagemap.guard_below(address, stack.start)..stack.end,
        _ => stack,
    }
}

/// Returns the parts of a range of one mapping that were ever touched, by rising address. Only these need be searched: the others hold zeros,
/// and reading them would map pages of zeros there.
pub fn touched(pagemap: Option<&Pagemap>, maps: &Maps, range: Range<u64>) -> Vec<Range<u64>> {
    let size = AT_ONCE * 16 * PAGE;
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min((at / size + 1).saturating_mul(size));
        for part in Parts::of(pagemap, maps, at..end).touched {
            match parts.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => parts.push(part),
            }
        }
        at = end;
    }
    parts
}

/// Returns the parts of the stack from `address` up that were ever touched, of the lowest `most` bytes of it: what [`stack_above`] and
/// [`touched`] find, by one system call where the mapping ends within some pages, because all threads of a process may wait for it.
pub fn touched_stack(
    pagemap: Option<&Pagemap>,
    maps: &Maps,
    address: u64,
    most: u64,
) -> Vec<Range<u64>> {
    let first = address / PAGE * PAGE;
    let near = maps.find(address).filter(|mapping| {
        mapping.inode == 0
            && !mapping.permissions.shared
            && mapping.end - first <= most.min(FIRST * PAGE)
    });
    if let (Some(pagemap), Some(mapping)) = (pagemap, near) {
        let pages = pagemap.pages(&(first..mapping.end));
        if !pages.is_empty() {
            return runs_below_guard(&pages, address);
        }
    }
    let stack = stack_above(pagemap, maps, address);
    let end = stack.end.min(address.saturating_add(most));
    touched(pagemap, maps, address..end)
}

/// Returns the runs of touched pages before the first guard, the first of them from `address` on, which lies in the first page.
fn runs_below_guard(pages: &[Page], address: u64) -> Vec<Range<u64>> {
    let first = address / PAGE * PAGE;
    let guard = pages.iter().position(|page| *page == Page::Guard);
    let pages = &pages[..guard.unwrap_or(pages.len())];
    let mut at = first;
    let runs = pages.chunk_by(|one, next| (*one == Page::Nowhere) == (*next == Page::Nowhere));
    let runs = runs.filter_map(|run| {
        let from = at.max(address);
        at += run.len() as u64 * PAGE;
        (run[0] != Page::Nowhere).then_some(from..at)
    });
    runs.collect()
}

/// A range of addresses in the parts that were touched and those that never were, each by rising address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) touched: Vec<Range<u64>>,
    pub(crate) untouched: Vec<Range<u64>>,
}

impl Parts {
    /// Tells the parts of a range of one mapping apart. A page of a file, or of shared memory, may have contents although it is not in the
    /// table of the process's pages, so all of such a range counts as touched.
    pub(crate) fn of(pagemap: Option<&Pagemap>, maps: &Maps, range: Range<u64>) -> Parts {
        let mapping = maps.find(range.start);
        let is_own =
            mapping.is_some_and(|mapping| mapping.inode == 0 && !mapping.permissions.shared);
        let first = range.start / PAGE * PAGE;
        let whole = first..range.end.next_multiple_of(PAGE);
        let pages = match pagemap {
            Some(pagemap) if is_own => pagemap.pages(&whole),
            _ => Vec::new(),
        };
        let mut parts = Parts::default();
        let mut at = range.start;
        for run in pages.chunk_by(|one, next| (*one == Page::Nowhere) == (*next == Page::Nowhere)) {
            let end = (at / PAGE * PAGE + run.len() as u64 * PAGE).min(range.end);
            let list = match run[0] {
                Page::Nowhere => &mut parts.untouched,
                _ => &mut parts.touched,
            };
            list.push(at..end);
            at = end;
        }
        if at < range.end {
            parts.touched.push(at..range.end);
        }
        parts
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_stack_is_what_lies_below_the_first_guard() {
        use Page::{Guard, Nowhere, Own, Swap};
        let of = |pages: &[Page]| {
            let runs = runs_below_guard(pages, 0x5010).into_iter();
            runs.map(|run| (run.start, run.end)).collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[Own, Swap, Nowhere, Own]),
            [(0x5010, 0x7000), (0x8000, 0x9000)]
        );
        assert_eq!(of(&[Own, Guard, Own]), [(0x5010, 0x6000)]);
        assert_eq!(of(&[Nowhere, Own]), [(0x6000, 0x7000)]);
        assert_eq!(of(&[Guard]), []);
    }

    const MADV_GUARD_INSTALL: i32 = 102;

    /// Maps `pages` pages with a guard at these; `None` where the kernel has no guards, or does not tell of them.
    pub fn with_guards(pages: usize, guards: &[usize]) -> Option<u64> {
        let size = pages * PAGE as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, which is filled within its bounds; the guards lie in it.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), size, access, private, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            start.cast::<u8>().write_bytes(1, size);
            for guard in guards {
                let at = start.byte_add(guard * PAGE as usize);
                if libc::madvise(at, PAGE as usize, MADV_GUARD_INSTALL) != 0 {
                    return None;
                }
            }
            start as u64
        };
        let pagemap = Pagemap::open(std::process::id() as i32).expect("ours");
        let told = guards.iter().all(|guard| {
            let at = start + *guard as u64 * PAGE;
            pagemap.pages(&(at..at + PAGE)) == [Page::Guard]
        });
        told.then_some(start)
    }

    #[test]
    fn a_guard_is_neither_in_swap_nor_in_memory() {
        let bit = |number: u32| 1u64 << number;
        assert_eq!(Page::of(bit(62) | bit(58)), Page::Guard);
        assert_eq!(Page::of(bit(62)), Page::Swap);
        assert_eq!(Page::of(bit(63) | bit(61)), Page::File);
        assert_eq!(Page::of(bit(63) | bit(55)), Page::Own);
        assert_eq!(Page::of(bit(61)), Page::Nowhere);
    }

    #[test]
    fn a_stack_ends_at_the_guard_above() {
        // Two stacks, the upper one without a guard above.
        let Some(start) = with_guards(300, &[0, 200]) else {
            return;
        };
        let maps = Maps::read(std::process::id() as i32).expect("ours");
        let pagemap = Pagemap::open(std::process::id() as i32).expect("ours");
        let around = |page: u64| stack_around(Some(&pagemap), &maps, start + page * PAGE + 8);
        let whole = stack_around(None, &maps, start + 8);
        assert!(whole.contains(&(start + 300 * PAGE - 1)), "{whole:x?}");
        assert_eq!(around(1).end, start + 200 * PAGE);
        assert_eq!(around(199).end, start + 200 * PAGE);
        assert_eq!(around(201).end, whole.end);
        assert_eq!(around(199).start, start + PAGE);
        assert_eq!(around(201).start, start + 201 * PAGE);
        assert_eq!(stack_around(Some(&pagemap), &maps, 8), 0..0);
    }

    #[test]
    fn a_page_that_was_never_touched_is_told_from_those_that_were() {
        let size = 8 * PAGE as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, of which two pages are written.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), size, access, private, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            // A large page would make all of it touched.
            libc::madvise(start, size, libc::MADV_NOHUGEPAGE);
            for page in [2, 3] {
                start.cast::<u8>().byte_add(page * PAGE as usize).write(1);
            }
            start as u64
        };
        let pid = std::process::id() as i32;
        let maps = Maps::read(pid).expect("ours");
        let pagemap = Pagemap::open(pid).expect("ours");
        let at = |page: u64| start + page * PAGE;
        let range = at(1) + 8..at(5) - 8;
        let parts = Parts::of(Some(&pagemap), &maps, range.clone());
        let bounds = |parts: &[Range<u64>]| -> Vec<(u64, u64)> {
            let bounds = parts.iter().map(|part| (part.start, part.end));
            bounds.collect()
        };
        assert_eq!(bounds(&parts.touched), [(at(2), at(4))]);
        let untouched = [(at(1) + 8, at(2)), (at(4), at(5) - 8)];
        assert_eq!(bounds(&parts.untouched), untouched);
        assert_eq!(touched(Some(&pagemap), &maps, range.clone()), parts.touched);
        let whole = Parts::of(None, &maps, range.clone());
        assert_eq!((whole.touched, whole.untouched), (vec![range], Vec::new()));
    }
}
