//! Writes a record to a thread's ring. Layout: `wire::calls`. Used by `ring`, `events`, `captures` and others.
//!
//! Only the thread itself writes to its ring, but it may be interrupted at any instruction by a signal handler that calls
//! a hooked function. So room is reserved by one instruction, which an interrupt cannot split (`cmpxchg` without `lock`,
//! because all writers run on the same thread and hence the same processor at a time), and a record that a handler's
//! records follow is complete before the reader goes past it. A handler that leaves by longjmp leaves a record that is
//! never completed; its first word says how long it would have been.

use super::pulse;
use super::session::{self, calls};
use crate::memory::follow::ours;
use crate::memory::instruction::exchange;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use wire::calls::record::Shape;
use wire::calls::{Ring, header, kind};

/// Pause in nanoseconds of a thread that waits for room: about what the reader needs for one round.
const PAUSE: u64 = 50_000;

/// A record that is being written.
pub struct Record {
    at: u64,
    words: u64,
    /// Number of words that are reserved behind the record.
    behind: u64,
    kind: u64,
    position: u64,
}

impl Record {
    /// Reserves room for a record of `words` words, its first included, and for `behind` more. `None` = there was no room
    /// in time, which is counted.
    #[inline(always)]
    pub fn begin(ring: &Ring, kind: u64, words: u64, behind: u64) -> Option<Record> {
        loop {
            if let Some(record) = Self::at_once(ring, kind, words, behind) {
                return Some(record);
            }
            if !makes_room(ring, words + behind) {
                return None;
            }
        }
    }

    /// The same if it is known that there is room; `None` = that is not known. No vector register is used.
    #[inline(always)]
    pub fn at_once(ring: &Ring, kind: u64, words: u64, behind: u64) -> Option<Record> {
        let take = words + behind;
        loop {
            let position = ring.written.reserved.load(Ordering::Relaxed);
            if position + take > ring.written.limit.load(Ordering::Relaxed) {
                return None;
            }
            if exchange(&ring.written.reserved, position, position + take) {
                let at = address(ring, position);
                store(at, header(take, kind::BEGUN, position));
                return Some(Record {
                    at,
                    words,
                    behind,
                    kind,
                    position,
                });
            }
        }
    }

    /// Writes word `index` of the body.
    #[inline(always)]
    pub fn word(&self, index: u64, value: u64) {
        // The caller stays within what it has reserved.
        store(self.at + 8 + index * 8, value);
    }

    /// Writes a part of the body.
    ///
    /// # Safety
    /// `T` consists of plain words and fits into the body from word `index` on.
    #[inline]
    pub unsafe fn part<T: Copy>(&self, index: u64, value: T) {
        // SAFETY: the caller guarantees that `T` fits into the reserved body from word `index` on; the place is aligned
        // to a word.
        unsafe { ours::<T>(self.at + 8 + index * 8).write(value) };
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

    /// Gives back the room behind the first `body` words of the body.
    #[inline]
    pub fn shorten(&mut self, ring: &Ring, body: u64) {
        let words = body + 1;
        if words >= self.words {
            return;
        }
        let end = self.position + self.words + self.behind;
        let rest = self.position + words + self.behind;
        if !exchange(&ring.written.reserved, end, rest) {
            // Records of a handler follow, so the rest becomes a gap.
            store(address(ring, rest), header(end - rest, kind::GAP, rest));
        }
        self.words = words;
    }

    /// Completes the record, which makes it visible to the reader. `shape`: see `wire::calls::record`.
    #[inline(always)]
    pub fn end(self, shape: u64) {
        compiler_fence(Ordering::Release);
        store(
            self.at,
            header(self.words, self.kind, self.position) | shape,
        );
    }

    /// Like [`end`](Self::end), for a call with `room` words reserved behind it for its return.
    #[inline(always)]
    pub fn end_before_room(self, ring: &Ring, shape: Shape, ticks: u64) {
        let (position, words) = (self.position + self.words, shape.room_words());
        // This word comes first: until the record is complete, its first word says how long both are.
        store(
            self.at + self.words * 8,
            header(words, kind::ROOM, position) | shape.return_bits(),
        );
        ring.written.began.store(ticks, Ordering::Relaxed);
        ring.written.room.store(position, Ordering::Relaxed);
        self.end(shape.entry_bits());
    }
}

/// The room behind the record of a call, while the return is written into it.
pub struct Room {
    at: u64,
    begun: u64,
    /// What the return holds, as it was wanted at the call.
    pub shape: Shape,
}

impl Room {
    /// Returns the room of the call that began on this thread at `began`, if nothing was recorded since.
    #[inline(always)]
    pub fn of(ring: &Ring, began: u64) -> Option<Room> {
        let written = &ring.written;
        if written.began.load(Ordering::Relaxed) != began {
            return None;
        }
        let position = written.room.load(Ordering::Relaxed);
        let at = address(ring, position);
        // SAFETY: `address` returns an aligned word within the ring, which is never unmapped; it is used as an atomic
        // only.
        let first = unsafe { &*ours::<AtomicU64>(at) };
        let room = first.load(Ordering::Relaxed);
        let end = position + (room & 0xffff);
        if written.reserved.load(Ordering::Relaxed) != end {
            return None;
        }
        let begun = room | kind::BEGUN << 16;
        // A handler that ran in between may have written the whole ring.
        if room >> 16 & 0xff != kind::ROOM || !exchange(first, room, begun) {
            return None;
        }
        if written.reserved.load(Ordering::Relaxed) != end {
            // A handler ran in between, and the reader may have gone past the room.
            exchange(first, begun, header(room & 0xffff, kind::GAP, position));
            return None;
        }
        // The header's other bits encode its position, as those of the ROOM did.
        let shape = Shape::of_header(room);
        Some(Room { at, begun, shape })
    }

