//! The locks that a thread holds by `with`, and the one that it sleeps on: `_thread.lock` and `_thread.RLock`, which
//! `threading.Lock` and `threading.RLock` make (`Modules/_threadmodule.c`).
//!
//! A lock does not say who holds it. But a `with` statement keeps the `__exit__` of its lock among the values of its frame
//! until it is left (`SETUP_WITH`, 3.11 `BEFORE_WITH`, 3.14 `LOAD_SPECIAL`: `Python/ceval.c`, since 3.12
//! `Python/bytecodes.c`). Which values of a frame that runs are in use is not written down anywhere; those below the
//! innermost handler are, because an exception would leave exactly those:
//!
//! ```text
//!   3.9, 3.10    PyFrameObject: │ … │ f_valuestack ─▶ values │ … │ f_iblock │ f_blockstack: │ type │ handler │ level │ …
//!   since 3.11   co_exceptiontable: for a range of instructions, its handler and how many values that leaves
//! ```
//!
//! So a lock that was taken by `acquire` has no holder here, and one that a generator holds while it is suspended neither.
//!
//! A lock is known by the address on which its waiters sleep: of a semaphore of the C library behind a pointer, or of the
//! byte in the object itself (`PyMutex`; which one changed within 3.13, so each lock has both).

use super::class::LONGEST_NAME;
use super::layout::{Generators, Handlers};
use super::lines::Bytes;
use super::object::{BYTES, OB_SIZE, TAG};
use super::{Error, Point, Python};
use crate::Memory;

/// `lock_lock`, `rlock_lock`, `lock`: behind the head of the object.
const LOCK: u64 = 16;
/// `m_ml` and `m_self` in `PyCFunctionObject` (`cpython/methodobject.h`), and `ml_name` in `PyMethodDef`.
const METHOD: u64 = 16;
const METHOD_SELF: u64 = 24;
/// From `addr` to the semaphore in `struct wait_entry` (`Python/parking_lot.c`, 3.13 and 3.14).
const ADDRESS_BEFORE_SEMAPHORE: u64 = 8;
/// Bytes of a `PyThreadState` in which its `state` is.
const BEGIN_OF_STATE: u64 = 64;

/// More than `sizeof(_PyRuntimeState)` in all versions.
const MOST_OF_RUNTIME: u64 = 1 << 20;

