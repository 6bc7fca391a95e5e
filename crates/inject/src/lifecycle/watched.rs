//! What a command knows of one process that it watches.

use super::{Execs, Observer};
use crate::tracee::{Happening, OnItsWay, Tracee};
use process::error::{Error, Result};

/// What [`Processes`](super::Processes) needs of a command: how a process comes to be watched, what is done at each
/// of its turns, and how it is left.
pub trait Watched: Sized {
    /// Whether every process stays traced, from its start or from the fork of a traced parent on, watched or not.
    /// Else a process that cannot be watched is let go.
    const TRACES_ALL: bool;

    /// What all processes of one run have in common: the agent's image, the options.
    type Shared<'a>;

    /// A program on its way from its exec to the moment from which it can be watched.
    type Start;

    /// What a process tells of itself while it is watched.
    type Event;

    /// Why a running process cannot be opened.
    type Error;

    /// What sees each system call of a program on its way to its exec, where a command asks for that
    /// ([`Tracee::launch`]).
    fn sees_way<'s>(_: &'s Self::Shared<'_>) -> Option<Box<OnItsWay<'s>>> {
        None
    }

    /// Opens a running process.
    ///
    /// # Errors
    /// Why it cannot be opened; the process is then as it was.
    fn open(pid: i32, shared: &Self::Shared<'_>) -> std::result::Result<Self, Self::Error>;

    /// Takes a process that stands at its exec, none of whose code has run. With `keep` its main thread stays traced,
    /// because the exit code of the program is the command's. A process that is `Open` afterwards goes on; others still
    /// stand there and are set going by the caller.
    ///
    /// # Errors
    /// Why it cannot be watched; it still stands at its exec.
    fn at_exec(
        tracee: Tracee,
        keep: bool,
        shared: &Self::Shared<'_>,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)>;

    /// Sets a starting program going after it stood at something.
    ///
    /// # Errors
    /// It is gone.
    fn go_on(start: &Self::Start, tracee: &mut Tracee) -> Result<()>;

    /// Looks how far a starting program has come, which may stand at a system call, and does what is next, without
    /// waiting.
    ///
    /// # Errors
    /// Why it cannot be watched.
    fn proceed(
        start: Self::Start,
        tracee: Tracee,
        at_system_call: bool,
        shared: &Self::Shared<'_>,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)>;

    /// Takes out of a starting program what was put in. It is tried again after [`Error::AtEvent`].
    ///
    /// # Errors
    /// What could not be taken out.
    fn leave_start(start: &mut Self::Start) -> Result<()>;

    /// A program that was started, or that was run by exec, is watched from now on.
    fn opened(&self, observer: &mut dyn Observer<Self>);

    /// Its main thread, if that stays traced between stops.
    fn tracee(&mut self) -> &mut Option<Tracee>;

    /// Its main thread stands at something. The implementation sets it going again, but not from an exec or an end.
    fn stands(
        &mut self,
        happening: Happening,
        shared: &Self::Shared<'_>,
        turn: &mut Turn<'_, Self>,
    );

    /// Its main thread was traced, and cannot be waited for any more: somebody else has seen its end.
    fn is_unseen(&mut self);

    /// Handles what there is to do for the process, without waiting; returns whether there was anything.
    fn poll(&mut self, shared: &Self::Shared<'_>, turn: &mut Turn<'_, Self>) -> bool;

    /// Whether it is to be left at once, while others are watched on: what is in it would harm it from now on.
    fn is_to_leave(&self) -> bool {
        false
    }

    /// Whether nothing comes of it any more.
    fn is_over(&self) -> bool;

    /// The exit code with which it has ended, as shells say it, if that is known.
    fn code(&self) -> Option<i32>;

    /// Takes out what was put in; its main thread is let go by the caller.
    ///
    /// # Errors
    /// What could not be taken out.
    fn leave(&mut self) -> Result<()>;
}

/// How far a process is.
pub enum Stage<G: Watched> {
    /// Nothing is watched in it, or nothing yet; its next exec is.
    Plain(Tracee),
    /// Between its exec and the moment from which it can be watched.
    Starting(Tracee, G::Start),
    /// It is watched. If its main thread is traced beyond a stop, the watched value has the [`Tracee`].
    Open(G),
}

impl<G: Watched> Stage<G> {
    pub(super) fn tracee(&mut self) -> Option<&mut Tracee> {
        match self {
            Stage::Plain(tracee) | Stage::Starting(tracee, _) => Some(tracee),
            Stage::Open(watched) => watched.tracee().as_mut(),
        }
    }
}

/// What a watched process may ask for while it is looked after.
pub struct Turn<'t, G: Watched> {
    /// The observer of the command, to which its events go.
    pub observer: &'t mut dyn Observer<G>,
    /// The threads that are about to run another program; the process may add its own.
    pub execs: &'t mut Execs,
    pub(super) children: Vec<(i32, Stage<G>)>,
}

impl<G: Watched> Turn<'_, G> {
    /// Hands an event of the process to the observer.
    pub fn tell(&mut self, event: G::Event) {
        self.observer.event(event);
    }

    /// Adds a child to the command's processes.
    pub fn child(&mut self, pid: i32, stage: Stage<G>) {
        self.children.push((pid, stage));
    }
}
