//! A session with one open guest: requests to its agent, their answers (`vm_entry`), and leaving it.
//!
//! Between two requests the guest is not traced. A thread of lancet changes the control page's heartbeat; when the
//! heartbeat stands still, the agent leaves by itself.

mod accounts;
mod collections;
mod epochs;
mod evaluation;
mod last;
mod snapshot;
mod vm_entry;
mod watched;

pub use inject::Timing;
pub use inject::copied::{Copied, Lack, lack_of_room, resident};
pub use last::Last;
pub use watched::{Event, Shared};

use crate::intervals::Intervals;
use crate::ledger::{Reader, Tally};
use crate::postmortem;
use crate::ruby::RubyGuest;
use hooks::ScriptStart;
use inject::heartbeat::Heartbeat;
use inject::image::Image;
use inject::records::ReadRecords;
use inject::resident::Resident;
use inject::residents::Residents;
use inject::seccomp;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use process::guest::{self, Status};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::rss::Rss;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::panicking;
use std::time::{Duration, Instant};
use wire::{Config, ControlPage, Farewell, Purpose, Reply, Request, State};

/// Time without a heartbeat after which the agent leaves by itself.
pub const DESERTED_AFTER: Duration = Duration::from_secs(5);

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

/// A part of the control page's page that holds no field.
const SCRATCH: u64 = size_of::<ControlPage>() as u64 - 64;

/// A guest that is open: its agent is in place, and requests to it are possible until it is left.
#[derive(Debug)]
pub struct Session {
    status: Status,
    command: String,
    memory: Arc<GuestMemory>,
    ruby: Arc<RubyGuest>,
    maps: Arc<Maps>,
    resident: Resident,
    reader: Reader,
    config: Config,
    heartbeat: Heartbeat,
    /// The main thread, if we trace it between stops too.
    tracee: Option<Tracee>,
    timing: Timing,
    /// Number of garbage collections whose records were read; the agent's count is higher if there are new ones.
    collected: u64,
    /// Whether any thread has an account of its births.
    has_accounts: bool,
    /// A request was not answered in time: the next entry into the VM uses the most reliable way.
    insisting: bool,
    /// Whether it was asked to set its hook, and nobody has waited for that.
    comes: bool,
    /// How long the next request is waited for: less after one that was not answered.
    patience: Duration,
    /// When the last request was made.
    asked_at: Instant,
    open: bool,
    /// Whether the guest can no longer be asked, because it has ended, was replaced by an exec, or its agent has left.
    over: bool,
}

impl Session {
    /// Opens a process and counts births from then on.
    pub fn open(pid: i32, image: &Image, options: Options) -> Result<Self> {
        Self::open_for(pid, image, options, Purpose::Births, &[])
    }

    /// `calls`: the system calls that the guest must be allowed to make besides those of every command.
    fn open_for(
        pid: i32,
        image: &Image,
        options: Options,
        purpose: Purpose,
        calls: &[seccomp::Call],
    ) -> Result<Self> {
        let (status, memory, maps) = guest::reach(pid)?;
        let ruby = RubyGuest::find(pid, &memory, &maps)?;
        let residents = Residents::read(&memory, &maps, image)?;
        // A killed `lancet calls` may have left hooks, which are lifted first.
        hooks::lift_left(&status, &memory, ruby.gadgets, &residents)?;
        let mut session = Session::new(status, memory, ruby, maps, options);
        session.config.purpose = purpose as u64;
        session.enter_for_the_first_time(residents, image, calls)?;
        session.await_answer("set its hook")?;
        Ok(session)
    }

    fn new(
        status: Status,
        memory: Arc<GuestMemory>,
        ruby: RubyGuest,
        maps: Maps,
        options: Options,
    ) -> Self {
        let config = config(&ruby, options);
        Session {
            command: guest::command_line(status.pid),
            status,
            memory,
            ruby: Arc::new(ruby),
            maps: Arc::new(maps),
            resident: Resident::nowhere(),
            reader: Reader::new(0, options.depth > 1),
            config,
            heartbeat: Heartbeat::still(),
            tracee: None,
            timing: Timing::default(),
            collected: 0,
            has_accounts: false,
            insisting: false,
            comes: false,
            patience: vm_entry::PATIENCE,
            asked_at: Instant::now(),
            open: false,
            over: false,
        }
    }

