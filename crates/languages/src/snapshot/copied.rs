//! The copy of a process, as readers of its heap ask it: crate `enter` has it made, and ends it.

use process::error::Error;
use process::memory::GuestMemory;
use std::io::Read;
use std::time::Instant;

/// A copy of a process, in which nothing runs but the agent.
pub trait CopiedProcess: Sync {
    /// Process id of the process that was copied, in the PID namespace of lancet.
    fn parent(&self) -> i32;

    /// Memory of the copy. Only its agent changes anything there, and only the agent's own data.
    fn memory(&self) -> &GuestMemory;

    /// Address of the VM's list of shapes and the size of one in bytes, if the copy has reported them.
    fn shapes(&self) -> Option<(u64, u64)>;

    /// Whether the VM's collector is switched on, if the agent has asked it.
    fn collector(&self) -> Option<bool>;

    /// Whether it has had its time: until then, and as much longer as it has waited for a processor.
    fn is_late(&self, until: Instant) -> bool;

    /// The pipe into which it writes what refers to what, which can be read until the instant `until`.
    fn pipe(&self, until: Instant) -> Box<dyn Read + '_>;
}

/// The error for a copy that failed, with the cause.
pub fn lost(parent: i32, reason: &str) -> Error {
    Error::NoCopy {
        pid: parent,
        reason: format!("its heap could not be read from a copy of it: {reason}"),
    }
}
