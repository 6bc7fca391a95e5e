//! What `mem` does in a PHP when a block is taken and when it is freed, where a request begins and ends, and when the command asks.
//! Used by `handlers` and `jobs`.
//!
//! A call counts if the control page says so. In a process whose page says that nobody counts (a forked child, one whose lancet was killed) ours
//! take themselves out at the first call.
//!
//! The VM has one thread. It can stand in our functions when the command has it carry out a request, or when a handler of a signal takes
//! blocks that has interrupted them; who uses the books is alone with them ([`Held`]).

use super::names::{BLOCK, Names};
use super::{allocator, bailout, requests};
use crate::at_work;
use crate::births::books::DEEPEST;
use crate::births::heartbeat::LOOK_EVERY;
use crate::births::living;
use crate::guard;
use crate::memory::bound::Kept;
use crate::memory::direct::Direct;
use crate::memory::follow::ours;
use crate::memory::sys;
use crate::shared::{CONFIG, CONTROL_PAGE, LEDGER, SNAPSHOT};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vm::php::{Facts, Php};
use wire::control_page::CENSUS_COLLECT;
use wire::ledger::Uncollected;
use wire::{Farewell, Ledger, Reply, State};

/// Blocks begin at multiples of 8 bytes.
type Births = living::Births<Names, 8>;

static mut BIRTHS: Births = Births::new(Names::new());
/// Who uses [`BIRTHS`] and the ledger: 0, [`VM`] or [`COMMAND`].
static IN_USE: AtomicU32 = AtomicU32::new(0);
/// A function of ours that the VM has called.
const VM: u32 = 1;
/// A request of the command's.
const COMMAND: u32 = 2;
/// Births and deaths that were not seen, because a handler of a signal took or freed blocks within our functions.
static WITHIN: AtomicU64 = AtomicU64::new(0);
/// Blocks for which ours were called while nothing counts.
static PASSED: AtomicU32 = AtomicU32::new(0);

/// The right to use [`BIRTHS`], the ledger, and what ours are set in.
pub struct Held(());

impl Held {
    /// Takes it where the VM has called ours, unless somebody has it.
    #[inline(always)]
    pub fn take() -> Option<Held> {
        // The VM has one thread, and who interrupts it gives the right back before that goes on.
        match IN_USE.load(Ordering::Acquire) {
            0 => {
                IN_USE.store(VM, Ordering::Relaxed);
                Some(Held(()))
            }
            COMMAND => {
                Held::recover();
                None
            }
            _ => None,
        }
    }

    /// The same for a request of the command's. One that is at work may be that of a command that was killed: the thread carries it out to its
    /// end, and stands in it now.
    pub fn take_for_command() -> Option<Held> {
        if IN_USE.load(Ordering::Acquire) != 0 {
            return None;
        }
        IN_USE.store(COMMAND, Ordering::Relaxed);
        Some(Held(()))
    }

    /// Leaves where the VM has called ours and a request has the right. The thread is not in that request, as no signal comes to a handler during
    /// one; so it was broken off (by a fault in it).
    #[cold]
    #[inline(never)]
    fn recover() {
        at_work::put_off();
        IN_USE.store(VM, Ordering::Relaxed);
        Held(()).depart(Farewell::Broken);
    }

    /// What it is the right to.
    #[inline(always)]
    fn both(&mut self) -> (&mut Births, &mut Ledger) {
        // SAFETY: there is one value of this type at a time. The command reads and writes single words of the ledger only.
        unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) }
    }

    /// Takes ours out everywhere, and unmaps all memory.
    fn leave(&mut self) {
        CONTROL_PAGE.hooked.store(0, Ordering::Relaxed);
        requests::put_back();
        allocator::put_back();
        let (births, ledger) = self.both();
        births.forget(ledger);
    }

    /// The heap begins anew: all blocks are dead, and with them the code that lies in them. What is cached of other code (opcache's) goes too: where
    /// that lies still, the lines are read again.
    fn all_dead(&mut self) {
        let (births, ledger) = self.both();
        births.all_dead(ledger);
    }

    /// Leaves, and says why.
    #[cold]
    fn depart(&mut self, why: Farewell) {
        self.leave();
        CONTROL_PAGE.deserted.store(why as u32, Ordering::Release);
        CONTROL_PAGE
            .state
            .store(State::Quiet as u32, Ordering::Relaxed);
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        IN_USE.store(0, Ordering::Release);
    }
}

