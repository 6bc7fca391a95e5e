//! The proofs that a door into a Python is open where its main thread stands ([`vm::Door`]). Used by `python` and
//! `counted`.
//!
//! **`PyGILState_Ensure`**: the thread is blocked in a system call, without Python's lock, in no wait for a lock of Python's own, and no
//! foreign code lies between that call and Python. Code of the program itself may lie there, if the thread runs no Python at all: a server
//! that has Python as a library (uwsgi) waits so for its next request, and its main thread makes no pending calls until one comes.
//!
//! **`Py_AddPendingCall`**: all threads stand still, and the lock of every queue that the function may take is read as free. No thread can
//! take it before ours has given it back, so the function neither waits for it nor, since 3.13, gives Python's lock away meanwhile, nor
//! wakes others that are parked there. Afterwards the queue is read again: it has one call more.

use super::{Python, Shut};
use crate::entered::Reached;
use inject::doors::Open;
use inject::remote_call::RemoteThread;
use process::error::{Error, Result};
use process::gadgets::RESTORE_RT;
use process::interrupted::call_of;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::pagemap::{self, Pagemap};
use process::stop::Stop;
use std::mem::offset_of;
use std::thread::sleep;
use std::time::Duration;
use vm::python::{self, Facts, Queue, State, Version};
use vm::{Door, Memory, Needs};
use wire::{ControlPage, Reply};

/// The number of attempts to read the facts, and the time between them.
const TRIES: u32 = 50;
const LOOK: Duration = Duration::from_millis(2);
/// Bytes of the main thread's stack that are searched for return addresses: more than lie between a system call and Python's code.
const DEEPEST: usize = 64 * 1024;
/// Upper bound of the interpreters whose queues are looked at.
const MOST_QUEUES: usize = 256;
/// From this version on Python has locks on which threads are parked.
const PARKS: Version = Version::new(3, 13, 0);

