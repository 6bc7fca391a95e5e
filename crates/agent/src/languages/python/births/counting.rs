//! The state of `mem` in a Python, and what is done when a block is taken and when it is freed.
//!
//! A call counts if the control page says that our functions count, and if the running thread has the lock of the main interpreter. All else
//! passes through: of a forked child, whose page the kernel has wiped; of an interpreter with a lock of its own; of a thread without the
//! lock, which is forbidden and done. Where calls pass through, ours take themselves out of the table after some of them.
//!
//! Whether a thread has the lock is asked of the VM at each call ([`Python::current_state`]). That the books are used by one thread at a time
//! does not depend on the answer: whoever uses them has [`Held`], and who finds it taken passes through.

use super::allocator;
use super::blocks::{Blocks, Known};
use super::caller::{Caller, caller, note, who};
use super::names::Names;
use crate::births::books::{Booked, Books, CUT_HERE, DEEPEST, Desk, Key};
use crate::births::heartbeat::{LOOK_EVERY, Presence};
use crate::births::tally::Tally;
use crate::guard;
use crate::languages::python::snapshot::reader;
use crate::memory::direct::Direct;
use crate::memory::follow::ours;
use crate::memory::store::mix;
use crate::memory::sys;
use crate::shared::{CONFIG, CONTROL_PAGE, LEDGER};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vm::python::Python;
use wire::{Farewell, Ledger, Reply, State};

/// Entries whose numbers are remembered.
const RECENT: usize = 256;

/// Where the number of a key's entry is remembered: most lines take blocks at several instructions.
#[inline(always)]
fn place_of(key: Key) -> usize {
    // Code objects are some hundred bytes long, instructions two.
    let mixed = key.code >> 4 ^ key.code >> 12 ^ key.pc >> 1 ^ key.class << 7;
    mixed as usize % RECENT
}

/// Calls that have passed through.
static PASSED: AtomicU32 = AtomicU32::new(0);
/// Births that were not counted, because the thread is in no interpreter that is counted.
static ELSEWHERE: AtomicU64 = AtomicU64::new(0);
/// Births and deaths that were not seen, because the thread did not have the lock.
static UNLOCKED: AtomicU64 = AtomicU64::new(0);

/// 1 = a thread uses [`BIRTHS`] and the ledger.
static IN_USE: AtomicU32 = AtomicU32::new(0);
/// How often is waited for a thread that uses them without the lock, which may be stopped; each time a millisecond.
const TRIES: u32 = 50;

/// The right to use [`BIRTHS`] and the ledger, which one thread has at a time, whatever the VM's lock is.
pub struct Held(());

impl Held {
    /// Takes it, unless somebody has it. Nobody waits for it at a birth or a death.
    #[inline(always)]
    pub fn take() -> Option<Held> {
        (IN_USE.swap(1, Ordering::Acquire) == 0).then_some(Held(()))
    }

    /// Takes it; waits for a while where a thread has it. `None`: that thread may be stopped, or was not copied by a fork.
    pub fn wait() -> Option<Held> {
        (0..TRIES).find_map(|_| {
            let held = Held::take();
            if held.is_none() {
                sys::pause(1_000_000);
            }
            held
        })
    }

    /// What it is the right to.
    #[inline(always)]
    pub fn both(&mut self) -> (&mut Births, &mut Ledger) {
        // SAFETY: there is one value of this type at a time. The command reads and writes single words of the ledger only.
        unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) }
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        IN_USE.store(0, Ordering::Release);
    }
}

/// What is counted. It is used with the lock of the main interpreter, and by who has [`Held`].
pub struct Births {
    pub names: Names,
    pub books: Books,
    pub blocks: Blocks,
    pub tally: Tally,
    presence: Presence,
    /// Frames of the call path that are kept for each birth; 1 = only the line.
    depth: usize,
    /// See [`wire::Config::heartbeat_ticks`].
    ticks: u64,
    /// The numbers of entries that have counted births lately, at the places of their keys.
    recent: [u32; RECENT],
    /// Scratch room for the frames of the birth that is being booked: code and instruction.
    frames: [(u64, u64); DEEPEST],
}

static mut BIRTHS: Births = Births::new();

impl Births {
    pub const fn new() -> Self {
        Births {
            names: Names::new(),
            books: Books::new(),
            blocks: Blocks::new(),
            tally: Tally::new(),
            presence: Presence::new(),
            depth: 1,
            ticks: u64::MAX,
            recent: [0; RECENT],
            frames: [(0, 0); DEEPEST],
        }
    }

