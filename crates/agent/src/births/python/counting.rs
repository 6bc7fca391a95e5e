//! The state of `mem` in a Python, and what is done when a block is taken and when it is freed.
//!
//! A call counts if the control page says that our functions count, and if the running thread is in the main interpreter. All else passes
//! through: of a forked child, whose page the kernel has wiped; of an interpreter with a lock of its own; of a thread that Python does not
//! know. Where calls pass through, ours take themselves out of the table after some of them.

use super::allocator;
use super::blocks::{Blocks, Known};
use super::names::Names;
use crate::births::books::{Booked, Books, CUT_HERE, DEEPEST, Desk, Key};
use crate::births::heartbeat::{LOOK_EVERY, Presence};
use crate::births::tally::Tally;
use crate::calls::thread::thread_pointer;
use crate::guard;
use crate::memory::direct::Direct;
use crate::memory::follow::ours;
use crate::memory::store::mix;
use crate::shared::{CONFIG, CONTROL_PAGE, LEDGER};
use crate::snapshot::python_reader;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vm::python::{Python, Version};
use wire::{Farewell, Ledger, Reply, State};

/// From this version on an interpreter may have a lock of its own (PEP 684).
const OWN_LOCKS: Version = Version::new(3, 12, 0);

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
pub static PASSED: AtomicU32 = AtomicU32::new(0);
/// Births that were not counted, because the thread is in no interpreter that is counted.
static ELSEWHERE: AtomicU64 = AtomicU64::new(0);

/// Who is counted. It is written once, before our functions are in the table for the first time, because threads with another lock read it;
/// for one process it is always the same.
struct Counted {
    reader: Option<Python<'static, Direct>>,
    /// The main interpreter, where others may have locks of their own; 0 = all share one.
    main: u64,
}

static mut COUNTED: Counted = Counted {
    reader: None,
    main: 0,
};

/// What is counted. It is used with the lock of the main interpreter alone.
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

pub static mut BIRTHS: Births = Births::new();

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
fn is_open() -> bool {
    let page = &CONTROL_PAGE;
    let is_open = page.hooked.load(Ordering::Relaxed) != 0
        && page.state.load(Ordering::Relaxed) == State::Open as u32;
    if !is_open {
        passes();
    }
    is_open
}

/// Returns the state of the running thread, if what it does is counted.
#[inline(always)]
fn counted() -> Option<u64> {
    if is_open() { own_state() } else { None }
}

/// Returns the state of the running thread, if it is in an interpreter that is counted.
#[inline(always)]
fn own_state() -> Option<u64> {
    // SAFETY: it is written once, before our functions are in the table for the first time.
    let Counted { reader, main } = unsafe { &*(&raw const COUNTED) };
    let reader = reader.as_ref()?;
    let state = reader.thread_state(thread_pointer()).ok()??;
    let is_main = *main == 0 || reader.interpreter_of(state) == Ok(*main);
    is_main.then_some(state)
}

/// Notes that a call has passed through. After some of them ours take themselves out of the table: the command is gone, or this is a child
/// that was forked.
#[cold]
#[inline(never)]
fn passes() {
    let passed = PASSED.fetch_add(1, Ordering::Relaxed);
    if passed % LOOK_EVERY != LOOK_EVERY - 1 || own_state().is_none() {
        return;
    }
    // SAFETY: the thread is in the main interpreter and calls an allocator, so it holds that interpreter's lock.
    let (births, ledger) = unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) };
    births.leave(ledger);
}

/// Called for a block that was taken.
#[inline(always)]
pub fn born(kind: u64, at: u64, size: u64) {
    let Some(state) = counted() else {
        if CONTROL_PAGE.hooked.load(Ordering::Relaxed) != 0 {
            ELSEWHERE.fetch_add(1, Ordering::Relaxed);
        }
        return;
    };
    // SAFETY: the thread is in the main interpreter and calls an allocator, so it holds that interpreter's lock; and ours call nothing
    // of the VM while they use these.
    let (births, ledger) = unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) };
    if births.born(ledger, state, kind, at, size).is_none() {
        ledger.lost_memory += 1;
    }
    births.presence.until_look -= 1;
    if births.presence.until_look == 0 {
        births.look_round(ledger);
    }
}

