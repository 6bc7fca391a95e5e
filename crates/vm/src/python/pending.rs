//! The queues of pending calls: is the lock of one free, and is there room in it? Used by
//! `enter::languages::python::doors`.
//!
//! `Py_AddPendingCall` takes that lock. Whoever has a stopped thread call it must know first that the lock is free, with all threads
//! stopped: see [`Door::AddPendingCall`](crate::Door::AddPendingCall).
//!
//! ```text
//!   3.9 to 3.11               3.12                      since 3.13 (3.13.0, 3.14)
//!    0 lock ──▶ sem_t          0 busy                    0 handling_thread
//!    8 calls_to_do             8 lock ──▶ sem_t          8 mutex, one byte
//!   12 async_exc              16 calls_to_do            12 npending
//!   16 calls[32]              20 async_exc              16 max = 32
//!  528 first                  24 calls[32]              20 maxloop = 0
//!  532 last                  536 first, last            24 calls[300]
//!                                                     7224 first, next
//! ```
//!
//! The lock is a `sem_t` to 3.12 (`USE_SEMAPHORES`, `thread_pthread.h`), whose first word is 1 while it is free in glibc and in musl, and
//! after that a `PyMutex` (`cpython/pylock.h`), which is 0 when it is neither locked nor waited for. What does not fit is an error.

use super::layout::Pending;
use super::{Error, Python};
use crate::Memory;

/// `NPENDINGCALLS`, since 3.13 `MAXPENDINGCALLS_MAIN`.
const MOST: u32 = 32;
/// `PENDINGCALLSARRAYSIZE`, and the size of one of its entries.
const PLACES: u32 = 300;
const PLACE: u64 = 24;
/// `calls` since 3.13.
const CALLS: u64 = 24;
/// Bytes from the beginning of `_PyRuntime` that are searched: in 3.13.0 the queue is at 2,640.
const SEARCHED: u64 = 16 << 10;
/// `sizeof(struct _pending_calls)` to 3.11.
const SIZE: u64 = 536;

/// One queue of pending calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// It begins with its lock; to 3.12.
    Semaphore(u64),
    /// Its lock is a byte; since 3.13.
    Mutex(u64),
}

/// How it is with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Nobody holds its lock or waits for it.
    pub is_free: bool,
    /// Number of calls in it.
    pub waiting: u32,
    /// Whether one more can be added.
    pub has_room: bool,
}

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with every queue that `Py_AddPendingCall` may write to: the main interpreter's, and to 3.11 that of the interpreter
    /// whose thread has the lock.
    ///
    /// # Errors
    /// It is not where it should be.
    pub fn pending_calls(&self, each: &mut dyn FnMut(Queue)) -> Result<(), Error> {
        match self.layout.pending {
            Pending::BeforeCollector => {
                for interpreter in self.interpreters() {
                    let collector = interpreter?.wrapping_add(self.layout.interpreter.gc);
                    each(Queue::Semaphore(collector.wrapping_sub(SIZE)));
                }
            }
            Pending::Runtime(offset) => {
                // `busy` is before the lock.
                let at = self.facts.runtime().wrapping_add(offset + 8);
                each(Queue::Semaphore(at));
            }
            Pending::Searched => each(Queue::Mutex(self.search()?)),
        }
        Ok(())
    }

    /// Finds the queue by its limits, which no other has: those of interpreters are 300 and 100.
    fn search(&self) -> Result<u64, Error> {
        let mut found = None;
        let mut page = [0; 4096];
        let runtime = self.facts.runtime();
        for start in (runtime..runtime + SEARCHED).step_by(page.len()) {
            self.memory.read(start, &mut page)?;
            for (place, word) in page.chunks_exact(8).enumerate() {
                // `max`, and `maxloop` above it.
                if word != u64::from(MOST).to_le_bytes() {
                    continue;
                }
                let at = (start + place as u64 * 8).wrapping_sub(16);
                if Queue::Mutex(at).state(self.memory).is_ok() && found.replace(at).is_some() {
                    return Err(Error::garbled("single queue of pending calls", at));
                }
            }
        }
        found.ok_or(Error::garbled(QUEUE, runtime))
    }
}

const QUEUE: &str = "queue of pending calls";

