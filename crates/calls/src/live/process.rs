//! One process of a run: it is hooked, or seen by BPF programs, or only by its tracer. Used by `family` and
//! `hooked_later`.
//!
//! This is decided when it is opened, and again for each program that it runs. It is hooked if nothing speaks against hooks.
//! Otherwise (`--no-modify`, a 32-bit program, a seccomp filter that forbids what hooks need) it is watched by what changes
//! nothing in it: by BPF if its calls are only counted and the kernel allows it, else by tracing. All are `Watched` by one
//! [`inject::lifecycle`].

use super::bpf::Bpf;
use super::guest::{Guest, Shared};
use super::stepped::Stepped;
use super::traced::note_exec;
use super::unseen;
use crate::Error;
use crate::descriptors::Held;
use crate::event::{End, Event};
use crate::message::Message;
use crate::options::{By, Options};
use crate::source::Count;
use hooks::rings::Losses;
use inject::lifecycle::{Observer, Stage, Turn, Watched};
use inject::tracee::{Happening, OnItsWay, Tracee};
use std::convert::Infallible;
use std::sync::Arc;
use tracepoint::Refused;

/// A process of the run and the way in which it is watched. [`inject::lifecycle`] keeps it until it has ended or was left.
pub enum Process {
    /// Hooks report what it does.
    Hooked(Box<Guest>),
    /// Its tracer sees each system call.
    Stepped(Box<Stepped>),
    /// BPF programs see its system calls.
    Bpf(Box<Bpf>),
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

impl From<Bpf> for Process {
    fn from(bpf: Bpf) -> Self {
        Process::Bpf(bpf.into())
    }
}

/// Calls the same method of whichever variant it is.
macro_rules! either {
    ($process:expr, $one:ident => $what:expr) => {
        match $process {
            Process::Hooked($one) => $what,
            Process::Stepped($one) => $what,
            Process::Bpf($one) => $what,
        }
    };
}

impl Process {
    pub fn pid(&self) -> i32 {
        either!(self, one => one.pid())
    }

    /// Returns the guest, if it is hooked.
    pub fn hooked(&self) -> Option<&Guest> {
        match self {
            Process::Hooked(guest) => Some(guest),
            Process::Stepped(_) | Process::Bpf(_) => None,
        }
    }

    /// Whether a thread of it stands at each system call until we look.
    pub fn is_traced(&self) -> bool {
        match self {
            Process::Hooked(guest) => guest.is_traced(),
            Process::Stepped(stepped) => stepped.stops_at_calls(),
            Process::Bpf(_) => false,
        }
    }

    /// Whether a large part of a ring was unread at the last look.
    pub fn is_busy(&self) -> bool {
        self.hooked().is_some_and(|guest| guest.is_busy)
    }

    /// Returns what is not seen of it, if all must be seen.
    pub fn inexact(&self) -> Option<&[String]> {
        self.hooked()?.inexact()
    }

    /// Returns how it has ended.
    pub fn ended(&self) -> Option<End> {
        either!(self, one => one.ended())
    }

    /// Reads its records.
    pub fn drain(&mut self, tell: &mut dyn FnMut(Event)) {
        match self {
            Process::Hooked(guest) => guest.drain(tell),
            Process::Bpf(bpf) => drop(bpf.tell(tell)),
            Process::Stepped(stepped) => stepped.drain(tell),
        }
    }

    /// Handles that another program runs in its place.
    pub fn gives_way(&mut self, tell: &mut dyn FnMut(Event)) {
        match self {
            Process::Hooked(guest) => guest.gives_way(tell),
            Process::Bpf(bpf) => bpf.gives_way(tell),
            Process::Stepped(_) => {}
        }
    }

    /// Notes which descriptors it has after it was left.
    pub fn note_descriptors(&mut self) {
        if let Process::Hooked(guest) = self {
            guest.note_descriptors();
        }
    }

    /// Returns its descriptors, if requested.
    pub fn held(&mut self) -> Option<Held> {
        match self {
            Process::Hooked(guest) => guest.held(),
            Process::Stepped(_) | Process::Bpf(_) => None,
        }
    }

    /// Returns what was counted instead of being reported call by call.
    pub fn counted(&mut self) -> Result<Vec<Count>, process::Error> {
        match self {
            Process::Hooked(guest) => guest.counted(),
            Process::Stepped(stepped) => Ok(stepped.counted()),
            // What BPF programs count is that of all processes together (`Programs::counted`).
            Process::Bpf(_) => Ok(Vec::new()),
        }
    }

