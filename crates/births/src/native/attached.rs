//! Processes whose blocks are counted, which run already or are started: they are watched, looked at and left here. Used by crate `lancet`.

use super::{Event, Native, Shared};
use crate::analysis::{Census, Loss, Lost};
use crate::children::{Children, is_gone};
use crate::watching::{Notice, Watching};
use inject::lifecycle::{NotStarted, Observer, Over, Processes};
use process::error::{Error, Result};
use process::ptrace::may_share_memory;
use process::refusals::Program;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Time between two looks at a program that has just begun, whose loader waits for lancet.
const START_LOOK: Duration = Duration::from_millis(1);

/// The processes that one `mem --native` watches.
pub struct Attached {
    processes: Processes<Native>,
    shared: Shared,
    /// With [`Shared::follow`] children are searched for.
    children: Children,
    heard: Heard,
    begun: Instant,
}

/// What they have reported since it was last asked for, and since when each is watched.
#[derive(Default)]
struct Heard {
    notices: Vec<Notice>,
    /// What those that have ended held at their end.
    last: Vec<Census>,
    watches: BTreeMap<i32, (u64, Instant)>,
    watched: u64,
    /// The program that was started: its process id.
    started: Option<i32>,
    /// The exit code of the one that was started.
    code: Option<i32>,
}

impl Attached {
    /// Returns an empty set of processes.
    pub fn new(shared: Shared) -> Self {
        Attached {
            processes: Processes::default(),
            shared,
            children: Children::default(),
            heard: Heard::default(),
            begun: Instant::now(),
        }
    }

    /// Starts a program, whose blocks are counted from before its first own instruction on.
    ///
    /// # Errors
    /// There is no such program, it may not be run, or it cannot be watched from the beginning.
    pub fn start(&mut self, command: &[OsString]) -> Result<()> {
        let how = (false, None);
        let started = self
            .processes
            .start(command, how, &self.shared, &mut self.heard);
        let pid =
            started.map_err(|(NotStarted::Launch(error) | NotStarted::Watch(error))| error)?;
        self.children.below(pid);
        self.heard.started = Some(pid);
        self.heard.watches.insert(pid, (1, Instant::now()));
        Ok(())
    }

    /// Waits at most `most` for something to happen to the program that was started.
    pub fn wait(&self, most: Duration) {
        let starting = self.processes.watched().any(|native| !native.counts());
        inject::tracee::wait_for_any(if starting { most.min(START_LOOK) } else { most });
    }

    fn open_one(&mut self, pid: i32) -> Result<()> {
        let since = Instant::now();
        self.processes.open(pid, &self.shared)?;
        self.heard.watched += 1;
        self.heard.watches.insert(pid, (self.heard.watched, since));
        let mut opened = self.processes.watched();
        if let Some(native) = opened.find(|native| native.pid() == pid) {
            self.heard.notices.push(Notice::Opened {
                pid,
                counted: native.counted(),
                forked: false,
                took: since.elapsed(),
                timing: native.timing(),
            });
        }
        Ok(())
    }

    /// Opens a child. What it has taken until now is not counted.
    fn take_in(&mut self, parent: i32, pid: i32) {
        let (since, program) = (Instant::now(), Program::of(pid));
        let opened = match may_share_memory(parent, pid) {
            true => Err(Error::NotAGuest {
                pid,
                reason: "it still uses its parent's memory (vfork), or may do so: a thread of its parent is making a process",
            }),
            false => self.open_one(pid),
        };
        match opened {
            Err(error) if !is_gone(&error) => {
                let given_up = self.children.refuse((pid, program), Some(error), since);
                self.heard.notices.extend(given_up);
            }
            _ => self.children.settled(pid),
        }
    }

    /// The exit code of the program that was started, once it has ended.
    pub fn code(&mut self) -> Option<i32> {
        let seen = self.heard.code;
        seen.or_else(|| self.processes.code())
    }
}

impl Heard {
    fn census(&self, native: &Native) -> Census {
        let unknown = (0, Instant::now());
        let (watch, since) = self.watches.get(&native.pid()).unwrap_or(&unknown);
        native.census(*watch, *since)
    }
}

impl Observer<Native> for Heard {
    fn event(&mut self, event: Event) {
        self.notices.push(match event {
            Event::Leaving(pid, why) => Notice::Said(pid, why),
            Event::Uncounted(error) => Notice::Lost(error),
        });
    }

    fn begins(&mut self, _: i32) {}

    fn unwatched(&mut self, _: i32, error: Error) {
        self.notices.push(Notice::Lost(error));
    }

    fn over(&mut self, mut native: Native, why: Over) {
        let pid = native.pid();
        match why {
            Over::Left => {
                if native.was_to_leave() && native.counts() {
                    self.last.push(self.census(&native));
                }
                let stays = native.stays().map(|why| {
                    format!("a hook that answers unwinders stays, which costs nothing: {why}")
                });
                self.notices.extend(stays.map(|why| Notice::Said(pid, why)));
            }
            _ if native.has_parted() => {
                let mut census = self.census(&native);
                // Of a program that was started, what it holds at its end is what is asked for.
                if self.started != Some(pid) || why == Over::Replaced {
                    census.losses.push(Loss {
                        what: Lost::Heap,
                        count: None,
                        text: "the process has ended since, or runs another program: this is what it held then".into(),
                    });
                }
                self.last.push(census);
            }
            // It stays watched as the next program.
            Over::Replaced if self.started == Some(pid) => {
                if native.counts() {
                    let why = "it runs another program; what the last one held is not known";
                    self.notices.push(Notice::Said(pid, why.into()));
                }
            }
            _ => self.notices.push(Notice::Ended(pid)),
        }
        let known = self.watches.remove(&pid);
        if why == Over::Replaced && self.started == Some(pid) {
            let number = known.map_or(1, |(number, _)| number + 1);
            self.watches.insert(pid, (number, Instant::now()));
        }
    }

    fn ended(&mut self, pid: i32, code: Option<i32>) {
        if self.started == Some(pid) {
            self.code = code.or(self.code);
        }
    }
}

impl Watching for Attached {
    fn open(&mut self, pid: i32) -> Result<()> {
        self.children.below(pid);
        if self.processes.contains(pid) {
            return Ok(());
        }
        self.open_one(pid)
    }

    fn poll(&mut self, _: bool) {
        self.processes.poll(&self.shared, &mut self.heard);
        if !self.shared.follow {
            return;
        }
        let processes = &self.processes;
        let is_open = |pid| processes.contains(pid);
        for (parent, pid) in self.children.due(&mut self.heard.notices, is_open) {
            self.take_in(parent, pid);
        }
    }

    /// A look holds nobody, so it may be taken at any time.
    fn next_look(&self) -> Instant {
        self.begun
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.heard.notices)
    }

    fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    fn census(&mut self, _: bool) -> Vec<Census> {
        self.heard.notices.extend(self.children.untold());
        for native in self.processes.watched_mut() {
            if !native.counts() {
                continue;
            }
            match native.look() {
                // That it has ended is seen next.
                Err(error) if !error.is_left() => self.heard.notices.push(Notice::Lost(error)),
                _ => {}
            }
        }
        self.processes.poll(&self.shared, &mut self.heard);
        let open = self.processes.watched().filter(|native| native.counts());
        let mut found: Vec<Census> = open.map(|native| self.heard.census(native)).collect();
        found.append(&mut self.heard.last);
        found.sort_by_key(|census| census.pid);
        found
    }

    fn leave(&mut self) -> Vec<Error> {
        self.processes.leave(&mut self.heard)
    }
}
