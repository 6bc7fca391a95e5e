//! A thread's lane: where its records go. Layout: `wire::calls`.
//!
//! Only the thread itself writes, but it may be interrupted at any instruction by a handler that calls a
//! hooked function. So room is reserved by one instruction that an interrupt cannot split (`cmpxchg`
//! without `lock`: the same thread, hence the same processor), and a record that a handler's records
//! follow is whole before the reader goes past it. A handler that leaves by longjmp leaves a record
//! behind that is never whole; its first word tells how long it would have been.

use super::pulse;
use crate::sys;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use wire::calls::{self, Calls, Lane, kind};
use wire::{Board, PAGE};

/// Pauses of a thread that waits for room, in nanoseconds: about what the reader needs for a turn.
const PAUSE: u64 = 50_000;

/// What tells the thread that runs here from others: its thread pointer, or its kernel id where it has none.
///
/// glibc and musl keep the pointer at its own address (`struct pthread`, first word); but a thread made by a bare `clone` may
/// have none, and nothing at address 0 to read it from.
#[inline]
pub fn thread(calls: &Calls) -> u64 {
    if calls.tells_pointer == 0 {
        // The command hooks no program here in which a thread has no thread-local storage.
        return thread_pointer();
    }
    let pointer: u64;
    // SAFETY: the kernel lets programs use the instruction: the command looked.
    unsafe { asm!("rdfsbase {}", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
    match pointer {
        0 => u64::from(sys::thread_id()) | calls::NO_POINTER,
        pointer => pointer,
    }
}

/// The thread pointer of a thread that [has a block](has_block).
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the callers have asked.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
    };
    pointer
}

/// Whether the C library made this thread, so that what is known of its own block is there.
#[inline]
pub fn has_block(thread: u64) -> bool {
    // SAFETY: a thread pointer that is not 0; whoever set it reads there.
    thread & calls::NO_POINTER == 0 && unsafe { *(thread as *const u64) } == thread
}

/// The kernel's id of that thread.
#[inline]
fn thread_id(calls: &Calls, thread: u64) -> u32 {
    match has_block(thread) {
        // SAFETY: the command saw the thread's id there, within the thread's own block.
        true => unsafe { *(thread.wrapping_add(calls.tid_offset) as *const u32) },
        false => sys::thread_id(),
    }
}

/// The lane of the thread that runs here, made if it has none.
#[inline]
pub fn mine(calls: &Calls, board: &Board) -> Option<&'static Lane> {
    let thread = thread(calls);
    let at = place(thread);
    let known = calls.lanes.get(at)?.load(Ordering::Acquire);
    if known != 0 {
        // SAFETY: lanes are never unmapped.
        let lane = unsafe { &*(known as *const Lane) };
        if lane.thread.load(Ordering::Relaxed) == thread {
            return fresh(lane, calls, board, thread);
        }
    }
    search(calls, board, thread, at)
}

/// The lane of the thread that runs here, if it has one; nothing is written.
#[inline]
pub fn known(calls: &Calls) -> Option<&'static Lane> {
    let thread = thread(calls);
    let first = place(thread);
    for step in 0..calls::LANES {
        let known = calls.lanes.get((first + step) % calls::LANES)?;
        let at = known.load(Ordering::Acquire);
        if at == 0 {
            return None;
        }
        // SAFETY: lanes are never unmapped.
        let lane = unsafe { &*(at as *const Lane) };
        if lane.thread.load(Ordering::Relaxed) == thread {
            return Some(lane);
        }
    }
    None
}

/// Waits until the reader has read all of it, for at most so many cycles.
#[cold]
#[inline(never)]
pub fn drain(lane: &Lane, board: &Board, most: u64) {
    let began = sys::ticks();
    let session = board.calls.load(Ordering::Relaxed);
    while lane.taken.0.load(Ordering::Acquire) < lane.reserved.load(Ordering::Relaxed)
        && sys::ticks().wrapping_sub(began) < most
        && board.calls.load(Ordering::Relaxed) == session
        && pulse::beats(board)
    {
        sys::pause(PAUSE);
    }
}

/// Where a thread's lane is looked for first.
#[inline]
fn place(thread: u64) -> usize {
    // Thread pointers are at least 64 bytes apart, mostly whole stacks.
    (thread >> 6 ^ thread >> 20) as usize % calls::LANES
}

