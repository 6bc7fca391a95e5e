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
use wire::calls::{self, Calls, Lane, MOVED, TAKEN, UNKNOWN, kind};
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
    let known = match has_block(thread) {
        // SAFETY: the command saw the thread's id there, within the thread's own block.
        true => unsafe { *(thread.wrapping_add(calls.tid_offset) as *const u32) },
        false => 0,
    };
    match known {
        // Or musl has cleared it: the thread is about to end.
        0 => sys::thread_id(),
        known => known,
    }
}

/// The lane of the thread that runs here, made if it has none.
#[inline]
pub fn mine(calls: &Calls, board: &Board) -> Option<&'static Lane> {
    let thread = thread(calls);
    let at = place(thread);
    let known = calls.lanes.get(at)?.load(Ordering::Acquire);
    if known > MOVED {
        // SAFETY: lanes are never unmapped.
        let lane = unsafe { &*(known as *const Lane) };
        if lane.thread.load(Ordering::Relaxed) == thread {
            let fresh = fresh(lane, calls, board, thread);
            if fresh.is_some() || is_of(lane, thread) {
                return fresh;
            }
        }
    }
    search(calls, board, thread, at)
}

/// The lane of the thread that runs here, if it has one; nothing is written.
#[inline]
pub fn known(calls: &Calls) -> Option<&'static Lane> {
    let thread = thread(calls);
    find(calls, thread, place(thread))
}

/// A thread's lane, if it has one, looked for from `first` on.
#[inline]
fn find(calls: &Calls, thread: u64, first: usize) -> Option<&'static Lane> {
    for step in 0..calls::LANES {
        let known = calls.lanes.get((first + step) % calls::LANES)?;
        match known.load(Ordering::Acquire) {
            0 => return None,
            MOVED => {}
            at => {
                // SAFETY: lanes are never unmapped.
                let lane = unsafe { &*(at as *const Lane) };
                if is_of(lane, thread) {
                    return Some(lane);
                }
            }
        }
    }
    None
}

/// Waits until the reader has read all of it, for at most so many cycles.
#[cold]
#[inline(never)]
pub fn drain(lane: &Lane, board: &Board, most: u64) {
    let read = || lane.taken.0.load(Ordering::Acquire) >= lane.reserved.load(Ordering::Relaxed);
    let session = board.calls.load(Ordering::Relaxed);
    pause_until(read, board, session, most);
}

/// Pauses until `done`, for at most so many cycles, and as long as that session goes on and the command lives.
fn pause_until(done: impl Fn() -> bool, board: &Board, session: u32, most: u64) {
    let began = sys::ticks();
    let mut waited = 0;
    while !done()
        && waited < most
        && board.calls.load(Ordering::Relaxed) == session
        && pulse::beats(board)
    {
        sys::pause(PAUSE);
        waited = sys::ticks().wrapping_sub(began);
    }
}

/// Whether a lane is a thread's, and nobody takes it as a dead one's.
fn is_of(lane: &Lane, thread: u64) -> bool {
    lane.tid.load(Ordering::Acquire) != TAKEN && lane.thread.load(Ordering::Relaxed) == thread
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
    let last = lane.tid.load(Ordering::Relaxed);
    let tid = match calls.tid_offset {
        0 => last,
        _ => thread_id(calls, thread),
    };
    let known = last == tid && tid != UNKNOWN && lane.session.load(Ordering::Relaxed) == session;
    (known || introduce(lane, calls, board, thread, session)).then_some(lane)
}

/// Says which thread speaks from here on; whether the lane is its, and there was room to say it.
#[cold]
#[inline(never)]
fn introduce(lane: &Lane, calls: &Calls, board: &Board, thread: u64, session: u32) -> bool {
    let tid = match calls.tid_offset {
        0 => sys::thread_id(),
        _ => thread_id(calls, thread),
    };
    // From whoever had it last: another thread may take it at the same moment, because that one is dead.
    let last = lane.tid.load(Ordering::Relaxed);
    let claim = |last| {
        let order = Ordering::AcqRel;
        lane.tid
            .compare_exchange(last, UNKNOWN, order, Ordering::Relaxed)
    };
    if last == TAKEN || claim(last).is_err() {
        return false;
    }
    let Some(record) = Record::begin(lane, calls, board, kind::THREAD, 1) else {
        return false;
    };
    record.word(0, u64::from(tid));
    record.end();
    // System calls of whoever had it last will not return.
    lane.lent.store(0, Ordering::Relaxed);
    lane.depth.store(0, Ordering::Relaxed);
    let has_block = calls.tid_offset != 0 && has_block(thread);
    lane.has_block.store(has_block.into(), Ordering::Relaxed);
    if lane.session.load(Ordering::Relaxed) != session {
        super::places::forget(lane);
        super::counts::forget(lane);
        lane.session.store(session, Ordering::Relaxed);
    }
    lane.tid.store(tid, Ordering::Release);
    true
}

