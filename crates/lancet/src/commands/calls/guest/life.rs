//! A traced process's turns: a library comes, a child is made, another program begins, the end.

mod children;

use super::{Guest, options, say_no_lines};
use crate::cli::CallsArgs;
use crate::commands::calls::debug::{self, say};
use crate::commands::calls::signatures::Signatures;
use crate::commands::calls::source::Count;
use crate::commands::calls::told::{At, End, Told, What};
use process::hooks::{Arrives, Notice, Says, Tracing};
use process::lanes::Losses;
use process::seized::Seized;
use process::stop::Ties;
use process::tracee::{Happening, Tracee};
use process::{Error, Image};
use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime};

/// What the others must know of.
pub enum Step {
    /// A thread that goes to another program.
    Seized(Seized),
    /// It came back: there was none.
    NoExec(i32),
    /// A child, opened.
    Child(Box<Guest>),
    /// Another program, which stands at its first instruction; what is known of the last is over.
    Exec(Tracee),
}

/// What is kept of a guest's life.
#[derive(Default)]
pub(super) struct Life {
    /// What it said that it ends with.
    says: Option<i32>,
    end: Option<End>,
    /// It goes to another program, and we go along.
    leaves: bool,
    /// Counts and losses when it was about to go.
    counts: Option<Vec<Count>>,
    losses: Option<Losses>,
    /// We stay its tracer to its end.
    keep: bool,
    /// Something of it was not seen.
    missed: bool,
    /// It lives, and cannot be heard any more.
    unheard: bool,
    /// Children that it told of.
    met: HashSet<i32>,
    /// Children that are not ready to be opened yet, and since when they are known.
    children: Vec<(i32, Instant)>,
}

impl Guest {
    /// Takes a process that stands at its exec. With `keep` we stay its tracer.
    pub fn begin(
        mut tracee: Tracee,
        keep: bool,
        args: &CallsArgs,
        image: &Image,
        signatures: &Signatures,
    ) -> Result<Self, (Tracee, Error)> {
        let mut guest = match Tracing::at_exec(&mut tracee, image, options(args)) {
            Ok(tracing) => Guest::new(tracing, args),
            Err(error) => return Err((tracee, error)),
        };
        if let Err(error) = guest.expect_first_picks(signatures) {
            return Err((tracee, error));
        }
        if keep {
            tracee.tell_signals();
        }
        let led = guest.tracing.arrives() == Arrives::AtThread;
        let needed = keep || led;
        let gone = match needed {
            true => tracee.go_on(led),
            false => tracee.let_go(),
        };
        if let Err(error) = gone {
            return Err((tracee, error));
        }
        if needed {
            guest.tracing.tie(Ties::Kept);
        }
        guest.life.keep = keep;
        guest.tracee = needed.then_some(tracee);
        Ok(guest)
    }

    /// Sees to it once, without waiting: what it tells, in its order, and what the others must know of. Whether there
    /// was anything.
    pub fn tend(
        &mut self,
        args: &CallsArgs,
        signatures: &Signatures,
        tell: &mut dyn FnMut(Told),
        steps: &mut Vec<Step>,
    ) -> bool {
        let mut any = self.tend_children(args, tell, steps);
        if self.life.end.is_some() {
            return any;
        }
        any |= self.tend_tracee(args, signatures, tell, steps);
        if self.life.end.is_some() {
            return any;
        }
        any |= self.hear(args, signatures, tell, steps).unwrap_or(false);
        if self.tracing.has_news().unwrap_or(false) {
            // What a library told that goes now is told while it is known.
            self.drain(tell);
            if let Err(error) = self.follow(signatures) {
                self.stumble(&error);
            }
        }
        if self.names.are_due()
            && let Err(error) = self.look_for_names(signatures)
        {
            self.stumble(&error);
        }
        self.life.missed |= self.names.were_refused();
        any |= self.read(tell);
        if self.gone && self.tracee.is_none() {
            self.is_gone(tell);
        }
        any
    }

