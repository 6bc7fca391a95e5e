//! The memory of a process, of which only what is there is read. Used by the crates `rss` and `languages`.
//!
//! Reading a page that a process has never touched would give it a page table, and one of a file would be counted as its own from
//! then on. So what is in neither memory nor swap reads as zeros here where it is anonymous, and comes from the file otherwise:
//! that is what the process would find. A page in swap comes back when it is read. Blocks are kept: what a walk has read does not change
//! under it, though the process runs on. A walk that met a change goes back a little after [`ResidentMemory::forget_from`], or begins anew after
//! [`ResidentMemory::forget`], also with what is mapped by then.

#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Instant;

use vm::{Fault, Memory};

use crate::maps::PAGE;
use crate::memory::GuestMemory;
use crate::modules::GuestFiles;
use crate::runs::{Run, runs, within};
use crate::smaps::{Area, areas};

/// Bytes of a block.
const BLOCK: u64 = 64 << 10;
/// Pages of a block.
const PAGES: u64 = BLOCK / PAGE;
/// Blocks that are kept: 64 MiB.
const KEPT: usize = 1024;
/// Files that are kept open.
const MOST_FILES: usize = 128;

/// The memory of one process as the walks of one ledger read it, with the blocks that were read. What it returns may be older than the process's
/// memory by now: [`ResidentMemory::forget`] must be called before a walk that met a change is begun anew.
pub struct ResidentMemory<'a> {
    memory: &'a GuestMemory,
    mapped: RefCell<Mapped>,
    until: Instant,
    blocks: RefCell<Vec<Option<Block>>>,
    late: Cell<bool>,
    reads: Cell<u32>,
    files: GuestFiles,
    /// Files that are open, by the start of their mappings; `None` = the file cannot be opened.
    open: RefCell<HashMap<u64, Option<File>>>,
}

#[derive(Clone)]
struct Mapped {
    areas: Rc<[Area]>,
    runs: Rc<[Run]>,
}

struct Block {
    start: u64,
    bytes: Box<[u8]>,
    /// A bit for each page that is mapped and could be read.
    readable: u16,
}

impl<'a> ResidentMemory<'a> {
    /// Returns a cache in which nothing has been read yet. After `until` nothing is read any more, so that every walk ends.
    pub fn new(memory: &'a GuestMemory, areas: &[Area], runs: &[Run], until: Instant) -> Self {
        let mut blocks = Vec::new();
        blocks.resize_with(KEPT, || None);
        ResidentMemory {
            memory,
            mapped: RefCell::new(Mapped {
                areas: areas.into(),
                runs: runs.into(),
            }),
            until,
            blocks: RefCell::new(blocks),
            late: Cell::new(false),
            reads: Cell::new(0),
            files: GuestFiles::of(memory.pid()),
            open: RefCell::default(),
        }
    }

    /// Whether the time is up; then nothing more is read, and what is left is not known.
    pub fn is_over(&self) -> bool {
        if Instant::now() > self.until {
            self.late.set(true);
        }
        self.late.get()
    }

    /// Reads everything anew from now on, if there is time left: the guest's own mappings wait while the kernel lists them.
    pub fn forget(&self) {
        if self.is_over() {
            return;
        }
        self.blocks.borrow_mut().fill_with(|| None);
        self.open.borrow_mut().clear();
        let pid = self.memory.pid();
        if let Ok(areas) = areas(pid)
            && let Ok((runs, _)) = runs(pid, &areas)
        {
            *self.mapped.borrow_mut() = Mapped {
                areas: areas.into(),
                runs: runs.into(),
            };
        }
    }

    /// Reads the blocks from the one of `at` on anew, of the same mappings.
    pub fn forget_from(&self, at: u64) {
        let start = at & !(BLOCK - 1);
        for kept in self.blocks.borrow_mut().iter_mut() {
            kept.take_if(|block| block.start >= start);
        }
    }

    /// Pages of the process that are in memory or in swap, as they were read last.
    pub fn runs(&self) -> Rc<[Run]> {
        Rc::clone(&self.mapped.borrow().runs)
    }

    /// Mappings of the process, as they were read last.
    pub fn areas(&self) -> Rc<[Area]> {
        Rc::clone(&self.mapped.borrow().areas)
    }

    /// Whether the time was up before everything had been read.
    pub fn is_late(&self) -> bool {
        self.late.get()
    }

