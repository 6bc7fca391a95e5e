//! A session with one open guest: a process that was entered (crate `enter`), and the agent's books of its births. Used
//! by `attached`, `tracked` and others here, and by crate `lancet`.

mod accounts;
mod epochs;
mod last;
mod prompted;
mod room;
mod snapshot;
mod watched;

pub use inject::Timing;
pub use last::Last;
pub(crate) use prompted::LOOK;
pub(crate) use room::Grants;
pub use snapshot::COUNTING;
pub use watched::{Event, Shared};

use crate::ledger::{Reader, Tally};
use crate::postmortem;
use enter::{Counted, Opening};
use hooks::ScriptStart;
use inject::image::Image;
use inject::resident::Resident;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use process::memory::GuestMemory;
use process::rss::Rss;
use prompted::Prompted;
use std::mem::offset_of;
use std::time::{Duration, Instant};
use wire::{Config, ControlPage, Reply};

/// What a guest is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Frames of call path kept for each birth; 1 = only the line.
    pub depth: u32,
    /// Whether births are counted in forked children too.
    pub follow: bool,
    /// How long the first intervals are in which births are told apart (see [`crate::intervals`]).
    pub interval: Duration,
    /// Whether a look is taken at the end of each interval, if it costs little, for the verdict on leaks (see
    /// [`crate::earlier`]).
    pub looks: bool,
    /// Percentage of the time for which looks that the user has not requested may hold the guest.
    pub budget: u32,
    /// Whether the program's library provides a module for the methods of accounts ([`wire::accounts`]).
    pub door: bool,
}

impl Options {
    /// Options for sessions that count no births, or for which their intervals do not matter.
    pub(crate) const NONE: Options = Options {
        depth: 1,
        follow: false,
        interval: Duration::MAX,
        looks: false,
        budget: 100,
        door: false,
    };
}

/// A guest whose births are counted: its agent is in place, and requests to it are possible until it is left.
#[derive(Debug)]
pub struct Session {
    vm: Box<dyn Counted>,
    /// Frames of call path kept for each birth.
    depth: u32,
    reader: Reader,
    /// Whether any thread has an account of its births.
    has_accounts: bool,
    prompted: Prompted,
    /// Whether the guest can no longer be asked, because it has ended, was replaced by an exec, or its agent has left.
    over: bool,
}

impl Session {
    /// Opens a process and counts births from then on.
    pub fn open(pid: i32, image: &Image, options: Options) -> Result<Self> {
        let vm = enter::open_counted(pid, image, opening(options), false)?;
        Ok(Session::of(vm, options.depth))
    }

    /// The same of a process whose threads can have accounts.
    pub(crate) fn open_with_accounts(pid: i32, image: &Image, options: Options) -> Result<Self> {
        let vm = enter::open_counted(pid, image, opening(options), true)?;
        Ok(Session::of(vm, options.depth))
    }

    fn of(vm: Box<dyn Counted>, depth: u32) -> Self {
        Session {
            reader: Reader::new(vm.resident().header.ledger, depth > 1),
            depth,
            vm,
            has_accounts: false,
            prompted: Prompted::default(),
            over: false,
        }
    }

    /// Opens the child of an open guest that was forked since: it has a copy of the agent and its books.
    pub fn adopt(&self, pid: i32) -> Result<Self> {
        let session = Session::of(self.vm.adopt(pid)?, self.depth);
        let (memory, resident) = session.agent();
        room::begin(memory, resident)?;
        Ok(session)
    }

    /// Opens a program that we started and that waits for us at the first line of its script: the hooks that brought it
    /// there are taken out, and births are counted from that line on.
    pub fn at_script(
        tracee: Tracee,
        start: ScriptStart,
        options: Options,
        collect_at_end: bool,
    ) -> std::result::Result<Self, (Tracee, Error)> {
        let mut opening = opening(options);
        opening.config.census_at_end = 1;
        opening.config.end_argument = u32::from(collect_at_end);
        let vm = enter::open_at_script(tracee, start, opening)?;
        Ok(Session::of(vm, options.depth))
    }

    /// Like [`adopt`](Self::adopt), for a child that is traced from its fork on.
    fn adopt_traced(&self, tracee: Tracee) -> std::result::Result<Self, (Tracee, Error)> {
        match self.adopt(tracee.pid()) {
            Ok(mut session) => {
                *session.vm.tracee() = Some(tracee);
                Ok(session)
            }
            Err(error) => Err((tracee, error)),
        }
    }