/// Whether the control page says that calls count.
#[inline(always)]
fn counts() -> bool {
    let page = &CONTROL_PAGE;
    page.hooked.load(Ordering::Relaxed) != 0
        && page.state.load(Ordering::Relaxed) == State::Open as u32
}

/// The command is gone, or this is a child that was forked: ours take themselves out.
fn takes_out() {
    if let Some(mut held) = Held::take() {
        held.leave();
    }
}

/// The same for a block, at the first and then at some of them: behind functions of another tool, which calls ours, they stay.
#[cold]
#[inline(never)]
fn passes() {
    if PASSED
        .fetch_add(1, Ordering::Relaxed)
        .is_multiple_of(LOOK_EVERY)
    {
        takes_out();
    }
}

/// Called before a block is taken.
#[inline(always)]
pub fn before() {
    if !counts() {
        passes();
    }
}

/// Takes ours out of the heap for a while. Returns whether they were set.
pub fn step_aside() -> bool {
    Held::take().is_some_and(|_held| allocator::step_aside())
}

/// Sets them again, if calls still count.
pub fn step_back() {
    if let Some(_held) = Held::take()
        && counts()
    {
        allocator::take();
    }
}

/// A block that was taken.
struct Birth {
    at: u64,
    size: u64,
    register: u64,
}

/// Called for a block that was taken, or null; with what the VM had in r15.
#[inline(always)]
pub fn born(at: u64, size: u64, register: u64) {
    if at == 0 || !counts() {
        return;
    }
    let mut birth = Birth { at, size, register };
    // SAFETY: `book_block` owns nothing that a panic would leak but the right to use the books, which `abandon` gives back; it calls no code of the VM.
    let booked = unsafe { guard::guarded(book_block, (&raw mut birth) as u64) };
    if booked == u64::MAX {
        abandon();
    }
}

/// Called for a block that is freed, or null.
#[inline(always)]
pub fn dead(at: u64) {
    if at == 0 || !counts() {
        return;
    }
    // SAFETY: as of `book_block`.
    let buried = unsafe { guard::guarded(bury, at) };
    if buried == u64::MAX {
        abandon();
    }
}

/// Leaves after a panic, which has skipped the function that had the right to use the books.
#[cold]
#[inline(never)]
fn abandon() {
    IN_USE.store(0, Ordering::Release);
    if let Some(mut held) = Held::take() {
        held.depart(Farewell::Broken);
    }
}

extern "C" fn book_block(birth: u64) -> u64 {
    // SAFETY: `born` passes the address of its own `Birth`, which lives until this returns.
    let &Birth { at, size, register } = unsafe { &*ours::<Birth>(birth) };
    let Some(mut held) = Held::take() else {
        WITHIN.fetch_add(1, Ordering::Relaxed);
        return 0;
    };
    let size = allocator::layout().map_or(size, |layout| layout.taken(size));
    let (births, ledger) = held.both();
    let is_noted =
        births.full.is_none() && births.born(ledger, register, BLOCK, (at, size)).is_some();
    if !is_noted {
        births.lose(ledger, register, BLOCK, at);
    }
    births.presence.until_look -= 1;
    if births.presence.until_look == 0 {
        look_round(&mut held);
    }
    0
}

extern "C" fn bury(at: u64) -> u64 {
    let Some(mut held) = Held::take() else {
        WITHIN.fetch_add(1, Ordering::Relaxed);
        return 0;
    };
    let (births, ledger) = held.both();
    if births
        .blocks
        .dead(at)
        .is_some_and(|known| known.block.is_owner())
    {
        births.reborn(ledger, at);
    }
    0
}

/// Runs every [`LOOK_EVERY`] births: checks whether the command is still there.
#[cold]
#[inline(never)]
fn look_round(held: &mut Held) {
    let (births, _) = held.both();
    let is_alone = births.presence.look(&CONTROL_PAGE, births.ticks);
    if guard::broken() {
        held.depart(Farewell::Broken);
    } else if is_alone {
        held.depart(Farewell::Alone);
    }
}

