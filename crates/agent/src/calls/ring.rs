//! The ring of a thread: it is found by the thread pointer, made at the thread's first event, and taken over from a thread that is dead.
//! Used by `children`, `system_calls`, `probes` and others.

use super::record::{self, Record};
use super::session::{self, calls};
pub use super::thread::thread_pointer;
use super::thread::{has_block, thread};
use super::{blocks, locks, pool, room, tables};
use crate::memory::follow::{kept, ours};
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::room::{NO_ROOM, place};
use wire::PAGE;
use wire::calls::further::Further;
use wire::calls::{
    COUNTS, MOVED, OPEN, OpenSystemCall, PLACES, Place, RINGS, Ring, TAKEN, Taken, UNKNOWN,
    Written, kind,
};

/// Returns the ring of the running thread, and makes one if it has none.
#[inline]
pub fn mine() -> Option<&'static Ring> {
    let thread = thread();
    let known = calls().rings.get(place(thread))?.load(Ordering::Acquire);
    // SAFETY: rings are never unmapped.
    let ring = (known > MOVED).then(|| unsafe { &*ours::<Ring>(known) });
    mine_from(
        ring.filter(|ring| ring.thread.load(Ordering::Relaxed) == thread),
        thread,
    )
}

/// The same if `found` is a ring that has named this thread, which is `thread`. What the ring names now is not believed: another thread
/// may have taken it meanwhile, and that one's block may be gone.
#[inline]
pub fn mine_from(found: Option<&'static Ring>, thread: u64) -> Option<&'static Ring> {
    match found.and_then(|ring| unless_taken(ring, thread)) {
        Some(settled) => settled,
        None => search(thread),
    }
}

/// Returns a ring that has named this thread, if the thread may write there. `None` = another thread has taken it meanwhile.
#[inline]
fn unless_taken(ring: &'static Ring, thread: u64) -> Option<Option<&'static Ring>> {
    let fresh = fresh(ring, thread);
    (fresh.is_some() || is_of(ring, thread)).then_some(fresh)
}

/// Returns the ring of the running thread if it has one. Nothing is written.
#[inline]
pub fn known() -> Option<&'static Ring> {
    let thread = thread();
    find(thread, place(thread))
}

/// Returns a thread's ring if it has one; the search begins at `first`.
#[inline]
fn find(thread: u64, first: usize) -> Option<&'static Ring> {
    for step in 0..RINGS {
        let known = calls().rings.get((first + step) % RINGS)?;
        match known.load(Ordering::Acquire) {
            0 => return None,
            MOVED => {}
            at => {
                // SAFETY: rings are never unmapped.
                let ring = unsafe { &*ours::<Ring>(at) };
                if is_of(ring, thread) {
                    return Some(ring);
                }
            }
        }
    }
    None
}

/// Whether a ring is a thread's, and is not being taken over as a dead one's.
fn is_of(ring: &Ring, thread: u64) -> bool {
    ring.tid.load(Ordering::Acquire) != TAKEN && ring.thread.load(Ordering::Relaxed) == thread
}

