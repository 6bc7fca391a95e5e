//! A guest among the processes of one run ([`inject::lifecycle`]): what is done at each of its turns.
//!
//! Only the started program's main thread is traced, for its exit code and its signals. Everything else is told by
//! notices: a thread before its exec, a child of fork.

use super::{Shared, now_of};
use crate::Message;
use crate::debug::{self, say};
use crate::event::{End, EventKind};
use crate::live::guest::Guest;
use hooks::Arrives;
use inject::lifecycle::{Observer, Stage, Turn, Watched, leave_past_events};
use inject::tracee::{Happening, Tracee};
use process::error::{Error, Result};
use std::convert::Infallible;

impl Watched for Guest {
    const TRACES_ALL: bool = false;
    type Shared<'a> = Shared<'a>;
    /// It is hooked at its first instruction.
    type Start = Infallible;
    type Event = crate::event::Event;
    type Error = crate::Error;

    fn open(pid: i32, shared: &Shared<'_>) -> std::result::Result<Self, crate::Error> {
        Guest::open(pid, shared.args, &shared.image, shared.signatures)
    }

    fn at_exec(
        tracee: Tracee,
        keep: bool,
        shared: &Shared<'_>,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        Guest::begin(tracee, keep, shared.args, &shared.image, shared.signatures).map(Stage::Open)
    }

    fn go_on(start: &Infallible, _: &mut Tracee) -> Result<()> {
        match *start {}
    }

    fn proceed(
        start: Infallible,
        _: Tracee,
        _: bool,
        _: &Shared<'_>,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        match start {}
    }

    fn leave_start(start: &mut Infallible) -> Result<()> {
        match *start {}
    }

    fn opened(&self, _: &mut dyn Observer<Self>) {}

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.tracee
    }

    fn stands(&mut self, happening: Happening, shared: &Shared<'_>, turn: &mut Turn<'_, Self>) {
        // Children that are ready come before the exec or the end of their parent.
        self.poll_children(shared.args, turn);
        let pid = self.pid();
        self.tell_handed_on(turn);
        say(
            shared.args,
            debug::EVENT,
            format_args!("process {pid} stands at {happening:?}"),
        );
        match happening {
            Happening::Ended(_) => {
                let end = self.tracee.as_ref().and_then(Tracee::end);
                let end = end.map_or(End::Unknown, |end| match end {
                    Ok(code) => End::Exited(code),
                    Err(signal) => End::Killed(signal),
                });
                self.drain(&mut |event| turn.tell(event));
                return self.end(end, &mut |event| turn.tell(event));
            }
            Happening::Exec => {
                self.life.leaves = true;
                return self.end(End::Replaced, &mut |event| turn.tell(event));
            }
            Happening::Signal(signal) => {
                self.read(&mut |event| turn.tell(event));
                turn.tell(now_of(pid, EventKind::Signal(signal)));
            }
            Happening::Ending => self.read_all(&mut |event| turn.tell(event)),
            Happening::Syscall | Happening::Fork(_) | Happening::Vfork(_) => {}
        }
        let arrives = self.tracing.arrives() == Arrives::AtThread;
        if arrives && happening == Happening::Syscall && self.tracing.has_thread_pointer() {
            self.arrive(shared.signatures);
        } else if let Some(tracee) = &mut self.tracee {
            // An error means that it is gone, and its end comes next.
            let _ = tracee.go_on(arrives);
        }
    }

    fn is_unseen(&mut self) {
        self.gone = true;
    }

    fn poll(&mut self, shared: &Shared<'_>, turn: &mut Turn<'_, Self>) -> bool {
        let mut any = self.poll_children(shared.args, turn);
        if self.life.end.is_some() {
            return any;
        }
        self.tell_handed_on(turn);
        self.end_silence();
        any |= self.handle_notices(shared, turn).unwrap_or(false);
        if self.tracing.has_news().unwrap_or(false) {
            // What a library told that goes now is told while it is known.
            self.drain(&mut |event| turn.tell(event));
            if let Err(error) = self.follow(shared.signatures) {
                self.report_error(error);
            }
        }
        if self.names.are_due()
            && let Err(error) = self.look_for_names(shared.signatures)
        {
            self.report_error(error);
        }
        any |= self.read(&mut |event| turn.tell(event));
        if self.gone && self.tracee.is_none() {
            self.is_gone(&mut |event| turn.tell(event));
        }
        any
    }

    fn is_over(&self) -> bool {
        self.life.end.is_some() && self.life.children.is_empty()
    }

    fn code(&self) -> Option<i32> {
        match self.life.end? {
            End::Exited(code) => Some(code),
            End::Killed(signal) => Some(128 + signal),
            End::Unknown | End::Replaced => None,
        }
    }

    /// Takes the hooks out; what was told before can still be read.
    fn leave(&mut self) -> Result<()> {
        self.end_silence();
        if !leave_past_events(self.tracee.as_mut(), || self.tracing.leave())? {
            let pid = self.pid();
            self.messages.say(Message::FramesParked { pid });
        }
        Ok(())
    }
}

impl Guest {
    /// Signals that were delivered to it during a stop.
    fn tell_handed_on(&self, turn: &mut Turn<Self>) {
        for signal in self.tracee.iter().flat_map(Tracee::handed_on) {
            turn.tell(now_of(self.pid(), EventKind::Signal(signal)));
        }
    }
}
