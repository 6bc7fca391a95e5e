//! What `mem` does in a Python when a block is taken and when it is freed. Used by `allocator`, `jobs` and `census`.
//!
//! A call counts if the control page says that our functions count, and if the running thread has the lock of the main interpreter. All else
//! passes through: of a forked child, whose page the kernel has wiped; of an interpreter with a lock of its own; of a thread without the
//! lock, which is forbidden and done. Where calls pass through, ours take themselves out of the table after some of them.
//!
//! Whether a thread has the lock is read at each call ([`at_hand`], and where that does not say, [`caller`]), and who has it is alone here. Where the books
//! are in use all the same, by a thread that was stopped or was not copied by a fork, calls pass through, too ([`Held`]).

use super::allocator;
use super::caller::{Caller, at_hand, caller, form, innermost, note, who};
use super::names::Names;
use crate::births::blocks::Known;
use crate::births::books::{Booked, DEEPEST, Key};
use crate::births::heartbeat::LOOK_EVERY;
use crate::births::living::{self, epoch, place_of};
use crate::guard;
use crate::languages::python::snapshot::reader;
use crate::memory::direct::Direct;
use crate::memory::sys;
use crate::shared::{CONFIG, CONTROL_PAGE, LEDGER};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use vm::python::Current;
use wire::{Farewell, Ledger, Reply, State};

/// Calls that have passed through.
pub(super) static PASSED: AtomicU32 = AtomicU32::new(0);
/// Births that were not counted, because the thread is in no interpreter that is counted.
static ELSEWHERE: AtomicU64 = AtomicU64::new(0);
/// Births and deaths that were not seen, because the thread did not have the lock.
static UNLOCKED: AtomicU64 = AtomicU64::new(0);

/// 1 = a thread uses [`BIRTHS`] and the ledger.
static IN_USE: AtomicU32 = AtomicU32::new(0);
/// How often is waited for a thread that uses them without the lock, which may be stopped; each time a millisecond.
const TRIES: u32 = 50;

/// The right to use [`BIRTHS`] and the ledger. Only a thread that has the VM's lock takes it, so nobody else does at the same time.
pub struct Held(());

impl Held {
    /// Takes it, unless somebody has it. Nobody waits for it at a birth or a death. The caller has the VM's lock, as its state says.
    #[inline(always)]
    pub fn take(current: Current) -> Option<Held> {
        if !current.is_own {
            return Held::take_alone();
        }
        // Two steps, because the VM's lock admits one thread: an exchange would cost as much as all the rest of a birth.
        if IN_USE.load(Ordering::Acquire) != 0 {
            return None;
        }
        IN_USE.store(1, Ordering::Relaxed);
        // Nothing that is written later may come before this, for a signal handler of this thread.
        compiler_fence(Ordering::SeqCst);
        Some(Held(()))
    }

    /// The same where several threads may believe that they have the VM's lock: one of them takes it.
    #[cold]
    fn take_alone() -> Option<Held> {
        let taken = IN_USE.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Held(()))
    }

    /// Takes it; waits for a while where a thread has it. `None`: that thread may be stopped, or was not copied by a fork.
    pub fn wait() -> Option<Held> {
        (0..TRIES).find_map(|_| {
            let held = Held::take_alone();
            if held.is_none() {
                sys::pause(1_000_000);
            }
            held
        })
    }

    /// What it is the right to.
    #[inline(always)]
    pub fn both(&mut self) -> (&mut Births, &mut Ledger) {
        // SAFETY: there is one value of this type at a time, because it is made with the VM's lock held and dropped before that is given up.
        // The command reads and writes single words of the ledger only.
        unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) }
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        IN_USE.store(0, Ordering::Release);
    }
}

/// What is counted. It is used with the lock of the main interpreter, and by who has the right to ([`Held`]).
pub type Births = living::Births<Names>;

static mut BIRTHS: Births = Births::new(Names::new());

impl Births {
    /// Whether births are booked by [`born_again`](Self::born_again) at all: not with call paths, nor where there was no memory for one.
    #[inline(always)]
    fn counts_in_passing(&self) -> bool {
        self.depth == 1 && self.full.is_none()
    }

