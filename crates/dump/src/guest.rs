//! The process of which snapshots are made, whatever its language; whoever takes one opens it (`Guest::open`).

use crate::outside::Outside;
use enter::copied::Copied;
use enter::copy::Copy;
use enter::{Books, Copyable, Counting, Opening, Timing, open_to_copy};
use heap::Builder;
use inject::Image;
use languages::snapshot::Beside;
use languages::snapshot::births::Births;
use process::error::{Error, Result};
use std::time::Instant;
use vm::Language;
use wire::Purpose;

/// The process of which snapshots are made, entered as its language requires. Dropping this value leaves it.
#[derive(Debug)]
pub enum Guest {
    /// One whose VM is called at a safe point, and how the books of its births are read, if they are counted.
    Asked(Box<dyn Copyable>, Option<Books>),
    /// A process whose VM is not called.
    Outside(Box<Outside>),
}

impl Guest {
    /// Opens a process to make a snapshot of it. With `counting` births are counted from then on.
    ///
    /// # Errors
    /// The process has no VM, or cannot be opened, or not be copied.
    pub fn open(pid: i32, image: &Image, counting: Option<&Counting>) -> Result<Self> {
        let plain = Opening::plain(Purpose::Snapshot);
        let opening = counting.map_or(plain, |counting| counting.opening);
        match open_to_copy(pid, image, opening, counting.is_some())? {
            Ok(vm) => Ok(Guest::Asked(vm, counting.map(|counting| counting.books))),
            Err(reason) => {
                let outside = Outside::open(pid, image)?;
                let outside = outside.ok_or(Error::NoHeap { pid, reason })?;
                Ok(Guest::Outside(Box::new(outside)))
            }
        }
    }

    /// Returns the process id of the guest, in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        match self {
            Guest::Asked(vm, _) => vm.pid(),
            Guest::Outside(outside) => outside.pid(),
        }
    }

    /// Its language, and the version that the VM reports.
    pub fn language(&self) -> (Language, String) {
        match self {
            Guest::Asked(vm, _) => (vm.language(), vm.heap().vm_version()),
            Guest::Outside(outside) => outside.language(),
        }
    }

    /// For how many objects the heap of its copy has room, where the VM says so; it has so many bytes in memory.
    pub fn slots(&self, copy: &Copy, resident: u64) -> Option<u64> {
        match self {
            Guest::Asked(vm, _) => vm.heap().slots(&copy.memory, resident),
            Guest::Outside(_) => None,
        }
    }

    /// Bytes of a page of the heap that its VM can compact; `None` = its language has no compaction.
    pub fn page_of_compaction(&self) -> std::result::Result<Option<u64>, String> {
        match self {
            Guest::Asked(vm, _) => vm.heap().page_of_compaction(),
            Guest::Outside(_) => Ok(None),
        }
    }

    /// Checks that births are still counted. No snapshot is made of a process of which they are not, as its births from there on would have
    /// no line.
    ///
    /// # Errors
    /// Births are no longer counted, with the cause; or the process is gone.
    pub fn look(&mut self) -> Result<()> {
        match self {
            Guest::Asked(vm, _) => vm.look(),
            Guest::Outside(_) => Ok(()),
        }
    }

    /// Makes the process copy itself.
    ///
    /// # Errors
    /// The kernel refused the copy, or the process did not reach a safe point.
    pub fn copy(&mut self) -> Result<Copied> {
        match self {
            Guest::Asked(vm, _) => vm.copy(),
            Guest::Outside(outside) => outside.copy(),
        }
    }

    /// Reads everything from the copy; returns the builder and how many objects were left out as garbage. `since` is when births have
    /// been counted from, in nanoseconds since 1970.
    ///
    /// # Errors
    /// The copy ended too early, hung, or wrote what makes no sense.
    pub fn read(
        &self,
        copy: &Copy,
        builder: Builder,
        since: Option<u64>,
        until: Instant,
    ) -> Result<(Builder, u64)> {
        match self {
            Guest::Asked(vm, books) => {
                let books = books.map(|open| open(&copy.memory, vm.ledger()));
                let births = books.transpose()?.zip(since);
                let births = births.map(|((sites, lines), since)| Births::new(sites, lines, since));
                let beside = Beside {
                    data: vm.data(),
                    births,
                    until,
                };
                vm.heap().of_copy(copy, beside, builder)
            }
            Guest::Outside(outside) => {
                let builder = outside.read(copy, builder, until)?;
                Ok((builder, 0))
            }
        }
    }

    /// Leaves the process, which reaps its copy first, and returns for how long it was stopped in all.
    ///
    /// # Errors
    /// The process could not be told to leave.
    pub fn leave(self) -> Result<Timing> {
        match self {
            Guest::Asked(vm, _) => vm.leave(),
            Guest::Outside(outside) => outside.leave(),
        }
    }
}
