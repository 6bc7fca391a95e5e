//! All processes that one command watches, and what is done at each of their events. Used by the crates `births` and
//! `calls`.

use super::strangers::Strangers;
use super::{Execs, Observer, Over, Stage, Started, Turn, Watched, leave_past_events};
use crate::tracee::{Happening, Tracee, User};
use process::error::Error;
use process::guest::missing_thread;
use process::programs;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a program could not be started.
#[derive(Debug)]
pub enum NotStarted {
    /// There is no such program, or it may not be run.
    Launch(Error),
    /// It could not be watched from its first instruction on, and was killed there.
    Watch(Error),
}

/// All processes that one command watches, starts or waits for. Dropping it leaves them.
pub struct Processes<G: Watched> {
    /// The processes, in the order in which they were added.
    members: Vec<(i32, Stage<G>)>,
    execs: Execs,
    started: Option<Started>,
    strangers: Strangers,
}

impl<G: Watched> Default for Processes<G> {
    fn default() -> Self {
        Processes {
            members: Vec::new(),
            execs: Execs::default(),
            started: None,
            strangers: Strangers::default(),
        }
    }
}

impl<G: Watched> Processes<G> {
    /// Opens a running process; again, if it begins another program meanwhile.
    ///
    /// # Errors
    /// Those of [`Watched::open`]; nothing is changed then.
    pub fn open(&mut self, pid: i32, shared: &G::Shared<'_>) -> std::result::Result<(), G::Error> {
        let watched = programs::at_present(pid, || G::open(pid, shared))?;
        self.members.push((pid, Stage::Open(watched)));
        Ok(())
    }

    /// Adds a child that was found by searching; `adopt` takes it over from its watched parent.
    ///
    /// # Errors
    /// Those of `adopt`, or that the parent is not watched.
    pub fn adopt<E: From<Error>>(
        &mut self,
        (parent, child): (i32, i32),
        adopt: impl FnOnce(&G) -> std::result::Result<G, E>,
    ) -> std::result::Result<(), E> {
        let Some(Stage::Open(watched)) = self.stage(parent) else {
            return Err(missing_thread(parent).into());
        };
        let adopted = adopt(watched)?;
        self.put(child, Stage::Open(adopted));
        Ok(())
    }

    /// Starts a program and returns its process id. With `follow` its children are traced from their fork on; with `user`
    /// it runs as that user. If the program cannot be watched from its first instruction on and the command traces all
    /// processes, it runs nevertheless, and the observer receives the reason; otherwise it is killed before any of it has
    /// run.
    ///
    /// # Errors
    /// [`NotStarted::Launch`] with the errors of [`Started::launch`], [`NotStarted::Watch`] for a program that was killed.
    pub fn start(
        &mut self,
        command: &[OsString],
        (follow, user): (bool, Option<&User>),
        shared: &G::Shared<'_>,
        observer: &mut dyn Observer<G>,
    ) -> std::result::Result<i32, NotStarted> {
        let mut sees = G::sees_way(shared);
        let launched = Started::launch(command, follow, user, sees.as_deref_mut());
        drop(sees);
        let (started, tracee) = launched.map_err(NotStarted::Launch)?;
        let pid = started.pid();
        self.started = Some(started);
        match self.watch(tracee, shared) {
            Ok(()) => {}
            Err((tracee, error)) if G::TRACES_ALL => self.refuse(tracee, error, observer),
            Err((_, error)) => {
                self.started = None;
                // SAFETY: our own child, which we have not waited for, so the id is still its own.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                return Err(NotStarted::Watch(error));
            }
        }
        Ok(pid)
    }

    /// The process id of the program that was started.
    pub fn started(&self) -> Option<i32> {
        self.started.as_ref().map(Started::pid)
    }

    /// The exit code of the program that was started, once it has ended.
    pub fn code(&mut self) -> Option<i32> {
        self.started.as_mut()?.code()
    }

