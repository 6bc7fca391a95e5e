//! Running processes that `mem` has opened: they are watched, counted and left here. [`inject::lifecycle`] owns them.
//! Used by `lancet::commands::mem::attached`.

mod notices;

use crate::analysis::{Census, Loss, Lost};
use crate::census::{Source, census_of};
use crate::children::{Children, is_gone};
use crate::earlier::Earlier;
use crate::intervals::Intervals;
use crate::session::{Event, Grants, LOOK, Options, Session, Shared};
use crate::watching::{Notice, Watching};
use inject::image::Image;
use inject::lifecycle::Processes;
use notices::Notices;
use process::error::{Error, Result};
use process::guest::{self, Status};
use process::refusals::Program;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The processes that one command watches, and what it remembers from one look to the next. [`Attached::leave`] leaves them all and returns what
/// went wrong; processes are left when this value is dropped too, but errors are lost then.
pub struct Attached {
    processes: Processes<Session>,
    shared: Shared,
    /// With [`Options::follow`] children are searched for.
    children: Children,
    /// The watch of each open process, by process id.
    watches: BTreeMap<i32, Watch>,
    /// How many watches there have been.
    begun: u64,
    intervals: Intervals,
    grants: Grants,
    earlier: Earlier,
    /// What each process held at the last look, if that was not the user's: where it ends before the next one, nothing else is known.
    aside: BTreeMap<i32, Census>,
    opened_at: Instant,
    pauses: Pauses,
    heard: Notices,
}

/// A process from the moment it was opened until it ends or runs another program.
#[derive(Clone, Copy)]
struct Watch {
    number: u64,
    /// When its births began to be counted.
    since: Instant,
}

/// How long looks have held a guest.
struct Pauses {
    last_look: Option<Instant>,
    /// How many looks there were.
    looks: u32,
    /// After what time of watching the next look is taken that is not at the end of an interval; `None` = none is, because the user
    /// asks for looks all the time.
    early: Option<Duration>,
    /// The longest pause of a process at the last look, and the sum of these over all looks.
    last: Duration,
    all: Duration,
}

/// When the first look is taken that nobody has asked for. The next ones are after twice the time each, and at the end of each
/// interval: what a job held that ends before it is looked at is known as of the last of them.
const FIRST_LOOK: Duration = Duration::from_secs(1);

impl Default for Pauses {
    fn default() -> Self {
        Pauses {
            last_look: None,
            looks: 0,
            early: Some(FIRST_LOOK),
            last: Duration::ZERO,
            all: Duration::ZERO,
        }
    }
}

impl Attached {
    /// Returns an empty set of processes; the first interval begins now.
    pub fn new(image: Image, options: Options) -> Self {
        Attached {
            processes: Processes::default(),
            shared: Shared {
                image,
                options,
                collect_at_end: false,
            },
            children: Children::default(),
            watches: BTreeMap::new(),
            begun: 0,
            intervals: Intervals::new(options.interval),
            grants: Grants::new(),
            earlier: Earlier::default(),
            aside: BTreeMap::new(),
            opened_at: Instant::now(),
            pauses: Pauses::default(),
            heard: Notices::default(),
        }
    }