    /// Opens the child of an open guest that was forked since: it has a copy of the agent and its books.
    pub fn adopt(&self, pid: i32) -> Result<Self> {
        let status = Status::read(pid)?;
        let memory = Arc::new(GuestMemory::open(pid)?);
        let header: wire::Header = memory.record(self.resident.base)?;
        let config: Config = memory.record(self.resident.header.config)?;
        if header != self.resident.header || config.session != self.config.session {
            return Err(Error::NotAGuest {
                pid,
                reason: "it does not carry its parent's agent",
            });
        }
        if self.shares_memory_with(&memory)? {
            return Err(Error::NotAGuest {
                pid,
                reason: "it still uses its parent's memory (vfork)",
            });
        }
        if self
            .resident
            .control_page_u32(&memory, offset_of!(ControlPage, deserted))?
            != 0
        {
            return Err(Error::NotAGuest {
                pid,
                reason: "its agent has left by itself",
            });
        }
        self.resident.claim(&memory, &config)?;
        self.resident
            .write_control_page(&memory, offset_of!(ControlPage, hooked), 1u32)?;
        let maps = Arc::new(Maps::of(pid)?);
        Ok(Session {
            command: guest::command_line(pid),
            heartbeat: Heartbeat::start(
                memory.clone(),
                self.resident.header.control_page + offset_of!(ControlPage, heartbeat) as u64,
            ),
            status,
            ruby: self.ruby.clone(),
            maps,
            resident: self.resident,
            reader: Reader::new(self.resident.header.ledger, self.config.depth > 1),
            config,
            memory,
            tracee: None,
            timing: Timing::default(),
            collected: 0,
            has_accounts: false,
            insisting: false,
            comes: false,
            patience: vm_entry::PATIENCE,
            asked_at: Instant::now(),
            open: true,
            over: false,
        })
    }

    /// Whether `child` is between vfork and exec: what is written to our guest can be read there. A forked child has a
    /// control page of its own.
    fn shares_memory_with(&self, child: &GuestMemory) -> Result<bool> {
        let nonce = inject::heartbeat::unique();
        let place = self.resident.header.control_page + SCRATCH;
        self.memory.write(place, &nonce.to_le_bytes())?;
        Ok(child.word(place)? == nonce)
    }

    /// Maps the agent, or finds it, and makes it watch births.
    fn enter_for_the_first_time(
        &mut self,
        mut residents: Residents,
        image: &Image,
        calls: &[seccomp::Call],
    ) -> Result<()> {
        let pid = self.status.pid;
        let memory = self.memory.clone();
        // Any thread that has the VM's lock may do what is requested.
        seccomp::check_other_threads(pid, calls)?;
        self.enter_vm(|session, remote| {
            if session.status.seccomp != 0 {
                seccomp::check(pid, remote.tid(), calls)?;
            }
            let (resident, _) = residents.take(remote, &memory, image, true)?;
            if !session.open {
                session.take(resident)?;
            }
            Ok(())
        })
    }

    /// Claims the agent and makes it watch births.
    fn take(&mut self, resident: Resident) -> Result<()> {
        self.resident = resident;
        self.reader = Reader::new(resident.header.ledger, self.config.depth > 1);
        resident.claim(&self.memory, &self.config)?;
        self.heartbeat = Heartbeat::start(
            self.memory.clone(),
            resident.header.control_page + offset_of!(ControlPage, heartbeat) as u64,
        );
        self.open = true;
        // An agent that is used again has the intervals of the last command.
        self.mark(&Intervals::new(Duration::MAX))?;
        self.request(Request::Watch, 0)
    }

    /// Opens a program that we started and that waits for us at the first line of its script: the hooks that brought it
    /// there are taken out, and births are counted from that line on.
    pub fn at_script(
        tracee: Tracee,
        start: ScriptStart,
        options: Options,
        collect_at_end: bool,
    ) -> std::result::Result<Self, (Tracee, Error)> {
        let memory = start.memory().clone();
        let found = Status::read(tracee.pid()).and_then(|status| {
            let maps = Maps::of(status.pid)?;
            let ruby = RubyGuest::find(status.pid, &memory, &maps)?;
            Ok((status, maps, ruby))
        });
        let (status, maps, ruby) = match found {
            Ok(found) => found,
            // Dropping `start` takes its hooks out.
            Err(error) => return Err((tracee, error)),
        };
        let mut session = Session::new(status, memory, ruby, maps, options);
        session.config.census_at_end = 1;
        session.config.end_argument = u32::from(collect_at_end);
        match start.hand_over(|resident| session.take(resident)) {
            Ok(()) => {
                session.tracee = Some(tracee);
                session.comes = true;
                Ok(session)
            }
            Err(error) => {
                session.open = false;
                Err((tracee, error))
            }
        }
    }

    /// Like [`adopt`](Self::adopt), for a child that is traced from its fork on.
    fn adopt_traced(&self, tracee: Tracee) -> std::result::Result<Self, (Tracee, Error)> {
        match self.adopt(tracee.pid()) {
            Ok(mut session) => {
                session.tracee = Some(tracee);
                Ok(session)
            }
            Err(error) => Err((tracee, error)),
        }
    }

    /// Returns the last count of a guest that is about to end and no longer runs our code: what the agent counted at the
    /// program's end, or else what can be counted from outside.
    pub fn last_words(&mut self) -> Result<(Tally, Last)> {
        self.open = false;
        if self.awaits_last_count()? {
            return Ok((self.count_before_ractor()?, Last::BeforeRactor));
        }
        if let Some(why) = self.farewell()? {
            let pid = self.status.pid;
            return Err(Error::Left { pid, why });
        }
        let ended = self
            .resident
            .control_page_u32(&self.memory, offset_of!(ControlPage, ended))?;
        if ended == Reply::Done as u32 {
            return Ok((self.reader.tally(&self.memory)?, Last::Counted));
        }
        Ok((self.count_from_outside()?, Last::Seen))
    }

