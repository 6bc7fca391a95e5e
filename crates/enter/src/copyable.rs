//! A process that makes a copy of itself at a safe point of its VM. Used by `languages`, `languages::entry` and others
//! here, and by crate `dump`.

use crate::copied::Copied;
use inject::Timing;
use languages::snapshot::Told;
use process::error::Result;
use std::fmt::Debug;
use std::ops::Range;
use vm::Language;

/// A process of which was seen, when it was opened, that it may be copied and that its heap can be read. Dropping this value leaves it.
pub trait Copyable: Debug {
    /// The language whose VM is copied: a process may have VMs of several.
    fn language(&self) -> Language;

    /// Its process id, in the PID namespace of lancet.
    fn pid(&self) -> i32;

    /// How its heap is read.
    fn heap(&self) -> &dyn Told;

    /// Where the variables of the module with the VM lie; empty where the reader of the heap has no use for them.
    fn data(&self) -> &[Range<u64>] {
        &[]
    }

    /// Address of the agent's ledger, in it and in its copy.
    fn ledger(&self) -> u64;

    /// Checks that births are still counted, if they were. A program that is about to do something beside which they cannot be waits for
    /// this: it is let go, and the error says that births are no longer counted.
    ///
    /// # Errors
    /// Births are no longer counted, with the cause; or the process is gone.
    fn look(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes the process copy itself; the copy reports its heap.
    ///
    /// # Errors
    /// The kernel refused the copy, or the process did not reach a safe point.
    fn copy(&mut self) -> Result<Copied>;

    /// Leaves the process, which reaps its copy first, and returns for how long it was stopped in all.
    ///
    /// # Errors
    /// The process could not be told to leave.
    fn leave(self: Box<Self>) -> Result<Timing>;
}