#[cold]
#[inline(never)]
fn search(calls: &Calls, board: &Board, thread: u64, first: usize) -> Option<&'static Lane> {
    let entries = || (first..first + calls::LANES).map(|at| &calls.lanes[at % calls::LANES]);
    if let Some(lane) = find(calls, thread, first) {
        return fresh(lane, calls, board, thread);
    }
    let found = reclaim(calls, thread).or_else(|| make(calls, board, thread));
    let into = |lane| {
        entries().find(|entry| {
            let free = entry.load(Ordering::Relaxed);
            let order = Ordering::AcqRel;
            free <= MOVED
                && entry
                    .compare_exchange(free, lane, order, Ordering::Relaxed)
                    .is_ok()
        })
    };
    let Some(lane) = found.filter(|lane| into(*lane).is_some()) else {
        calls.unlaned.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    calls.made.fetch_add(1, Ordering::Release);
    // SAFETY: lanes are never unmapped.
    fresh(unsafe { &*(lane as *const Lane) }, calls, board, thread)
}

/// Threads that are asked at most whether they live, by one that needs a lane.
const ASKED: usize = 16;

/// The lane of a thread that is dead, with its lines and counts, which stay what they are.
///
/// Whether it is dead its own block says: there the kernel writes 0 in the place of its id (`CLONE_CHILD_CLEARTID`, which every C
/// library asks for), or nothing is there any more. A thread that has come to live at the same address has another
/// id; it and we take the lane by one exchange, so one of us gets it.
fn reclaim(calls: &Calls, thread: u64) -> Option<u64> {
    if calls.tid_offset == 0 || calls.pool.asks == 0 {
        return None;
    }
    let first = calls.sweep.load(Ordering::Relaxed) as usize;
    let mut asked = 0;
    for at in first..first + calls::LANES {
        let entry = &calls.lanes[at % calls::LANES];
        let known = entry.load(Ordering::Acquire);
        if known <= MOVED {
            continue;
        }
        // SAFETY: lanes are never unmapped.
        let lane = unsafe { &*(known as *const Lane) };
        let tid = lane.tid.load(Ordering::Acquire);
        if matches!(tid, TAKEN | UNKNOWN) || lane.has_block.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let unread = lane.reserved.load(Ordering::Relaxed) - lane.taken.0.load(Ordering::Relaxed);
        if unread > lane.size / 16 {
            // Whoever got it would soon wait for room.
            continue;
        }
        if asked == ASKED {
            calls
                .sweep
                .store((at % calls::LANES) as u64, Ordering::Relaxed);
            return None;
        }
        asked += 1;
        let block = lane.thread.load(Ordering::Relaxed);
        let order = Ordering::AcqRel;
        let dead = !sys::holds(block.wrapping_add(calls.tid_offset), tid);
        if dead
            && lane
                .tid
                .compare_exchange(tid, TAKEN, order, Ordering::Relaxed)
                .is_ok()
        {
            entry.store(MOVED, Ordering::Release);
            lane.thread.store(thread, Ordering::Relaxed);
            lane.tid.store(UNKNOWN, Ordering::Release);
            calls
                .sweep
                .store((at % calls::LANES) as u64, Ordering::Relaxed);
            return Some(known);
        }
    }
    None
}

/// Makes a lane: its record, the table of lines, the ring.
fn make(calls: &Calls, board: &Board, thread: u64) -> Option<u64> {
    let at = match super::pool::slot(calls) {
        Some(slot) => slot,
        None => sys::map(PAGE as u64 + TABLE + calls.ring)?,
    };
    // SAFETY: nobody else's, of that size, page-aligned, zeros.
    unsafe { write(at, calls, board.calls.load(Ordering::Relaxed), thread, 0) };
    Some(at)
}

/// Bytes of the table of lines.
const TABLE: u64 = (calls::PLACES * size_of::<calls::Place>()) as u64;

/// Begins a lane.
///
/// # Safety
/// There is room for one at `at`, with empty tables.
pub unsafe fn write(at: u64, calls: &Calls, session: u32, thread: u64, last_place: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        (at as *mut Lane).write(Lane {
            thread: AtomicU64::new(thread),
            tid: UNKNOWN.into(),
            session: session.into(),
            ring: at + PAGE as u64 + TABLE,
            size: calls.ring,
            reserved: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            places: at + PAGE as u64,
            last_place: last_place.into(),
            uncounted: 0.into(),
            has_block: AtomicU64::new(0),
            counts: AtomicU64::new(0),
            taken: calls::Taken(AtomicU64::new(0)),
            system_calls: [calls::OpenSystemCall::NONE; calls::OPEN].into(),
            depth: AtomicU64::new(0),
            lent: AtomicU64::new(0),
        });
    }
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
        if ring_words == 0 {
            // The command died while it put other memory in the place of the pool.
            return None;
        }
        let at = |position| position & (ring_words - 1);
        loop {
            let position = lane.reserved.load(Ordering::Relaxed);
            let left = ring_words - at(position);
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
            let at = lane.ring + at(position) * 8;
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
    let session = board.calls.load(Ordering::Relaxed);
    let roomy = || lane.taken.0.load(Ordering::Acquire) >= until;
    pause_until(roomy, board, session, calls.most_wait);
    if roomy() {
        return true;
    }
    // Where the gate was closed meanwhile, nobody asks for this any more.
    if board.calls.load(Ordering::Relaxed) == session {
        lane.lost.fetch_add(1, Ordering::Relaxed);
    }
    false
}