impl Queue {
    /// Reads how it is with the queue. It says less of the moment than of the past unless all threads stand still.
    ///
    /// # Errors
    /// It cannot be read, or is no such queue.
    pub fn state(self, memory: &impl Memory) -> Result<State, Error> {
        match self {
            Queue::Semaphore(at) => Self::of_semaphore(memory, at),
            Queue::Mutex(at) => Self::of_mutex(memory, at),
        }
    }

    fn of_semaphore(memory: &impl Memory, at: u64) -> Result<State, Error> {
        let value = memory.u32(memory.u64(at)?)?;
        let (first, last) = (memory.u32(at + SIZE - 8)?, memory.u32(at + SIZE - 4)?);
        let to_do = memory.u32(at + 8)?;
        if value > 1 || first >= MOST || last >= MOST || to_do > 1 {
            return Err(Error::garbled(QUEUE, at));
        }
        let waiting = (last + MOST - first) % MOST;
        Ok(State {
            is_free: value == 1,
            waiting,
            // One place is always empty.
            has_room: waiting < MOST - 1,
        })
    }

    fn of_mutex(memory: &impl Memory, at: u64) -> Result<State, Error> {
        let lock = memory.u32(at + 8)?;
        let waiting = memory.u32(at + 12)?;
        let limits = memory.u64(at + 16)?;
        let end = at + CALLS + u64::from(PLACES) * PLACE;
        let (first, next) = (memory.u32(end)?, memory.u32(end + 4)?);
        if lock > 3
            || limits != u64::from(MOST)
            || waiting > MOST
            || first >= PLACES
            || next >= PLACES
        {
            return Err(Error::garbled(QUEUE, at));
        }
        Ok(State {
            // The three words are changed together, under the lock.
            is_free: lock == 0 && (next + PLACES - first) % PLACES == waiting,
            waiting,
            has_room: waiting < MOST,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::Fault;
    use std::vec;
    use std::vec::Vec;

    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            let from = at as usize;
            let bytes = self.0.get(from..from + into.len()).ok_or(Fault { at })?;
            into.copy_from_slice(bytes);
            Ok(())
        }
    }

    impl Bytes {
        fn put(&mut self, at: u64, value: u32) {
            self.0[at as usize..at as usize + 4].copy_from_slice(&value.to_le_bytes());
        }
    }

    #[test]
    fn a_lock_of_one_byte() {
        let mut memory = Bytes(vec![0; 8192]);
        let queue = Queue::Mutex(16);
        assert!(queue.state(&memory).is_err(), "its limits are missing");
        memory.put(32, MOST);
        let state = |memory: &Bytes| queue.state(memory).expect("a queue");
        assert!(state(&memory).is_free && state(&memory).has_room);
        // Locked; free, but somebody is parked there; both.
        for lock in [1, 2, 3] {
            memory.put(24, lock);
            assert!(!state(&memory).is_free, "{lock}");
        }
        memory.put(24, 0);
        // 32 calls, across the end of the array.
        memory.put(28, MOST);
        memory.put(16 + 7224, PLACES - 2);
        memory.put(16 + 7228, 30);
        assert_eq!(
            state(&memory),
            State {
                is_free: true,
                waiting: 32,
                has_room: false
            }
        );
        memory.put(16 + 7228, 29);
        assert!(!state(&memory).is_free, "half of a call was added");
        memory.put(24, 4);
        assert!(queue.state(&memory).is_err(), "no lock has this value");
    }

    #[test]
    fn a_lock_that_is_a_semaphore() {
        let mut memory = Bytes(vec![0; 1024]);
        let queue = Queue::Semaphore(64);
        memory.put(64, 16);
        memory.put(16, 1);
        let state = |memory: &Bytes| queue.state(memory).expect("a queue");
        assert!(state(&memory).is_free && state(&memory).has_room);
        memory.put(16, 0);
        assert!(!state(&memory).is_free);
        memory.put(64 + 528, 5);
        memory.put(64 + 532, 4);
        assert_eq!(
            (state(&memory).waiting, state(&memory).has_room),
            (31, false)
        );
        memory.put(16, 7);
        assert!(
            queue.state(&memory).is_err(),
            "no semaphore of a lock has this value"
        );
    }
}
