//! Who has the lock of the VM (the GIL), found by a thread that waits for it.
//!
//! `take_gil` waits on a condition variable in the state of the GIL, for 5 ms at a time (`Include/internal/pycore_gil.h`, the same from 3.9
//! to 3.15; where that state lies differs in each version, and is not needed here):
//!
//! ```text
//!   struct _gil_runtime_state │ 0 interval │ 8 last_holder │ 16 locked │ 24 switch_number │ 32 cond                    │ 80 mutex
//!   pthread_cond_t, glibc 2.25                                                              │ … │ 40, 44 g_signals ◄ word
//!                   glibc 2.41                                                              │ … │ 32, 36 g_signals ◄ word
//! ```
//!
//! The word on which the thread sleeps is one of the two of `__g_signals` (sysdeps/nptl/bits/thread-shared-types.h). What lies before it
//! is believed to be the state of the GIL if `locked` is 1, the holder is the `PyThreadState` of a thread that Python knows, and the
//! interval is one that `sys.setswitchinterval` can set. The holder is written by whoever takes the lock, right behind `locked` and under
//! the same mutex.

use super::{Error, Python};
use crate::Memory;

/// Offsets in `struct _gil_runtime_state`.
const HOLDER: u64 = 8;
const LOCKED: u64 = 16;
const CONDITION: u64 = 32;
/// Offsets of `__g_signals` in `pthread_cond_t`.
const SIGNALS: [u64; 4] = [40, 44, 32, 36];
/// Limit of the interval, in microseconds: a day.
const LONGEST: u64 = 24 * 3600 * 1_000_000;

impl<M: Memory> Python<'_, M> {
    /// Returns the `PyThreadState` that has the lock for which a thread waits that sleeps on `word` in `take_gil`; `None` if nobody has it,
    /// or the word is not one of a GIL.
    pub fn gil_holder(&self, word: u64) -> Result<Option<u64>, Error> {
        for signals in SIGNALS {
            let gil = word.wrapping_sub(signals + CONDITION);
            if !gil.is_multiple_of(8) {
                continue;
            }
            let field = |at: u64| self.memory.u64(gil.wrapping_add(at));
            let (Ok(interval), Ok(holder)) = (field(0), field(HOLDER)) else {
                continue;
            };
            let is_locked = self.memory.u32(gil.wrapping_add(LOCKED)) == Ok(1);
            if is_locked && (1..=LONGEST).contains(&interval) && self.is_known(holder)? {
                return Ok(Some(holder));
            }
        }
        Ok(None)
    }

    /// Whether Python knows a thread by this state.
    fn is_known(&self, state: u64) -> Result<bool, Error> {
        for thread in self.all_threads() {
            if thread?.address == state {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
