//! Brings a Python to collect its garbage by itself, where its main thread waits in a call and so cannot be made to.
//! Used by `counted`.
//!
//! The counts by which the VM decides when it collects, and what, are raised, so that some objects later it collects all garbage, on the thread
//! that makes them and where one of its own collections may come ([`vm::python::Automatic`]). That collection sets the counts back. Where no
//! thread makes objects none comes, and the counts are written back; also where the main thread has come back from its call meanwhile, because
//! it may hold a lock around that call. They are words that the VM counts in all the time: what is written while it does may be lost, or count
//! what was counted before; a collection then comes earlier or later, and nothing else. While the VM collects nothing is written.
//!
//! A child that is forked meanwhile has the raised counts too, and would collect all that it has inherited, which makes pages its own that it
//! has shared. So a process that has children of its own program is left alone.

use super::counted::CountedPython;
use crate::counted::Awaited;
use process::error::Result;
use process::guest::{self, Status};
use process::memory::GuestMemory;
use process::proc_file;
use process::status_file::StatusFile;
use std::time::{Duration, Instant};
use vm::python;
use vm::python::{Automatic, Counts};

/// A collection that the VM is to run by itself.
#[derive(Debug)]
pub(super) struct Due {
    automatic: Automatic,
    before: Counts,
    written: Counts,
    /// How often the main thread had gone to sleep.
    slept: Option<u64>,
    /// When it was last seen not to collect.
    idle: Instant,
    /// How long it took, once it has run.
    took: Option<Duration>,
}

impl CountedPython {
    /// Has the VM collect soon, if its main thread waits and the program has not kept the VM from collecting. Returns whether that is to be
    /// waited for, by [`awaited`](Self::awaited).
    ///
    /// # Errors
    /// The guest is gone.
    pub(super) fn raise_counts(&mut self) -> Result<bool> {
        self.write_back();
        let pid = self.python.entered.pid();
        if self.due.is_some() || !waits(Status::read(pid)?.state) || has_copies(pid) {
            return Ok(false);
        }
        let slept = times_slept(pid);
        let found = self.counts_due();
        let Some((automatic, before, written)) = found.unwrap_or(None) else {
            return Ok(false);
        };
        automatic.each_word(written, |at, bytes| {
            self.python.entered.memory.write(at, bytes)
        })?;
        self.due = Some(Due {
            automatic,
            before,
            written,
            slept,
            idle: Instant::now(),
            took: None,
        });
        Ok(true)
    }

    /// Where the VM counts, what stands there, and what is to.
    fn counts_due(
        &self,
    ) -> std::result::Result<Option<(Automatic, Counts, Counts)>, python::Error> {
        let memory: &GuestMemory = &self.python.entered.memory;
        let python = python::Python::new(&memory, self.python.facts)?;
        if python.is_collector_on()? != Some(true) || python.is_collecting()? {
            return Ok(None);
        }
        let Some(automatic) = python.automatic()? else {
            return Ok(None);
        };
        let now = automatic.counts(&memory)?;
        let due = automatic.due(&memory, now)?;
        Ok(due.map(|due| (automatic, now, due)))
    }

    /// What of the collection is still awaited.
    pub(super) fn awaited(&mut self) -> Awaited {
        let Some(mut due) = self.due.take_if(|due| due.took.is_none()) else {
            return Awaited::Nothing;
        };
        let looked = Instant::now();
        // What cannot be read is not waited for.
        let Some((is_collecting, now)) = self.look_at(&due) else {
            return Awaited::Nothing;
        };
        if is_collecting {
            self.due = Some(due);
            return Awaited::End;
        }
        if due.written.are_spent(now) {
            due.took = Some(due.idle.elapsed());
            self.due = Some(due);
            return Awaited::Nothing;
        }
        due.idle = looked;
        let has_come_back = times_slept(self.python.entered.pid()) != due.slept;
        self.due = Some(due);
        if !has_come_back {
            return Awaited::Beginning;
        }
        self.write_back();
        match self.due {
            Some(_) => Awaited::End,
            None => Awaited::Nothing,
        }
    }