/// `CO_MAXBLOCKS` (`cpython/code.h`) and `sizeof(PyTryBlock)`, which ends with `b_level`.
const MOST_BLOCKS: u32 = 20;
const BLOCK: u64 = 12;
const LEVEL: u64 = 8;
/// What is read of one thread at most, because it may be read while the process stands: frames, bytes of their tables of
/// handlers in all, and values below one handler.
const MOST_FRAMES: usize = 1 << 13;
const MOST_OF_TABLES: u64 = 1 << 20;
const MOST_VALUES: u64 = 256;

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with the addresses on which others would sleep that want a lock that the thread whose `PyThreadState`
    /// is at `state` holds by `with`: two for each lock, of which one is right.
    pub fn each_held(&self, state: u64, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let mut left = MOST_OF_TABLES;
        for frame in self.frames(state).take(MOST_FRAMES) {
            let frame = frame?;
            let (values, count) = self.live_values(frame.address, frame.point, &mut left)?;
            let mut is_method = false;
            for number in 0..count.min(MOST_VALUES) {
                let value = self.memory.u64(values.wrapping_add(number * 8))? & !TAG;
                if value == 0 {
                    continue;
                }
                // Not every value is an object: 3.14 has small integers among them.
                let lock = self.lock_of_exit(value, is_method);
                is_method = self.has_class(value, b"method_descriptor").unwrap_or(false);
                if let Ok(Some(lock)) = lock {
                    let lock = self.field(lock, LOCK);
                    each(self.memory.u64(lock)?);
                    each(lock);
                }
            }
        }
        Ok(())
    }

    /// Returns the address by which [`each_held`](Python::each_held) names the lock that a thread wants which sleeps on the
    /// semaphore at `semaphore` in `_PySemaphore_Wait`.
    pub fn parked_on(&self, semaphore: u64) -> Result<u64, Error> {
        Ok(self
            .memory
            .u64(semaphore.wrapping_sub(ADDRESS_BEFORE_SEMAPHORE))?)
    }

    /// Returns whether the word on which a thread sleeps is in its own state: then it waits for no lock, but until the VM lets it run again,
    /// as while garbage is collected without the GIL (`tstate_wait_attach`, `Python/pystate.c`).
    pub fn is_of_state(&self, state: u64, word: u64) -> bool {
        word.wrapping_sub(state) < BEGIN_OF_STATE
    }

    /// Returns whether the word on which a thread sleeps is that of a `_thread.lock` or `_thread.RLock`, in the object itself.
    pub fn is_in_lock(&self, word: u64) -> bool {
        let object = word.wrapping_sub(self.field(0, LOCK));
        self.is_lock(object).unwrap_or(false)
    }

    /// Returns whether the word is in `_PyRuntime`, which has the first interpreter: then it is the VM's own, as the event on which it waits
    /// for all threads to stand still (`stop_the_world`, `Python/pystate.c`).
    pub fn is_of_runtime(&self, word: u64) -> bool {
        word.wrapping_sub(self.facts.runtime()) < MOST_OF_RUNTIME
    }

    /// Returns the lock whose `__exit__` a value is: bound to it, or since 3.14 the lock itself behind the method.
    fn lock_of_exit(&self, value: u64, behind_method: bool) -> Result<Option<u64>, Error> {
        if behind_method && self.is_lock(value)? {
            return Ok(Some(value));
        }
        if !self.has_class(value, b"builtin_function_or_method")? {
            return Ok(None);
        }
        let name = self
            .memory
            .u64(self.memory.u64(self.field(value, METHOD))?)?;
        if self.c_string(name, &mut [0; LONGEST_NAME])? != b"__exit__" {
            return Ok(None);
        }
        let of = self.memory.u64(self.field(value, METHOD_SELF))?;
        Ok(if of != 0 && self.is_lock(of)? {
            Some(of)
        } else {
            None
        })
    }

    fn is_lock(&self, object: u64) -> Result<bool, Error> {
        Ok(self.has_class(object, b"_thread.lock")? || self.has_class(object, b"_thread.RLock")?)
    }

    /// Returns whether the class of an object is one made in C of that name.
    fn has_class(&self, object: u64, name: &[u8]) -> Result<bool, Error> {
        let class = self.type_of(object)?;
        Ok(self.raw_name(class, &mut [0; LONGEST_NAME])? == name)
    }

    /// Returns where the values of a frame begin, and how many of them an exception would leave. `left` is how many bytes of
    /// tables may still be read.
    fn live_values(&self, frame: u64, point: Point, left: &mut u64) -> Result<(u64, u64), Error> {
        match self.layout.frame.handlers {
            Handlers::Blocks {
                values,
                count,
                blocks,
            } => {
                let blocks = frame.wrapping_add(blocks);
                let count = self.memory.u32(frame.wrapping_add(count))?;
                let level = match count.checked_sub(1) {
                    Some(last) if last < MOST_BLOCKS => {
                        let block = blocks.wrapping_add(u64::from(last) * BLOCK);
                        self.memory.u32(block.wrapping_add(LEVEL))?
                    }
                    _ => 0,
                };
                let values = self.memory.u64(frame.wrapping_add(values))?;
                Ok((values, u64::from(level)))
            }
            Handlers::Table { table, locals } => {
                let depth = self.depth_of_handler(point, table, left)?;
                let before = self.memory.u32(point.code.wrapping_add(locals))?;
                let first = match self.layout.generators {
                    Generators::Inside { locals, .. } => frame.wrapping_add(locals),
                    Generators::Behind { .. } => return Ok((0, 0)),
                };
                let values = first.wrapping_add(u64::from(before) * 8);
                Ok((values, depth))
            }
        }
    }

    /// Returns how many values the handler of an instruction leaves; 0 if it has none
    /// (`Objects/exception_handling_notes.txt`, since 3.14 `InternalDocs/exception_handling.md`).
    fn depth_of_handler(&self, point: Point, table: u64, left: &mut u64) -> Result<u64, Error> {
        let table = self.memory.u64(point.code.wrapping_add(table))?;
        let size = self.memory.u64(self.field(table, OB_SIZE))?;
        *left = left
            .checked_sub(size)
            .ok_or(Error::garbled("table of handlers", table))?;
        let Ok(lasti) = u32::try_from(point.lasti) else {
            return Ok(0);
        };
        let mut bytes = Bytes::new(self.memory, self.field(table, BYTES), size);
        // Start, length, handler, and the depth with a bit beside it. Ranges come in order.
        while let Some(start) = bytes.leading_high()? {
            let mut next = || Ok::<u32, Error>(bytes.leading_high()?.unwrap_or(0));
            let (length, _handler, depth) = (next()?, next()?, next()?);
            let unit = lasti / 2;
            if unit < start {
                break;
            }
            if unit - start < length {
                return Ok(u64::from(depth >> 1));
            }
        }
        Ok(0)
    }
}
