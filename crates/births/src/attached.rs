//! Running processes that `mem` has opened: followed, counted, left. [`inject::lifecycle`] owns them.

use crate::analysis::Census;
use crate::census::{Frames, Source, census_of};
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
    heard: Heard,
}

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
        self.heard.0.push(Notice::Opened {
            pid,
            ruby: session.ruby().version().to_string(),
            forked: parent.is_some(),
            took: since.elapsed(),
            timing: session.timing(),
        });
    }

    /// Notices who has ended and, with [`Options::follow`], who has come.
    pub fn poll(&mut self) {
        self.processes.poll(&self.shared, &mut self.heard);
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

    /// What has come to pass since the last time.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.heard.0)
    }

    /// Whether nobody is open.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Counts the living in every process, by rising id, after a garbage collection if `collect` says so. What cannot
    /// be counted is among the [`notices`](Self::notices).
    pub fn census(&mut self, collect: bool) -> Vec<Census> {
        let mut found = Vec::new();
        for session in self.processes.watched_mut() {
            let pid = session.pid();
            match session.census(collect) {
                Ok(tally) => {
                    let since = self.since.get(&pid);
                    let source = Source {
                        pid,
                        command: session.command(),
                        ruby: &session.ruby().version().to_string(),
                        seconds: since.map_or(0.0, |since| since.elapsed().as_secs_f64()),
                    };
                    found.push(census_of(source, &tally, &mut self.frames));
                }
                Err(error) => {
                    if matches!(
                        error,
                        Error::Left { .. }
                            | Error::Replaced(_)
                            | Error::Gone(_)
                            | Error::NoSuchProcess(_)
                    ) {
                        session.give_up();
                    }
                    self.heard.0.push(Notice::Lost(error));
                }
            }
        }
        self.processes.drop_over();
        found.sort_by_key(|census| census.pid);
        found
    }

    /// Leaves all; what could not be left as it should.
    pub fn leave(mut self) -> Vec<Error> {
        self.processes.leave(&mut self.heard)
    }
}

/// Every process below `pid`, with its parent; parents first.
fn descendants(pid: i32, found: &mut Vec<(i32, i32)>) {
    for child in guest::children(pid) {
        found.push((pid, child));
        descendants(child, found);
    }
}