    /// What stops it as its tracer.
    fn tend_tracee(
        &mut self,
        args: &CallsArgs,
        signatures: &Signatures,
        tell: &mut dyn FnMut(Told),
        steps: &mut Vec<Step>,
    ) -> bool {
        let mut any = false;
        loop {
            let Some(tracee) = &mut self.tracee else {
                return any;
            };
            for signal in tracee.handed_on() {
                tell(now_of(tracee.pid(), What::Signal(signal)));
            }
            let happening = match tracee.tend() {
                Ok(None) => return any,
                Ok(Some(happening)) => happening,
                Err(_) => {
                    self.tracee = None;
                    self.gone = true;
                    return true;
                }
            };
            any = true;
            say(
                args.debug,
                debug::EVENT,
                format_args!("process {} stands at {happening:?}", tracee.pid()),
            );
            match happening {
                Happening::Ended(_) => {
                    let end = tracee.end().map_or(End::Unknown, |end| match end {
                        Ok(code) => End::Exited(code),
                        Err(signal) => End::Killed(signal),
                    });
                    self.drain(tell);
                    self.end(end, tell);
                    return true;
                }
                Happening::Exec => {
                    steps.extend(self.tracee.take().map(Step::Exec));
                    self.life.leaves = true;
                    self.end(End::Replaced, tell);
                    return true;
                }
                Happening::Signal(signal) => {
                    self.read(tell);
                    tell(now_of(self.pid(), What::Signal(signal)));
                }
                Happening::Ending => self.read_all(tell),
                Happening::Syscall => {}
                Happening::Fork(_) | Happening::Vfork(_) => {}
            }
            let arrives = self.tracing.arrives() == Arrives::AtThread;
            if arrives && happening == Happening::Syscall && self.tracing.has_thread_pointer() {
                self.arrive(signatures);
            } else if let Some(tracee) = &mut self.tracee {
                // An error means that it is gone, and its end comes next.
                let _ = tracee.go_on(arrives);
            }
        }
    }

    /// A program without a loader has come so far that it can be hooked.
    fn arrive(&mut self, signatures: &Signatures) {
        let Some(mut tracee) = self.tracee.take() else {
            return;
        };
        let stood = tracee.stand_still();
        self.tracing.tie(Ties::Standing);
        let followed = stood.and_then(|()| self.follow(signatures));
        self.tracing.tie(match self.life.keep {
            true => Ties::Kept,
            false => Ties::None,
        });
        if let Err(error) = followed {
            self.stumble(&error);
        }
        if self.life.keep {
            let _ = tracee.go_on(false);
            self.tracee = Some(tracee);
        } else {
            let _ = tracee.let_go();
        }
    }

    /// What its threads say at once.
    fn hear(
        &mut self,
        args: &CallsArgs,
        signatures: &Signatures,
        tell: &mut dyn FnMut(Told),
        steps: &mut Vec<Step>,
    ) -> Result<bool, Error> {
        let notices = self.tracing.notices()?;
        for notice in &notices {
            let ours = notice.pid == self.pid();
            say(
                args.debug,
                debug::EVENT,
                format_args!(
                    "thread {} of process {} says: {:?}",
                    notice.tid, notice.pid, notice.says
                ),
            );
            match notice.says {
                Says::Ends(code) => {
                    self.life.says = Some(code);
                    self.read_all(tell);
                }
                Says::Exec => {
                    if ours {
                        self.read_all(tell);
                    }
                    self.exec(notice, ours, steps);
                }
                Says::ExecFailed => {
                    self.life.leaves &= !ours;
                    steps.push(Step::NoExec(notice.tid));
                }
                Says::Fork(child) => {
                    self.life.met.insert(child);
                    self.life.children.push((child, Instant::now()));
                    self.tend_children(args, tell, steps);
                }
                Says::Picked { place, target } => {
                    let which = (place, target);
                    if let Err(error) = self.picked(which, notice.tid, signatures, tell) {
                        self.stumble(&error);
                    }
                }
                Says::Script => {
                    let begun = self.tracing.script_begins();
                    match begun.and_then(|()| self.look_for_names(signatures)) {
                        Ok(()) if self.quiet => {}
                        Ok(()) => say_no_lines(&self.tracing),
                        Err(error) => self.stumble(&error),
                    }
                }
            }
            self.tracing.heard(notice)?;
        }
        Ok(!notices.is_empty())
    }

    /// A thread is about to run another program: goes along.
    fn exec(&mut self, notice: &Notice, ours: bool, steps: &mut Vec<Step>) {
        if ours && self.tracee.is_some() && notice.tid == self.pid() {
            self.life.leaves = true;
            return;
        }
        match Seized::seize(notice.pid, notice.tid) {
            Ok(seized) => {
                self.life.leaves |= ours;
                steps.push(Step::Seized(seized));
            }
            Err(error) => self.stumble(&error),
        }
    }

    /// Reads everything, and what was counted: soon it is gone.
    fn read_all(&mut self, tell: &mut dyn FnMut(Told)) {
        self.drain(tell);
        if let (Ok(rows), Ok(losses)) = (self.count(), self.tracing.lanes().losses()) {
            (self.life.counts, self.life.losses) = (Some(rows), Some(losses));
        }
    }

