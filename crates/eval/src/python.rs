//! A Python that evaluates texts.
//!
//! ```text
//!   us                                    its main thread
//!   text, request ───────────────────────► in the agent
//!   stop it: where does it stand?
//!     blocked, without Python's lock ────► takes the lock and evaluates now (PyGILState_Ensure)
//!     anywhere else ─────────────────────► is asked to, at its next safe point (Py_AddPendingCall)
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
//! futex there is Python's lock.

mod snapshot;

use crate::entered::{Entered, Reached};
use hooks::Threads;
use inject::Image;
use inject::Timing;
use inject::remote_call::{RemoteThread, Work};
use inject::script;
use process::error::{Error, Result};
use process::guest::Status;
use process::interrupted::call_of;
use process::maps::Maps;
use std::mem::offset_of;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm::Language;
use wire::control_page::enter::{HOLDS, LOCK, REGISTER};
use wire::script::python::NAMES;
use wire::{ControlPage, Reply, Request, Script};

/// Time between two looks for an answer.
const LOOK: Duration = Duration::from_micros(200);
/// A guest that has not answered after the first time is entered again, because its main thread may stand elsewhere by then. The time then
/// doubles with each further entry, up to the second one.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Time after which a request that the guest has not answered is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the main thread's stack that are searched for return addresses: more than lie between a system call and Python's code.
const DEEPEST: usize = 64 * 1024;

/// A Python that contains the agent, opened to evaluate texts or to be copied. Dropping this value leaves it.
#[derive(Debug)]
pub struct Python {
    entered: Entered,
    /// Addresses of the functions of [`NAMES`] in the guest, in the same order.
    api: [u64; NAMES.len()],
}

