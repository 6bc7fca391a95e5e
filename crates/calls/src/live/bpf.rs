//! A process whose system calls are seen by BPF programs at the kernel's tracepoints ([`tracepoint`]): nothing in it is changed, and none
//! of its threads stops. Used by `process`.
//!
//! All such processes of a run share one [`Seen`]. A record is assigned to a process by its id, and kept until that process has its turn.
//! What arguments point to is copied by the programs in the kernel, with the same words with which hooks and tracers copy it.

pub mod events;
mod exec_arguments;
pub mod programs;

use super::guest::{Shared, now_of, opened, table};
use super::traced::{FirstExec, end_of, signal_of};
use crate::Error;
use crate::event::{End, Event, EventKind};
use events::Telling;
use inject::lifecycle::{Stage, Turn, Watched};
use inject::tracee::{Happening, Tracee};
use process::pidfd::PidFd;
use programs::Seen;
use std::rc::Rc;
use std::time::Duration;
use tracepoint::Whose;

/// A process whose system calls BPF programs see, until it has ended, is left, or this value is dropped. Its id is then removed from the
/// programs' list; otherwise a later process with this id would be watched instead.
pub struct Bpf {
    pid: i32,
    seen: Rc<Seen>,
    /// `None`: its tracer sees its end, or the kernel has no such descriptors.
    held: Option<PidFd>,
    /// Whether [`EventKind::Opened`] was reported.
    introduced: bool,
    telling: Telling,
    end: Option<End>,
    /// The main thread of a program that lancet has started and goes on tracing.
    tracee: Option<Tracee>,
}

impl Bpf {
    /// Watches a process from now on.
    pub fn open(pid: i32, shared: &Shared<'_>) -> Result<Self, Error> {
        process::guest::Status::read(pid)?.check_to_watch()?;
        Bpf::new(pid, shared)
    }

    /// Watches a process that stands at its exec from then on.
    pub fn new(pid: i32, shared: &Shared<'_>) -> Result<Self, Error> {
        let refused = |why| Error::Bpf { pid, why };
        let Shared {
            args, signatures, ..
        } = shared;
        let whose = match args.follow {
            true => Whose::WithChildren,
            false => Whose::Alone,
        };
        let seen = shared
            .programs
            .get(args, whose, || table(args, signatures, false));
        let seen = seen.map_err(refused)?;
        seen.add(pid).map_err(|why| refused(why.into()))?;
        Ok(Bpf::made(pid, seen))
    }

    /// Sets it going from its exec; with `keep` lancet has started it, and goes on tracing it.
    pub fn begin(
        mut self,
        mut tracee: Tracee,
        keep: bool,
        exec: &FirstExec,
    ) -> Result<Self, (Tracee, process::Error)> {
        let gone = if keep {
            tracee.tell_signals();
            self.telling = Telling::of(exec.take());
            tracee.go_on(false)
        } else {
            tracee.let_go()
        };
        match gone {
            Err(error) => Err((tracee, error)),
            Ok(()) => {
                self.tracee = keep.then_some(tracee);
                Ok(self)
            }
        }
    }

    /// Makes the value for a process that the programs watch already.
    fn made(pid: i32, seen: Rc<Seen>) -> Self {
        Bpf {
            pid,
            seen,
            held: PidFd::open(pid).ok(),
            introduced: false,
            telling: Telling::default(),
            end: None,
            tracee: None,
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns how it has ended.
    pub fn ended(&self) -> Option<End> {
        self.end
    }

    /// Returns its main thread, if that is traced.
    pub fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.tracee
    }

    /// Handles an event at which the main thread of a started program stands.
    pub fn stands<P: Watched<Event = Event> + From<Bpf>>(
        &mut self,
        happening: Happening,
        turn: &mut Turn<'_, P>,
    ) {
        match happening {
            Happening::Ended(_) => {
                let end = end_of(self.tracee.as_ref());
                self.tell(&mut |event| turn.tell(event));
                return self.over(end, &mut |event| turn.tell(event));
            }
            Happening::Exec => return,
            Happening::Signal(signal) => {
                self.tell(&mut |event| turn.tell(event));
                let kind = EventKind::Signal(signal_of(self.pid, signal));
                turn.tell(now_of(self.pid, kind));
            }
            _ => {}
        }
        if let Some(tracee) = &mut self.tracee {
            // An error means that the process is gone; its end is reported next.
            let _ = tracee.go_on(false);
        }
    }

    /// Handles that another program runs in its place.
    pub fn gives_way(&mut self, tell: &mut dyn FnMut(Event)) {
        self.tell(tell);
        self.telling.ends(tell);
        tell(now_of(self.pid, EventKind::Ended(End::Replaced)));
    }

    /// Polls it once. Returns whether anything happened.
    pub fn poll<P: Watched<Event = Event> + From<Bpf>>(&mut self, turn: &mut Turn<'_, P>) -> bool {
        // This is checked before its records are read, so that all of them are there.
        let is_over = self.tracee.is_none() && self.has_ended();
        let any = self.tell(&mut |event| turn.tell(event));
        for child in self.seen.children() {
            let child = Bpf::made(child, self.seen.clone());
            turn.child(child.pid, Stage::Open(child.into()));
        }
        if is_over && self.end.is_none() {
            let end = self.telling.says().map_or(End::Unknown, End::Exited);
            self.over(end, &mut |event| turn.tell(event));
        }
        any
    }

    fn has_ended(&self) -> bool {
        match &self.held {
            Some(held) => held.has_ended(Duration::ZERO),
            None => match process::guest::Status::read(self.pid) {
                Ok(status) => status.has_ended(),
                Err(error) => error.is_end(),
            },
        }
    }

    fn over(&mut self, end: End, tell: &mut dyn FnMut(Event)) {
        self.end = Some(end);
        self.leave();
        self.telling.ends(tell);
        tell(now_of(self.pid, EventKind::Ended(end)));
    }

    /// Ends the watching. What was recorded before can still be read.
    pub fn leave(&self) {
        self.seen.remove(self.pid);
    }

    /// Makes events of its records. Returns whether there were any.
    pub fn tell(&mut self, tell: &mut dyn FnMut(Event)) -> bool {
        let mut any = self.seen.read();
        if !std::mem::replace(&mut self.introduced, true) {
            let opened = opened(self.pid, String::new());
            tell(now_of(self.pid, EventKind::Opened(opened)));
            any = true;
        }
        for record in self.seen.unread(self.pid) {
            self.telling.tell(record, &*self.seen, tell);
            any = true;
        }
        any
    }
}

/// Ends the watching also where lancet ends by an error or a panic.
impl Drop for Bpf {
    fn drop(&mut self) {
        self.leave();
        self.seen.forget(self.pid);
    }
}
