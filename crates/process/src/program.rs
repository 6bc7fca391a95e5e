//! A program we start: the agent is in it before its first instruction, and counts from the moment its
//! VM is made.
//!
//! ```text
//!   exec        the agent is mapped; the loader's note of the program's entry is changed
//!   entry       every library is in place: `ruby_run_node` is made to lead to the agent
//!   script      the VM is made: code put back, hook set, the script begins
//!   ending      the agent has counted the living, or they are counted from outside
//! ```
//!
//! Each step is taken while the program stands still, and if we die between two it takes the rest of
//! the way alone (see `wire::arrival`). A program that execs another one goes through it again, so a
//! shell script that ends in `exec ruby …` needs nothing special. Nothing of this is a breakpoint: an
//! `int3` would kill the guest that outlives us.

use crate::borrow::Borrowed;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::ledger::Tally;
use crate::maps::Maps;
use crate::memory::{GuestMemory, Record};
use crate::resident::Resident;
use crate::ruby;
use crate::session::{Last, Options, Session};
use crate::tracee::{Happening, Tracee};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use wire::Arrival;
use wire::arrival::{ENTRY, JUMP, SCRIPT};

/// Where a process is on its way.
enum Stage {
    /// No Ruby, or not yet: wait for its next exec or its end.
    Plain(Tracee),
    /// The agent is mapped; it comes by next at place `next`.
    Arriving {
        tracee: Tracee,
        memory: Arc<GuestMemory>,
        resident: Resident,
        next: usize,
    },
    /// Its births are counted.
    Watched(Box<Session>),
}

impl Stage {
    fn tracee(&mut self) -> Option<&mut Tracee> {
        match self {
            Stage::Plain(tracee) | Stage::Arriving { tracee, .. } => Some(tracee),
            Stage::Watched(session) => session.tracee(),
        }
    }
}

/// What has come to pass.
pub enum News {
    /// Births are counted in this process from now on.
    Watching(i32),
    /// A process is ending; this is what it held.
    Final {
        /// Its id.
        pid: i32,
        /// Its command line.
        command: String,
        /// Its Ruby's version.
        ruby: String,
        /// What it held.
        tally: Box<Tally>,
        /// How that is known.
        how: Last,
    },
    /// A watched process loads another program: what it held is gone, uncounted.
    Replaced(i32),
    /// A process could not be watched, and why.
    Unwatched(i32, Error),
    /// The program we started has ended with this exit code.
    Ended(i32),
}

/// See the module's text.
pub struct Program {
    root: i32,
    image: Image,
    options: Options,
    collect_at_end: bool,
    stages: BTreeMap<i32, Stage>,
    news: Vec<News>,
}

