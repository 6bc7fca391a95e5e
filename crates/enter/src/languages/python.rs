//! A Python that is entered: to evaluate texts, to be copied (`snapshot`), to have its births counted (`counted`). Used
//! by `python::counted`, `python::doors`, `python::entry` and others.
//!
//! ```text
//!   us                                    its main thread
//!   text, request ───────────────────────► in the agent
//!   stop it: where does it stand?
//!     blocked, without Python's lock ────► takes the lock and evaluates now (PyGILState_Ensure)
//!     anywhere else ─────────────────────► is asked to, at its next safe point (Py_AddPendingCall, if that door is open)
//!   look every 200 µs …                    …
//!   answer ◄────────────────────────────── in the agent
//! ```
//!
//! A thread that waits for Python's lock is blocked without it, too, but must not be made to request the lock again inside that wait. The
//! lock uses two condition variables (`struct _gil_runtime_state`, `Python/ceval_gil.c`): a thread that takes it signals that to the thread
//! that was asked to release it, which sleeps in `drop_gil` without a deadline, and glibc's signal may wait until all threads that were
//! signalled before have continued (`__condvar_quiesce_and_switch_g1`, `nptl/pthread_cond_common.c` to 2.40). Inside its own wait a thread
//! would wait for itself, forever. Both variables lie in Python's static memory (`_PyRuntime`, which also contains the main interpreter),
//! where no other long wait happens: a futex there is Python's lock.
//!
//! The functions that are called at such a stop, and what must be proven before, are a list: [`vm::Door`]. The proofs are in `doors`.

mod collected;
mod counted;
mod doors;
mod entry;
mod snapshot;

pub(crate) use entry::ENTRY;

use crate::entered::{Entered, Reached, poll};
use crate::handed;
use crate::interpreter::Interpreter;
use crate::script;
use doors::is_in_call;
use hooks::Threads;
use inject::Image;
use inject::doors::Open;
use inject::remote_call::Work;
use inject::tracee::Tracee;
use process::asked::Wait;
use process::error::{Error, Result};
use process::guest::Status;
use std::cell::Cell;
use std::mem::offset_of;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm::python::Facts;
use vm::python::api::NAMES;
use vm::{Door, Language};
use wire::control_page::CENSUS_BLOCKED;
use wire::{Config, ControlPage, Request};

/// Time between two looks for an answer.
const LOOK: Duration = Duration::from_micros(200);
/// A guest that has not answered after the first time is entered again, because its main thread may stand elsewhere by then. The time then
/// doubles with each further entry, up to the second one.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Time after which a request that the guest has not answered is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time after which a door that was shut is tried again, at first, and the longest such time. A lock is held for less than a microsecond,
/// and each try stops the guest.
const SHUT: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// A Python that contains the agent, opened to evaluate texts. Dropping this value leaves it.
#[derive(Debug)]
pub struct Python {
    entered: Entered,
    /// Addresses of the functions of [`NAMES`] in the guest, in the same order.
    api: [u64; NAMES.len()],
    facts: Facts,
    /// Why it has not been entered, while a door is shut.
    shut: Cell<Option<Shut>>,
    /// Its main thread, if we trace it between stops too.
    tracee: Option<Tracee>,
}

/// Why a door is shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shut {
    /// Somebody holds the lock of the queue of pending calls.
    Locked,
    /// The queue of pending calls is full.
    Full,
}

impl Python {
    /// Opens a process.
    ///
    /// # Errors
    /// It has no Python, or cannot be opened.
    pub fn open(pid: i32, image: &Image) -> Result<Self> {
        Self::open_for(pid, image, Config::NONE, false)
    }

    /// The same with what the agent is configured for; `unhook` as for [`Reached::enter_for`].
    fn open_for(pid: i32, image: &Image, mut wanted: Config, unhook: bool) -> Result<Self> {
        wanted.language = Language::Python.number();
        let reached = Reached::new(pid)?;
        let api = api(pid, &reached)?;
        let facts = doors::facts(&reached)?;
        let entered = reached.enter_for(image, wanted, unhook)?;
        handed::functions(&entered.memory, &entered.resident, api)?;
        let python = Python {
            entered,
            api,
            facts,
            shut: Cell::new(None),
            tracee: None,
        };
        python.await_rest()?;
        Ok(python)
    }