    /// Reads a block, into the memory of the one in whose place it comes.
    fn block(&self, start: u64, last: Option<Block>) -> Block {
        let is_new = last.is_none();
        let bytes = last.map_or_else(
            || vec![0; BLOCK as usize].into_boxed_slice(),
            |last| last.bytes,
        );
        let mut block = Block {
            start,
            bytes,
            readable: 0,
        };
        if self.is_over() {
            return block;
        }
        let end = start.saturating_add(BLOCK);
        let Mapped { areas, runs } = self.mapped.borrow().clone();
        let there = within(&runs, start, end);
        let is_whole = matches!(there, [run] if run.start <= start && run.end >= end);
        if !is_new && !is_whole {
            block.bytes.fill(0);
        }
        let first = areas.partition_point(|area| area.mapping.end <= start);
        for area in areas.iter().skip(first) {
            let mapping = &area.mapping;
            if mapping.start >= end {
                break;
            }
            let (from, to) = (mapping.start.max(start), mapping.end.min(end));
            if !mapping.permissions.read {
                continue;
            }
            if mapping.inode == 0 {
                block.mark(from, to);
            } else {
                self.fill_from_file(&mut block, area, from, to);
            }
            for run in within(&runs, from, to) {
                self.fill(&mut block, run.start.max(from), run.end.min(to));
            }
        }
        block
    }

    /// Reads a part of a block.
    fn fill(&self, block: &mut Block, from: u64, to: u64) {
        let within = (from - block.start) as usize..(to - block.start) as usize;
        if self
            .memory
            .read_bytes(from, &mut block.bytes[within])
            .is_ok()
        {
            block.mark(from, to);
        } else {
            block.unmark(from, to);
        }
    }

    /// Reads a part of a block in the file that is mapped there; in memory where that file cannot be had.
    fn fill_from_file(&self, block: &mut Block, area: &Area, from: u64, to: u64) {
        let mapping = &area.mapping;
        let mut open = self.open.borrow_mut();
        if open.len() >= MOST_FILES {
            open.clear();
        }
        let file = open
            .entry(mapping.start)
            .or_insert_with(|| self.files.open_mapping(mapping));
        let within = (from - block.start) as usize..(to - block.start) as usize;
        let offset = mapping.offset.saturating_add(from - mapping.start);
        match file {
            // Behind the end of the file are zeros, up to the end of the page.
            Some(file) if file.read_at(&mut block.bytes[within], offset).is_ok() => {
                block.mark(from, to)
            }
            _ => self.fill(block, from, to),
        }
    }

    /// Whether the time is up. The clock is asked at each 4096th read.
    fn time_is_up(&self) -> bool {
        let reads = self.reads.get().wrapping_add(1);
        self.reads.set(reads);
        if reads.is_multiple_of(4096) && Instant::now() > self.until {
            self.late.set(true);
        }
        self.late.get()
    }

    fn piece(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        if self.time_is_up() {
            return Err(Fault { at });
        }
        let start = at & !(BLOCK - 1);
        let place = (start / BLOCK) as usize % KEPT;
        let mut blocks = self.blocks.borrow_mut();
        let kept = &mut blocks[place];
        if kept.as_ref().is_none_or(|block| block.start != start) {
            *kept = Some(self.block(start, kept.take()));
        }
        let within = at - start;
        let block = kept.as_ref().ok_or(Fault { at })?;
        let (first, last) = (within / PAGE, (within + into.len() as u64 - 1) / PAGE);
        if (first..=last).any(|page| block.readable >> page & 1 == 0) {
            return Err(Fault { at });
        }
        let within = within as usize;
        into.copy_from_slice(&block.bytes[within..within + into.len()]);
        Ok(())
    }
}

impl Block {
    fn bits(&self, from: u64, to: u64) -> u16 {
        let pages = (from - self.start) / PAGE..(to - self.start).div_ceil(PAGE).min(PAGES);
        pages.fold(0, |bits, page| bits | 1 << page)
    }

    fn mark(&mut self, from: u64, to: u64) {
        self.readable |= self.bits(from, to);
    }

    fn unmark(&mut self, from: u64, to: u64) {
        self.readable &= !self.bits(from, to);
    }
}

impl Memory for ResidentMemory<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let end = at.checked_add(into.len() as u64).ok_or(Fault { at })?;
        let mut from = at;
        while from < end {
            let next = (from & !(BLOCK - 1)).saturating_add(BLOCK).min(end);
            let (begin, stop) = ((from - at) as usize, (next - at) as usize);
            self.piece(from, &mut into[begin..stop])?;
            from = next;
        }
        Ok(())
    }
}
