//! What a command implements for one process that it watches. Used by `processes` and `observer`, and by the crates
//! `calls` and `births`.

use super::{Execs, Observer};
use crate::tracee::{Happening, OnItsWay, Tracee};
use process::error::{Error, Result};

/// What [`Processes`](super::Processes) needs of a command: how a process comes to be watched, what is done at each of
/// its turns, and how it is left.
pub trait Watched: Sized {
    /// Whether every process stays traced, watched or not, from its start or from the fork of a traced parent on. If
    /// not, a process that cannot be watched is let go.
    const TRACES_ALL: bool;

    /// What all processes of one run have in common: the agent's image, the options.
    type Shared<'a>;

    /// A program on its way from its exec to the moment from which it can be watched.
    type Start;

    /// An event that a process reports while it is watched.
    type Event;

    /// Why a running process cannot be opened.
    type Error: From<Error>;

    /// Returns a function that is called at each system call of a program on its way to its exec, if the command wants
    /// that ([`Tracee::launch`]).
    fn sees_way<'s>(_: &'s Self::Shared<'_>) -> Option<Box<OnItsWay<'s>>> {
        None
    }

    /// Opens a running process.
    ///
    /// # Errors
    /// Why it cannot be opened; the process is then as it was.
    fn open(pid: i32, shared: &Self::Shared<'_>) -> std::result::Result<Self, Self::Error>;

    /// Opens a process that stands at its exec; none of its code has run. With `keep` its main thread stays traced,
    /// because the command returns the program's exit code. A process that is `Open` afterwards has been set going;
    /// others still stand there and are set going by the caller.
    ///
    /// # Errors
    /// Why it cannot be watched; it still stands at its exec.
    fn at_exec(
        tracee: Tracee,
        keep: bool,
        shared: &Self::Shared<'_>,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)>;

    /// Sets a starting program going from the event at which it stood.
    ///
    /// # Errors
    /// It is gone.
    fn go_on(start: &Self::Start, tracee: &mut Tracee) -> Result<()>;

    /// Checks how far a starting program is, which may stand at a system call, and does the next step, without waiting.
    ///
    /// # Errors
    /// Why it cannot be watched.
    fn proceed(
        start: Self::Start,
        tracee: Tracee,
        at_system_call: bool,
        shared: &Self::Shared<'_>,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)>;

    /// Removes from a starting program what was put in. It is tried again after [`Error::AtEvent`].
    ///
    /// # Errors
    /// What could not be taken out.
    fn leave_start(start: &mut Self::Start) -> Result<()>;

    /// Informs the observer that a program that was started, or run by exec, is watched from now on.
    fn opened(&self, observer: &mut dyn Observer<Self>);

    /// Returns its main thread, if that stays traced between stops.
    fn tracee(&mut self) -> &mut Option<Tracee>;

    /// Handles an event at which its main thread stands. The implementation sets it going again, except from an exec or
    /// an end.
    fn stands(
        &mut self,
        happening: Happening,
        shared: &Self::Shared<'_>,
        turn: &mut Turn<'_, Self>,
    );

    /// Handles that its main thread was traced and can no longer be waited for, because other code has seen its end.
    fn is_unseen(&mut self);

    /// Does what is due for the process, without waiting. Returns whether there was anything.
    fn poll(&mut self, shared: &Self::Shared<'_>, turn: &mut Turn<'_, Self>) -> bool;

    /// Whether it must be left at once although others are still watched, because what is in it would harm it from now
    /// on.
    fn is_to_leave(&self) -> bool {
        false
    }

    /// Whether the process is finished.
    fn is_over(&self) -> bool;

    /// Returns the exit code with which it has ended, as a shell reports it, if that is known.
    fn code(&self) -> Option<i32>;

    /// Removes what was put in; the caller lets its main thread go.
    ///
    /// # Errors
    /// What could not be taken out.
    fn leave(&mut self) -> Result<()>;
}

/// The stage of its lifecycle that a process is in.
pub enum Stage<G: Watched> {
    /// Nothing is watched in it yet; its next exec is.
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

/// What a watched process may use during its turn.
pub struct Turn<'t, G: Watched> {
    /// The observer of the command, to which its events go.
    pub observer: &'t mut dyn Observer<G>,
    /// The threads that are about to run another program; the process may add its own.
    pub execs: &'t mut Execs,
    pub(super) children: Vec<(i32, Stage<G>)>,
}

impl<G: Watched> Turn<'_, G> {
    /// Passes an event of the process to the observer.
    pub fn tell(&mut self, event: G::Event) {
        self.observer.event(event);
    }

    /// Adds a child to the command's processes.
    pub fn child(&mut self, pid: i32, stage: Stage<G>) {
        self.children.push((pid, stage));
    }
}
