//! What one look at a process tells. Used by `between_looks`, `open` and `running`.

use std::collections::HashSet;
use std::time::Duration;

use process::room::Room;

use super::scripts::NotRead;
use super::stack::Stack;

/// What was seen in one stop of a process.
#[derive(Debug)]
pub struct Look {
    /// Every thread's stack, the main one first, then those that are parked.
    pub stacks: Vec<Stack>,
    /// How much memory each stack has, in the same order.
    pub rooms: Vec<Room>,
    /// Whether all parked stacks were found.
    pub all: bool,
    /// Of VMs whose script frames, or whose lines, cannot be read, why.
    pub unread: Vec<String>,
    /// Of VMs of versions without a table, by what they are read.
    pub notes: Vec<String>,
    /// Of VMs, what was asked for and not read in this look.
    pub not_read: Vec<NotRead>,
    /// Whether no thread goes on, because each waits without a time limit for what only the process itself can give.
    pub standstill: bool,
    /// How long the process stood still, at most: the time of tries that failed is in it.
    pub stopped: Duration,
    /// How many bytes were copied.
    pub copied: u64,
    /// Threads that were not read for this look, because they have slept since the one before (`Live::look_again`).
    pub kept: HashSet<i32>,
    /// Threads that fell asleep while those that slept before were read. They are read all the same, but do not tell of this look: see
    /// `profile::waits`.
    pub late: HashSet<i32>,
    /// Threads that waited for a processor and were not read, as `Wanted::running` allows.
    pub queued: Vec<i32>,
    /// How often a thread on a processor had to be copied once more, because what was copied of it did not hold all of its frames.
    pub again: u64,
    /// Why the look was made by stops, where threads that run were to be copied on their processors (`Wanted::running`).
    pub why_stopped: Option<String>,
}
