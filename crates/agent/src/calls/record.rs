//! A record in a thread's ring. Layout: `wire::calls`.
//!
//! Only the thread itself writes, but it may be interrupted at any instruction by a handler that calls a
//! hooked function. So room is reserved by one instruction that an interrupt cannot split (`cmpxchg`
//! without `lock`: the same thread, hence the same processor), and a record that a handler's records
//! follow is whole before the reader goes past it. A handler that leaves by longjmp leaves a record
//! behind that is never whole; its first word tells how long it would have been.

use super::pulse;
use super::session::{self, calls};
use crate::memory::sys;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use wire::calls::{Ring, header, kind};

/// Pauses of a thread that waits for room, in nanoseconds: about what the reader needs for a turn.
const PAUSE: u64 = 50_000;

/// A record being written.
pub struct Record {
    at: u64,
    words: u64,
    kind: u64,
    position: u64,
}

impl Record {
    /// Reserves room for `body` words; `None` = there was none in time, which is counted.
    #[inline]
    pub fn begin(ring: &Ring, kind: u64, body: u64) -> Option<Record> {
        let words = body + 1;
        let ring_words = ring.size / 8;
        if ring_words == 0 {
            // The command died while it put other memory in the place of the pool.
            return None;
        }
        let at = |position| position & (ring_words - 1);
        loop {
            let position = ring.reserved.load(Ordering::Relaxed);
            let left = ring_words - at(position);
            let (take, gap) = if words <= left {
                (words, false)
            } else {
                (left, true)
            };
            if position + take - ring.taken.0.load(Ordering::Acquire) > ring_words {
                if !wait(ring, position + take - ring_words) {
                    return None;
                }
                continue;
            }
            if !exchange(&ring.reserved, position, position + take) {
                continue;
            }
            let at = ring.records + at(position) * 8;
            let state = if gap { kind::GAP } else { kind::BEGUN };
            store(at, header(take, state, position));
            if !gap {
                return Some(Record {
                    at,
                    words,
                    kind,
                    position,
                });
            }
        }
    }

    /// Writes word `index` of the body.
    #[inline]
    pub fn word(&self, index: u64, value: u64) {
        // SAFETY: the caller stays within what it reserved, which is this thread's alone.
        unsafe { ((self.at + 8 + index * 8) as *mut u64).write(value) };
    }

    /// Writes a body part.
    ///
    /// # Safety
    /// `T` is plain words, and fits from word `index` on.
    #[inline]
    pub unsafe fn part<T: Copy>(&self, index: u64, value: T) {
        // SAFETY: as `word`.
        unsafe { ((self.at + 8 + index * 8) as *mut T).write(value) };
    }

    /// Address of word `index` of the body.
    #[inline]
    pub fn address(&self, index: u64) -> u64 {
        self.at + 8 + index * 8
    }

    /// Words of the body.
    #[inline]
    pub fn body(&self) -> u64 {
        self.words - 1
    }

    /// Gives back what lies behind the first `body` words of the body.
    #[inline]
    pub fn shorten(&mut self, ring: &Ring, body: u64) {
        let words = body + 1;
        if words >= self.words {
            return;
        }
        let end = self.position + self.words;
        if !exchange(&ring.reserved, end, self.position + words) {
            // A handler's records follow.
            let rest = self.position + words;
            store(self.at + words * 8, header(end - rest, kind::GAP, rest));
        }
        self.words = words;
    }

    /// It is whole: the reader may have it.
    #[inline]
    pub fn end(self) {
        compiler_fence(Ordering::Release);
        store(self.at, header(self.words, self.kind, self.position));
    }
}

#[inline]
fn store(at: u64, word: u64) {
    // SAFETY: within the ring, aligned; the reader is another process. x86-64 keeps the order of stores.
    unsafe { (*(at as *const AtomicU64)).store(word, Ordering::Release) };
}

/// Compares and exchanges, against interrupts of this thread only.
#[inline]
pub fn exchange(word: &AtomicU64, old: u64, new: u64) -> bool {
    let same: u8;
    // SAFETY: the word is alive; one instruction, which an interrupt comes before or after.
    unsafe {
        asm!(
            "cmpxchg [{at}], {new}",
            "sete {same}",
            at = in(reg) word.as_ptr(),
            new = in(reg) new,
            same = out(reg_byte) same,
            inout("rax") old => _,
            options(nostack),
        );
    }
    same != 0
}

/// Waits until the reader has read `until` words, or for too long; whether there is room now.
#[cold]
#[inline(never)]
fn wait(ring: &Ring, until: u64) -> bool {
    let session = session::number();
    let taken = || ring.taken.0.load(Ordering::Acquire);
    let roomy = || taken() >= until;
    if taken() >= ring.waits_from.load(Ordering::Relaxed) {
        pause_until(roomy, session, calls().most_wait);
        if roomy() {
            return true;
        }
        // Whoever has not read a record in all that time has stopped reading. The next wait is worth it when all that
        // stands in the ring now was read.
        let written = ring.reserved.load(Ordering::Relaxed);
        ring.waits_from.store(written, Ordering::Relaxed);
    } else {
        pulse::look(sys::ticks());
    }
    // Where the gate was closed meanwhile, nobody asks for this any more.
    if session::number() == session {
        ring.lost.fetch_add(1, Ordering::Relaxed);
    }
    false
}

/// Waits until the reader has read all of it, for at most so many cycles.
#[cold]
#[inline(never)]
pub fn drain(ring: &Ring, most: u64) {
    let read = || ring.taken.0.load(Ordering::Acquire) >= ring.reserved.load(Ordering::Relaxed);
    let session = session::number();
    pause_until(read, session, most);
}

/// Pauses until `done`, for at most so many cycles, and as long as that session goes on and the command lives.
fn pause_until(done: impl Fn() -> bool, session: u32, most: u64) {
    let began = sys::ticks();
    let mut waited = 0;
    while !done() && waited < most && session::number() == session && pulse::beats() {
        sys::pause(PAUSE);
        waited = sys::ticks().wrapping_sub(began);
    }
}