    /// Returns what was lost of the process's records.
    pub fn losses(&mut self) -> Result<Losses, process::Error> {
        match self {
            Process::Hooked(guest) => guest.losses(),
            // Those of BPF programs are asked for once in a run (`Programs::lost`).
            Process::Stepped(_) | Process::Bpf(_) => Ok(Losses::default()),
        }
    }

    /// Opens a running process without changing anything in it; `why` = why it is not hooked.
    fn unchanged(
        pid: i32,
        (by, why): (By, Option<Error>),
        shared: &Shared<'_>,
    ) -> Result<Self, Error> {
        let args = shared.args;
        let mut refused = None;
        if may_be_bpf(by, args) {
            match Bpf::open(pid, shared) {
                Ok(bpf) => {
                    say_of_kernel(pid, args)?;
                    say_by_bpf(pid, why, args);
                    return Ok(bpf.into());
                }
                Err(error) if by == By::Bpf => return Err(error),
                Err(error) => refused = why_not_bpf(error),
            }
        }
        let stepped = match (Stepped::open(pid, shared), why) {
            (Ok(stepped), why) => {
                args.messages.say(Message::ByTracing { pid, why, refused });
                stepped
            }
            // The reason against hooks is what the user needs to know.
            (Err(error), None | Some(Error::Tampers)) => return Err(error),
            (Err(_), Some(why)) => return Err(why),
        };
        say_of_kernel(pid, args)?;
        Ok(stepped.into())
    }

    /// Watches a process that stands at its exec without changing anything in it; `why` = why it is not hooked.
    fn begins_unchanged(
        tracee: Tracee,
        keep: bool,
        (by, why): (By, Option<Error>),
        shared: &Shared<'_>,
    ) -> Result<Self, (Tracee, process::Error)> {
        let (args, pid) = (shared.args, tracee.pid());
        let mut refused = None;
        if may_be_bpf(by, args) {
            match Bpf::new(pid, shared) {
                Ok(bpf) => {
                    let bpf = bpf.begin(tracee, keep, &shared.exec)?;
                    say_by_bpf(pid, why, args);
                    return Ok(bpf.into());
                }
                Err(Error::Bpf { why, .. }) if by == By::Bpf => {
                    let error = std::io::Error::other(why.to_string());
                    return Err((tracee, process::Error::system("--by bpf", error)));
                }
                Err(error) => refused = why_not_bpf(error),
            }
        }
        let stepped = Stepped::begin(tracee, keep, shared)?;
        args.messages.say(Message::ByTracing { pid, why, refused });
        Ok(stepped.into())
    }
}

/// Reports what can be seen of no process, if this one has some of it.
///
/// # Errors
/// There is some, and all must be seen.
fn say_of_kernel(pid: i32, args: &Options) -> Result<(), Error> {
    let Some(kernel) = unseen::of_kernel(pid) else {
        return Ok(());
    };
    let unseen = vec![kernel];
    if args.exact {
        return Err(Error::not_exact(pid, unseen));
    }
    args.messages.say(Message::Unseen { pid, unseen });
    Ok(())
}

/// Whether BPF programs should see it, if the kernel allows that.
fn may_be_bpf(by: By, args: &Options) -> bool {
    // Where they see processes that are led, their tracer follows children.
    by == By::Bpf || by == By::Nothing && args.counts_in_guest() && !args.leads_by_bpf()
}

fn why_not_bpf(error: Error) -> Option<Arc<Refused>> {
    match error {
        Error::Bpf { why, .. } => Some(why),
        // Other errors of the process are reported by tracing it.
        _ => None,
    }
}

fn say_by_bpf(pid: i32, why: Option<Error>, args: &Options) {
    args.messages.say(Message::ByBpf { pid, why });
}

/// Whether tracing may see what could not be hooked for this reason.
fn may_be_traced(error: &Error) -> bool {
    use process::Error as E;
    match error {
        Error::NothingHooked(_) | Error::NoPlaceHooked { .. } | Error::FewPlacesHooked { .. } => {
            true
        }
        Error::Process(error) => matches!(
            error,
            E::Elf { .. }
                | E::Seccomp { .. }
                | E::SeccompUnread { .. }
                | E::WriteProtected(_)
                | E::NotAGuest { .. }
                | E::NothingToBorrow { .. }
                | E::Restless(_)
                | E::ThreadEnded { .. }
                | E::Remote { .. }
                | E::RemoteFault { .. }
                | E::RemoteTimeout { .. }
                | E::NoRoom { .. }
                | E::Hook { .. }
        ),
        _ => false,
    }
}

/// Whether a process that could not be hooked is watched by tracing instead.
fn falls_back(shared: &Shared<'_>, error: &Error) -> bool {
    shared.args.may_fall_back() && may_be_traced(error)
}

/// Which ways are left to a process that cannot be hooked for this reason: only its tracer can inject, and calls of 32 bits are left to it.
fn without_hooks(args: &Options, why: &Error) -> By {
    let of_32_bits = matches!(
        why,
        Error::FewPlacesHooked {
            of_32_bits: true,
            ..
        }
    );
    match args.inject.is_empty() && !of_32_bits {
        true => By::Nothing,
        false => By::Ptrace,
    }
}

impl Watched for Process {
    const TRACES_ALL: bool = false;
    type Shared<'a> = Shared<'a>;
    /// There is no stage of starting: a process is hooked, or traced, from its first instruction on.
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
        let way = match args.by {
            By::Hooks if args.injects_by_tracer(false) => (By::Ptrace, Some(Error::Tampers)),
            By::Hooks => match process::programs::at_present(pid, || Guest::open(pid, shared)) {
                Err(error) if falls_back(shared, &error) => {
                    (without_hooks(args, &error), Some(error))
                }
                guest => return guest.map(Process::from),
            },
            by => (by, None),
        };
        Process::unchanged(pid, way, shared)
    }