impl Python {
    /// Opens a process.
    ///
    /// # Errors
    /// It has no Python, or cannot be opened.
    pub fn open(pid: i32, image: &Image) -> Result<Self> {
        let reached = Reached::new(pid)?;
        let functions = &reached.functions;
        if functions
            .symbol(Language::Python.description().mark)
            .is_none()
        {
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
        let entered = reached.enter(image)?;
        let table: Vec<u8> = api.iter().flat_map(|at| at.to_le_bytes()).collect();
        let at = entered.resident.header.script + offset_of!(Script, python) as u64;
        entered.memory.write(at, &table)?;
        Ok(Python { entered, api })
    }

    /// Evaluates a text and returns the resulting string.
    ///
    /// # Errors
    /// See [`Interpreter::evaluate`](crate::Interpreter::evaluate).
    pub fn evaluate(&mut self, text: &str) -> Result<String> {
        script::write(&self.entered.memory, &self.entered.resident, text)?;
        self.ask(Request::Evaluate)?;
        script::answer(&self.entered.memory, &self.entered.resident)
    }

    /// Makes the agent handle a request, with Python's lock.
    fn ask(&mut self, request: Request) -> Result<()> {
        let Entered {
            resident, memory, ..
        } = &self.entered;
        resident.request(memory, request, 0)?;
        let deadline = Instant::now() + PATIENCE;
        self.enter(deadline)?;
        self.await_answer(deadline)
    }

    fn await_answer(&mut self, deadline: Instant) -> Result<()> {
        let pid = self.entered.status.pid;
        let [mut pause, most] = AGAIN;
        let mut again = Instant::now() + pause;
        while !self.entered.resident.has_answered(&self.entered.memory)? {
            process::stop::poll_stragglers();
            if Instant::now() > deadline {
                self.entered.go_quiet()?;
                return Err(Error::NoAnswer {
                    pid,
                    waited_ms: PATIENCE.as_millis() as u64,
                    reason: "its main thread reached no point where Python makes pending calls (a C extension that keeps Python's lock, or a Python that does not run on the main thread)".into(),
                });
            }
            if Instant::now() > again {
                match Status::read(pid)?.state {
                    'Z' | 'X' => return Err(Error::Gone(pid)),
                    'T' => return Err(Error::Stopped(pid)),
                    _ => {}
                }
                self.enter(deadline)?;
                pause = (pause * 2).min(most);
                again = Instant::now() + pause;
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// Makes the main thread handle the request, now or at its next safe point.
    fn enter(&mut self, deadline: Instant) -> Result<()> {
        let resident = &self.entered.resident;
        self.entered.stopped(Threads::Main, |_, remote| {
            let blocked = self.is_blocked(remote);
            let now = blocked && !self.holds_lock(remote)? && !self.is_in_foreign_code(remote);
            if now {
                // If no answer comes, the wait for it reports that.
                let enter = (resident.header.enter_python, LOCK);
                return remote
                    .call_freely(enter, deadline, || self.work())
                    .map(drop);
            }
            remote.call(resident.header.enter_python, REGISTER)
        })
    }

    /// The state of the request. If it cannot be read, the wait ends.
    fn work(&self) -> Work {
        let Entered {
            resident, memory, ..
        } = &self.entered;
        let half = |offset| resident.control_page_u32(memory, offset);
        let numbers = (
            half(offset_of!(ControlPage, asked)),
            half(offset_of!(ControlPage, evaluated)),
        );
        match resident.has_answered(memory) {
            Ok(false) if matches!(numbers, (Ok(asked), Ok(evaluated)) if asked == evaluated) => {
                Work::UnderWay
            }
            Ok(false) => Work::Waits,
            Ok(true) | Err(_) => Work::Done,
        }
    }

    /// Whether the main thread is in a system call that may last, and not in a wait for Python's lock.
    fn is_blocked(&self, remote: &RemoteThread) -> bool {
        let now = remote.registers();
        // Interrupted in a system call: EINTR, or one of the kernel's restart codes.
        if (now.orig_rax as i64) < 0 || !matches!(-(now.rax as i64), 4 | 512..=514 | 516) {
            return false;
        }
        if call_of(&self.entered.memory, now) != libc::SYS_futex {
            return true;
        }
        let python = self.entered.functions.module_of(self.api[0]);
        python.is_some_and(|python| !python.module.range().contains(&now.rdi))
    }

    /// Whether the main thread holds Python's lock.
    fn holds_lock(&self, remote: &mut RemoteThread) -> Result<bool> {
        remote.call(self.entered.resident.header.enter_python, HOLDS)?;
        let reply = offset_of!(ControlPage, reply);
        let said = self
            .entered
            .resident
            .control_page_u32(&self.entered.memory, reply)?;
        Ok(said != Reply::Done as u32)
    }

    /// Whether code other than Python's and libc's stands between the blocked thread and Python, such as a database driver, which may hold
    /// locks that the evaluated text needs. Every word there that looks like a return address counts, so an error leads to waiting for a
    /// safe point.
    fn is_in_foreign_code(&self, remote: &RemoteThread) -> bool {
        let now = remote.registers();
        let Ok(maps) = Maps::of(self.entered.status.pid) else {
            return true;
        };
        let end = maps.find(now.rsp).map_or(now.rsp, |stack| stack.end);
        let mut stack = vec![0; DEEPEST.min((end - now.rsp) as usize)];
        if self.entered.memory.read_bytes(now.rsp, &mut stack).is_err() {
            return true;
        }
        for word in stack.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let Some(module) = self.entered.functions.module_of(word) else {
                continue;
            };
            if !module.module.code().any(|code| code.contains(&word)) {
                continue;
            }
            let path = module.module.path.display().to_string();
            if module.module.contains(self.api[0]) || path.contains("/lib-dynload/") {
                return false;
            }
            let name = &module.name;
            if !["libc.", "libpthread", "libm.", "ld-"]
                .iter()
                .any(|known| name.starts_with(known))
            {
                return true;
            }
        }
        true
    }

    /// Reaps copies that have ended, makes the agent quiet, and returns for how long the process was stopped in all.
    ///
    /// # Errors
    /// The guest's memory could not be written, or the thread that reaps a copy could not be stopped.
    pub fn leave(self) -> Result<Timing> {
        self.entered.leave()
    }

    /// Process id of the Python in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.entered.status.pid
    }
}