    /// Books a block of `size` bytes at `at`, where all of this was seen just now: its line, and the page that it lies in. Returns whether it
    /// is booked; if not, nothing was changed, and `born` does it. Who calls has asked [`counts_in_passing`](Self::counts_in_passing).
    #[inline(always)]
    fn born_again(&mut self, ledger: &mut Ledger, key: Key, at: u64, size: u64) -> bool {
        let Some(place) = self.blocks.empty_place(at, size) else {
            return false;
        };
        let number = self.recent[place_of(key)];
        let Some(Booked { site, measure }) = self.books.count_at(number, key) else {
            return false;
        };
        self.blocks.fill(place, epoch(ledger) | site, size);
        self.presence.until_look -= 1;
        if measure || self.presence.until_look == 0 {
            self.born_at_turn(ledger, site, measure.then_some(size));
        }
        true
    }

    /// What is done at some births only: the size is taken, or it is looked whether the command is there.
    #[cold]
    #[inline(never)]
    fn born_at_turn(&mut self, ledger: &mut Ledger, site: u32, measured: Option<u64>) {
        if let Some(size) = measured {
            self.books.measured(ledger, site, size);
        }
        if self.presence.until_look == 0 {
            self.look_round(ledger);
        }
    }

    /// Runs every [`LOOK_EVERY`] births: checks whether the command is still there, and whether there is a reason to leave.
    #[cold]
    #[inline(never)]
    fn look_round(&mut self, ledger: &mut Ledger) {
        let is_alone = self.presence.look(&CONTROL_PAGE, self.ticks);
        if guard::broken() {
            self.depart(ledger, Farewell::Broken);
        } else if is_alone {
            self.depart(ledger, Farewell::Alone);
        }
    }

    /// Leaves, and says why.
    pub fn depart(&mut self, ledger: &mut Ledger, why: Farewell) {
        self.leave(ledger);
        CONTROL_PAGE.deserted.store(why as u32, Ordering::Release);
        CONTROL_PAGE
            .state
            .store(State::Quiet as u32, Ordering::Relaxed);
    }

    /// Takes ours out of the table and unmaps all memory. Returns whether none of ours is in the table. The VM's lock is held.
    fn leave(&mut self, ledger: &mut Ledger) -> bool {
        CONTROL_PAGE.hooked.store(0, Ordering::Relaxed);
        // SAFETY: the VM's lock is held, as `put_back` requires. Our functions are called with no lock of the allocators held.
        let out = unsafe { allocator::put_back() };
        self.forget(ledger);
        out
    }
}

/// What happens to a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Birth,
    Death,
}

/// Whether the control page says that calls count.
#[inline(always)]
fn counts() -> bool {
    let page = &CONTROL_PAGE;
    page.hooked.load(Ordering::Relaxed) != 0
        && page.state.load(Ordering::Relaxed) == State::Open as u32
}

/// Returns the right to count what the running thread does, and its state. Where it is not counted, that is noted.
#[inline(always)]
fn counted(what: Event) -> Option<(Held, u64)> {
    if !counts() {
        passes();
        return None;
    }
    let caller = caller();
    if let Caller::Counted(current) = caller
        && let Some(held) = Held::take(current)
    {
        return Some((held, current.state));
    }
    not_counted(caller, what);
    None
}

/// The same as far as some loads tell. `None`: [`counted`] says.
///
/// # Safety
/// `FORM` is the number of [`form`] or of none.
#[inline(always)]
unsafe fn counted_at_hand<const FORM: u8>() -> Option<(Held, u64)> {
    if !counts() {
        return None;
    }
    // SAFETY: as the caller says.
    let state = unsafe { at_hand::<FORM>() }?;
    let is_own = true;
    let held = Held::take(Current { state, is_own })?;
    Some((held, state))
}

