//! A guest that is open: ask, be answered (`visit`), leave.
//!
//! Between two requests nobody traces the guest. A thread of ours changes the board's beat; when it
//! stands still, the agent leaves by itself.

mod collections;
mod visit;

use crate::error::{Error, Result};
use crate::guest::{self, Status};
use crate::heart::Heart;
use crate::hooks;
use crate::image::Image;
use crate::ledger::{Reader, Tally};
use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::postmortem;
use crate::resident::Resident;
use crate::ruby::RubyGuest;
use crate::seccomp;
use crate::tracee::Tracee;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::{Board, Config, Farewell, Reply, Request};

/// Without a beat for this long, the agent leaves by itself.
pub const DESERTED_AFTER: Duration = Duration::from_secs(5);

/// What a guest is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Frames of call path kept for each birth; 1 = only the line.
    pub depth: u32,
    /// Forked children go on counting.
    pub follow: bool,
}

/// A part of the board's page that holds no field.
const SCRATCH: u64 = size_of::<Board>() as u64 - 64;

/// How a guest's last tally came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// By the agent, when the main program had ended.
    Counted,
    /// From outside, after the VM could run no code: garbage included, slots without what hangs on
    /// them.
    Seen,
}

/// How the attach went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// How long the guest stood still, all stops together.
    pub stopped: Duration,
    /// The longest of them.
    pub longest_stop: Duration,
    /// How many.
    pub stops: u32,
    /// From the request to the answer.
    pub answered: Duration,
}

/// An open guest.
#[derive(Debug)]
pub struct Session {
    status: Status,
    command: String,
    memory: Arc<GuestMemory>,
    ruby: Arc<RubyGuest>,
    maps: Maps,
    resident: Resident,
    reader: Reader,
    config: Config,
    heart: Heart,
    /// The main thread, if it is ours for longer than a stop.
    tracee: Option<Tracee>,
    timing: Timing,
    /// Collections that were read.
    collected: u64,
    /// A request has not been answered in time: the next visit takes the surest way.
    insisting: bool,
    open: bool,
}

impl Session {
    /// Opens a process and counts births from then on.
    pub fn open(pid: i32, image: &Image, options: Options) -> Result<Self> {
        Self::open_for(pid, image, options, false)
    }