/// Reads what is known of a Python, which runs meanwhile, so that data may change while it is read; then it is read again.
pub(super) fn facts(reached: &Reached) -> Result<Facts> {
    let memory: &GuestMemory = reached.memory();
    let symbol = |name: &str| reached.functions.symbol(name);
    let mut tries = 0;
    loop {
        let error = match Facts::find(&memory, &symbol) {
            Ok(facts) if is_whole(memory, facts) => return Ok(facts),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if tries == TRIES || matches!(error, Some(python::Error::Unsupported(_))) {
            return Err(Error::NotEntered {
                pid: memory.pid(),
                reason: error.map_or_else(
                    || "its queue of pending calls was not found".into(),
                    |error| error.to_string(),
                ),
            });
        }
        tries += 1;
        sleep(LOOK);
    }
}

/// Whether the queues of pending calls are found with these facts.
fn is_whole(memory: &GuestMemory, facts: Facts) -> bool {
    queues(memory, facts)
        .is_ok_and(|queues| states(memory, &queues).is_ok_and(|states| !states.is_empty()))
}

fn queues(memory: &GuestMemory, facts: Facts) -> std::result::Result<Vec<Queue>, python::Error> {
    let mut found = Vec::new();
    python::Python::new(&memory, facts)?.pending_calls(&mut |queue| {
        if found.len() < MOST_QUEUES {
            found.push(queue);
        }
    })?;
    Ok(found)
}

fn states(
    memory: &GuestMemory,
    queues: &[Queue],
) -> std::result::Result<Vec<State>, python::Error> {
    queues.iter().map(|queue| queue.state(&memory)).collect()
}

/// Whether a thread waits in a system call, which the stop has interrupted: EINTR, or one of the kernel's restart codes.
pub(super) fn is_in_call(remote: &RemoteThread) -> bool {
    let now = remote.registers();
    now.orig_rax as i64 >= 0 && matches!(-(now.rax as i64), 4 | 512..=514 | 516)
}

impl Python {
    /// Has the main thread add a pending call, if that door is open; otherwise `shut` says why it is not.
    pub(super) fn add_pending_call(
        &self,
        stop: &mut Stop,
        remote: &mut RemoteThread,
    ) -> Result<()> {
        stop.rest()?;
        let before = self.queues()?;
        let open = Open::proven(Door::AddPendingCall, |needs| {
            debug_assert!(matches!(needs, Needs::Free(_)));
            Ok(before.iter().all(|queue| queue.is_free))
        })?;
        let Some(open) = open else {
            self.shut.set(Some(Shut::Locked));
            return Ok(());
        };
        // To 3.11 each interpreter has a queue, and the main thread may never come to that in which ours waits.
        if before.len() == 1 && self.call_waits()? {
            return Ok(());
        }
        if !before.iter().all(|queue| queue.has_room) {
            self.shut.set(Some(Shut::Full));
            return Ok(());
        }
        remote.enter(self.entered.resident.header.enter, open)?;
        let count = |queues: &[State]| queues.iter().map(|queue| queue.waiting).sum::<u32>();
        if count(&self.queues()?) != count(&before) + 1 {
            self.shut.set(Some(Shut::Full));
        }
        Ok(())
    }

    /// Whether a call of ours waits in a queue of pending calls.
    fn call_waits(&self) -> Result<bool> {
        let pending = offset_of!(ControlPage, pending);
        let entered = &self.entered;
        let waits = entered
            .resident
            .control_page_u32(&entered.memory, pending)?;
        Ok(waits != 0)
    }

    /// How it is with each queue of pending calls, while all threads stand still.
    fn queues(&self) -> Result<Vec<State>> {
        let memory: &GuestMemory = &self.entered.memory;
        queues(memory, self.facts)
            .and_then(|queues| states(memory, &queues))
            .map_err(|error| Error::NotEntered {
                pid: self.entered.pid(),
                reason: error.to_string(),
            })
    }

    /// Whether the main thread may take Python's lock where it stands.
    pub(super) fn may_take_lock(&self, remote: &mut RemoteThread) -> Result<bool> {
        Ok(
            self.is_blocked(remote)
                && !self.holds_lock(remote)?
                && !self.is_in_foreign_code(remote),
        )
    }

    /// Whether the main thread is in a system call that may last, and not in a wait for a lock of Python's own.
    fn is_blocked(&self, remote: &RemoteThread) -> bool {
        let now = remote.registers();
        if !is_in_call(remote) {
            return false;
        }
        call_of(&self.entered.memory, now) != libc::SYS_futex
            || !self.is_pythons_own(now.rdi, now.rsp)
    }

    /// Whether a futex belongs to a wait for a lock of Python's own, inside of which the thread must not ask for that lock again.
    ///
    /// Python's lock and its condition variables lie in its static memory. A thread that waits for a `PyMutex` (since 3.13) is parked on a
    /// semaphore on its stack, in a `struct wait_entry` (`Python/parking_lot.c`): `park_arg`, `addr`, `sema`. `addr` is the mutex: one of
    /// Python's own is in its static memory too. If such a lock is handed over to the parked thread while that thread runs our code, and
    /// our code asks for the same lock, it waits for itself.
    fn is_pythons_own(&self, futex: u64, stack: u64) -> bool {
        let Some(python) = self.entered.functions.module_of(self.api[0]) else {
            return true;
        };
        let is_own = |place| python.module.range().contains(&place);
        if is_own(futex) || self.facts.version() < PARKS {
            return is_own(futex);
        }
        let maps = Maps::of(self.entered.pid()).unwrap_or_default();
        let is_parked = maps
            .find(stack)
            .is_some_and(|stack| (stack.start..stack.end).contains(&futex));
        is_parked
            && self
                .entered
                .memory
                .u64(futex.wrapping_sub(8))
                .is_ok_and(is_own)
    }

    /// Whether the main thread holds Python's lock.
    fn holds_lock(&self, remote: &mut RemoteThread) -> Result<bool> {
        let Some(open) = Open::always(Door::HasLock) else {
            return Ok(true);
        };
        remote.enter(self.entered.resident.header.enter, open)?;
        let reply = offset_of!(ControlPage, reply);
        let said = self
            .entered
            .resident
            .control_page_u32(&self.entered.memory, reply)?;
        Ok(said != Reply::Done as u32)
    }

    /// Whether code other than Python's and libc's stands between the blocked thread and Python, such as a database driver, which may hold
    /// locks that the evaluated text needs. The program's own code does not count where the thread runs no Python and nothing else has called
    /// it. A signal handler does, because it has interrupted what may hold a lock, as `malloc` does. Every word there counts that leads to the
    /// instruction behind a call: functions' addresses lie there, too, as of the C function that Python has called.
    fn is_in_foreign_code(&self, remote: &RemoteThread) -> bool {
        let now = remote.registers();
        let Ok(maps) = Maps::of(self.entered.status.pid) else {
            return true;
        };
        let pagemap = Pagemap::open(self.entered.status.pid).ok();
        let end = pagemap::stack_around(pagemap.as_ref(), &maps, now.rsp).end;
        let mut stack = vec![0; DEEPEST.min(end.saturating_sub(now.rsp) as usize)];
        if self.entered.memory.read_bytes(now.rsp, &mut stack).is_err() {
            return true;
        }
        let runs_none = self.runs_no_python(now.fs_base);
        let mut in_program = false;
        for word in stack.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let Some(module) = self.entered.functions.module_of(word) else {
                continue;
            };
            if !module.module.code().any(|code| code.contains(&word)) {
                continue;
            }
            if self.ends_handler(word) {
                return true;
            }
            if !self.follows_call(word) {
                continue;
            }
            let path = module.module.path.display().to_string();
            if module.module.contains(self.api[0]) || path.contains("/lib-dynload/") {
                return in_program;
            }
            let name = &module.name;
            let is_libc = || {
                let known = ["libc.", "libpthread", "libm.", "ld-"];
                known.iter().any(|known| name.starts_with(known))
            };
            in_program |= module.module.main;
            if !runs_none && in_program || !module.module.main && !is_libc() {
                return true;
            }
        }
        !in_program
    }

    /// Whether a handler of a signal returns to `address` (`__restore_rt` of libc).
    fn ends_handler(&self, address: u64) -> bool {
        let mut code = [0; RESTORE_RT.len()];
        let read = self.entered.memory.read_bytes(address, &mut code);
        read.is_ok() && code == RESTORE_RT
    }

    /// Whether the instruction before `address` can be a call (Intel SDM, `CALL`): `e8` with a distance of 4 bytes, or `ff /2`.
    fn follows_call(&self, address: u64) -> bool {
        let mut code = [0; 7];
        let at = address.wrapping_sub(code.len() as u64);
        if self.entered.memory.read_bytes(at, &mut code).is_err() {
            return false;
        }
        let [.., a, b, c, d, e, f, g] = code;
        // The operand's form; 4 = one more byte says which registers, 5 = relative to the next instruction.
        let is_two = |operand: u8| operand >> 3 & 7 == 2;
        let form = |operand: u8| (operand >> 6, operand & 7);
        let is_call = |begins: u8, operand: u8, scaled: u8, length: usize| {
            let wanted = match form(operand) {
                (3, _) => 2,
                // Without a base register a distance of 4 bytes follows.
                (0, 4) if scaled & 7 == 5 => 7,
                (0, 4) => 3,
                (0, 5) => 6,
                (0, _) => 2,
                (1, 4) => 4,
                (1, _) => 3,
                (_, 4) => 7,
                _ => 6,
            };
            begins == 0xff && is_two(operand) && wanted == length
        };
        c == 0xe8
            || is_call(f, g, 0, 2)
            || is_call(e, f, g, 3)
            || is_call(d, e, f, 4)
            || is_call(b, c, d, 6)
            || is_call(a, b, c, 7)
    }

    /// Whether the thread with this `%fs` base is one that Python knows, and runs no Python in any interpreter.
    fn runs_no_python(&self, id: u64) -> bool {
        let memory: &GuestMemory = &self.entered.memory;
        let read = || -> std::result::Result<bool, python::Error> {
            let python = python::Python::new(&memory, self.facts)?;
            let mut known = false;
            for thread in python.all_threads() {
                let thread = thread?;
                if thread.id == id {
                    known = true;
                    if python.point(thread.address)?.is_some() {
                        return Ok(false);
                    }
                }
            }
            Ok(known)
        };
        read().unwrap_or(false)
    }
}