    /// Makes room for what is counted, and notes that the command is there.
    fn open(&mut self, ledger: &mut Ledger) -> Option<()> {
        self.blocks.open()?;
        self.books.open(ledger)?;
        self.presence.begin(&CONTROL_PAGE);
        Some(())
    }

    /// Unmaps all that the ledger leads to.
    fn forget(&mut self, ledger: &mut Ledger) {
        self.blocks.free();
        self.books.free(ledger);
        self.tally.free(ledger);
    }

    /// Books a block of `size` bytes at `at`, which the thread of this state has taken.
    #[inline]
    fn born(
        &mut self,
        ledger: &mut Ledger,
        state: u64,
        kind: u64,
        at: u64,
        size: u64,
    ) -> Option<()> {
        if !Blocks::is_place(at) {
            return None;
        }
        let key = self.key(state, kind)?;
        let recent = place_of(key);
        let Booked { site, measure } = match self.books.count_at(self.recent[recent], key) {
            Some(booked) => booked,
            None => self.count_key(ledger, key, state)?,
        };
        if measure {
            self.books.measured(ledger, site, size);
        }
        // SAFETY: `ledger` is a live reference; the command writes the word at any time, as one aligned word, hence the volatile read.
        let epoch = unsafe { (&raw const ledger.epoch).read_volatile() };
        let before = self.blocks.born(at, epoch as u32 | site, size)?;
        if before.is_owner() {
            self.reborn(ledger, at);
        }
        Some(())
    }

    /// Notes why a birth could not be booked.
    #[cold]
    #[inline(never)]
    fn lose(&self, ledger: &mut Ledger, state: u64, kind: u64, at: u64) {
        let is_misplaced = |reader: &Python<'static, Direct>| {
            let frames = reader.frames(state).take(self.depth);
            let mut codes = frames.map_while(Result::ok).map(|frame| frame.point.code);
            codes.any(|code| !Blocks::is_place(code))
        };
        let loss = if !Blocks::is_place(at) || self.names.reader.as_ref().is_some_and(is_misplaced)
        {
            &mut ledger.misplaced
        } else if self.key(state, kind).is_none() {
            &mut ledger.unreadable
        } else {
            &mut ledger.lost_memory
        };
        *loss += 1;
    }

    /// Counts a birth at a line that was not seen just now.
    #[inline(never)]
    fn count_key(&mut self, ledger: &mut Ledger, key: Key, state: u64) -> Option<Booked> {
        let booked = match self.books.count(key) {
            Some(booked) => booked,
            None => self.new_key(ledger, key, state)?,
        };
        self.recent[place_of(key)] = self.books.entry_of(key).unwrap_or(0);
        Some(booked)
    }

    /// Where the thread of this state is.
    #[inline]
    fn key(&self, state: u64, kind: u64) -> Option<Key> {
        let reader = self.names.reader.as_ref()?;
        if self.depth > 1 {
            let (mut code, mut pc) = (0u64, 0u64);
            for frame in reader.frames(state).take(self.depth).map_while(Result::ok) {
                let at = frame.point.lasti as u32;
                code = mix(code.rotate_left(1) ^ frame.point.code, at.into());
                pc = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(at);
            }
            return Some(Key {
                code,
                pc,
                class: kind,
            });
        }
        let point = reader.point(state).ok()?;
        let (code, pc) = point.map_or((0, 0), |point| (point.code, point.lasti as u32));
        Some(Key {
            code,
            pc: pc.into(),
            class: kind,
        })
    }

    /// Books a birth at a line that has no entry.
    #[cold]
    #[inline(never)]
    fn new_key(&mut self, ledger: &mut Ledger, key: Key, state: u64) -> Option<Booked> {
        let mut new = NewKey {
            births: self,
            ledger,
            key,
            state,
            booked: None,
        };
        // SAFETY: `book_new_line` owns nothing that a panic would leak and calls no code of the VM.
        unsafe { guard::guarded(book_new_line, (&raw mut new) as u64) };
        let booked = new.booked;
        if guard::broken() {
            self.presence.until_look = 1;
        }
        booked
    }

    /// Finds the frames of a new key, and its site. What is cached under the address of their code must go when the code does, so it is
    /// marked first.
    fn add(&mut self, ledger: &mut Ledger, key: Key, state: u64) -> Option<Booked> {
        let mut count = 0;
        let reader = self.names.reader.as_ref()?;
        let most = if self.depth > 1 { self.depth + 1 } else { 1 };
        for frame in reader.frames(state).take(most).map_while(Result::ok) {
            let place = self.frames.get_mut(count)?;
            *place = (frame.point.code, u64::from(frame.point.lasti as u32));
            if self.depth > 1 && count == self.depth {
                *place = CUT_HERE;
            } else {
                self.blocks.own(frame.point.code)?;
            }
            count += 1;
        }
        let mut desk = Desk {
            ledger,
            names: &mut self.names,
        };
        let frames = self.frames.get(..count)?;
        self.books.count_new(&mut desk, key, frames, self.depth > 1)
    }

    /// Drops what is cached under the address of code that is gone.
    #[cold]
    #[inline(never)]
    fn reborn(&mut self, ledger: &mut Ledger, at: u64) {
        let mut gone = Gone {
            births: self,
            ledger,
            at,
        };
        // SAFETY: `drop_gone` owns nothing that a panic would leak and calls no code of the VM.
        unsafe { guard::guarded(drop_gone, (&raw mut gone) as u64) };
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

struct NewKey<'a> {
    births: &'a mut Births,
    ledger: &'a mut Ledger,
    key: Key,
    state: u64,
    booked: Option<Booked>,
}