#[cold]
#[inline(never)]
fn not_counted(caller: Caller, what: Event) {
    let lost = match (caller, what) {
        (Caller::Elsewhere, Event::Death) => return,
        (Caller::Elsewhere, Event::Birth) => &ELSEWHERE,
        _ => &UNLOCKED,
    };
    lost.fetch_add(1, Ordering::Relaxed);
}

/// Notes that a call has passed through. After some of them ours take themselves out of the table: the command is gone, or this is a child
/// that was forked. A call by which is asked who takes blocks is none of these: who asks may use the books, or is about to count.
#[cold]
#[inline(never)]
fn passes() {
    if allocator::is_asking() {
        return;
    }
    let passed = PASSED.fetch_add(1, Ordering::Relaxed);
    let is_due = passed % LOOK_EVERY == LOOK_EVERY - 1;
    if is_due && matches!(caller(), Caller::Counted(_)) {
        leave_table();
    }
}

/// Takes ours out of the table, and unmaps all memory if no thread is in it; otherwise it is kept until the next attach. Returns whether none
/// of ours is in the table. The VM's lock is held.
fn leave_table() -> bool {
    CONTROL_PAGE.hooked.store(0, Ordering::Relaxed);
    // Who comes now finds that nothing counts.
    if let Some(mut held) = Held::wait() {
        let (births, ledger) = held.both();
        return births.leave(ledger);
    }
    // SAFETY: the VM's lock is held, as `put_back` requires. Our functions are called with no lock of the allocators held.
    unsafe { allocator::put_back() }
}

/// Called for each block that was taken. Returns whether it is counted; if not, nothing was changed, and [`born`] or [`moved`] is called.
///
/// It is in each function that takes blocks. Where line and page were seen just now it makes no call, but for births whose size is taken and
/// each [`LOOK_EVERY`]th.
///
/// # Safety
/// `FORM` is the number of [`form`] or of none.
#[inline(always)]
pub unsafe fn is_counted<const FORM: u8>(kind: u64, at: u64, size: u64) -> bool {
    // SAFETY: as the caller says; the thread has the lock with the state that is found.
    unsafe {
        let Some((mut held, state)) = counted_at_hand::<FORM>() else {
            return false;
        };
        let (births, ledger) = held.both();
        if !births.counts_in_passing() {
            return false;
        }
        let Some((code, pc)) = innermost::<FORM>(state) else {
            return false;
        };
        // A key with such a number is of a point from which on frames are complete (`Births::key`).
        let class = kind;
        births.born_again(ledger, Key { code, pc, class }, at, size)
    }
}

/// Called for a block that was taken.
#[cold]
#[inline(never)]
pub fn born(kind: u64, at: u64, size: u64) {
    taken(kind, at, size, None);
}

/// Called for a block that was known and was moved, or has another size where it was.
#[cold]
#[inline(never)]
pub fn moved(kind: u64, at: u64, size: u64, known: Known) {
    taken(kind, at, size, Some(known));
}

#[inline(always)]
fn taken(kind: u64, at: u64, size: u64, known: Option<Known>) {
    let Some((mut held, state)) = counted(Event::Birth) else {
        return;
    };
    let (births, ledger) = held.both();
    let is_noted = births.full.is_none() && births.born(ledger, state, kind, (at, size)).is_some();
    if !is_noted && !known.is_some_and(|known| births.keep(ledger, at, size, known)) {
        births.lose(ledger, state, kind, at);
    }
    births.presence.until_look -= 1;
    if births.presence.until_look == 0 {
        births.look_round(ledger);
    }
}

/// Called for each block that is about to be freed. Returns whether nothing more is to be done; if not, nothing was changed, and [`dead`] and
/// [`bury`] are called. It makes no call either.
///
/// # Safety
/// `FORM` is the number of [`form`] or of none.
#[inline(always)]
pub unsafe fn is_buried<const FORM: u8>(at: u64) -> bool {
    // SAFETY: as the caller says.
    let held = unsafe { counted_at_hand::<FORM>() };
    held.is_some_and(|(mut held, _)| held.both().0.blocks.take(at).is_some())
}