    /// Opens it to count births, or else to time collections.
    fn open_for(pid: i32, image: &Image, options: Options, collections: bool) -> Result<Self> {
        let (status, memory, maps) = guest::reach(pid)?;
        let ruby = RubyGuest::find(pid, &memory, &maps)?;
        let found = Resident::find(&memory, &maps, image);
        if let Some(resident) = &found {
            resident.check_free(&memory)?;
            // Of `calls` that was killed.
            hooks::lift_left(&status, &memory, ruby.gadgets, resident)?;
        }
        let mut session = Session::new(status, memory, ruby, maps, options);
        session.config.collections = u64::from(collections);
        session.enter_for_the_first_time(found, image)?;
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
            maps,
            resident: Resident::nowhere(),
            reader: Reader::new(0, options.depth > 1),
            config,
            heart: Heart::still(),
            tracee: None,
            timing: Timing::default(),
            collected: 0,
            insisting: false,
            open: false,
        }
    }

    /// The child of an open guest, forked after that: the agent and its books came with it.
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
            .board_half(&memory, offset_of!(Board, deserted))?
            != 0
        {
            return Err(Error::NotAGuest {
                pid,
                reason: "its agent has left by itself",
            });
        }
        self.resident.claim(&memory, &config)?;
        self.resident
            .set_board(&memory, offset_of!(Board, hooked), 1u32)?;
        let maps = Maps::of(pid)?;
        Ok(Session {
            command: guest::command_line(pid),
            heart: Heart::start(
                memory.clone(),
                self.resident.header.board + offset_of!(Board, beat) as u64,
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
            insisting: false,
            open: true,
        })
    }

    /// Whether a child between vfork and exec stands before us: what is written to our guest is read
    /// there. A forked child has a board of its own.
    fn shares_memory_with(&self, child: &GuestMemory) -> Result<bool> {
        let nonce = crate::heart::unique();
        let place = self.resident.header.board + SCRATCH;
        self.memory.write(place, &nonce.to_le_bytes())?;
        Ok(child.word(place)? == nonce)
    }

    /// Puts the agent in, or finds it, and has it watch.
    fn enter_for_the_first_time(&mut self, found: Option<Resident>, image: &Image) -> Result<()> {
        let pid = self.status.pid;
        let memory = self.memory.clone();
        self.visit(|session, borrowed| {
            if session.status.seccomp != 0 {
                seccomp::check(pid, pid, &[])?;
            }
            // Again, now that nobody else can be at work in it.
            let found = match found {
                Some(resident) => Some(resident),
                None => {
                    let maps = Maps::of(pid)?;
                    Resident::find(&memory, &maps, image)
                }
            };
            let resident = Resident::place(found, borrowed, &memory, image)?;
            if !session.open {
                resident.check_free(&memory)?;
                session.take(resident)?;
            }
            Ok(())
        })
    }

    /// Makes the agent ours and asks it to watch.
    fn take(&mut self, resident: Resident) -> Result<()> {
        self.resident = resident;
        self.reader = Reader::new(resident.header.ledger, self.config.depth > 1);
        resident.claim(&self.memory, &self.config)?;
        self.heart = Heart::start(
            self.memory.clone(),
            resident.header.board + offset_of!(Board, beat) as u64,
        );
        self.open = true;
        self.request(Request::Watch, 0)
    }

    /// The program that has just made its VM and stands at its second arrival: the agent is in it and
    /// will do what it is asked as soon as the program goes on.
    pub(crate) fn arrived(
        tracee: Tracee,
        memory: Arc<GuestMemory>,
        resident: Resident,
        options: Options,
        collect_at_end: bool,
    ) -> std::result::Result<Self, (Tracee, Error)> {
        let found = Status::read(tracee.pid()).and_then(|status| {
            let maps = Maps::of(status.pid)?;
            let ruby = RubyGuest::find(status.pid, &memory, &maps)?;
            Ok((status, maps, ruby))
        });
        let (status, maps, ruby) = match found {
            Ok(found) => found,
            Err(error) => return Err((tracee, error)),
        };
        let mut session = Session::new(status, memory, ruby, maps, options);
        session.config.census_at_end = 1;
        session.config.end_argument = u32::from(collect_at_end);
        match session.take(resident) {
            Ok(()) => {
                session.tracee = Some(tracee);
                Ok(session)
            }
            Err(error) => Err((tracee, error)),
        }
    }

    /// Its main thread, if it is ours for longer than a stop.
    pub(crate) fn tracee(&mut self) -> Option<&mut Tracee> {
        self.tracee.as_mut()
    }

    /// The same as [`adopt`](Self::adopt) for a child that is traced from its fork on.
    pub(crate) fn adopt_traced(
        &self,
        tracee: Tracee,
    ) -> std::result::Result<Self, (Tracee, Error)> {
        match self.adopt(tracee.pid()) {
            Ok(mut session) => {
                session.tracee = Some(tracee);
                Ok(session)
            }
            Err(error) => Err((tracee, error)),
        }
    }

    /// What is known of a guest that is about to end and runs no code of ours any more: what the
    /// agent counted at the program's end, or else what can be seen from outside.
    pub(crate) fn last_words(&mut self) -> Result<(Tally, Last)> {
        self.open = false;
        if let Some(why) = self.farewell()? {
            let pid = self.status.pid;
            return Err(Error::Left { pid, why });
        }
        let ended = self
            .resident
            .board_half(&self.memory, offset_of!(Board, ended))?;
        if ended == Reply::Done as u32 {
            return Ok((self.reader.tally(&self.memory)?, Last::Counted));
        }
        let counts =
            postmortem::count(&self.memory, &self.ruby.facts, self.resident.header.ledger)?;
        let tally = self
            .reader
            .with_rows(&self.memory, counts.tally, &counts.sites, &[])?;
        Ok((tally, Last::Seen))
    }

    /// Counts the living, after a garbage collection if `collect` says so.
    pub fn census(&mut self, collect: bool) -> Result<Tally> {
        self.ask(Request::Census, u64::from(collect), "count the living")?;
        self.reader.tally(&self.memory)
    }

    /// Takes the hook out and gives the guest its memory back.
    pub fn leave(mut self) -> Result<Timing> {
        self.depart()?;
        Ok(self.timing)
    }

    /// Its main thread back, if it was ours; the session is over.
    pub(crate) fn into_tracee(mut self) -> Option<Tracee> {
        self.open = false;
        self.tracee.take()
    }

    pub(crate) fn depart(&mut self) -> Result<()> {
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

    /// Where the VM's lock cannot be had: the hook sees a quiet board at its next birth and takes
    /// itself out. First what a child would do, then the state, so that it does not adopt itself.
    fn go_quiet(&self) {
        let follow = self.resident.header.config + offset_of!(Config, follow) as u64;
        // The guest may be gone; then there is nothing to leave.
        let _ = self.memory.write(follow, &0u32.to_le_bytes());
        let _ = self
            .resident
            .set_board(&self.memory, offset_of!(Board, state), 0u32);
    }

    /// Why the agent has left by itself, if it has.
    pub fn farewell(&self) -> Result<Option<Farewell>> {
        let why = self
            .resident
            .board_half(&self.memory, offset_of!(Board, deserted))?;
        let all = [Farewell::Alone, Farewell::Ractor, Farewell::Broken];
        Ok(all.into_iter().find(|farewell| *farewell as u32 == why))
    }

    /// Whether the guest still runs.
    pub fn is_alive(&self) -> bool {
        self.status.is_current()
    }

    /// The guest's id.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// Its command line.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Its Ruby.
    pub fn ruby(&self) -> &RubyGuest {
        &self.ruby
    }

    /// How the last request went, and all stops so far.
    pub fn timing(&self) -> Timing {
        self.timing
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.open && self.is_alive() {
            // Nobody is left to tell.
            let _ = self.depart();
        }
    }
}

/// What the agent is told of this Ruby.
fn config(ruby: &RubyGuest, options: Options) -> Config {
    let mut facts = [0; wire::board::FACTS];
    for (word, fact) in facts.iter_mut().zip(ruby.facts.to_words()) {
        *word = fact;
    }
    Config {
        session: crate::heart::unique(),
        functions: ruby.functions,
        facts,
        depth: options.depth,
        follow: u32::from(options.follow),
        beat_ticks: crate::heart::ticks(DESERTED_AFTER),
        ractor_class: ruby.ractor_class,
        ..Config::default()
    }
}