/// Called where a request begins and ends.
pub fn at_request(what: extern "C" fn(u64) -> u64) {
    // SAFETY: what is called owns nothing that a panic would leak but the right to use the books, which `abandon` gives back, and calls no code of
    // the VM that may not be left.
    if unsafe { guard::guarded(what, 0) } == u64::MAX {
        abandon();
    }
}

/// Called when a request begins, before any module does something for it.
pub extern "C" fn request_begins(_: u64) -> u64 {
    if !counts() {
        takes_out();
    } else if let Some(mut held) = Held::take() {
        // What was counted at the end of an earlier request is not what is held at the end of the process.
        CONTROL_PAGE.ended.store(0, Ordering::Release);
        if !allocator::take() {
            held.depart(Farewell::Replaced);
        }
    }
    0
}

/// Called when a request ends, before anything of it is freed: all its blocks are dead, as the heap begins anew.
pub extern "C" fn request_ends(_: u64) -> u64 {
    let is_replaced = allocator::is_replaced();
    // First, and whoever uses the books: with ours the heap would not begin anew.
    allocator::put_back();
    if !counts() {
        takes_out();
        return 0;
    }
    let Some(mut held) = Held::take() else {
        return 0;
    };
    if is_replaced {
        held.depart(Farewell::Replaced);
        return 0;
    }
    // SAFETY: the command writes `CONFIG` only while no thread runs here.
    let config = unsafe { *(&raw const CONFIG) };
    if config.census_at_end != 0 {
        let reply = census(&mut held, config.end_argument.into());
        CONTROL_PAGE.ended.store(reply as u32, Ordering::Release);
    }
    held.all_dead();
    0
}

/// Called when all of a request but its memory is freed. Ours are still set if the command came behind the request's end, while PHP code of its
/// ran, or if a module had failed to begin, so that no end was called.
pub extern "C" fn request_closes(_: u64) -> u64 {
    let were_set = allocator::put_back();
    if !counts() {
        takes_out();
    } else if were_set && let Some(mut held) = Held::take() {
        held.all_dead();
    }
    0
}

/// Begins to count; `begins` = the script is about to begin. `None`: not where the thread stands. It changes its heap there, or runs no PHP code
/// in the middle of a request, so that cannot be told whether that is about to end.
pub fn watch(
    held: &mut Held,
    begins: bool,
    (functions, of_requests): (allocator::Functions, [u64; 3]),
) -> Option<Reply> {
    held.leave();
    let (births, ledger) = held.both();
    // SAFETY: the command writes `CONFIG` only while no thread runs here.
    let config = unsafe { *(&raw const CONFIG) };
    guard::begin_anew();
    WITHIN.store(0, Ordering::Relaxed);
    PASSED.store(0, Ordering::Relaxed);
    (ledger.lost_memory, ledger.misplaced, ledger.unreadable) = (0, 0, 0);
    (ledger.unbooked, ledger.moved, ledger.elsewhere) = (0, 0, 0);
    (ledger.slot_roots, ledger.page_shift) = (0, 0);
    let php = reader()?;
    births.names.reader = Some(php);
    births.depth = (config.depth.max(1) as usize).min(DEEPEST - 1);
    births.ticks = config.heartbeat_ticks;
    births.full = None;
    if allocator::find(functions)? != allocator::Owner::Nobody {
        return Some(Reply::Refused);
    }
    let runs = begins || php.current().ok()? != 0;
    if !runs && php.is_in_request().ok()? {
        return None;
    }
    if births.open(ledger).is_none() {
        births.forget(ledger);
        return Some(Reply::NoMemory);
    }
    if requests::take(of_requests).is_none() {
        births.forget(ledger);
        return Some(Reply::Refused);
    }
    bailout::is_at(php.bailout());
    if runs {
        allocator::take();
    }
    CONTROL_PAGE.hooked.store(1, Ordering::Release);
    Some(Reply::Done)
}

/// Leaves.
pub fn leave(held: &mut Held) -> Reply {
    held.leave();
    CONTROL_PAGE
        .state
        .store(State::Quiet as u32, Ordering::Relaxed);
    Reply::Done
}