extern "C" fn book_new_line(argument: u64) -> u64 {
    // SAFETY: `new_key` passes the address of its own `NewKey`, which lives until this returns.
    let new = unsafe { &mut *ours::<NewKey>(argument) };
    new.booked = new.births.add(new.ledger, new.key, new.state);
    0
}

struct Gone<'a> {
    births: &'a mut Births,
    ledger: &'a mut Ledger,
    at: u64,
}

extern "C" fn drop_gone(argument: u64) -> u64 {
    // SAFETY: `reborn` passes the address of its own `Gone`, which lives until this returns.
    let gone = unsafe { &mut *ours::<Gone>(argument) };
    gone.births.books.reborn(gone.ledger, gone.at);
    0
}

/// Whether the control page says that calls count.
#[inline(always)]
fn counts() -> bool {
    let page = &CONTROL_PAGE;
    page.hooked.load(Ordering::Relaxed) != 0
        && page.state.load(Ordering::Relaxed) == State::Open as u32
}

/// Returns the right to count what the running thread does, and its state.
#[inline(always)]
fn counted() -> Option<(Held, u64)> {
    if !counts() {
        passes();
        return None;
    }
    let lost = match caller() {
        // While it was taken, somebody else may have left.
        Caller::Counted(state) => match Held::take() {
            Some(held) if counts() => return Some((held, state)),
            Some(_) => return None,
            None => &UNLOCKED,
        },
        Caller::Elsewhere => &ELSEWHERE,
        Caller::Unlocked => &UNLOCKED,
    };
    lost.fetch_add(1, Ordering::Relaxed);
    None
}

/// Notes that a call has passed through. After some of them ours take themselves out of the table: the command is gone, or this is a child
/// that was forked.
#[cold]
#[inline(never)]
fn passes() {
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

/// Called for a block that was taken.
#[inline(always)]
pub fn born(kind: u64, at: u64, size: u64) {
    let Some((mut held, state)) = counted() else {
        return;
    };
    let (births, ledger) = held.both();
    if births.born(ledger, state, kind, at, size).is_none() {
        births.lose(ledger, state, kind, at);
    }
    births.presence.until_look -= 1;
    if births.presence.until_look == 0 {
        births.look_round(ledger);
    }
}

/// Called for a block that is about to be freed; returns what is known of it.
#[inline(always)]
pub fn dead(at: u64) -> Option<Known> {
    let (mut held, _) = counted()?;
    held.both().0.blocks.dead(at)
}

/// Called for a block that was known, when it is sure that it is freed.
#[inline(always)]
pub fn bury(at: u64, known: Known) {
    if !known.block.is_owner() {
        return;
    }
    if let Some((mut held, _)) = counted() {
        let (births, ledger) = held.both();
        births.reborn(ledger, at);
    }
}

/// Called for a block that was to be moved and was not.
#[cold]
#[inline(never)]
pub fn revive(at: u64, known: Known) {
    if let Some((mut held, _)) = counted() {
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
    // SAFETY: the VM's lock is held.
    unsafe { note(counted) };
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