impl Program {
    /// Starts it.
    pub fn start(
        command: &[OsString],
        image: Image,
        options: Options,
        collect_at_end: bool,
    ) -> Result<Self> {
        let tracee = Tracee::launch(command, options.follow, None)?;
        Ok(Program {
            root: tracee.pid(),
            image,
            options,
            collect_at_end,
            stages: BTreeMap::from([(tracee.pid(), Stage::Plain(tracee))]),
            news: Vec::new(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.root
    }

    /// The processes whose births are counted.
    pub fn sessions(&mut self) -> impl Iterator<Item = &mut Session> {
        self.stages.values_mut().filter_map(|stage| match stage {
            Stage::Watched(session) => Some(&mut **session),
            _ => None,
        })
    }

    /// Waits at most so long for something to happen to any of them.
    pub fn wait(&self, most: Duration) {
        crate::tracee::wait_for_any(most);
    }

    /// Sees to every process once, without waiting; what has come to pass.
    pub fn tend(&mut self) -> Vec<News> {
        crate::stop::tend_stragglers();
        for pid in self.stages.keys().copied().collect::<Vec<_>>() {
            let happening = match self.stages.get_mut(&pid).and_then(Stage::tracee) {
                Some(tracee) => tracee.tend(),
                None => continue,
            };
            match happening {
                Ok(None) => {}
                Ok(Some(happening)) => self.happened(pid, happening),
                Err(_) => self.ended(pid, None),
            }
        }
        std::mem::take(&mut self.news)
    }

    fn happened(&mut self, pid: i32, happening: Happening) {
        match happening {
            Happening::Ended(code) => return self.ended(pid, Some(code)),
            Happening::Exec => return self.exec(pid),
            Happening::Ending => self.ending(pid),
            Happening::Fork(child) => self.forked(pid, child),
            // It uses its parent's memory, agent and all, until it execs.
            Happening::Vfork(child) => {
                self.stages
                    .insert(child, Stage::Plain(Tracee::child(child)));
            }
            Happening::Syscall => return self.syscall(pid),
            // Not asked for.
            Happening::Signal(_) => {}
        }
        self.go_on(pid, false);
    }

    fn go_on(&mut self, pid: i32, to_syscalls: bool) {
        if let Some(tracee) = self.stages.get_mut(&pid).and_then(Stage::tracee) {
            // An error means that it is gone, and then its end comes next.
            let _ = tracee.go_on(to_syscalls);
        }
    }

    fn ended(&mut self, pid: i32, code: Option<i32>) {
        self.stages.remove(&pid);
        if pid == self.root {
            self.news.push(News::Ended(code.unwrap_or(1)));
        }
    }

    /// A new program: put the agent in, and lead the loader by it.
    fn exec(&mut self, pid: i32) {
        if matches!(self.stages.get(&pid), Some(Stage::Watched(_))) {
            self.news.push(News::Replaced(pid));
        }
        let Some(mut tracee) = self.take_tracee(pid) else {
            return;
        };
        match self.prepare(&mut tracee) {
            Ok((memory, resident)) => {
                let stage = Stage::Arriving {
                    tracee,
                    memory,
                    resident,
                    next: ENTRY,
                };
                self.stages.insert(pid, stage);
                self.go_on(pid, true);
            }
            Err(error) => {
                if !matches!(error, Error::Gone(_)) {
                    self.news.push(News::Unwatched(pid, error));
                }
                self.stages.insert(pid, Stage::Plain(tracee));
                self.go_on(pid, false);
            }
        }
    }

    /// The process's tracee; what was known of the program before is over.
    fn take_tracee(&mut self, pid: i32) -> Option<Tracee> {
        match self.stages.remove(&pid)? {
            Stage::Plain(tracee) | Stage::Arriving { tracee, .. } => Some(tracee),
            Stage::Watched(session) => session.into_tracee(),
        }
    }

    fn prepare(&self, tracee: &mut Tracee) -> Result<(Arc<GuestMemory>, Resident)> {
        let pid = tracee.pid();
        crate::elf::require_x86_64(pid).map_err(|error| Error::Elf { pid, error })?;
        tracee.stand_still()?;
        let memory = Arc::new(GuestMemory::open(pid)?);
        let maps = Maps::of(pid)?;
        let gadgets = ruby::find_gadgets(pid, &memory, &maps)?;
        let low = |sp| maps.find(sp).map(|mapping| mapping.start);
        let mut borrowed = Borrowed::new(pid, &memory, gadgets, low)?;
        let resident = Resident::place(None, &mut borrowed, &memory, &self.image)?;
        let stack = borrowed.registers().rsp;
        borrowed.give_back()?;
        match Auxiliary::find(&memory, stack)?.program_entry {
            Some(word) => {
                let entry = memory.word(word)?;
                self.set_arrival(
                    &memory,
                    resident,
                    ENTRY,
                    Arrival {
                        go_on: entry,
                        word,
                        word_was: entry,
                        ..Arrival::default()
                    },
                )?;
                let arrive = resident.base + self.image.arrive(ENTRY);
                memory.write(word, &arrive.to_le_bytes())?;
            }
            None => self.lead_script(pid, &memory, resident)?,
        }
        Ok((memory, resident))
    }

    fn set_arrival(
        &self,
        memory: &GuestMemory,
        resident: Resident,
        number: usize,
        arrival: Arrival,
    ) -> Result<()> {
        memory.write(
            resident.base + self.image.arrival(number),
            &arrival.to_bytes(),
        )
    }

    /// Makes `ruby_run_node` lead to the agent.
    fn lead_script(&self, pid: i32, memory: &GuestMemory, resident: Resident) -> Result<()> {
        let maps = Maps::of(pid)?;
        let Some(code) = ruby::find_run_node(pid, memory, &maps) else {
            return Err(Error::NotARuby {
                pid,
                reason: "no Ruby is loaded in it".into(),
            });
        };
        let mut arrival = Arrival {
            go_on: code,
            code,
            ..Arrival::default()
        };
        memory.read_bytes(code, &mut arrival.code_was[..JUMP])?;
        self.set_arrival(memory, resident, SCRIPT, arrival)?;
        let arrive = resident.base + self.image.arrive(SCRIPT);
        // jmp *0(%rip), and the address behind it.
        let mut jump = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        jump[6..].copy_from_slice(&arrive.to_le_bytes());
        memory.write(code, &jump)
    }

    /// A system call of a process on its way: is it the mark?
    fn syscall(&mut self, pid: i32) {
        let Some(Stage::Arriving { tracee, next, .. }) = self.stages.get(&pid) else {
            return self.go_on(pid, false);
        };
        if !tracee.is_at_mark(*next) {
            return self.go_on(pid, true);
        }
        match (*next, self.stages.remove(&pid)) {
            (
                ENTRY,
                Some(Stage::Arriving {
                    tracee,
                    memory,
                    resident,
                    ..
                }),
            ) => {
                let led = self.lead_script(pid, &memory, resident);
                let stage = match led {
                    Ok(()) => Stage::Arriving {
                        tracee,
                        memory,
                        resident,
                        next: SCRIPT,
                    },
                    // A shell, an `env`: what it runs comes later.
                    Err(_) => Stage::Plain(tracee),
                };
                let on = matches!(stage, Stage::Arriving { .. });
                self.stages.insert(pid, stage);
                self.go_on(pid, on);
            }
            (
                _,
                Some(Stage::Arriving {
                    tracee,
                    memory,
                    resident,
                    ..
                }),
            ) => self.arrived(tracee, memory, resident),
            _ => {}
        }
    }

    /// The VM is made.
    fn arrived(&mut self, tracee: Tracee, memory: Arc<GuestMemory>, resident: Resident) {
        let pid = tracee.pid();
        if let Err(error) = self.put_code_back(&memory, resident) {
            self.news.push(News::Unwatched(pid, error));
        }
        let stage =
            match Session::arrived(tracee, memory, resident, self.options, self.collect_at_end) {
                Ok(session) => {
                    self.news.push(News::Watching(pid));
                    Stage::Watched(Box::new(session))
                }
                Err((tracee, error)) => {
                    self.news.push(News::Unwatched(pid, error));
                    Stage::Plain(tracee)
                }
            };
        self.stages.insert(pid, stage);
        self.go_on(pid, false);
    }

    fn put_code_back(&self, memory: &GuestMemory, resident: Resident) -> Result<()> {
        let arrival: Arrival = memory.record(resident.base + self.image.arrival(SCRIPT))?;
        memory.write(arrival.code, &arrival.code_was[..JUMP])
    }

    /// A child with a copy of its parent's memory: if births were counted there, they are here.
    fn forked(&mut self, parent: i32, child: i32) {
        let tracee = Tracee::child(child);
        let stage = match self.stages.get(&parent) {
            Some(Stage::Watched(session)) => match session.adopt_traced(tracee) {
                Ok(session) => {
                    self.news.push(News::Watching(child));
                    Stage::Watched(Box::new(session))
                }
                Err((tracee, error)) => {
                    self.news.push(News::Unwatched(child, error));
                    Stage::Plain(tracee)
                }
            },
            _ => Stage::Plain(tracee),
        };
        self.stages.insert(child, stage);
    }

    fn ending(&mut self, pid: i32) {
        let Some(Stage::Watched(session)) = self.stages.get_mut(&pid) else {
            return;
        };
        match session.last_words() {
            Ok((tally, how)) => self.news.push(News::Final {
                pid,
                command: session.command().to_owned(),
                ruby: session.ruby().version().to_string(),
                tally: Box::new(tally),
                how,
            }),
            Err(error) => self.news.push(News::Unwatched(pid, error)),
        }
        // It runs no code of its own any more: nothing is to be asked of it.
        if let Some(Stage::Watched(session)) = self.stages.remove(&pid)
            && let Some(tracee) = session.into_tracee()
        {
            self.stages.insert(pid, Stage::Plain(tracee));
        }
    }

    /// Leaves every process; the program goes on alone, and only its end is waited for.
    pub fn leave(&mut self) -> Vec<Error> {
        let mut errors = Vec::new();
        for (pid, stage) in std::mem::take(&mut self.stages) {
            let tracee = match stage {
                Stage::Plain(tracee) | Stage::Arriving { tracee, .. } => Some(tracee),
                Stage::Watched(mut session) => {
                    errors.extend(session.depart().err());
                    session.into_tracee()
                }
            };
            if let Some(mut tracee) = tracee {
                errors.extend(tracee.let_go().err());
                // Our own child: its end is still told to us.
                if pid == self.root {
                    self.stages.insert(pid, Stage::Plain(tracee));
                }
            }
        }
        errors
    }
}

/// What the kernel put on a new program's stack (`fs/binfmt_elf.c`, `create_elf_tables`; SysV ABI §3.4.1):
/// argc, argv, 0, environment, 0, pairs of the auxiliary vector.
struct Auxiliary {
    /// Address of the program's entry in it; `None` if there is no loader to read it.
    program_entry: Option<u64>,
}

const AT_NULL: u64 = 0;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
/// More words than the kernel allows on that stack (`MAX_ARG_STRINGS` is far beyond its size).
const MOST_WORDS: u64 = 1 << 22;

impl Auxiliary {
    fn find(memory: &GuestMemory, stack: u64) -> Result<Self> {
        let after_null = |mut at: u64| -> Result<u64> {
            for _ in 0..MOST_WORDS {
                at += 8;
                if memory.word(at - 8)? == 0 {
                    break;
                }
            }
            Ok(at)
        };
        let environment = after_null(stack + 8)?;
        let mut at = after_null(environment)?;
        let (mut entry, mut loader) = (None, 0);
        loop {
            match memory.word(at)? {
                AT_NULL => break,
                AT_ENTRY => entry = Some(at + 8),
                AT_BASE => loader = memory.word(at + 8)?,
                _ => {}
            }
            at += 16;
        }
        Ok(Auxiliary {
            program_entry: entry.filter(|_| loader != 0),
        })
    }
}
