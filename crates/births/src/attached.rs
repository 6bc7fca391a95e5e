//! Running processes that `mem` has opened: followed, counted, left. [`inject::lifecycle`] owns them.

use crate::analysis::Census;
use crate::census::{Frames, Source, census_of};
use crate::earlier::Earlier;
use crate::intervals::Intervals;
use crate::session::{Event, Options, Session, Shared, Timing};
use inject::image::Image;
use inject::lifecycle::{Observer, Over, Processes};
use process::error::{Error, Result};
use process::guest;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What has come to pass.
pub enum Notice {
    /// A process was opened.
    Opened {
        /// Its id.
        pid: i32,
        /// Its Ruby's version.
        ruby: String,
        /// It was forked by an open one, whose agent it has.
        forked: bool,
        /// How long that took.
        took: Duration,
        /// How long it stood still.
        timing: Timing,
    },
    /// A process has ended; what it held is not known.
    Ended(i32),
    /// A process could not be opened, counted or heard any more.
    Lost(Error),
}

/// See the module's text.
pub struct Attached {
    processes: Processes<Session>,
    shared: Shared,
    /// Children of these are looked for, if at all.
    roots: Vec<i32>,
    /// Since when each has been watched.
    since: BTreeMap<i32, Instant>,
    /// Children that could not be opened, so as to say it once.
    refused: BTreeSet<i32>,
    frames: Frames,
    intervals: Intervals,
    earlier: Earlier,
    opened_at: Instant,
    pauses: Pauses,
    heard: Heard,
}

/// How long looks have held a guest.
#[derive(Default)]
struct Pauses {
    last_look: Option<Instant>,
    /// The longest of the last look, and the sum of those of all looks.
    last: Duration,
    all: Duration,
}

/// The share of the time for which looks that nobody asked for may hold a guest: one part of so many.
const BUDGET: u32 = 20;

#[derive(Default)]
struct Heard(Vec<Notice>);

impl Observer<Session> for Heard {
    /// What a traced program tells; none of these is traced.
    fn event(&mut self, _: Event) {}

    fn begins(&mut self, _: i32) {}

    fn unwatched(&mut self, _: i32, error: Error) {
        self.0.push(Notice::Lost(error));
    }

    fn over(&mut self, session: Session, why: Over) {
        let pid = session.pid();
        match session.farewell() {
            _ if why != Over::Ended => {}
            Ok(Some(why)) if session.is_alive() => {
                self.0.push(Notice::Lost(Error::Left { pid, why }))
            }
            _ => self.0.push(Notice::Ended(pid)),
        }
    }

    fn ended(&mut self, _: i32, _: Option<i32>) {}
}

impl Attached {
    /// None yet.
    pub fn new(image: Image, options: Options) -> Self {
        Attached {
            processes: Processes::default(),
            shared: Shared {
                image,
                options,
                collect_at_end: false,
            },
            roots: Vec::new(),
            since: BTreeMap::new(),
            refused: BTreeSet::new(),
            frames: Frames::default(),
            intervals: Intervals::new(options.interval),
            earlier: Earlier::default(),
            opened_at: Instant::now(),
            pauses: Pauses::default(),
            heard: Heard::default(),
        }
    }

    /// Opens a process, and with [`Options::follow`] from the next look on its children.
    ///
    /// # Errors
    /// Those of [`Session::open`].
    pub fn open(&mut self, pid: i32) -> Result<()> {
        self.roots.push(pid);
        self.open_one(pid)
    }

    fn open_one(&mut self, pid: i32) -> Result<()> {
        if self.processes.contains(pid) {
            return Ok(());
        }
        let since = Instant::now();
        self.processes.open(pid, &self.shared)?;
        self.opened(pid, since, None);
        Ok(())
    }

    /// Notes that a process is open; a forked child has been watched since `parent` has.
    fn opened(&mut self, pid: i32, since: Instant, parent: Option<i32>) {
        let watched = parent.and_then(|parent| self.since.get(&parent).copied());
        self.since.insert(pid, watched.unwrap_or(since));
        let Some(session) = self
            .processes
            .watched()
            .find(|session| session.pid() == pid)
        else {
            return;
        };
        // One that has gone meanwhile is seen at the next look.
        let _ = session.mark(&self.intervals);
        self.heard.0.push(Notice::Opened {
            pid,
            ruby: session.ruby().version().to_string(),
            forked: parent.is_some(),
            took: since.elapsed(),
            timing: session.timing(),
        });
    }

