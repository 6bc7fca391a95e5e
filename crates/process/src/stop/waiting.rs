//! Waits until the threads of a stop stand still. Used by `inject::tracee`.
//!
//! One of them may begin another program meanwhile. Its exec ends the others and waits until we have heard of their ends; then it gives the thread
//! the id of the process (`de_thread`, fs/exec.c), under which it is waited for from then on.

use super::Stop;
use super::late::{Waited, hearing_ends, is_first_now, wait_until_interrupted};
use super::state::wait_channel;
use crate::error::{Error, Result};
use crate::interrupted;
use crate::ptrace::{self, Bounded};
use std::cell::RefCell;
use std::time::Instant;

thread_local! {
    /// Signals that came for a thread of a program we started while it was being stopped. They are not reported elsewhere.
    static HANDED_ON: RefCell<Vec<(i32, i32)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the signals that thread `tid` got on its way to a stop since the last call.
pub fn handed_on(tid: i32) -> Vec<i32> {
    HANDED_ON.with_borrow_mut(|all| {
        let own = all.extract_if(.., |(of, _)| *of == tid);
        own.map(|(_, signal)| signal).collect()
    })
}

impl Stop {
    /// Waits until every thread stands still. Threads that end meanwhile are dropped from the list.
    pub(super) fn wait_for_all(&mut self, deadline: Instant) -> Result<()> {
        // One timer bounds the waits for all of them.
        let _waits = Bounded::begin();
        // The thread that was interrupted last comes first: when it stands, most of the others do, so that hardly any is waited for.
        for at in (0..self.threads.len()).rev() {
            while self.threads[at].interrupted
                && !self.threads[at].stopped
                && self.wait_for(at, deadline)?
            {}
        }
        self.threads
            .retain(|thread| thread.stopped || !thread.interrupted);
        Ok(())
    }

    /// Waits until a thread stands still, or has ended. Returns whether it must be waited for again, under another id.
    fn wait_for(&mut self, at: usize, deadline: Instant) -> Result<bool> {
        let tid = self.threads[at].tid;
        let mut handed_on = Vec::new();
        let waited = self.until_interrupted(tid, deadline, &mut handed_on);
        if self.threads[at].kept {
            let handed_on = handed_on.into_iter().map(|signal| (tid, signal));
            HANDED_ON.with_borrow_mut(|all| all.extend(handed_on));
        }
        match waited? {
            Waited::Stopped(signal) => {
                self.threads[at].stopped = true;
                self.threads[at].grouped = signal != libc::SIGTRAP;
                match self.waiting.get_mut(&tid) {
                    Some(slept) => slept.confirm(),
                    None => interrupted::repeat_call(self.pid, tid),
                }
            }
            Waited::Unknown if is_first_now(self.pid, tid) => return self.follow(at),
            Waited::Gone | Waited::Unknown => {}
            Waited::At(event) => {
                // It stands at an event, which its tracer must handle.
                ptrace::put_back(tid, event);
                self.threads.remove(at);
                return Err(Error::AtEvent { tid });
            }
            Waited::Late => {
                return Err(Error::WouldNotStop {
                    pid: self.pid,
                    tid,
                    place: wait_channel(self.pid, tid),
                });
            }
        }
        Ok(false)
    }

    /// Waits for a thread, and hears of the ends of others for which an exec may be waiting.
    fn until_interrupted(
        &self,
        tid: i32,
        deadline: Instant,
        handed_on: &mut Vec<i32>,
    ) -> Result<Waited> {
        let waited = hearing_ends(tid, deadline, |until| {
            match wait_until_interrupted(tid, until, handed_on) {
                Waited::Late => None,
                waited => Some(waited),
            }
        });
        let waited = waited.map_err(|_| Error::AtEvent { tid: self.pid })?;
        Ok(waited.unwrap_or(Waited::Late))
    }

    /// Goes on with a thread under the id that its exec has given it. Returns whether it is still the one at this place of the list.
    fn follow(&mut self, at: usize) -> Result<bool> {
        // What the list has of that id is of the thread that had it before, which is dead, or was heard of the new one already.
        let kept = self.threads[at].kept;
        let first = self.threads.iter().position(|one| one.tid == self.pid);
        let stands = || stands_heard(self.pid);
        if let Some(first) = first.filter(|first| self.threads[*first].stopped && stands()) {
            self.threads[first].kept |= kept;
            return Ok(false);
        }
        let place = match first {
            // It is waited for later.
            Some(first) if first < at => first,
            Some(first) => {
                self.threads[first].stopped = false;
                at
            }
            None => at,
        };
        let thread = &mut self.threads[place];
        (thread.tid, thread.stopped, thread.grouped) = (self.pid, false, false);
        thread.kept |= kept;
        // It may have been asked by the id that it does not have any more.
        thread.interrupt(self.pid)?;
        Ok(place == at)
    }
}

/// Whether a thread that we trace stands, and that was heard.
fn stands_heard(tid: i32) -> bool {
    ptrace::signal_information(tid).is_ok() && !ptrace::is_unheard(tid)
}