    fn at_exec(
        tracee: Tracee,
        keep: bool,
        shared: &Shared<'_>,
    ) -> Result<Stage<Self>, (Tracee, process::Error)> {
        let args = shared.args;
        let (tracee, way) = match args.by {
            By::Hooks if args.injects_by_tracer(true) => {
                (tracee, (By::Ptrace, Some(Error::Tampers)))
            }
            By::Hooks
                if args.leads() && !shared.leads.interpreters.borrow_mut().runs(tracee.pid()) =>
            {
                return Process::begins_led(tracee, keep, shared);
            }
            By::Hooks => match Guest::begin(tracee, keep, shared) {
                Ok(guest) => return Ok(Stage::Open(guest.into())),
                Err((tracee, error)) => {
                    let error = Error::from(error);
                    if !falls_back(shared, &error) {
                        let Error::Process(error) = error else {
                            unreachable!("it was made of one");
                        };
                        return Err((tracee, error));
                    }
                    (tracee, (without_hooks(args, &error), Some(error)))
                }
            },
            by => (tracee, (by, None)),
        };
        let process = Process::begins_unchanged(tracee, keep, way, shared)?;
        Ok(Stage::Open(process))
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
        match self {
            Process::Hooked(guest) => guest.stands(happening, shared, turn),
            Process::Bpf(bpf) => bpf.stands(happening, turn),
            // The threads of a stepped process are handled in its turns.
            Process::Stepped(_) => {}
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
            Process::Stepped(stepped) => {
                let any = stepped.poll(turn);
                self.changes_over(shared, turn);
                any
            }
            Process::Bpf(bpf) => bpf.poll(turn),
        }
    }

    fn is_to_leave(&self) -> bool {
        matches!(self, Process::Hooked(guest) if guest.is_to_leave())
    }

    fn is_over(&self) -> bool {
        match self {
            Process::Hooked(guest) => guest.is_over(),
            Process::Stepped(stepped) => stepped.ended().is_some(),
            Process::Bpf(bpf) => bpf.ended().is_some(),
        }
    }

    fn code(&self) -> Option<i32> {
        match self.ended()? {
            End::Exited(code) => Some(code),
            End::Killed(signal) => Some(128 + signal),
            End::Unknown | End::Replaced => None,
        }
    }

    /// Records made before can still be read.
    fn leave(&mut self) -> process::error::Result<()> {
        match self {
            Process::Hooked(guest) => guest.leave(),
            Process::Stepped(stepped) => stepped.leave(),
            Process::Bpf(bpf) => {
                bpf.leave();
                Ok(())
            }
        }
    }
}