/// Called for a block that is about to be freed; returns what is known of it.
#[inline(always)]
pub fn dead(at: u64) -> Option<Known> {
    // SAFETY: it is written once, before our functions are in the table for the first time.
    let main = unsafe { (*(&raw const COUNTED)).main };
    // Where all interpreters share one lock, whoever frees a block has it.
    if !is_open() || (main != 0 && own_state().is_none()) {
        return None;
    }
    // SAFETY: as in `born`.
    let births = unsafe { &mut *(&raw mut BIRTHS) };
    births.blocks.dead(at)
}

/// Called for a block that was known, when it is sure that it is freed.
#[inline(always)]
pub fn bury(at: u64, known: Known) {
    if !known.block.is_owner() {
        return;
    }
    // SAFETY: as in `born`: `dead` was called on this thread just now.
    let (births, ledger) = unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) };
    births.reborn(ledger, at);
}

/// Called for a block that was to be moved and was not.
#[cold]
#[inline(never)]
pub fn revive(at: u64, known: Known) {
    if counted().is_none() {
        return;
    }
    // SAFETY: as in `born`.
    let (births, ledger) = unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) };
    if births.blocks.restore(at, known).is_none() {
        ledger.lost_memory += 1;
    }
}

/// Begins to count. The VM's lock is held, at a safe point.
pub fn watch() -> Reply {
    // SAFETY: the VM's lock is held, under which alone these are used. The command writes `CONFIG` only while no thread runs here.
    let (births, ledger, config) = unsafe {
        (
            &mut *(&raw mut BIRTHS),
            &mut *(&raw mut LEDGER),
            *(&raw const CONFIG),
        )
    };
    CONTROL_PAGE.hooked.store(0, Ordering::Relaxed);
    births.forget(ledger);
    guard::begin_anew();
    ELSEWHERE.store(0, Ordering::Relaxed);
    (ledger.lost_memory, ledger.unbooked, ledger.moved) = (0, 0, 0);
    (ledger.slot_roots, ledger.page_shift) = (0, 0);
    let Some(counted) = python_reader().and_then(who) else {
        return Reply::Refused;
    };
    births.names.reader = counted.reader.as_ref().map(|reader| reader.over(&Direct));
    births.depth = (config.depth.max(1) as usize).min(DEEPEST - 1);
    births.ticks = config.heartbeat_ticks;
    // SAFETY: the VM's lock is held, and as long as there is no reader, our functions have never been in the table.
    unsafe {
        if (*(&raw const COUNTED)).reader.is_none() {
            (&raw mut COUNTED).write(counted);
        }
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

/// Who is counted of this Python; `None` if threads do not find their states, or if the death of code is not that of a block.
fn who(reader: Python<'static, Direct>) -> Option<Counted> {
    let facts = reader.facts();
    if facts.own() == 0 || reader.is_code_collected().unwrap_or(true) {
        return None;
    }
    let main = match facts.version() < OWN_LOCKS {
        true => 0,
        false => reader.main_interpreter().ok()?,
    };
    Some(Counted {
        reader: Some(reader),
        main,
    })
}

/// Leaves. The VM's lock is held, at a safe point. [`Reply::Refused`]: somebody calls ours still.
pub fn leave() -> Reply {
    // SAFETY: the VM's lock is held, under which alone these are used.
    let (births, ledger) = unsafe { (&mut *(&raw mut BIRTHS), &mut *(&raw mut LEDGER)) };
    let out = births.leave(ledger);
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

/// Births that were not counted until now, because their threads are in no interpreter that is counted.
pub fn elsewhere() -> u64 {
    ELSEWHERE.load(Ordering::Relaxed)
}