/// Checks whether the running thread, which is `thread`, is another than the one that had this address when the ring was introduced; if so,
/// its id is recorded.
#[inline]
fn fresh(ring: &'static Ring, thread: u64) -> Option<&'static Ring> {
    let session = session::number();
    // Who takes the ring writes whose it is before it writes the id.
    let last = ring.tid.load(Ordering::Acquire);
    let known = ring.thread.load(Ordering::Relaxed) == thread
        && ring.session.load(Ordering::Relaxed) == session
        && !matches!(last, UNKNOWN | TAKEN)
        && (calls().tid_offset == 0 || thread_id(ring, thread) == last);
    (known || introduce(ring, thread, session)).then_some(ring)
}

/// Has the running thread introduced again, because what its C library says of it has changed.
pub fn introduce_again() {
    let thread = thread();
    if let Some(ring) = find(thread, place(thread)) {
        ring.tid.store(UNKNOWN, Ordering::Relaxed);
        fresh(ring, thread);
    }
}

/// Returns the kernel's id of the running thread, which is `thread`, and whose ring was introduced in this session.
fn thread_id(ring: &Ring, thread: u64) -> u32 {
    match id_in_block(ring, thread) {
        // The thread has no block; or musl has cleared the word, because the thread is about to end.
        None | Some(0) => sys::thread_id(),
        Some(id) => id,
    }
}

/// Returns the word with the kernel's id in the block of the running thread, which is `thread`; `None` = it has no block.
#[inline(always)]
fn id_in_block(ring: &Ring, thread: u64) -> Option<u32> {
    if ring.has_block.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // SAFETY: when the thread was introduced, the kernel confirmed that this word can be read (`has_block`), and a thread keeps its block.
    // If another thread has the address of one that has ended, the same C library made it: a runtime that puts a storage without a block
    // exactly there would first have to unmap the rest. The block is the running thread's own, also if the ring, which has named this
    // thread, is being taken by another one: only the ring of a thread with a block is.
    Some(unsafe { *kept::<u32>(thread.wrapping_add(calls().tid_offset)) })
}

/// Whether a ring that has named the running thread, which is `thread`, certainly belongs to it and was introduced in this session. False
/// if the kernel would have to be asked for the thread's id.
#[inline(always)]
pub fn speaks(ring: &Ring, thread: u64, session: u32) -> bool {
    let last = ring.tid.load(Ordering::Acquire);
    if ring.thread.load(Ordering::Relaxed) != thread {
        return false;
    }
    let known = match calls().tid_offset {
        0 => !matches!(last, UNKNOWN | TAKEN),
        _ => last != 0 && id_in_block(ring, thread) == Some(last),
    };
    known && ring.session.load(Ordering::Relaxed) == session
}

/// Records which thread writes from here on. Returns whether the ring is its own, there was room, and the thread may read the counter.
#[cold]
#[inline(never)]
pub(super) fn introduce(ring: &Ring, thread: u64, session: u32) -> bool {
    // This comes first, because waiting for room reads the time-stamp counter.
    if locks::are_there() {
        return false;
    }
    let tid = sys::thread_id();
    // The ring is taken from its last owner by one exchange, because another thread may try the same at this moment. One that has reclaimed
    // it before has written its own address first (`reclaim`).
    let last = ring.tid.load(Ordering::Acquire);
    let claim = |last| {
        let order = Ordering::AcqRel;
        ring.tid
            .compare_exchange(last, UNKNOWN, order, Ordering::Relaxed)
    };
    let is_mine = ring.thread.load(Ordering::Relaxed) == thread;
    if last == TAKEN || !is_mine || claim(last).is_err() {
        return false;
    }
    // System calls of the last owner will not return. They are forgotten also if there is no room for the record: what passes a probe next
    // on this thread finds the ring by the thread's address, and must not take one of them for its own.
    ring.lent.store(0, Ordering::Relaxed);
    ring.depth.store(0, Ordering::Relaxed);
    blocks::begins(ring, thread);
    // Who counts blocks does not ask which thread it was; with a record of each, threads that come and go would fill the ring.
    if !blocks::are_counted() {
        let Some(record) = Record::begin(ring, kind::THREAD, 2, 0) else {
            return false;
        };
        record.word(0, u64::from(tid));
        record.end(0);
    }
    let has_block = has_block(thread, tid);
    ring.has_block.store(has_block.into(), Ordering::Relaxed);
    if ring.session.load(Ordering::Relaxed) != session {
        tables::forget_lines(ring);
        tables::forget_counts(ring);
        ring.session.store(session, Ordering::Relaxed);
    }
    let [low, span] = room::of(thread, has_block);
    ring.low.store(low, Ordering::Relaxed);
    ring.span.store(span, Ordering::Relaxed);
    ring.tid.store(tid, Ordering::Release);
    true
}

#[cold]
#[inline(never)]
fn search(thread: u64) -> Option<&'static Ring> {
    let first = place(thread);
    let entries = || (first..first + RINGS).map(|at| &calls().rings[at % RINGS]);
    if let Some(settled) = find(thread, first).and_then(|ring| unless_taken(ring, thread)) {
        return settled;
    }
    let found = reclaim(thread).or_else(|| make(thread));
    let into = |ring| {
        entries().find(|entry| {
            let free = entry.load(Ordering::Relaxed);
            let order = Ordering::AcqRel;
            free <= MOVED
                && entry
                    .compare_exchange(free, ring, order, Ordering::Relaxed)
                    .is_ok()
        })
    };
    let Some(ring) = found.filter(|ring| into(*ring).is_some()) else {
        calls().without_ring.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    calls().made.fetch_add(1, Ordering::Release);
    // SAFETY: rings are never unmapped.
    fresh(unsafe { &*ours::<Ring>(ring) }, thread)
}

/// Waits until the records of a session have been read, in those rings that lie in the process's own memory.
#[cold]
#[inline(never)]
pub fn drain_private(session: u32) {
    if locks::are_there() {
        return;
    }
    let known = calls()
        .rings
        .iter()
        .map(|entry| entry.load(Ordering::Acquire));
    for at in known.filter(|at| *at > MOVED && !pool::holds(*at)) {
        // SAFETY: rings are never unmapped.
        let ring = unsafe { &*ours::<Ring>(at) };
        if ring.session.load(Ordering::Relaxed) == session {
            record::drain(ring, calls().most_wait);
        }
    }
}

/// Limit of threads whose death a thread that needs a ring checks.
const ASKED: usize = 16;

/// Returns the ring of a dead thread; its lines and counts stay valid.
///
/// A thread whose block still holds its id lives. One whose block does not, or is no longer mapped, is dead only if the kernel knows no thread
/// of that id: musl writes 0 there before its last system calls (`pthread_exit`), which pass probes and write to the ring; glibc has the
/// kernel write it (`CLONE_CHILD_CLEARTID`), when the thread does not run any more. If another process has the id by now, the ring is left
/// alone. A new thread at the same address has another id. It and this thread take the ring by one exchange, so only one of them gets it.
pub(super) fn reclaim(thread: u64) -> Option<u64> {
    if calls().tid_offset == 0 || calls().pool.asks == 0 {
        return None;
    }
    let first = calls().sweep.load(Ordering::Relaxed) as usize;
    let mut asked = 0;
    for at in first..first + RINGS {
        let entry = &calls().rings[at % RINGS];
        let known = entry.load(Ordering::Acquire);
        if known <= MOVED {
            continue;
        }
        // SAFETY: rings are never unmapped.
        let ring = unsafe { &*ours::<Ring>(known) };
        let tid = ring.tid.load(Ordering::Acquire);
        if matches!(tid, TAKEN | UNKNOWN) || ring.has_block.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let unread =
            ring.written.reserved.load(Ordering::Relaxed) - ring.taken.0.load(Ordering::Relaxed);
        if unread > ring.size / 16 {
            // The new owner would soon have to wait for room.
            continue;
        }
        if asked == ASKED {
            calls().sweep.store((at % RINGS) as u64, Ordering::Relaxed);
            return None;
        }
        asked += 1;
        let block = ring.thread.load(Ordering::Relaxed);
        let order = Ordering::AcqRel;
        let dead =
            !sys::holds(block.wrapping_add(calls().tid_offset), tid) && !sys::exists(tid.into());
        if dead
            && ring
                .tid
                .compare_exchange(tid, TAKEN, order, Ordering::Relaxed)
                .is_ok()
        {
            // Before others can have its place.
            blocks::ends(at % RINGS, block);
            entry.store(MOVED, Ordering::Release);
            ring.thread.store(thread, Ordering::Relaxed);
            ring.tid.store(UNKNOWN, Ordering::Release);
            calls().sweep.store((at % RINGS) as u64, Ordering::Relaxed);
            return Some(known);
        }
    }
    None
}

/// Makes a ring: its record, the table of lines, and the room for records.
fn make(thread: u64) -> Option<u64> {
    let at = match pool::slot() {
        Some(slot) => slot,
        None => sys::map(PAGE as u64 + TABLE + calls().ring_size)?,
    };
    // SAFETY: `at` is a slot of the pool or a new mapping: page-aligned zeros with room for a ring, which no other thread knows yet.
    unsafe { write(at, session::number(), thread, 0) };
    Some(at)
}

/// Bytes of a ring's table of lines.
const TABLE: u64 = (PLACES * size_of::<Place>()) as u64;

/// Writes the header of an empty ring.
///
/// # Safety
/// There is room for a ring at `at`, with empty tables, and no other thread uses it.
pub unsafe fn write(at: u64, session: u32, thread: u64, last_place: u32) {
    // SAFETY: the caller guarantees room for a ring at `at` that no other thread uses; it is page-aligned, as rings are.
    unsafe {
        ours::<Ring>(at).write(Ring {
            thread: AtomicU64::new(thread),
            low: AtomicU64::new(NO_ROOM[0]),
            span: AtomicU64::new(NO_ROOM[1]),
            tid: UNKNOWN.into(),
            session: session.into(),
            records: at + PAGE as u64 + TABLE,
            size: calls().ring_size,
            written: Written::default(),
            places: at + PAGE as u64,
            last_place: last_place.into(),
            uncounted: 0.into(),
            has_block: AtomicU64::new(0),
            counts: AtomicU64::new(0),
            taken: Taken(AtomicU64::new(0)),
            system_calls: [OpenSystemCall::NONE; OPEN].into(),
            depth: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            child: AtomicU64::new(0),
            waits_from: AtomicU64::new(0),
            further: Further::default(),
            rows: [const { AtomicU64::new(0) }; COUNTS / 64],
        });
    }
}

#[cfg(test)]
pub mod fixture;
