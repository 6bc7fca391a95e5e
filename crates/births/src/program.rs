//! A program that `mem` starts: the agent is in it before its first instruction, and births are counted from the
//! moment its VM is made ([`crate::session`] has the steps; [`inject::lifecycle`] owns its processes). Used by
//! `lancet::commands::mem::started`.

use crate::intervals::Intervals;
use crate::session::{Event, Grants, Session, Shared};
use inject::lifecycle::{NotStarted, Observer, Over, Processes};
use process::error::{Error, Result};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Time between two looks at a program that is being started, which waits for lancet twice until its script begins.
const START_LOOK: Duration = Duration::from_millis(1);

/// What has happened to the processes of the program.
pub enum News {
    /// A session reports this event.
    Event(Event),
    /// A watched process runs another program: what it held is gone without having been counted.
    Replaced(i32),
    /// A process could not be watched, and why.
    Unwatched(i32, Error),
    /// The program we started has ended with this exit code.
    Ended(i32),
}

/// A started program and all processes of it whose births are counted. [`Program::poll`] must be called until the program has ended: a process
/// that is being started waits for it.
pub struct Program {
    processes: Processes<Session>,
    shared: Shared,
    intervals: Intervals,
    grants: Grants,
    pid: i32,
    heard: Heard,
}

/// Events of the processes since the last poll.
#[derive(Default)]
struct Heard {
    news: Vec<News>,
    ended: Vec<(i32, Option<i32>)>,
}

impl Observer<Session> for Heard {
    fn event(&mut self, event: Event) {
        self.news.push(News::Event(event));
    }

    fn begins(&mut self, _: i32) {}

    /// Notes that a process could not be watched, unless it has merely ended.
    fn unwatched(&mut self, pid: i32, error: Error) {
        if !error.is_left() {
            self.news.push(News::Unwatched(pid, error));
        }
    }

    fn over(&mut self, session: Session, why: Over) {
        if why == Over::Replaced {
            self.news.push(News::Replaced(session.pid()));
        }
    }

    fn ended(&mut self, pid: i32, code: Option<i32>) {
        self.ended.push((pid, code));
    }
}

impl Program {
    /// Starts the program.
    ///
    /// # Errors
    /// [`Error::Start`], if there is no such program or it may not be run.
    pub fn start(command: &[OsString], shared: Shared) -> Result<Self> {
        let (mut processes, mut heard) = (Processes::default(), Heard::default());
        let how = (shared.options.follow, None);
        let started = processes.start(command, how, &shared, &mut heard);
        let pid =
            started.map_err(|(NotStarted::Launch(error) | NotStarted::Watch(error))| error)?;
        Ok(Program {
            processes,
            intervals: Intervals::new(shared.options.interval),
            grants: Grants::new(),
            shared,
            pid,
            heard,
        })
    }

    /// The program's exit code, once it has ended after it was left.
    pub fn code(&mut self) -> Option<i32> {
        self.processes.code()
    }

    /// The processes whose births are counted, by rising id.
    pub fn sessions(&mut self) -> Vec<&mut Session> {
        let sessions = self.processes.watched_mut();
        let mut open: Vec<_> = sessions.filter(|session| session.is_open()).collect();
        open.sort_by_key(|session| session.pid());
        open
    }

    /// The intervals by which births are told apart.
    pub fn intervals(&self) -> &Intervals {
        &self.intervals
    }

    /// Waits at most `most` for something to happen to any of the processes.
    pub fn wait(&self, most: Duration) {
        let starting = self.processes.is_starting();
        inject::tracee::wait_for_any(if starting { most.min(START_LOOK) } else { most });
    }

    /// Polls every process once, without waiting, and returns what has happened since the last call.
    pub fn poll(&mut self) -> Vec<News> {
        self.processes.poll(&self.shared, &mut self.heard);
        let opened = |news: &News| matches!(news, News::Event(Event::Watching(_)));
        if self.intervals.pass(Instant::now()) || self.heard.news.iter().any(opened) {
            for session in self.processes.watched() {
                // A process that is gone is noticed at the next poll.
                let _ = session.mark(&self.intervals);
            }
        }
        let guests = self.processes.watched().map(Session::agent);
        self.grants.renew(guests);
        for (pid, code) in std::mem::take(&mut self.heard.ended) {
            if pid == self.pid {
                // If its tracer can no longer wait for the program, its exit code was not seen.
                let code = self.processes.code().or(code).unwrap_or(1);
                self.heard.news.push(News::Ended(code));
            }
        }
        std::mem::take(&mut self.heard.news)
    }

    /// Leaves every process; the program goes on alone, and only its end is waited for.
    pub fn leave(&mut self) -> Vec<Error> {
        self.processes.leave(&mut self.heard)
    }
}
