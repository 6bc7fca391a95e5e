//! One process of a run: hooked, or seen by its tracer alone.
//!
//! Which it is, is decided when it is opened, and again for each program that it runs: hooks where nothing speaks against them,
//! else tracing (`--no-modify`, a program of 32 bits, a seccomp filter that forbids what hooks need). Both are `Watched` by one
//! [`inject::lifecycle`].

use super::guest::{Guest, Shared};
use super::stepped::Stepped;
use super::traced::note_exec;
use crate::descriptors::Held;
use crate::event::{End, Event};
use crate::source::Count;
use crate::{Error, Message};
use hooks::rings::Losses;
use inject::lifecycle::{Observer, Stage, Turn, Watched};
use inject::tracee::{Happening, OnItsWay, Tracee};
use std::convert::Infallible;

/// See the module's text.
pub enum Process {
    /// Hooks tell what it does.
    Hooked(Box<Guest>),
    /// Its tracer sees it.
    Stepped(Box<Stepped>),
}

impl From<Guest> for Process {
    fn from(guest: Guest) -> Self {
        Process::Hooked(guest.into())
    }
}

impl From<Stepped> for Process {
    fn from(stepped: Stepped) -> Self {
        Process::Stepped(stepped.into())
    }
}

/// Does the same with either.
macro_rules! either {
    ($process:expr, $one:ident => $what:expr) => {
        match $process {
            Process::Hooked($one) => $what,
            Process::Stepped($one) => $what,
        }
    };
}

impl Process {
    /// Its id.
    pub fn pid(&self) -> i32 {
        either!(self, one => one.pid())
    }

    /// The guest that it is, if it is hooked.
    pub fn hooked(&self) -> Option<&Guest> {
        match self {
            Process::Hooked(guest) => Some(guest),
            Process::Stepped(_) => None,
        }
    }

    /// Whether a thread of it stands at each system call until we look.
    pub fn is_traced(&self) -> bool {
        self.hooked().is_none_or(Guest::is_traced)
    }

    /// Whether a good part of a ring was unread at the last look.
    pub fn is_busy(&self) -> bool {
        self.hooked().is_some_and(|guest| guest.is_busy)
    }

    /// What is not seen of it, if all was to be seen.
    pub fn inexact(&self) -> Option<&[String]> {
        self.hooked()?.inexact()
    }

    /// How it has ended.
    pub fn ended(&self) -> Option<End> {
        either!(self, one => one.ended())
    }

    /// Reads what it has told.
    pub fn drain(&mut self, tell: &mut dyn FnMut(Event)) {
        if let Process::Hooked(guest) = self {
            guest.drain(tell);
        }
    }

    /// Another program runs in its place.
    pub fn gives_way(&mut self, tell: &mut dyn FnMut(Event)) {
        if let Process::Hooked(guest) = self {
            guest.gives_way(tell);
        }
    }

    /// Notes which descriptors it has, now that it was left.
    pub fn note_descriptors(&mut self) {
        if let Process::Hooked(guest) = self {
            guest.note_descriptors();
        }
    }

    /// Its descriptors, if they were asked for.
    pub fn held(&mut self) -> Option<Held> {
        match self {
            Process::Hooked(guest) => guest.held(),
            Process::Stepped(_) => None,
        }
    }

    /// What was counted.
    pub fn counted(&mut self) -> Result<Vec<Count>, process::Error> {
        match self {
            Process::Hooked(guest) => guest.counted(),
            Process::Stepped(stepped) => Ok(stepped.counted()),
        }
    }

    /// What got lost.
    pub fn losses(&mut self) -> Result<Losses, process::Error> {
        match self {
            Process::Hooked(guest) => guest.losses(),
            Process::Stepped(_) => Ok(Losses::default()),
        }
    }
}

/// Whether tracing may see what could not be hooked for this reason.
fn may_be_traced(error: &Error) -> bool {
    use process::Error as E;
    match error {
        Error::NothingHooked(_) => true,
        Error::Process(error) => matches!(
            error,
            E::Elf { .. }
                | E::Seccomp { .. }
                | E::WriteProtected(_)
                | E::NotAGuest { .. }
                | E::NothingToBorrow { .. }
                | E::Remote { .. }
                | E::RemoteFault { .. }
                | E::RemoteTimeout { .. }
                | E::NoRoom { .. }
                | E::Hook { .. }
        ),
        _ => false,
    }
}