    /// Returns the last count of a guest that is about to end and no longer runs our code: what the agent counted at the
    /// program's end, or else what can be counted from outside.
    pub fn last_words(&mut self) -> Result<(Tally, Last)> {
        self.vm.give_up();
        if self.awaits_last_count()? {
            return Ok((self.count_before_ractor()?, Last::BeforeRactor));
        }
        if let Some(why) = self.farewell()? {
            let pid = self.pid();
            return Err(Error::Left { pid, why });
        }
        let memory = self.vm.memory();
        let ended = self
            .vm
            .resident()
            .control_page_u32(memory, offset_of!(ControlPage, ended))?;
        if ended == Reply::Done as u32 {
            return Ok((self.reader.tally(memory)?, Last::Counted));
        }
        Ok((self.count_from_outside()?, Last::Seen))
    }

    fn count_from_outside(&mut self) -> Result<Tally> {
        let memory = self.vm.memory();
        let ledger = self.vm.resident().header.ledger;
        let counts = postmortem::count(memory, &*self.vm.objects_at_end()?, ledger)?;
        self.reader
            .with_rows(memory, counts.tally, &counts.sites, &[])
    }

    /// Whether the program is about to make its first Ractor and waits until it has been counted ([`Self::last_words`]).
    pub fn awaits_last_count(&self) -> Result<bool> {
        self.vm.awaits_last_count()
    }

    /// Lets a program that is about to make its first Ractor go on without a count.
    pub fn let_go(&mut self) -> Result<()> {
        self.vm.let_go()
    }

    /// Has a guest that cannot be made to collect garbage do so by itself. A count when it [`is_ready`](Self::is_ready) is then one after a
    /// collection.
    pub(crate) fn prompt(&mut self) {
        if !self.prompted.is_slow && self.vm.prompt() {
            self.prompted.since = Some(Instant::now());
        }
    }

    /// Whether that collection is no longer waited for: it has ended, or does not come.
    pub(crate) fn is_ready(&mut self) -> bool {
        let Some(since) = self.prompted.since else {
            return true;
        };
        let awaited = self.vm.awaits_collection();
        self.prompted.look(awaited, since.elapsed())
    }

    /// Takes how long the guest was seen to collect without an end, which no count says.
    pub(crate) fn take_unended(&mut self) -> Duration {
        std::mem::take(&mut self.prompted.unended)
    }

    /// Where the agent is, and the memory that it is in.
    pub(crate) fn agent(&self) -> (&GuestMemory, &Resident) {
        (self.vm.memory(), self.vm.resident())
    }

    /// Counts the living objects, after a garbage collection if `collect` is set.
    pub fn census(&mut self, collect: bool) -> Result<Tally> {
        self.vm.census(collect)?;
        process::fault::point("counting");
        let mut tally = self.reader.tally(self.vm.memory())?;
        let Resident { base, header } = self.vm.resident();
        tally.rss = Rss::of(self.pid(), &(*base..base + header.size)).ok();
        Ok(tally)
    }

    /// Takes the hook out and unmaps the agent's books.
    pub fn leave(mut self) -> Result<Timing> {
        self.vm.leave()
    }

    /// Notes that the guest can no longer be asked: it has ended, or runs another program, or its agent has left.
    pub fn give_up(&mut self) {
        self.vm.give_up();
        self.over = true;
    }

    /// Whether births are counted in it and it can be asked.
    pub fn is_open(&self) -> bool {
        self.vm.is_open()
    }

    /// Returns why the agent has left by itself, if it has.
    pub fn farewell(&self) -> Result<Option<&'static str>> {
        self.vm.farewell()
    }

    /// Whether the guest still runs; true also where that cannot be found out.
    pub fn is_alive(&self) -> bool {
        self.vm.is_alive()
    }

    /// The guest's process id.
    pub fn pid(&self) -> i32 {
        self.vm.pid()
    }

    /// The guest's command line, as it was when it was opened.
    pub fn command(&self) -> &[String] {
        self.vm.command()
    }

    /// The name of its language.
    pub fn language(&self) -> &'static str {
        self.vm.language().description().name
    }

    /// The version of its VM.
    pub fn version(&self) -> String {
        self.vm.version()
    }

    /// Returns the times of the last request and of all stops so far.
    pub fn timing(&self) -> Timing {
        self.vm.timing()
    }
}

/// How a process is opened whose births are counted.
const fn opening(options: Options) -> Opening {
    Opening {
        config: Config {
            depth: options.depth,
            follow: options.follow as u32,
            door: options.door as u64,
            ..Config::NONE
        },
        claimed: epochs::begin,
    }
}
