//! The threads that are about to run another program, of all processes that a command watches. Used by `processes` and
//! `watched`, and by `calls::live::guest::life`.
//!
//! A thread that calls `execve` posts a notice and waits until we have seized it; if the call fails it posts another and
//! does not wait. `execvp` tries each directory of `PATH`, so "failed" and "about to run another program" of one thread
//! are often read together. Both must be handled at once and in the order in which they were posted. If letting go were
//! delayed, the thread would still be seized when it must be seized again, which the kernel refuses with EPERM, and
//! would then be let go although it runs another program next.

use super::seized::{Became, Seized};
use crate::tracee::Tracee;
use process::error::Result;

/// The threads that were seized and have not reached their exec yet.
#[derive(Debug, Default)]
pub struct Execs(Vec<Seized>);

impl Execs {
    /// Seizes thread `tid` of process `pid`, which waits for us before its `execve`. A thread that is seized already
    /// stays seized.
    ///
    /// # Errors
    /// Those of `seize`: another process traces the thread, or it is gone. `Ok(false)` means that `seize` declined it.
    pub fn follow(
        &mut self,
        tid: i32,
        seize: impl FnOnce() -> Result<Option<Seized>>,
    ) -> Result<bool> {
        if self.0.iter().all(|seized| seized.tid() != tid) {
            let Some(seized) = seize()? else {
                return Ok(false);
            };
            self.0.push(seized);
        }
        Ok(true)
    }

    /// Lets thread `tid` go, because its `execve` has failed.
    pub fn failed(&mut self, tid: i32) {
        if let Some(at) = self.0.iter().position(|seized| seized.tid() == tid) {
            self.0.remove(at).let_go();
        }
    }

    /// Whether `id` is a seized thread, or a process that has one.
    pub fn knows(&self, id: i32) -> bool {
        let mut all = self.0.iter();
        all.any(|seized| seized.tid() == id || seized.pid() == id)
    }

    /// Whether no thread is seized.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks all seized threads without waiting. Returns whether anything has happened to one, and the processes that
    /// stand at the first instruction of another program.
    pub fn poll(&mut self) -> (bool, Vec<Tracee>) {
        let before = self.0.len();
        let mut there = Vec::new();
        self.0.retain(|seized| match seized.poll() {
            Became::Going => true,
            Became::Gone => false,
            Became::There(tracee) => {
                there.push(tracee);
                false
            }
        });
        (self.0.len() != before, there)
    }

    /// Forgets the threads of a process that runs another program, because the kernel has ended all but one.
    pub fn forget(&mut self, pid: i32) {
        self.0.retain(|seized| seized.pid() != pid);
    }

    /// Lets the threads of one process go, because the command leaves that: what it says of execs need not be true, and a thread that
    /// stays seized would be in the way of whoever opens it next.
    pub fn let_go_of(&mut self, pid: i32) {
        for seized in self.0.extract_if(.., |seized| seized.pid() == pid) {
            seized.let_go();
        }
    }

    /// Lets all threads go, because the command leaves.
    pub fn let_go(&mut self) {
        for seized in self.0.drain(..) {
            seized.let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::guest::Status;
    use std::process::Command;

    #[test]
    fn a_thread_that_tries_one_path_after_another_is_seized_once() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id() as i32;
        let mut execs = Execs::default();
        execs
            .follow(pid, || Seized::seize(pid, pid).map(Some))
            .expect("seized");
        execs
            .follow(pid, || Seized::seize(pid, pid).map(Some))
            .expect("it is ours already");
        execs.failed(pid);
        assert!(execs.is_empty());
        execs
            .follow(pid, || Seized::seize(pid, pid).map(Some))
            .expect("seized again");
        execs.let_go();
        let status = Status::read(pid).expect("alive");
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_ne!(status.state, 't', "nobody traces it");
    }

    #[test]
    fn only_threads_of_the_process_that_is_left_are_let_go() {
        let mut children = [0; 2].map(|_| Command::new("sleep").arg("60").spawn().expect("sleep"));
        let [left, other] = [0, 1].map(|at: usize| children[at].id() as i32);
        let mut execs = Execs::default();
        for pid in [left, other] {
            execs
                .follow(pid, || Seized::seize(pid, pid).map(Some))
                .expect("seized");
        }
        execs.let_go_of(left);
        let traced = [left, other].map(|pid| Status::read(pid).expect("alive").tracer != 0);
        let known = [left, other].map(|pid| execs.knows(pid));
        execs.let_go();
        for child in &mut children {
            child.kill().expect("killed");
            child.wait().expect("ended");
        }
        assert_eq!((traced, known), ([false, true], [false, true]));
    }
}