    fn count_from_outside(&mut self) -> Result<Tally> {
        let counts =
            postmortem::count(&self.memory, &self.ruby.facts, self.resident.header.ledger)?;
        self.reader
            .with_rows(&self.memory, counts.tally, &counts.sites, &[])
    }

    /// Whether the program is about to make its first Ractor and waits until it has been counted ([`Self::last_words`]).
    pub fn awaits_last_count(&self) -> Result<bool> {
        let half = |offset| self.resident.control_page_u32(&self.memory, offset);
        Ok(
            half(offset_of!(ControlPage, deserted))? == Farewell::Ractor as u32
                && half(offset_of!(ControlPage, state))? == State::Open as u32,
        )
    }

    /// Lets a program that is about to make its first Ractor go on without a count.
    pub fn let_go(&mut self) -> Result<()> {
        self.open = false;
        if self.awaits_last_count()? {
            self.go_quiet();
        }
        Ok(())
    }

    /// Counts the living objects, after a garbage collection if `collect` is set.
    pub fn census(&mut self, collect: bool) -> Result<Tally> {
        self.ask(Request::Census, u64::from(collect), "count the living")?;
        process::fault::point("counting");
        let mut tally = self.reader.tally(&self.memory)?;
        let Resident { base, header } = &self.resident;
        tally.rss = Rss::of(self.status.pid, &(*base..base + header.size)).ok();
        Ok(tally)
    }

    /// Takes the hook out and unmaps the agent's books.
    pub fn leave(mut self) -> Result<Timing> {
        self.depart()?;
        Ok(self.timing)
    }

    /// Notes that the guest can no longer be asked: it has ended, or runs another program, or its agent has left.
    pub fn give_up(&mut self) {
        (self.open, self.over) = (false, true);
    }

    /// Whether births are counted in it and it can be asked.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Asks the agent to leave; the session value stays.
    fn depart(&mut self) -> Result<()> {
        self.open = false;
        if self.farewell()?.is_some() {
            return Ok(());
        }
        let done = self.ask(Request::Leave, 0, "leave");
        if done.is_err() {
            self.go_quiet();
        }
        done
    }

    /// Used if the VM's lock cannot be had: the hook finds the control page closed at its next birth and takes itself out.
    /// The word that children check is cleared before the state, so that this process does not adopt itself.
    fn go_quiet(&self) {
        let follow = self.resident.header.config + offset_of!(Config, follow) as u64;
        // If the guest is gone, there is nothing to leave.
        let _ = self.memory.write(follow, &0u32.to_le_bytes());
        let _ =
            self.resident
                .write_control_page(&self.memory, offset_of!(ControlPage, state), 0u32);
    }

    /// Returns why the agent has left by itself, if it has.
    pub fn farewell(&self) -> Result<Option<&'static str>> {
        let why = self
            .resident
            .control_page_u32(&self.memory, offset_of!(ControlPage, deserted))?;
        let all = [Farewell::Alone, Farewell::Ractor, Farewell::Broken];
        let found = all.into_iter().find(|farewell| *farewell as u32 == why);
        Ok(found.map(because))
    }

    /// Whether the guest still runs; true also where that cannot be found out.
    pub fn is_alive(&self) -> bool {
        !self.status.is_gone()
    }

    /// The guest's process id.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// The guest's command line, as it was when it was opened.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// What is known of the Ruby in the guest.
    pub fn ruby(&self) -> &RubyGuest {
        &self.ruby
    }

    /// Returns the times of the last request and of all stops so far.
    pub fn timing(&self) -> Timing {
        self.timing
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if (self.open || panicking()) && self.is_alive() {
            // No caller is left to receive an error. A panic here may come while another one unwinds, and would then end
            // the command.
            let _ = catch_unwind(AssertUnwindSafe(|| self.depart()));
        }
    }
}

/// The agent's configuration for this Ruby.
fn config(ruby: &RubyGuest, options: Options) -> Config {
    let mut facts = [0; wire::control_page::FACTS];
    for (word, fact) in facts.iter_mut().zip(ruby.facts.to_words()) {
        *word = fact;
    }
    Config {
        session: inject::heartbeat::unique(),
        functions: ruby.functions,
        facts,
        depth: options.depth,
        follow: u32::from(options.follow),
        heartbeat_ticks: inject::heartbeat::ticks(DESERTED_AFTER),
        ractor_class: ruby.ractor_class,
        vm: ruby.vm,
        door: u64::from(options.door),
        ..Config::default()
    }
}

/// The reason that the agent gave for leaving, as a text for [`Error::Left`].
fn because(why: Farewell) -> &'static str {
    match why {
        Farewell::Alone => "it heard nothing from us for 5 s",
        Farewell::Ractor => {
            "the program makes a Ractor, beside which births cannot be watched (docs/versions.md says why)"
        }
        Farewell::Broken => "it found a fault of its own",
    }
}