    /// Notices who has ended and, with [`Options::follow`], who has come; begins a new interval if one is due, with
    /// [`Options::looks`] after a look at the end of the one before.
    pub fn poll(&mut self) {
        self.processes.poll(&self.shared, &mut self.heard);
        let now = Instant::now();
        if self.intervals.is_due(now) && self.may_look(now) {
            self.look_aside();
        }
        if self.intervals.pass(now) {
            for session in self.processes.watched() {
                // As above.
                let _ = session.mark(&self.intervals);
            }
        }
        if !self.shared.options.follow {
            return;
        }
        let mut found = Vec::new();
        for root in &self.roots {
            descendants(*root, &mut found);
        }
        for (parent, pid) in found {
            if !self.processes.contains(pid) && !self.refused.contains(&pid) {
                self.take_in(parent, pid);
            }
        }
    }

    /// A child: one that was forked from an open process carries our agent, another is opened anew.
    fn take_in(&mut self, parent: i32, pid: i32) {
        let since = Instant::now();
        let adopted = self
            .processes
            .adopt((parent, pid), |session| session.adopt(pid));
        if adopted.is_ok() {
            return self.opened(pid, since, Some(parent));
        }
        match self.open_one(pid) {
            Ok(()) | Err(Error::NoSuchProcess(_) | Error::Gone(_) | Error::Zombie(_)) => {}
            Err(error) => {
                self.refused.insert(pid);
                // A server's helpers in other languages are none of this command's business.
                if !matches!(error, Error::NotARuby { .. }) {
                    self.heard.0.push(Notice::Lost(error));
                }
            }
        }
    }

    /// Whether a look is to be taken at the end of this interval: there was none in it, and it costs no more than
    /// [`BUDGET`].
    fn may_look(&self, now: Instant) -> bool {
        let pauses = &self.pauses;
        let within = now.saturating_duration_since(self.opened_at) / BUDGET;
        let since = self.intervals.began();
        self.shared.options.looks
            && pauses.last_look.is_none_or(|last| last < since)
            && pauses.all + pauses.last <= within
    }

    /// What has come to pass since the last time.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.heard.0)
    }

    /// Whether nobody is open.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// A look that nobody asked for. One that cannot be had of a process that lives is no loss, and not tried again.
    fn look_aside(&mut self) {
        let said = self.heard.0.len();
        self.census(true);
        for notice in self.heard.0.split_off(said) {
            if let Notice::Lost(error) = &notice
                && !is_end(error)
            {
                self.shared.options.looks = false;
            } else {
                self.heard.0.push(notice);
            }
        }
    }

    /// Counts the living in every process, by rising id, after a garbage collection if `collect` says so. What cannot
    /// be counted is among the [`notices`](Self::notices).
    pub fn census(&mut self, collect: bool) -> Vec<Census> {
        let mut found = Vec::new();
        // Of all the same, so that the intervals of several guests end together.
        let now = Instant::now();
        for session in self.processes.watched_mut() {
            let pid = session.pid();
            match session.census(collect) {
                Ok(tally) => {
                    let since = self.since.get(&pid).copied().unwrap_or(now);
                    let source = Source {
                        pid,
                        command: session.command(),
                        ruby: &session.ruby().version().to_string(),
                        seconds: since.elapsed().as_secs_f64(),
                        intervals: self.intervals.of_guest(since, now),
                    };
                    let intervals = source.intervals.clone();
                    let mut census = census_of(source, &tally, &mut self.frames);
                    self.earlier.join(&mut census, &tally, &intervals, now);
                    found.push(census);
                }
                Err(error) => {
                    if is_end(&error) {
                        session.give_up();
                    }
                    self.heard.0.push(Notice::Lost(error));
                }
            }
        }
        self.processes.drop_over();
        let pause = |census: &Census| census.walk_pause + census.gc_pause.unwrap_or_default();
        self.pauses.last = found.iter().map(pause).max().unwrap_or_default();
        self.pauses.all += self.pauses.last;
        self.pauses.last_look = Some(now);
        found.sort_by_key(|census| census.pid);
        found
    }

    /// Leaves all; what could not be left as it should.
    pub fn leave(mut self) -> Vec<Error> {
        self.processes.leave(&mut self.heard)
    }
}

/// Whether a process cannot be asked any more after this error.
fn is_end(error: &Error) -> bool {
    matches!(
        error,
        Error::Left { .. } | Error::Replaced(_) | Error::Gone(_) | Error::NoSuchProcess(_)
    )
}

/// Every process below `pid`, with its parent; parents first.
fn descendants(pid: i32, found: &mut Vec<(i32, i32)>) {
    for child in guest::children(pid) {
        found.push((pid, child));
        descendants(child, found);
    }
}