/// Counts the living blocks, as `argument` says ([`CENSUS_COLLECT`]). What is in cycles of references counts as living: a collection would run
/// destructors of the program's.
pub fn census(held: &mut Held, argument: u64) -> Reply {
    if allocator::is_replaced() {
        held.depart(Farewell::Replaced);
        return Reply::Refused;
    }
    let started = sys::now();
    // It lives here, and not in `count`, whose frame a panic skips.
    let kept = Kept::open();
    // SAFETY: `count` owns nothing that a panic would leak and calls no code of the VM.
    let counted = unsafe { guard::guarded(count, (&raw mut *held) as u64) };
    drop(kept);
    if guard::broken() {
        return Reply::Refused;
    }
    if counted == 0 {
        return Reply::NoMemory;
    }
    let (_, ledger) = held.both();
    ledger.gc_nanos = 0;
    ledger.garbage = match argument & CENSUS_COLLECT {
        0 => Uncollected::Unasked,
        _ => Uncollected::Uncalled,
    } as u64;
    ledger.collector_off = 0;
    ledger.walk_nanos = sys::now() - started;
    Reply::Done
}

extern "C" fn count(held: u64) -> u64 {
    // SAFETY: `census` passes the address of its own `Held`, which lives until this returns.
    let held = unsafe { &mut *ours::<Held>(held) };
    let (births, ledger) = held.both();
    ledger.unlocked = WITHIN.load(Ordering::Relaxed);
    u64::from(births.count(ledger).is_some())
}

/// The VM's reader, as far as the command has said what it must know.
fn reader() -> Option<Php<'static, Direct>> {
    let mut words = [0; Facts::WORDS];
    for (word, fact) in words.iter_mut().zip(&SNAPSHOT.facts) {
        *word = fact.load(Ordering::Relaxed);
    }
    Php::new(&Direct, Facts::from_words(words)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::languages::php::births::allocator::Functions;
    use crate::languages::php::births::allocator::tests::{ASKED, is_at, vm};
    use crate::memory::bound::{self, Refusal};

    /// A second request does not interrupt the first one, which a killed command may have left at work; that the VM calls ours shows that it was
    /// broken off.
    #[test]
    fn a_right_that_was_left_behind_is_given_back_where_the_vm_calls_ours() {
        let _one = vm();
        core::mem::forget(Held::take_for_command().expect("nobody has it"));
        assert!(Held::take_for_command().is_none(), "it may be at work");
        assert!(Held::take().is_none(), "the agent leaves");
        let deserted = CONTROL_PAGE.deserted.swap(0, Ordering::Relaxed);
        assert_eq!(deserted, Farewell::Broken as u32);
        assert!(Held::take().is_some(), "it was given back");
    }

    /// Memory that one request was refused is no reason to note nothing of the next ones, as its end has given all of it back.
    #[test]
    fn memory_that_was_refused_is_there_again_when_a_request_ends() {
        let _one = vm();
        let mut held = Held::take().expect("nobody has it");
        bound::allow(u64::MAX);
        {
            let (births, ledger) = held.both();
            births.open(ledger).expect("memory");
            bound::allow(0);
            assert_eq!(bound::map(1 << 20), None);
            births.full = Refusal::take();
            assert!(births.full.is_some());
        }
        bound::allow(64 << 20);
        held.all_dead();
        let (births, ledger) = held.both();
        assert_eq!(births.full, None);
        births.forget(ledger);
        bound::allow(u64::MAX);
    }

    /// Ours stay in the process behind those of another tool that calls them, also when nothing counts: they try to leave at few of its blocks.
    #[cfg(not(miri))]
    #[test]
    fn who_calls_ours_when_nothing_counts_waits_for_few_of_them() {
        let _one = vm();
        is_at(0x20_0040, Functions([1, 2, 3]), [4, 5, 6]);
        PASSED.store(0, Ordering::Relaxed);
        ASKED.store(0, Ordering::Relaxed);
        for count in 1..=2 * LOOK_EVERY + 1 {
            before();
            let tries = ASKED.load(Ordering::Relaxed);
            assert_eq!(tries, count.div_ceil(LOOK_EVERY), "{count}");
        }
        is_at(0, Functions::default(), [0; 3]);
    }
}