    /// Writes word `index` of the body.
    #[inline(always)]
    pub fn word(&self, index: u64, value: u64) {
        store(self.at + 8 + index * 8, value);
    }

    /// Completes the return, which makes it visible to the reader.
    #[inline(always)]
    pub fn end(self) {
        compiler_fence(Ordering::Release);
        store(self.at, self.begun & !(0xff << 16) | kind::RETURNED << 16);
    }
}

/// Returns the address of a position in the ring.
#[inline(always)]
fn address(ring: &Ring, position: u64) -> u64 {
    ring.records + ((position * 8) & (ring.size - 1))
}

/// Makes it possible to reserve `words` words, if the reader frees the room in time. Returns whether it did.
#[cold]
#[inline(never)]
fn makes_room(ring: &Ring, words: u64) -> bool {
    let all = ring.size / 8;
    if all == 0 {
        // The command died while it replaced the pool by other memory.
        return false;
    }
    let position = ring.written.reserved.load(Ordering::Relaxed);
    let taken = || ring.taken.0.load(Ordering::Acquire);
    // The position at which the ring begins anew.
    let anew = (position / all + 1) * all;
    let wraps = position + words > anew;
    let end = if wraps { anew } else { position + words };
    if end > taken() + all {
        return wait(ring, end - all);
    }
    if wraps {
        if exchange(&ring.written.reserved, position, anew) {
            let gap = header(anew - position, kind::GAP, position);
            store(address(ring, position), gap);
        }
        return true;
    }
    // A handler may have set the limit higher meanwhile; then the check is repeated.
    let limit = anew.min(taken() + all);
    ring.written.limit.store(limit, Ordering::Relaxed);
    true
}

#[inline(always)]
fn store(at: u64, word: u64) {
    // SAFETY: callers pass an aligned address within what they have reserved in the ring. The reader is another process,
    // which reads the word as an atomic; x86-64 keeps the order of stores.
    unsafe { (*ours::<AtomicU64>(at)).store(word, Ordering::Release) };
}

/// Waits until the reader has read `until` words, but not too long. Returns whether there is room now.
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
        // A reader that has not read a record in all that time has stopped reading. The next wait makes sense only when
        // all that is in the ring now has been read.
        let written = ring.written.reserved.load(Ordering::Relaxed);
        ring.waits_from.store(written, Ordering::Relaxed);
    } else {
        pulse::look(sys::ticks());
    }
    // If the gate was closed meanwhile, this is no longer needed.
    if session::number() == session {
        ring.written.lost.fetch_add(1, Ordering::Relaxed);
    }
    false
}

/// Waits until the reader has read what is in a ring now, for at most `most` cycles.
#[cold]
#[inline(never)]
pub fn drain(ring: &Ring, most: u64) {
    let until = readable(ring);
    let read = || ring.taken.0.load(Ordering::Acquire) >= until;
    pause_until(read, session::number(), most);
}

/// Returns the position up to which the reader goes: it stops before the room for the return of a call if nothing is
/// reserved behind that.
fn readable(ring: &Ring) -> u64 {
    let reserved = ring.written.reserved.load(Ordering::Relaxed);
    let room = ring.written.room.load(Ordering::Relaxed);
    // SAFETY: `address` returns an aligned word within the ring, which is never unmapped; it is used as an atomic only.
    let first = unsafe { &*ours::<AtomicU64>(address(ring, room)) };
    let first = first.load(Ordering::Relaxed);
    if wire::calls::open(first, room) == Some((reserved.wrapping_sub(room), kind::ROOM)) {
        room
    } else {
        reserved
    }
}

/// Pauses until `done` returns true, for at most `most` cycles, and as long as that session lasts and the command lives.
fn pause_until(done: impl Fn() -> bool, session: u32, most: u64) {
    let began = sys::ticks();
    let mut waited = 0;
    while !done() && waited < most && session::number() == session && pulse::beats() {
        sys::pause(PAUSE);
        waited = sys::ticks().wrapping_sub(began);
    }
}

#[cfg(test)]
mod tests;
