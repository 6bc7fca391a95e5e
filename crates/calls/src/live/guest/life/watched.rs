//! A guest among the processes of one run ([`inject::lifecycle`]): what is done at each of its turns. `P` is the type of
//! these processes.
//!
//! Only the started program's main thread is traced, for its exit code and its signals. Notices report everything else: a
//! thread before its exec, a child of fork.

use super::{Shared, now_of};
use crate::debug::{self, say};
use crate::event::{Event, EventKind, Signal};
use crate::live::guest::Guest;
use crate::live::traced::{end_of, signal_of};
use crate::message::Message;
use hooks::Arrives;
use inject::lifecycle::{Turn, Watched, leave_past_events};
use inject::tracee::{Happening, Tracee};
use process::error::Result;

impl Guest {
    /// Returns its main thread, if that is traced between stops.
    pub fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.tracee
    }

    /// Handles an event at which its main thread stands.
    pub fn stands<P: Watched<Event = Event> + From<Guest>>(
        &mut self,
        happening: Happening,
        shared: &Shared<'_>,
        turn: &mut Turn<'_, P>,
    ) {
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
                let end = end_of(self.tracee.as_ref());
                self.drain(&mut |event| turn.tell(event));
                return self.end(end, &mut |event| turn.tell(event));
            }
            Happening::Exec => {
                self.life.leaves = true;
                return self.gives_way(&mut |event| turn.tell(event));
            }
            Happening::Signal(signal) => {
                self.read(&mut |event| turn.tell(event));
                turn.tell(now_of(pid, EventKind::Signal(signal_of(pid, signal))));
            }
            Happening::Ending => {
                self.say_inexact();
                self.read_all(&mut |event| turn.tell(event));
            }
            Happening::Syscall | Happening::Fork(_) | Happening::Vfork(_) => {}
        }
        if happening == Happening::Syscall {
            self.tell_exec(&shared.exec, &mut |event| turn.tell(event));
            self.tell_traced(&mut |event| turn.tell(event));
        }
        let is_led = self.tracing.arrives() == Arrives::AtThread;
        let arrives = is_led && happening == Happening::Syscall && !self.is_in_traced_call();
        if arrives && self.tracing.has_thread_pointer() {
            self.count_beside(&shared.kernel);
            self.arrive(shared.signatures);
        } else if let Some(tracee) = &mut self.tracee {
            // An error means that the process is gone; its end is reported next.
            let _ = tracee.go_on(is_led || self.traced.is_some());
        }
    }

    /// Handles that other code has seen the end of its main thread.
    pub fn is_unseen(&mut self) {
        self.gone = true;
    }

    /// Polls it once. Returns whether anything happened.
    pub fn poll<P: Watched<Event = Event> + From<Guest>>(
        &mut self,
        shared: &Shared<'_>,
        turn: &mut Turn<'_, P>,
    ) -> bool {
        let mut any = self.poll_children(shared.args, turn);
        if self.life.end.is_some() || self.is_ending() {
            return any;
        }
        self.tell_handed_on(turn);
        self.end_silence();
        any |= self.handle_notices(shared, turn).unwrap_or(false);
        if self.tracing.has_news().unwrap_or(false) {
            // Records of a library's functions are read before the library is forgotten.
            self.drain(&mut |event| turn.tell(event));
            if self.is_traced() {
                self.count_beside(&shared.kernel);
                self.arrive(shared.signatures);
            } else if let Err(error) = self.follow(shared.signatures) {
                self.report_error(error);
            }
        }
        if !self.is_traced() {
            self.count_child_beside(&shared.kernel);
        }
        self.look_beside(&shared.kernel);
        self.look_for_peers();
        if self.names.are_due()
            && let Err(error) = self.look_for_names(shared.signatures)
        {
            self.report_error(error);
        }
        any |= self.read(&mut |event| turn.tell(event));
        self.keep_budget();
        if self.gone && self.tracee.is_none() && !self.is_ending() {
            self.is_gone(&mut |event| turn.tell(event));
        }
        any
    }

    /// Whether it is finished.
    pub fn is_over(&self) -> bool {
        self.life.end.is_some() && self.life.children.is_empty()
    }

    /// Whether it must be left now, though others are still watched.
    pub fn is_to_leave(&self) -> bool {
        self.life.locked
    }

    /// Takes the hooks out. Records made before can still be read.
    pub fn leave(&mut self) -> Result<()> {
        if self.is_ending() {
            self.say_ended();
            return Ok(());
        }
        self.end_silence();
        self.say_inexact();
        self.note_leaving();
        if let Some(stays) = leave_past_events(self.tracee.as_mut(), || self.tracing.leave())? {
            let pid = self.pid();
            let why = self.tracing.why(stays);
            self.messages.say(Message::HookStays { pid, why });
        }
        Ok(())
    }
}

impl Guest {
    /// Reports signals that were delivered to it during a stop.
    fn tell_handed_on<P: Watched<Event = Event>>(&self, turn: &mut Turn<P>) {
        for signal in self.tracee.iter().flat_map(Tracee::handed_on) {
            let signal = Signal {
                number: signal,
                ..Signal::default()
            };
            turn.tell(now_of(self.pid(), EventKind::Signal(signal)));
        }
    }
}
