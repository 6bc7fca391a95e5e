//! A session among the processes of one run ([`inject::lifecycle`]): how births of a started program come to be counted,
//! and what is done at its forks and its end. Used by `attached`, `program` and others here, and by crate `lancet`.
//!
//! ```text
//!   exec        the agent is mapped, the loader's `_dl_debug_state` hooked            Starting
//!   libraries   `ruby_run_node` (of a Python `Py_RunMain`) is hooked; a program that has none is left alone      Starting or Plain
//!   script      the VM is made: hooks out, births counted, the script begins          Open
//!   ending      the agent has counted the living, or they are counted from outside    Open, until its end
//! ```
//!
//! The steps up to the script are those of [`hooks::ScriptStart`]; the program runs at full speed between them, and if
//! lancet dies it goes on from each of them alone. A program that execs another one goes through them again, so a shell
//! script that ends in `exec ruby …` needs nothing special. Lancet remains the tracer of its main thread to the end,
//! because only its tracer sees a process at `PTRACE_EVENT_EXIT`, when its memory can still be read.

use super::{Last, Options, Session};
use crate::ledger::Tally;
use hooks::{Progress, ScriptStart};
use inject::image::Image;
use inject::lifecycle::{Observer, Stage, Turn, Watched};
use inject::tracee::{Happening, Tracee};
use process::error::{Error, Result};

/// What all sessions of one run have in common.
pub struct Shared {
    /// The agent's ELF image, which is mapped into each process.
    pub image: Image,
    /// What is counted in each process.
    pub options: Options,
    /// Whether garbage is collected before the living are counted at a program's end.
    pub collect_at_end: bool,
}

/// An event that a session reports.
pub enum Event {
    /// Births are counted in this process from now on.
    Watching(i32),
    /// The process is ending; this is what it held.
    Final {
        /// Its process id, in the PID namespace of lancet.
        pid: i32,
        /// Its command line, as it was when it was opened.
        command: Vec<String>,
        /// The name of its language, and the version of its VM.
        language: &'static str,
        /// See `language`.
        version: String,
        /// The counts of its last census.
        tally: Box<Tally>,
        /// How these counts were made.
        how: Last,
    },
}

impl Watched for Session {
    const TRACES_ALL: bool = true;
    type Shared<'a> = Shared;
    type Start = Box<ScriptStart>;
    type Event = Event;
    type Error = Error;

    fn open(pid: i32, shared: &Shared) -> Result<Self> {
        Session::open(pid, &shared.image, shared.options)
    }

    fn at_exec(
        mut tracee: Tracee,
        _: bool,
        shared: &Shared,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        match ScriptStart::at_exec(&mut tracee, &shared.image, enter::run_scripts()) {
            Ok(Some(start)) => Ok(Stage::Starting(tracee, Box::new(start))),
            Ok(None) => Ok(Stage::Plain(tracee)),
            Err(error) => Err((tracee, error)),
        }
    }

    fn go_on(start: &Self::Start, tracee: &mut Tracee) -> Result<()> {
        start.go_on(tracee)
    }

    fn proceed(
        mut start: Self::Start,
        mut tracee: Tracee,
        at_system_call: bool,
        shared: &Shared,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        let progress = if at_system_call {
            start.at_system_call(&mut tracee)
        } else {
            start.poll()
        };
        match progress {
            Ok(Progress::OnItsWay) => Ok(Stage::Starting(tracee, start)),
            Ok(Progress::Reached) => {
                let (options, collect) = (shared.options, shared.collect_at_end);
                Session::at_script(tracee, *start, options, collect).map(Stage::Open)
            }
            // The program is a shell or `env`; the program that it runs comes later.
            Ok(Progress::NoScript) => match start.leave() {
                Ok(()) => Ok(Stage::Plain(tracee)),
                Err(error) => stands_or_fails(start, tracee, error),
            },
            Err(error @ Error::AtEvent { .. }) => stands_or_fails(start, tracee, error),
            Err(error) => match start.leave() {
                // The process stands at its next exec, which has replaced the memory that was to be read.
                Err(event @ Error::AtEvent { .. }) => stands_or_fails(start, tracee, event),
                _ => Err((tracee, error)),
            },
        }
    }

    fn leave_start(start: &mut Self::Start) -> Result<()> {
        start.leave()
    }

    fn opened(&self, observer: &mut dyn Observer<Self>) {
        observer.event(Event::Watching(self.pid()));
    }

    fn tracee(&mut self) -> &mut Option<Tracee> {
        self.vm.tracee()
    }

    fn stands(&mut self, happening: Happening, _: &Shared, turn: &mut Turn<'_, Self>) {
        match happening {
            // The objects are gone with the old program, and there is nothing to take out.
            Happening::Exec => return self.vm.give_up(),
            Happening::Ended(_) => return self.is_unseen(),
            Happening::Fork(child) => self.forked(Tracee::child(child), turn),
            // The child uses its parent's memory, the agent included, until it runs another program.
            Happening::Vfork(child) => turn.child(child, Stage::Plain(Tracee::child(child))),
            Happening::Ending => self.ending(turn),
            // These stops are not requested and need no work.
            Happening::Syscall | Happening::Signal(_) => {}
        }
        if let Some(tracee) = self.vm.tracee() {
            // An error means that the process is gone; its end is reported next.
            let _ = tracee.go_on(false);
        }
    }

    fn is_unseen(&mut self) {
        self.give_up();
    }

    /// A session whose main thread is traced learns of its end as its tracer; for others it is checked here.
    fn poll(&mut self, _: &Shared, turn: &mut Turn<'_, Self>) -> bool {
        if self.is_open() && matches!(self.awaits_last_count(), Ok(true)) {
            self.ending(turn);
            self.over = self.vm.tracee().is_none();
            return true;
        }
        if self.vm.tracee().is_none()
            && (!self.is_alive() || matches!(self.farewell(), Ok(Some(_))))
        {
            self.over = true;
        }
        false
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn code(&self) -> Option<i32> {
        None
    }

    fn leave(&mut self) -> Result<()> {
        if self.is_open() {
            self.vm.leave().map(drop)
        } else {
            Ok(())
        }
    }
}

impl Session {
    /// Opens a traced child that has a copy of the memory: its births are counted too.
    fn forked(&mut self, child: Tracee, turn: &mut Turn<'_, Self>) {
        let pid = child.pid();
        match self.adopt_traced(child) {
            Ok(session) => {
                session.opened(turn.observer);
                turn.child(pid, Stage::Open(session));
            }
            Err((tracee, error)) => {
                turn.observer.unwatched(pid, error);
                turn.child(pid, Stage::Plain(tracee));
            }
        }
    }

    /// Handles a process that no longer runs code, or waits before its first Ractor: reports what it held, after which it
    /// is not asked again.
    fn ending(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.is_open() {
            return;
        }
        let pid = self.pid();
        match self.last_words() {
            Ok((tally, how)) => turn.observer.event(Event::Final {
                pid,
                command: self.command().to_owned(),
                language: self.language(),
                version: self.version(),
                tally: Box::new(tally),
                how,
            }),
            Err(error) => turn.observer.unwatched(pid, error),
        }
    }
}

/// If the main thread of a starting program stands at an event that its tracer must see first, that is handled next, and
/// then the step is tried again. Any other error ends the start.
fn stands_or_fails(
    start: Box<ScriptStart>,
    tracee: Tracee,
    error: Error,
) -> std::result::Result<Stage<Session>, (Tracee, Error)> {
    if matches!(error, Error::AtEvent { .. }) {
        Ok(Stage::Starting(tracee, start))
    } else {
        Err((tracee, error))
    }
}