/// Called for a block that is about to be moved; returns what is known of it.
///
/// # Safety
/// `FORM` is the number of [`form`] or of none.
#[inline(always)]
pub unsafe fn dead_at_hand<const FORM: u8>(at: u64) -> Option<Known> {
    // SAFETY: as the caller says.
    let held = unsafe { counted_at_hand::<FORM>() };
    let known = held.and_then(|(mut held, _)| held.both().0.blocks.take(at));
    known.unwrap_or_else(|| dead(at))
}

/// Called for a block that is about to be freed; returns what is known of it.
#[inline(never)]
pub fn dead(at: u64) -> Option<Known> {
    let (mut held, _) = counted(Event::Death)?;
    held.both().0.blocks.dead(at)
}

/// Called for a block that was known, when it is sure that it is freed.
#[inline(always)]
pub fn bury(at: u64, known: Known) {
    if !known.block.is_owner() {
        return;
    }
    if let Some((mut held, _)) = counted(Event::Death) {
        let (births, ledger) = held.both();
        births.reborn(ledger, at);
    }
}

/// Called for a block that was to be moved and was not.
#[cold]
#[inline(never)]
pub fn revive(at: u64, known: Known) {
    if let Some((mut held, _)) = counted(Event::Death) {
        let (births, ledger) = held.both();
        if births.blocks.restore(at, known).is_none() {
            ledger.lost_memory += 1;
        }
    }
}

/// Begins to count. The VM's lock is held, at a safe point.
pub fn watch() -> Reply {
    CONTROL_PAGE.hooked.store(0, Ordering::Relaxed);
    let Some(mut held) = Held::wait() else {
        return Reply::Refused;
    };
    let (births, ledger) = held.both();
    // SAFETY: the command writes `CONFIG` only while no thread runs here.
    let config = unsafe { *(&raw const CONFIG) };
    births.forget(ledger);
    guard::begin_anew();
    ELSEWHERE.store(0, Ordering::Relaxed);
    UNLOCKED.store(0, Ordering::Relaxed);
    (ledger.lost_memory, ledger.misplaced, ledger.unreadable) = (0, 0, 0);
    (ledger.unbooked, ledger.moved) = (0, 0);
    (ledger.slot_roots, ledger.page_shift) = (0, 0);
    let Some(counted) = reader().and_then(who) else {
        return Reply::Refused;
    };
    births.names.reader = counted.reader.as_ref().map(|reader| reader.over(&Direct));
    births.depth = (config.depth.max(1) as usize).min(DEEPEST - 1);
    births.ticks = config.heartbeat_ticks;
    births.full = None;
    // SAFETY: the VM's lock is held.
    unsafe { note(counted) };
    ledger.form = form() as u64;
    // This thread has the lock.
    if !matches!(caller(), Caller::Counted(_)) {
        return Reply::Refused;
    }
    if births.open(ledger).is_none() {
        births.forget(ledger);
        return Reply::NoMemory;
    }
    // SAFETY: the VM's lock is held, at a safe point, as `take` requires.
    if !unsafe { allocator::take() } {
        births.leave(ledger);
        return Reply::Refused;
    }
    CONTROL_PAGE.hooked.store(1, Ordering::Release);
    Reply::Done
}

/// Leaves. The VM's lock is held, at a safe point. [`Reply::Refused`]: somebody calls ours still, or may do so.
pub fn leave() -> Reply {
    let out = leave_table();
    // SAFETY: the VM's lock is held, at a safe point.
    let covered = unsafe { allocator::are_covered() };
    CONTROL_PAGE
        .state
        .store(State::Quiet as u32, Ordering::Relaxed);
    match out && !covered {
        true => Reply::Done,
        false => Reply::Refused,
    }
}

/// Writes to the ledger what was lost without the right to write there.
pub fn tell_lost(ledger: &mut Ledger) {
    ledger.elsewhere = ELSEWHERE.load(Ordering::Relaxed);
    ledger.unlocked = UNLOCKED.load(Ordering::Relaxed);
}

#[cfg(all(test, not(miri)))]
mod tests;
