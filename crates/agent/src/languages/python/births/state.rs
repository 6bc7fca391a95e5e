//! What is counted of a Python: where a thread is, and what is done at a line that was not seen just now.

use super::blocks::{Blocks, Known};
use super::names::Names;
use crate::births::books::{Booked, Books, CUT_HERE, DEEPEST, Desk, Key};
use crate::births::heartbeat::Presence;
use crate::births::tally::Tally;
use crate::guard;
use crate::memory::bound::Refusal;
use crate::memory::direct::Direct;
use crate::memory::follow::ours;
use crate::memory::store::mix;
use crate::shared::CONTROL_PAGE;
use vm::python::Python;
use wire::Ledger;

/// In the instruction of a key: a frame at this point is complete only if it is a generator's. `Births::born_again` does not ask whose a frame
/// is, and has no such key.
const OF_GENERATOR: u64 = 1 << 32;

/// Entries whose numbers are remembered.
pub const RECENT: usize = 1024;

/// Where the number of a key's entry is remembered: most lines take blocks at several instructions, of two bytes each.
#[inline(always)]
pub fn place_of(key: Key) -> usize {
    let at = key.code.wrapping_add(key.pc);
    (at >> 1 ^ key.class << 9) as usize % RECENT
}

/// What is counted. It is used with the lock of the main interpreter, and by who has the right to (`counting::Held`).
pub struct Births {
    pub names: Names,
    pub books: Books,
    pub blocks: Blocks,
    pub tally: Tally,
    pub presence: Presence,
    /// Frames of the call path that are kept for each birth; 1 = only the line.
    pub depth: usize,
    /// See [`wire::Config::heartbeat_ticks`].
    pub ticks: u64,
    /// No memory was left for a birth: no more of them are noted until there may be some again.
    pub full: Option<Refusal>,
    /// The numbers of entries that have counted births lately, at the places of their keys.
    pub recent: [u32; RECENT],
    /// Scratch room for the frames of the birth that is being booked: code and instruction.
    pub frames: [(u64, u64); DEEPEST],
}

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
            full: None,
            recent: [0; RECENT],
            frames: [(0, 0); DEEPEST],
        }
    }

    /// Makes room for what is counted, and notes that the command is there.
    pub fn open(&mut self, ledger: &mut Ledger) -> Option<()> {
        self.blocks.open()?;
        self.books.open(ledger)?;
        self.presence.begin(&CONTROL_PAGE);
        Some(())
    }

    /// Unmaps all that the ledger leads to.
    pub fn forget(&mut self, ledger: &mut Ledger) {
        self.blocks.free();
        self.books.free(ledger);
        self.tally.free(ledger);
    }

    /// Where the thread of this state is.
    #[inline(always)]
    pub fn key(&self, state: u64, kind: u64) -> Option<Key> {
        let reader = self.names.reader.as_ref()?;
        if self.depth > 1 {
            return Some(self.path_key(reader, state, kind));
        }
        let reached = reader.reached(state).ok()?;
        let (code, pc) = reached.map_or((0, 0), |reached| {
            let point = reached.point;
            let mark = if reached.is_traceable {
                0
            } else {
                OF_GENERATOR
            };
            (point.code, u64::from(point.lasti as u32) | mark)
        });
        Some(Key {
            code,
            pc,
            class: kind,
        })
    }

    #[inline(never)]
    fn path_key(&self, reader: &Python<'static, Direct>, state: u64, kind: u64) -> Key {
        let (mut code, mut pc) = (0u64, 0u64);
        for frame in reader.frames(state).take(self.depth).map_while(Result::ok) {
            let at = frame.point.lasti as u32;
            code = mix(code.rotate_left(1) ^ frame.point.code, at.into());
            pc = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(at);
        }
        Key {
            code,
            pc,
            class: kind,
        }
    }

    /// Notes that a block lives on which was moved to `at`, or has another size there, and whose new birth could not be booked: under the
    /// number that it had. Returns whether it is noted.
    #[cold]
    #[inline(never)]
    pub fn keep(&mut self, ledger: &mut Ledger, at: u64, size: u64, known: Known) -> bool {
        let Some(before) = self.blocks.keep(at, size, known) else {
            return false;
        };
        if before.is_owner() {
            self.reborn(ledger, at);
        }
        true
    }

    /// Notes why a birth could not be booked.
    #[cold]
    #[inline(never)]
    pub fn lose(&mut self, ledger: &mut Ledger, state: u64, kind: u64, at: u64) {
        if self.full.is_some() {
            ledger.lost_memory += 1;
            return;
        }
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
            // What is noted stays right; what is noted in part only says less than nothing. Where it was not memory that was missing, but
            // records for a new line, all other births are noted as before.
            self.full = Refusal::take();
            &mut ledger.lost_memory
        };
        *loss += 1;
    }

    /// Has births noted again if there may be memory for them again. What was refused to a census is not theirs.
    pub fn try_again(&mut self) {
        Refusal::take();
        self.full = self.full.filter(|refusal| !refusal.is_over());
    }

    /// Counts a birth at a line that was not seen just now.
    #[inline(never)]
    pub fn count_key(&mut self, ledger: &mut Ledger, key: Key, state: u64) -> Option<Booked> {
        let booked = match self.books.count(key) {
            Some(booked) => booked,
            None => self.new_key(ledger, key, state)?,
        };
        self.recent[place_of(key)] = self.books.entry_of(key).unwrap_or(0);
        Some(booked)
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
    pub fn reborn(&mut self, ledger: &mut Ledger, at: u64) {
        let mut gone = Gone {
            births: self,
            ledger,
            at,
        };
        // SAFETY: `drop_gone` owns nothing that a panic would leak and calls no code of the VM.
        unsafe { guard::guarded(drop_gone, (&raw mut gone) as u64) };
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