    /// Whether the VM collects now, and its counts; `None` if that cannot be read, or these are no longer where they were.
    fn look_at(&self, due: &Due) -> Option<(bool, Counts)> {
        let memory: &GuestMemory = &self.python.entered.memory;
        let python = python::Python::new(&memory, self.python.facts).ok()?;
        // In this order: one that ends in between is seen at the next look.
        let now = due.automatic.counts(&memory).ok()?;
        let is_collecting = python.is_collecting().ok()?;
        let is_there = python.automatic().ok()? == Some(due.automatic);
        is_there.then_some((is_collecting, now))
    }

    /// Writes the counts as they would be if they had not been raised, unless all garbage was collected since. While the VM collects they stay,
    /// and so does [`due`](Self::due).
    pub(super) fn write_back(&mut self) {
        let Some(due) = self.due.take_if(|due| due.took.is_none()) else {
            self.due = None;
            return;
        };
        let Some((is_collecting, now)) = self.look_at(&due) else {
            return;
        };
        if is_collecting {
            self.due = Some(due);
        } else if !due.written.are_spent(now) {
            let counts = due.before.without(due.written, now);
            let memory: &GuestMemory = &self.python.entered.memory;
            // A guest that is gone is noticed when it is asked.
            let _ = due
                .automatic
                .each_word(counts, |at, bytes| memory.write(at, bytes));
        }
    }

    /// Returns how long the collection took, if it has come and ended. If none has begun the counts are as they would be without it.
    pub(super) fn collected(&mut self) -> Option<Duration> {
        match self.awaited() {
            Awaited::Nothing => self.due.take()?.took,
            Awaited::Beginning | Awaited::End => {
                self.write_back();
                None
            }
        }
    }
}

/// Whether a main thread in this state waits in a call: it neither runs, nor is it stopped or about to end, in which no thread makes objects.
fn waits(state: char) -> bool {
    matches!(state, 'S' | 'D')
}

/// Whether a process has children that run the program which it runs itself.
fn has_copies(pid: i32) -> bool {
    let program = |pid| std::fs::read_link(proc_file::path(pid, "exe")).ok();
    let own = program(pid);
    let mut children = guest::children(pid).into_iter();
    own.is_some() && children.any(|child| program(child) == own)
}

/// How often the main thread of a process has gone to sleep by itself (`voluntary_ctxt_switches`, fs/proc/array.c).
fn times_slept(pid: i32) -> Option<u64> {
    let status = StatusFile::of_thread(pid, pid).ok()?;
    status.number("voluntary_ctxt_switches")
}

#[cfg(test)]
mod tests {
    use super::{has_copies, times_slept, waits};
    use std::process::{Command, Stdio};

    #[test]
    fn only_a_thread_that_waits_is_waited_for() {
        assert!(waits('S') && waits('D'));
        for state in ['R', 'T', 't', 'Z', 'X', 'I'] {
            assert!(!waits(state), "{state}");
        }
    }

    /// A shell that runs a shell in its place of another program's.
    #[test]
    fn children_of_the_same_program_are_copies() {
        let copies = |inner: &str| {
            let script = format!("{inner} & echo; read line; kill $!");
            let mut shell = Command::new("/bin/sh")
                .args(["-c", &script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a shell");
            let pid = i32::try_from(shell.id()).expect("an id");
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
            // The child is a copy of the shell until its exec.
            let wanted = !inner.starts_with("exec");
            let has_child = || !process::guest::children(pid).is_empty();
            while !has_child() || has_copies(pid) != wanted {
                assert!(std::time::Instant::now() < deadline, "{inner}");
                std::thread::yield_now();
            }
            drop(shell.stdin.take());
            shell.wait().expect("ended");
        };
        copies("(while :; do :; done)");
        copies("exec sleep 100");
    }

    #[test]
    fn a_thread_that_comes_back_is_seen() {
        let pid = i32::try_from(std::process::id()).expect("an id");
        assert!(times_slept(pid).is_some());
        assert_eq!(times_slept(i32::MAX), None);
    }
}