    /// Its memory is gone.
    fn is_gone(&mut self, tell: &mut dyn FnMut(Told)) {
        let took = self.tracing.lanes().gone();
        if self.life.says.is_none() && !self.life.leaves && took != 0 {
            eprintln!(
                "lancet: process {}: what {took} of its threads told last is lost with its memory",
                self.pid()
            );
            self.life.missed = true;
        }
        let end = match (self.life.leaves, self.life.says, self.tracing.is_replaced()) {
            (true, ..) => End::Replaced,
            (_, Some(code), _) => End::Exited(code),
            (_, None, true) => {
                if !self.quiet {
                    eprintln!(
                        "lancet: process {} runs another program now (exec)",
                        self.pid()
                    );
                }
                End::Replaced
            }
            (_, None, false) => {
                // Or why it is not heard any more was said.
                if !self.quiet && !self.life.unheard {
                    eprintln!("lancet: process {} ended", self.pid());
                }
                End::Unknown
            }
        };
        self.end(end, tell);
    }

    fn end(&mut self, end: End, tell: &mut dyn FnMut(Told)) {
        self.gone = true;
        self.life.end = Some(end);
        tell(now_of(self.pid(), What::Ended(end)));
    }

    /// What reading its lanes has failed with for good.
    pub(super) fn fail(&mut self, error: &Error) {
        self.life.unheard = !matches!(error, Error::Gone(_));
        self.stumble(error);
    }

    /// Says what did not work; where its main thread stood at something, that is seen to next.
    fn stumble(&mut self, error: &Error) {
        if let (Error::AtEvent { event, .. }, Some(tracee)) = (error, &mut self.tracee) {
            let _ = tracee.stand_at(*event);
        }
        if !matches!(error, Error::Gone(_)) {
            eprintln!("lancet: process {}: {error}", self.pid());
            self.life.missed = true;
        }
    }

    /// Whether nothing comes of it any more.
    pub fn is_over(&self) -> bool {
        self.life.end.is_some() && self.life.children.is_empty()
    }

    /// How it has ended.
    pub fn ended(&self) -> Option<End> {
        self.life.end
    }

    /// Whether something of it was not seen, beside what its lanes have lost.
    pub fn has_missed(&self) -> bool {
        self.life.missed
    }

    fn count(&mut self) -> Result<Vec<Count>, Error> {
        let counted = self.tracing.lanes().counted()?;
        let period = self.clock.period();
        let counts = counted.into_iter().filter_map(|counted| {
            Some(Count {
                function: self.known.function(&self.tracing, counted.hook)?,
                line: counted
                    .place
                    .and_then(|place| self.known.line(&mut self.tracing, place)),
                counted,
                period,
            })
        });
        Ok(counts.collect())
    }

    /// What was counted, by function and line.
    pub fn counted(&mut self) -> Result<Vec<Count>, Error> {
        let counted = self.count();
        match self
            .went(&counted)
            .then(|| self.life.counts.take())
            .flatten()
        {
            Some(before) => Ok(before),
            None => counted,
        }
    }

    /// What got lost.
    pub fn losses(&mut self) -> Result<Losses, Error> {
        let losses = self.tracing.lanes().losses();
        match self.went(&losses).then_some(self.life.losses).flatten() {
            Some(before) => Ok(before),
            None => losses,
        }
    }

    /// Lanes went with it after they were read.
    fn went<T>(&mut self, looked: &Result<T, Error>) -> bool {
        looked.is_err() || self.tracing.lanes().gone() != 0
    }

    /// Takes the hooks out; what was told before can still be read. It goes on alone.
    pub fn leave(&mut self) -> Result<(), Error> {
        let mut left = self.tracing.leave();
        // It stands at something: there it goes on first.
        while let (Err(Error::AtEvent { event, .. }), Some(tracee)) = (&left, &mut self.tracee) {
            tracee.stand_at(*event)?;
            tracee.go_on(false)?;
            left = self.tracing.leave();
        }
        if let Some(tracee) = &mut self.tracee {
            tracee.let_go()?;
        }
        if !left? {
            eprintln!(
                "lancet: process {}: calls are still to return through our frames (a blocked call, a parked fiber); the unwinder's hook stays for them",
                self.pid()
            );
        }
        Ok(())
    }

    /// The tracer's part of a program that goes on alone: its end is still told to us.
    pub fn take_tracee(&mut self) -> Option<Tracee> {
        self.tracee.take()
    }
}

/// Something that happened to a process as a whole, now.
fn now_of(pid: i32, what: What) -> Told {
    let at = At {
        pid,
        tid: pid as u32,
        time: now(),
        ..At::default()
    };
    Told { at, what }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