/// Notes when another thread has come to live at the same address.
#[inline]
fn fresh(lane: &'static Lane, calls: &Calls, board: &Board, thread: u64) -> Option<&'static Lane> {
    let session = board.calls.load(Ordering::Relaxed);
    let tid = match calls.tid_offset {
        0 => lane.tid.load(Ordering::Relaxed),
        _ => thread_id(calls, thread),
    };
    let known =
        lane.tid.load(Ordering::Relaxed) == tid && lane.session.load(Ordering::Relaxed) == session;
    (known || introduce(lane, calls, board, tid, session)).then_some(lane)
}

/// Says which thread speaks from here on; whether there was room to say it.
#[cold]
#[inline(never)]
fn introduce(lane: &Lane, calls: &Calls, board: &Board, tid: u32, session: u32) -> bool {
    let tid = if calls.tid_offset == 0 {
        sys::thread_id()
    } else {
        tid
    };
    let Some(record) = Record::begin(lane, calls, board, kind::THREAD, 1) else {
        return false;
    };
    record.word(0, u64::from(tid));
    record.end();
    lane.tid.store(tid, Ordering::Relaxed);
    if lane.session.load(Ordering::Relaxed) != session {
        super::places::forget(lane);
        super::counts::forget(lane);
        lane.lent.store(0, Ordering::Relaxed);
        lane.session.store(session, Ordering::Relaxed);
    }
    true
}

#[cold]
#[inline(never)]
fn search(calls: &Calls, board: &Board, thread: u64, first: usize) -> Option<&'static Lane> {
    let mut made = 0;
    for step in 0..calls::LANES {
        let entry = calls.lanes.get((first + step) % calls::LANES)?;
        let mut known = entry.load(Ordering::Acquire);
        if known == 0 {
            if made == 0 {
                made = match make(calls, board, thread) {
                    Some(lane) => lane,
                    None => break,
                };
            }
            known = match entry.compare_exchange(0, made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    calls.made.fetch_add(1, Ordering::Release);
                    made
                }
                // A handler on this thread, or another thread, was faster.
                Err(other) => other,
            };
        }
        // SAFETY: lanes are never unmapped.
        let lane = unsafe { &*(known as *const Lane) };
        if lane.thread.load(Ordering::Relaxed) == thread {
            return fresh(lane, calls, board, thread);
        }
    }
    calls.unlaned.fetch_add(1, Ordering::Relaxed);
    None
}

/// Maps a lane: its record, the table of lines, the ring.
fn make(calls: &Calls, board: &Board, thread: u64) -> Option<u64> {
    let places = (calls::PLACES * size_of::<calls::Place>()) as u64;
    let at = sys::map(PAGE as u64 + places + calls.ring)?;
    // SAFETY: a new mapping of that size, page-aligned.
    unsafe {
        (at as *mut Lane).write(Lane {
            thread: AtomicU64::new(thread),
            tid: 0.into(),
            // Its tables are empty.
            session: board.calls.load(Ordering::Relaxed).into(),
            ring: at + PAGE as u64 + places,
            size: calls.ring,
            reserved: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            places: at + PAGE as u64,
            last_place: 0.into(),
            uncounted: 0.into(),
            counts: AtomicU64::new(0),
            taken: calls::Taken(AtomicU64::new(0)),
            system_calls: [calls::OpenSystemCall::NONE; calls::OPEN].into(),
            depth: AtomicU64::new(0),
            lent: AtomicU64::new(0),
        });
    }
    Some(at)
}

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
    pub fn begin(
        lane: &Lane,
        calls: &Calls,
        board: &Board,
        kind: u64,
        body: u64,
    ) -> Option<Record> {
        let words = body + 1;
        let ring_words = lane.size / 8;
        loop {
            let position = lane.reserved.load(Ordering::Relaxed);
            let left = ring_words - position % ring_words;
            let (take, gap) = if words <= left {
                (words, false)
            } else {
                (left, true)
            };
            if position + take - lane.taken.0.load(Ordering::Acquire) > ring_words {
                if !wait(lane, calls, board, position + take - ring_words) {
                    return None;
                }
                continue;
            }
            if !exchange(&lane.reserved, position, position + take) {
                continue;
            }
            let at = lane.ring + position % ring_words * 8;
            let state = if gap { kind::GAP } else { kind::BEGUN };
            store(at, calls::header(take, state, position));
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
    pub fn shorten(&mut self, lane: &Lane, body: u64) {
        let words = body + 1;
        if words >= self.words {
            return;
        }
        let end = self.position + self.words;
        if !exchange(&lane.reserved, end, self.position + words) {
            // A handler's records follow.
            let rest = self.position + words;
            store(
                self.at + words * 8,
                calls::header(end - rest, kind::GAP, rest),
            );
        }
        self.words = words;
    }

    /// It is whole: the reader may have it.
    #[inline]
    pub fn end(self) {
        compiler_fence(Ordering::Release);
        store(self.at, calls::header(self.words, self.kind, self.position));
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
fn wait(lane: &Lane, calls: &Calls, board: &Board, until: u64) -> bool {
    let began = sys::ticks();
    let session = board.calls.load(Ordering::Relaxed);
    let roomy = || lane.taken.0.load(Ordering::Acquire) >= until;
    let heard = || board.calls.load(Ordering::Relaxed) == session;
    let mut waited = 0;
    while !roomy() && waited < calls.most_wait && heard() && pulse::beats(board) {
        sys::pause(PAUSE);
        waited = sys::ticks().wrapping_sub(began);
    }
    if roomy() {
        return true;
    }
    // Where the gate was closed meanwhile, nobody asks for this any more.
    if heard() {
        lane.lost.fetch_add(1, Ordering::Relaxed);
    }
    false
}