    /// Waits until the guest has ended what a command that was killed had asked for: evaluated in the middle of it, a list of patches
    /// would lack the one that is being made.
    fn await_rest(&self) -> Result<()> {
        let Entered {
            resident, memory, ..
        } = &self.entered;
        let pid = self.entered.status.pid;
        let deadline = Instant::now() + PATIENCE;
        while resident.at_work(memory)? != 0 {
            Status::read(pid)?.check_goes_on()?;
            if Instant::now() > deadline {
                return Err(Error::NoAnswer {
                    pid,
                    waited_ms: PATIENCE.as_millis() as u64,
                    reason: "it still evaluates what an earlier lancet, which has been killed or has given up, had asked for (a file whose text waits for something?)".into(),
                });
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// Makes the agent handle a request, with Python's lock.
    fn ask(&mut self, request: Request, argument: u64) -> Result<()> {
        let Entered {
            resident, memory, ..
        } = &self.entered;
        resident.request(memory, request, argument)?;
        let deadline = Instant::now() + PATIENCE;
        self.enter(deadline)?;
        self.await_answer(deadline)
    }

    fn await_answer(&mut self, deadline: Instant) -> Result<()> {
        let pid = self.entered.status.pid;
        let [mut pause, most] = AGAIN;
        let [mut shut, longest] = SHUT;
        let mut wait = Wait::begin();
        let mut again = Instant::now() + self.shut.get().map_or(pause, |_| shut);
        while !self.entered.resident.has_answered(&self.entered.memory)? {
            process::stop::poll_stragglers();
            if let Some(tracee) = &mut self.tracee {
                poll(tracee)?;
            }
            if Instant::now() > deadline || wait.is_over() {
                self.entered.go_quiet()?;
                return Err(Error::NoAnswer {
                    pid,
                    waited_ms: wait.lasts().as_millis() as u64,
                    reason: self.why_no_answer().into(),
                });
            }
            if Instant::now() > again {
                Status::read(pid)?.check_goes_on()?;
                self.enter(deadline)?;
                if self.shut.get().is_some() {
                    shut = (shut * 2).min(longest);
                    again = Instant::now() + shut;
                    continue;
                }
                pause = (pause * 2).min(most);
                again = Instant::now() + pause;
            }
            sleep(LOOK);
        }
        Ok(())
    }

    fn why_no_answer(&self) -> &'static str {
        match self.shut.get() {
            Some(Shut::Locked) => {
                "whenever it was looked at, somebody held the lock of its queue of pending calls (another part of the program that adds them all the time?)"
            }
            Some(Shut::Full) => {
                "its queue of pending calls was full whenever it was looked at (another part of the program adds them all the time, or its main thread makes none)"
            }
            None => {
                "its main thread reached no point where Python makes pending calls (a C extension that keeps Python's lock, or a Python that does not run on the main thread)"
            }
        }
    }

    /// Makes the main thread handle the request, now or at its next safe point. Afterwards `shut` says whether it was entered.
    fn enter(&mut self, deadline: Instant) -> Result<()> {
        let entry = self.entered.resident.header.enter;
        self.shut.set(None);
        if let Some(tracee) = &mut self.tracee {
            poll(tracee)?;
        }
        self.entered.stopped(Threads::Main, |stop, remote| {
            if is_in_call(remote) {
                self.forbid_collection()?;
            }
            let now = Open::proven(Door::TakeLock, |_| self.may_take_lock(remote))?;
            if let Some(open) = now {
                // If no answer comes, the wait for it reports that.
                let work = || self.work();
                return remote.enter_freely(entry, open, deadline, work).map(drop);
            }
            self.add_pending_call(stop, remote)
        })
    }

    /// Notes for the agent that the main thread waits in a call: what it does there, and what it does when it has come back from it, is done
    /// with all the locks that the program holds around that call.
    fn forbid_collection(&self) -> Result<()> {
        let Entered {
            resident, memory, ..
        } = &self.entered;
        let argument = offset_of!(ControlPage, argument);
        let mut asked = [0; 8];
        memory.read_bytes(resident.header.control_page + argument as u64, &mut asked)?;
        let asked = u64::from_le_bytes(asked);
        resident.write_control_page(memory, argument, asked | CENSUS_BLOCKED)
    }

    /// The state of the request. If it cannot be read, the wait ends.
    fn work(&self) -> Work {
        let Entered {
            resident, memory, ..
        } = &self.entered;
        let at_work = resident.at_work(memory);
        match resident.has_answered(memory) {
            Ok(false) if matches!(at_work, Ok(1..)) => Work::UnderWay,
            Ok(false) => Work::Waits,
            Ok(true) | Err(_) => Work::Done,
        }
    }
}

/// Addresses of the functions of [`NAMES`] in a process.
fn api(pid: i32, reached: &Reached) -> Result<[u64; NAMES.len()]> {
    let functions = &reached.functions;
    let mark = Language::Python.description().mark;
    if functions.symbol(mark).is_none() {
        return Err(Error::NotAGuest {
            pid,
            reason: "no Python is loaded in it, or one that is linked in without its symbols",
        });
    }
    let mut api = [0; NAMES.len()];
    for (place, name) in api.iter_mut().zip(NAMES) {
        *place = functions.symbol(name).ok_or(Error::NotAGuest {
            pid,
            reason: "its Python shows too little of its C interface",
        })?;
    }
    Ok(api)
}

impl Interpreter for Python {
    fn evaluate(&mut self, text: &str) -> Result<String> {
        script::write(&self.entered.memory, &self.entered.resident, text)?;
        self.ask(Request::Evaluate, 0)?;
        script::answer(&self.entered.memory, &self.entered.resident)
    }

    fn leave(self: Box<Self>) -> Result<()> {
        self.entered.leave().map(drop)
    }
}