    /// Whether no process is left.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.execs.is_empty()
    }

    /// Whether a program is between its exec and the moment from which it can be watched. It waits for us then, so the next
    /// poll should come soon.
    pub fn is_starting(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|(_, stage)| matches!(stage, Stage::Starting(..)))
    }

    /// Whether a process is one of these.
    pub fn contains(&self, pid: i32) -> bool {
        self.members.iter().any(|(member, _)| *member == pid)
    }

    /// The processes that are watched.
    pub fn watched(&self) -> impl Iterator<Item = &G> {
        self.members.iter().filter_map(|(_, stage)| match stage {
            Stage::Open(watched) => Some(watched),
            _ => None,
        })
    }

    /// The watched processes, mutably.
    pub fn watched_mut(&mut self) -> impl Iterator<Item = &mut G> {
        self.members
            .iter_mut()
            .filter_map(|(_, stage)| match stage {
                Stage::Open(watched) => Some(watched),
                _ => None,
            })
    }

    /// Drops the watched processes that are finished, without informing the observer, because the caller has seen their end
    /// itself.
    pub fn drop_over(&mut self) {
        self.members
            .retain(|(_, stage)| !matches!(stage, Stage::Open(watched) if watched.is_over()));
    }

    /// Polls every process once, without waiting. Returns whether anything happened.
    pub fn poll(&mut self, shared: &G::Shared<'_>, observer: &mut dyn Observer<G>) -> bool {
        process::stop::poll_stragglers();
        let (mut any, there) = self.execs.poll();
        for tracee in there {
            self.begin(tracee, shared, observer);
        }
        // Children that are added meanwhile have their turn too; processes that are removed are skipped.
        let mut at = 0;
        while let Some(pid) = self.members.get(at).map(|(pid, _)| *pid) {
            any |= self.poll_one(pid, shared, observer);
            if self.members.get(at).is_some_and(|(now, _)| *now == pid) {
                at += 1;
            }
        }
        let (members, execs) = (&self.members, &self.execs);
        let is_member = |pid| members.iter().any(|(member, _)| *member == pid);
        self.strangers
            .look(|pid| is_member(pid) || execs.knows(pid));
        any
    }

    fn poll_one(
        &mut self,
        pid: i32,
        shared: &G::Shared<'_>,
        observer: &mut dyn Observer<G>,
    ) -> bool {
        let mut any = false;
        while let Some(tracee) = self.stage(pid).and_then(Stage::tracee) {
            match tracee.poll() {
                Ok(None) => break,
                Ok(Some(Happening::Exec)) => {
                    self.exec(pid, shared, observer);
                    return true;
                }
                Ok(Some(happening)) => self.stands(pid, happening, shared, observer),
                Err(_) => self.is_unseen(pid, observer),
            }
            any = true;
        }
        self.proceed(pid, false, shared, observer);
        any | self.poll_watched(pid, shared, observer)
    }

    fn stage(&mut self, pid: i32) -> Option<&mut Stage<G>> {
        let mut members = self.members.iter_mut();
        let found = members.find(|(member, _)| *member == pid);
        found.map(|(_, stage)| stage)
    }

    fn take(&mut self, pid: i32) -> Option<Stage<G>> {
        let at = self.members.iter().position(|(member, _)| *member == pid)?;
        Some(self.members.remove(at).1)
    }

    fn put(&mut self, pid: i32, stage: Stage<G>) {
        self.members.push((pid, stage));
    }

    /// Handles a traced process that stands at something other than an exec.
    fn stands(
        &mut self,
        pid: i32,
        happening: Happening,
        shared: &G::Shared<'_>,
        observer: &mut dyn Observer<G>,
    ) {
        if let (Happening::Ended(code), Some(started)) = (happening, &mut self.started)
            && started.pid() == pid
        {
            started.has_ended(code);
        }
        let watched = self.with_turn(pid, observer, |watched, turn| {
            watched.stands(happening, shared, turn);
            if matches!(happening, Happening::Ended(_)) {
                // Otherwise the process would stand at its end for ever.
                *watched.tracee() = None;
            }
        });
        if watched.is_some() {
            return;
        }
        match happening {
            Happening::Ended(code) => {
                self.take(pid);
                observer.ended(pid, Some(code));
                return;
            }
            // A child of vfork uses its parent's memory until it runs another program.
            Happening::Fork(child) | Happening::Vfork(child) => {
                self.put(child, Stage::Plain(Tracee::child(child)));
            }
            Happening::Syscall => self.proceed(pid, true, shared, observer),
            Happening::Signal(_) | Happening::Ending | Happening::Exec => {}
        }
        self.go_on(pid);
    }

    /// Sets a process going that is not watched.
    fn go_on(&mut self, pid: i32) {
        // An error means that the process is gone; its end is reported next.
        let _ = match self.stage(pid) {
            Some(Stage::Plain(tracee)) => tracee.go_on(false),
            Some(Stage::Starting(tracee, start)) => G::go_on(start, tracee),
            _ => Ok(()),
        };
    }

    /// Handles a process that can no longer be waited for.
    fn is_unseen(&mut self, pid: i32, observer: &mut dyn Observer<G>) {
        if let Some(Stage::Open(watched)) = self.stage(pid) {
            *watched.tracee() = None;
            watched.is_unseen();
        } else {
            self.take(pid);
            observer.ended(pid, None);
        }
    }

    /// Gives a watched process its turn, if this is one, and adds the children that it found.
    fn with_turn<T>(
        &mut self,
        pid: i32,
        observer: &mut dyn Observer<G>,
        turn_of: impl FnOnce(&mut G, &mut Turn<G>) -> T,
    ) -> Option<T> {
        let mut members = self.members.iter_mut();
        let stage = members.find(|(member, _)| *member == pid);
        let Some((_, Stage::Open(watched))) = stage else {
            return None;
        };
        let mut turn = Turn {
            observer,
            execs: &mut self.execs,
            children: Vec::new(),
        };
        let done = turn_of(watched, &mut turn);
        let children = turn.children;
        self.members.extend(children);
        Some(done)
    }

    /// Lets a watched process do its work, if this is one.
    fn poll_watched(
        &mut self,
        pid: i32,
        shared: &G::Shared<'_>,
        observer: &mut dyn Observer<G>,
    ) -> bool {
        let polled = self.with_turn(pid, observer, |watched, turn| {
            let any = watched.poll(shared, turn);
            let over = watched.is_over().then(|| watched.code());
            (any, over, watched.is_to_leave())
        });
        let Some((any, over, leaves)) = polled else {
            return false;
        };
        if leaves && let Some(stage) = self.take(pid) {
            self.execs.let_go_of(pid);
            let mut errors = Vec::new();
            self.leave_one(stage, &mut errors, observer);
            for error in errors {
                observer.unwatched(pid, error);
            }
            return true;
        }
        if let Some(code) = over
            && let Some(Stage::Open(watched)) = self.take(pid)
        {
            if let (Some(started), Some(code)) = (&mut self.started, code)
                && started.pid() == pid
            {
                started.has_ended(code);
            }
            observer.over(watched, Over::Ended);
            observer.ended(pid, code);
        }
        any
    }

    /// Handles a traced process that stands at the first instruction of another program.
    fn exec(&mut self, pid: i32, shared: &G::Shared<'_>, observer: &mut dyn Observer<G>) {
        self.with_turn(pid, observer, |watched, turn| {
            watched.stands(Happening::Exec, shared, turn);
        });
        let tracee = match self.stage(pid) {
            Some(Stage::Open(watched)) => watched.tracee().take(),
            _ => match self.take(pid) {
                Some(Stage::Plain(tracee) | Stage::Starting(tracee, _)) => Some(tracee),
                _ => None,
            },
        };
        if let Some(tracee) = tracee {
            self.begin(tracee, shared, observer);
        }
    }

    /// Begins with the program at whose first instruction a process stands. What is known of the previous program is
    /// dropped before anything is done to the new one.
    fn begin(&mut self, tracee: Tracee, shared: &G::Shared<'_>, observer: &mut dyn Observer<G>) {
        let pid = tracee.pid();
        observer.begins(pid);
        self.execs.forget(pid);
        while let Some(stage) = self.take(pid) {
            if let Stage::Open(watched) = stage {
                observer.over(watched, Over::Replaced);
            }
        }
        if let Err((tracee, error)) = self.watch(tracee, shared) {
            self.refuse(tracee, error, observer);
        }
    }

    /// Opens a process that stands at its exec, and sets it going.
    fn watch(
        &mut self,
        tracee: Tracee,
        shared: &G::Shared<'_>,
    ) -> std::result::Result<(), (Tracee, Error)> {
        let pid = tracee.pid();
        let keep = self.started() == Some(pid);
        let stage = G::at_exec(tracee, keep, shared)?;
        self.put(pid, stage);
        self.go_on(pid);
        Ok(())
    }

    /// Handles a process that cannot be watched: if the command traces all processes it stays traced for its next exec.
    fn refuse(&mut self, mut tracee: Tracee, error: Error, observer: &mut dyn Observer<G>) {
        let pid = tracee.pid();
        observer.unwatched(pid, error);
        if G::TRACES_ALL {
            self.put(pid, Stage::Plain(tracee));
            self.go_on(pid);
            return;
        }
        match &mut self.started {
            Some(started) if started.pid() == pid => {
                let _ = tracee.go_on(false);
                started.goes_on_alone(tracee);
            }
            _ => drop(tracee.let_go()),
        }
    }

    /// Checks how far a program is that cannot be watched yet.
    fn proceed(
        &mut self,
        pid: i32,
        at_system_call: bool,
        shared: &G::Shared<'_>,
        observer: &mut dyn Observer<G>,
    ) {
        let Some(place) = self.members.iter().position(|(member, _)| *member == pid) else {
            return;
        };
        let (tracee, start) = match self.members.remove(place).1 {
            Stage::Starting(tracee, start) => (tracee, start),
            other => return self.members.insert(place, (pid, other)),
        };
        let stage = match G::proceed(start, tracee, at_system_call, shared) {
            Ok(stage) => stage,
            Err((tracee, error)) => {
                observer.unwatched(pid, error);
                Stage::Plain(tracee)
            }
        };
        self.members.insert(place, (pid, stage));
        if let Stage::Open(watched) = &self.members[place].1 {
            watched.opened(observer);
        }
    }

    /// Leaves every process. A program that was started goes on alone, and only its end is waited for. Returns the errors
    /// of processes that could not be left properly.
    pub fn leave(&mut self, observer: &mut dyn Observer<G>) -> Vec<Error> {
        let mut errors = Vec::new();
        self.execs.let_go();
        for (_, stage) in std::mem::take(&mut self.members) {
            // A panic in one of them must not keep the others from being left. The one that panicked tries again when it is
            // dropped, and the panic hook informs the user (`panic::set_hook`).
            let left = catch_unwind(AssertUnwindSafe(|| {
                self.leave_one(stage, &mut errors, observer);
            }));
            drop(left);
        }
        errors
    }

    fn leave_one(
        &mut self,
        stage: Stage<G>,
        errors: &mut Vec<Error>,
        observer: &mut dyn Observer<G>,
    ) {
        let mut left = None;
        let tracee = match stage {
            Stage::Plain(tracee) => Some(tracee),
            Stage::Starting(mut tracee, mut start) => {
                let gone = leave_past_events(Some(&mut tracee), || G::leave_start(&mut start));
                errors.extend(gone.err());
                Some(tracee)
            }
            Stage::Open(mut watched) => {
                process::fault::point("leaving");
                errors.extend(watched.leave().err());
                let tracee = watched.tracee().take();
                left = Some(watched);
                tracee
            }
        };
        if let Some(mut tracee) = tracee {
            errors.extend(tracee.let_go().err());
            if let Some(started) = &mut self.started {
                started.goes_on_alone(tracee);
            }
        }
        if let Some(watched) = left {
            observer.over(watched, Over::Left);
        }
    }
}

/// A command that ends by an error or a panic leaves its processes too.
impl<G: Watched> Drop for Processes<G> {
    fn drop(&mut self) {
        self.leave(&mut Nobody);
    }
}

/// An observer that ignores everything, for processes that are left when they are dropped.
struct Nobody;

impl<G: Watched> Observer<G> for Nobody {
    fn event(&mut self, _: G::Event) {}
    fn begins(&mut self, _: i32) {}
    fn unwatched(&mut self, _: i32, _: Error) {}
    fn over(&mut self, _: G, _: Over) {}
    fn ended(&mut self, _: i32, _: Option<i32>) {}
}
