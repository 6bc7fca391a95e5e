//! Threads: `_PyRuntimeState` → `PyInterpreterState` → `PyThreadState`. Used by `gil`, `roots` and `state`.
//!
//! A thread state belongs to one OS thread and one interpreter. Which one is current is known by the
//! GIL only while it is held; what a thread can say of itself at any time is the state that
//! `PyGILState_Ensure` uses ([`state`](super::state)). It is set when the thread's first thread state is
//! made and cleared when that is freed, so it never dangles. Since 3.12 it follows the thread into
//! another interpreter; before, a thread that enters one by `_xxsubinterpreters` still says its first, and
//! the frames found are those outside of that call.

use super::chain::Chain;
use super::{Error, Python, Text};
use crate::{Fault, Memory};

/// Threads whose names are read.
const MOST_THREADS: usize = 1 << 16;

/// A thread that Python knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Address of its `PyThreadState`.
    pub address: u64,
    /// The `PyInterpreterState` it belongs to.
    pub interpreter: u64,
    /// Its `pthread_t`, which on x86-64 glibc is the base of `%fs`.
    pub id: u64,
    /// The kernel's id for it, in the PID namespace of its process; known since 3.11.
    pub native_id: Option<u64>,
}

/// The interpreters, newest first.
pub struct Interpreters<'p, M> {
    memory: &'p M,
    offset: u64,
    chain: Chain,
}

impl<M: Memory> Iterator for Interpreters<'_, M> {
    type Item = Result<u64, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.chain.step(self.memory, self.offset).transpose()
    }
}

/// The threads of an interpreter, newest first.
pub struct Threads<'p, 'a, M> {
    python: &'p Python<'a, M>,
    chain: Chain,
}

impl<M: Memory> Iterator for Threads<'_, '_, M> {
    type Item = Result<Thread, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let python = self.python;
        let found = self
            .chain
            .step(python.memory, python.layout.thread.next)
            .transpose()?;
        Some(found.and_then(|address| python.thread_at(address)))
    }
}

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with the `pthread_t` and the name of each thread that the module `threading` knows (`Thread.name`;
    /// `_active` in `Lib/threading.py`).
    pub fn each_thread_name(&self, each: &mut dyn FnMut(u64, Text)) -> Result<(), Error> {
        let Some(module) = self.value_of(self.modules()?, "threading")? else {
            return Ok(());
        };
        let Some(active) = self.attribute(module, "_active")? else {
            return Ok(());
        };
        for entry in self.entries(active)?.take(MOST_THREADS) {
            let (id, thread) = entry?;
            let id = self.small_int(id)?.cast_unsigned();
            if let Some(name) = self.own_value(thread, "_name")? {
                each(id, self.text(name)?);
            }
        }
        Ok(())
    }

    /// Returns the interpreters, newest first; there is almost always one.
    pub fn interpreters(&self) -> Interpreters<'_, M> {
        let at = self.interpreters_at();
        Interpreters {
            memory: self.memory,
            offset: self.layout.interpreter.next,
            chain: Chain::new(self.memory.u64(at)),
        }
    }

    /// Returns the threads of an interpreter.
    pub fn threads(&self, interpreter: u64) -> Threads<'_, '_, M> {
        let at = interpreter.wrapping_add(self.layout.interpreter.threads);
        Threads {
            python: self,
            chain: Chain::new(self.memory.u64(at)),
        }
    }

    /// Returns the threads of all interpreters.
    pub fn all_threads(&self) -> impl Iterator<Item = Result<Thread, Error>> {
        self.interpreters().flat_map(|interpreter| {
            let (found, why) = match interpreter {
                Ok(interpreter) => (Some(self.threads(interpreter)), None),
                Err(why) => (None, Some(Err(why))),
            };
            why.into_iter().chain(found.into_iter().flatten())
        })
    }

    /// Returns the main interpreter; 0 before it is made.
    pub fn main_interpreter(&self) -> Result<u64, Fault> {
        self.memory.u64(self.interpreters_at().wrapping_add(8))
    }

    fn interpreters_at(&self) -> u64 {
        let offset = self.layout.runtime.interpreters;
        self.facts.runtime().wrapping_add(offset)
    }

    /// Returns the interpreter of the thread whose `PyThreadState` is at `state`; one load.
    #[inline(always)]
    pub fn interpreter_of(&self, state: u64) -> Result<u64, Fault> {
        self.memory
            .u64(state.wrapping_add(self.layout.thread.interpreter))
    }

    /// Returns the thread whose `PyThreadState` is at `address`.
    pub fn thread_at(&self, address: u64) -> Result<Thread, Error> {
        let layout = &self.layout.thread;
        let word = |offset: u64| self.memory.u64(address.wrapping_add(offset));
        Ok(Thread {
            address,
            interpreter: word(layout.interpreter)?,
            id: word(layout.id)?,
            native_id: layout.native_id.map(word).transpose()?,
        })
    }

    /// Finds the thread state of the OS thread whose `%fs` base is `id`, by a walk over all threads. If the thread has
    /// states in several interpreters, the newest of these that runs code.
    pub fn find_thread(&self, id: u64) -> Result<Option<u64>, Error> {
        let mut found = None;
        for thread in self.all_threads() {
            let thread = thread?;
            if thread.id == id {
                if self.point(thread.address)?.is_some() {
                    return Ok(Some(thread.address));
                }
                found = found.or(Some(thread.address));
            }
        }
        Ok(found)
    }
}