/// Whether a process that could not be hooked is seen by tracing instead.
fn falls_back(shared: &Shared<'_>, error: &Error) -> bool {
    let args = shared.args;
    !args.exact && args.is_for_tracer() && may_be_traced(error)
}

impl Watched for Process {
    const TRACES_ALL: bool = false;
    type Shared<'a> = Shared<'a>;
    /// It is hooked, or traced, at its first instruction.
    type Start = Infallible;
    type Event = Event;
    type Error = Error;

    fn sees_way<'s>(shared: &'s Shared<'_>) -> Option<Box<OnItsWay<'s>>> {
        let Shared {
            args,
            signatures,
            exec,
            ..
        } = shared;
        args.from_exec
            .then(|| Box::new(|pid| note_exec(pid, args, signatures, exec)) as Box<OnItsWay<'s>>)
    }

    fn open(pid: i32, shared: &Shared<'_>) -> Result<Self, Error> {
        let args = shared.args;
        let why = if args.no_modify {
            None
        } else if args.injects_by_tracer(false) {
            Some(Error::Tampers)
        } else {
            match Guest::open(pid, args, &shared.image, shared.signatures) {
                Err(error) if falls_back(shared, &error) => Some(error),
                guest => return guest.map(Process::from),
            }
        };
        let stepped = match (Stepped::open(pid, shared), why) {
            (Ok(stepped), why) => {
                args.messages.say(Message::ByTracing { pid, why });
                stepped
            }
            // What speaks against hooks is what was asked about.
            (Err(error), None | Some(Error::Tampers)) => return Err(error),
            (Err(_), Some(why)) => return Err(why),
        };
        stepped.say_unseen(shared)?;
        Ok(stepped.into())
    }

    fn at_exec(
        tracee: Tracee,
        keep: bool,
        shared: &Shared<'_>,
    ) -> Result<Stage<Self>, (Tracee, process::Error)> {
        let (args, pid) = (shared.args, tracee.pid());
        let (tracee, why) = if args.no_modify {
            (tracee, None)
        } else if args.injects_by_tracer(true) {
            (tracee, Some(Error::Tampers))
        } else {
            match Guest::begin(tracee, keep, args, &shared.image, shared.signatures) {
                Ok(guest) => return Ok(Stage::Open(guest.into())),
                Err((tracee, error)) => {
                    let error = Error::from(error);
                    if !falls_back(shared, &error) {
                        let Error::Process(error) = error else {
                            unreachable!("it was made of one");
                        };
                        return Err((tracee, error));
                    }
                    (tracee, Some(error))
                }
            }
        };
        let stepped = Stepped::begin(tracee, keep, shared)?;
        args.messages.say(Message::ByTracing { pid, why });
        Ok(Stage::Open(stepped.into()))
    }

    fn go_on(start: &Infallible, _: &mut Tracee) -> process::error::Result<()> {
        match *start {}
    }

    fn proceed(
        start: Infallible,
        _: Tracee,
        _: bool,
        _: &Shared<'_>,
    ) -> Result<Stage<Self>, (Tracee, process::Error)> {
        match start {}
    }

    fn leave_start(start: &mut Infallible) -> process::error::Result<()> {
        match *start {}
    }

    fn opened(&self, _: &mut dyn Observer<Self>) {}

    fn tracee(&mut self) -> &mut Option<Tracee> {
        either!(self, one => one.tracee())
    }

    fn stands(&mut self, happening: Happening, shared: &Shared<'_>, turn: &mut Turn<'_, Self>) {
        // The threads of one that is stepped are looked after in its turns.
        if let Process::Hooked(guest) = self {
            guest.stands(happening, shared, turn);
        }
    }

    fn is_unseen(&mut self) {
        if let Process::Hooked(guest) = self {
            guest.is_unseen();
        }
    }

    fn poll(&mut self, shared: &Shared<'_>, turn: &mut Turn<'_, Self>) -> bool {
        match self {
            Process::Hooked(guest) => guest.poll(shared, turn),
            Process::Stepped(stepped) => stepped.poll(turn),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Process::Hooked(guest) => guest.is_over(),
            Process::Stepped(stepped) => stepped.ended().is_some(),
        }
    }

    fn code(&self) -> Option<i32> {
        match self.ended()? {
            End::Exited(code) => Some(code),
            End::Killed(signal) => Some(128 + signal),
            End::Unknown | End::Replaced => None,
        }
    }

    /// What was told before can still be read.
    fn leave(&mut self) -> process::error::Result<()> {
        either!(self, one => one.leave())
    }
}