    /// Opens a process, and with [`Options::follow`] from the next look on its children.
    ///
    /// # Errors
    /// Those of [`Session::open`].
    pub fn open(&mut self, pid: i32) -> Result<()> {
        self.children.below(pid);
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

    /// Notes that a process is open; a forked child counts as watched since `parent` is.
    fn opened(&mut self, pid: i32, since: Instant, parent: Option<i32>) {
        let watched = parent.and_then(|parent| self.watches.get(&parent));
        self.begun += 1;
        let watch = Watch {
            number: self.begun,
            since: watched.map_or(since, |watch| watch.since),
        };
        self.watches.insert(pid, watch);
        // Another process may have had this id, or this process may have run another program.
        self.earlier.forget(pid);
        let Some(session) = self
            .processes
            .watched()
            .find(|session| session.pid() == pid)
        else {
            return;
        };
        // A process that is gone is noticed at the next look.
        let _ = session.mark(&self.intervals);
        self.heard.notices.push(Notice::Opened {
            pid,
            counted: format!("{} {}", session.language(), session.version()),
            forked: parent.is_some(),
            took: since.elapsed(),
            timing: session.timing(),
        });
    }

    /// Notices processes that have ended and, with [`Options::follow`], new children. Begins a new interval if one is due, with
    /// [`Options::looks`] after a look at the end of the one before. `counting` = the caller takes a look at once, so none is taken here.
    pub fn poll(&mut self, counting: bool) {
        self.processes.poll(&self.shared, &mut self.heard);
        let now = Instant::now();
        if !counting && self.may_look(now) {
            self.look_aside();
        }
        if self.intervals.pass(now) {
            for session in self.processes.watched() {
                // A process that is gone is noticed at the next look.
                let _ = session.mark(&self.intervals);
            }
        }
        let guests = self.processes.watched().map(Session::agent);
        self.grants.renew(guests);
        if !self.shared.options.follow {
            return;
        }
        let processes = &self.processes;
        let is_open = |pid| processes.contains(pid);
        for (parent, pid) in self.children.due(&mut self.heard.notices, is_open) {
            self.take_in(parent, pid);
        }
    }

    /// Opens a child: one that was forked from an open process carries our agent, any other is opened anew.
    fn take_in(&mut self, parent: i32, pid: i32) {
        let since = Instant::now();
        let adopted = self
            .processes
            .adopt((parent, pid), |session| session.adopt(pid));
        if adopted.is_ok() {
            self.children.settled(pid);
            return self.opened(pid, since, Some(parent));
        }
        let program = Program::of(pid);
        let error = match self.open_one(pid) {
            Ok(()) => return self.children.settled(pid),
            Err(error) if is_gone(&error) => return self.children.settled(pid),
            // Children whose births cannot be counted, because they run no VM that can or a version that is not known, are skipped.
            Err(Error::UnreadableVm { .. }) => None,
            Err(error) => Some(error),
        };
        let given_up = self.children.refuse((pid, program), error, since);
        self.heard.notices.extend(given_up);
    }

    /// Whether a look must be taken: at the end of this interval if there was none in the later half of it, or after one, two, four
    /// seconds and so on if there was none shortly before. It must cost no more than [`Options::budget`].
    fn may_look(&mut self, now: Instant) -> bool {
        if !self.shared.options.looks || self.next_look() > now {
            return false;
        }
        let unseen_for = |time: Duration| {
            let last = self.pauses.last_look;
            last.is_none_or(|last| now.saturating_duration_since(last) >= time)
        };
        let interval = now.saturating_duration_since(self.intervals.began());
        let watched = now.saturating_duration_since(self.opened_at);
        let due = self.intervals.is_due(now) && unseen_for(interval / 2);
        let reached = |early: &Duration| watched >= *early;
        let early = self.pauses.early.as_ref().is_some_and(reached) && unseen_for(watched / 4);
        while let Some(passed) = self.pauses.early.filter(reached) {
            self.pauses.early = Some(passed * 2);
        }
        due || early
    }

    /// Until a look was taken one is expected to hold a process for so long.
    pub fn expect(&mut self, pause: Duration) {
        if self.pauses.looks == 0 {
            self.pauses.last = self.pauses.last.max(pause);
        }
    }

    /// Returns the time from which on another look, if it takes as long as the last one, holds the guests for no more than
    /// [`Options::budget`] of the time.
    pub fn next_look(&self) -> Instant {
        let pauses = self.pauses.all + self.pauses.last;
        let percent = self.shared.options.budget.max(1);
        self.opened_at + pauses * 100 / percent
    }

    /// Takes the notices since the last call.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.heard.notices)
    }

    /// Whether no process is open.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Takes a look that the user has not requested. If a living process cannot be counted, that is not reported as a loss, and no such
    /// look is taken again.
    fn look_aside(&mut self) {
        let said = self.heard.notices.len();
        let found = self.count(true);
        self.aside
            .extend(found.into_iter().map(|census| (census.pid, census)));
        for notice in self.heard.notices.split_off(said) {
            if let Notice::Lost(error) = &notice
                && !is_end(error)
            {
                self.shared.options.looks = false;
            } else {
                self.heard.notices.push(notice);
            }
        }
    }

    /// Counts the living objects in every process, by ascending id, after a garbage collection if `collect` is set. Processes that cannot
    /// be counted are in the [`notices`](Self::notices).
    pub fn census(&mut self, collect: bool) -> Vec<Census> {
        self.heard.notices.extend(self.children.untold());
        let mut found = self.count(collect);
        self.pauses.early = None;
        let aside = std::mem::take(&mut self.aside);
        let ended = aside
            .into_values()
            .filter(|census| !self.processes.contains(census.pid));
        let ended = ended.filter(|census| found.iter().all(|other| other.pid != census.pid));
        let ended: Vec<Census> = ended.map(before_its_end).collect();
        found.extend(ended);
        found.sort_by_key(|census| census.pid);
        found
    }

    fn count(&mut self, collect: bool) -> Vec<Census> {
        if collect {
            self.processes.watched_mut().for_each(Session::prompt);
        }
        // The time is the same for all, so that the intervals of several guests end together.
        let now = Instant::now();
        let (mut found, unended) = self.count_each(collect, now);
        self.processes.poll(&self.shared, &mut self.heard);
        self.processes.drop_over();
        let last = std::mem::take(&mut self.heard.last);
        found.extend(
            last.into_iter()
                .filter_map(|event| self.last_of(event, now)),
        );
        self.forget_ended();
        let pause = |census: &Census| census.walk_pause + census.gc_pause.unwrap_or_default();
        self.pauses.looks += 1;
        self.pauses.last = found.iter().map(pause).max().unwrap_or_default() + unended;
        self.pauses.all += self.pauses.last;
        self.pauses.last_look = Some(now);
        for census in &mut found {
            census.looks = self.pauses.looks;
            census.paused = self.pauses.all;
        }
        found.sort_by_key(|census| census.pid);
        found
    }

    /// Counts each process as soon as the collection has come that it was to run by itself. Returns also how long one of them was seen to collect
    /// without an end.
    fn count_each(&mut self, collect: bool, now: Instant) -> (Vec<Census>, Duration) {
        let (mut found, mut unended) = (Vec::new(), Duration::ZERO);
        let mut left: BTreeSet<i32> = self.processes.watched().map(Session::pid).collect();
        while !left.is_empty() {
            for session in self.processes.watched_mut() {
                let pid = session.pid();
                if !left.contains(&pid) || !session.is_ready() {
                    continue;
                }
                left.remove(&pid);
                unended = unended.max(session.take_unended());
                match session.census(collect) {
                    Ok(tally) => {
                        let source = Source {
                            command: session.command(),
                            language: session.language(),
                            version: &session.version(),
                            ..watch_of(&self.watches, pid, now).source(pid, &self.intervals, now)
                        };
                        let intervals = source.intervals.clone();
                        let mut census = census_of(source, &tally);
                        self.earlier.join(&mut census, &tally, &intervals, now);
                        found.push(census);
                    }
                    // A guest that is about to make its first Ractor does not answer, and is counted at the next look.
                    Err(_) if matches!(session.awaits_last_count(), Ok(true)) => {}
                    // What has become of it is found out by `count`: memory that can no longer be read is that of a program which has ended, and
                    // of one which runs another program now.
                    Err(error) if is_end(&error) => session.give_up(),
                    Err(error) => self.heard.notices.push(Notice::Lost(error)),
                }
            }
            if !left.is_empty() {
                sleep(LOOK);
            }
        }
        (found, unended)
    }

    /// Forgets data of processes that are no longer open: a server that renews its workers has any number of them.
    fn forget_ended(&mut self) {
        let (open, earlier) = (&self.processes, &mut self.earlier);
        self.watches.retain(|pid, _| {
            let stays = open.contains(*pid);
            if !stays {
                earlier.forget(*pid);
            }
            stays
        });
    }

    /// Makes the census of a process that can no longer be asked.
    fn last_of(&mut self, event: Event, now: Instant) -> Option<Census> {
        let Event::Final {
            pid,
            command,
            language,
            version,
            tally,
            how,
        } = event
        else {
            return None;
        };
        let source = Source {
            command: &command,
            language,
            version: &version,
            ..watch_of(&self.watches, pid, now).source(pid, &self.intervals, now)
        };
        let mut census = census_of(source, &tally);
        census.losses.extend(how.loss());
        Some(census)
    }

    /// Leaves all processes; returns the errors of those that could not be left as they should be.
    pub fn leave(&mut self) -> Vec<Error> {
        self.processes.leave(&mut self.heard)
    }
}

impl Watching for Attached {
    fn open(&mut self, pid: i32) -> Result<()> {
        Attached::open(self, pid)
    }

    fn poll(&mut self, counting: bool) {
        Attached::poll(self, counting);
    }

    fn expect(&mut self, pause: Duration) {
        Attached::expect(self, pause);
    }

    fn next_look(&self) -> Instant {
        Attached::next_look(self)
    }

    fn notices(&mut self) -> Vec<Notice> {
        Attached::notices(self)
    }

    fn is_empty(&self) -> bool {
        Attached::is_empty(self)
    }

    fn census(&mut self, collect: bool) -> Vec<Census> {
        Attached::census(self, collect)
    }

    fn leave(&mut self) -> Vec<Error> {
        Attached::leave(self)
    }
}

/// Says in the census of the last look that the process is not counted any more: it has ended, or the agent has left it.
fn before_its_end(mut census: Census) -> Census {
    let state = Status::read(census.pid).map(|status| status.state);
    let since = match state {
        Ok('Z' | 'X') | Err(_) => "the process has ended since",
        Ok(_) => "the process is not counted any more",
    };
    census.losses.push(Loss {
        what: Lost::Heap,
        count: None,
        text: format!(
            "{since}: this is what it held {:.1} s after it was opened",
            census.seconds
        ),
    });
    census
}

impl Watch {
    /// What a count of its process at `now` is of; whoever has counted adds the command line and the VM.
    fn source<'a>(self, pid: i32, intervals: &Intervals, now: Instant) -> Source<'a> {
        Source {
            pid,
            watch: self.number,
            command: &[],
            root: guest::working_directory(pid).unwrap_or_default(),
            language: "",
            version: "",
            seconds: self.since.elapsed().as_secs_f64(),
            intervals: intervals.of_guest(self.since, now),
        }
    }
}

/// Returns the watch of a process, or one that begins now if the process is unknown.
fn watch_of(watches: &BTreeMap<i32, Watch>, pid: i32, now: Instant) -> Watch {
    let none = Watch {
        number: 0,
        since: now,
    };
    watches.get(&pid).copied().unwrap_or(none)
}

/// Whether a process can no longer be asked after this error.
fn is_end(error: &Error) -> bool {
    matches!(
        error,
        Error::Left { .. } | Error::Replaced(_) | Error::Gone(_) | Error::NoSuchProcess(_)
    )
}
