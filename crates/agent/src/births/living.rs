//! What is counted of a language whose allocator tells of each birth and each death: where a thread is, and what is done at a line that was
//! not seen just now. Used by `languages::python::births::counting`, `languages::php::births::counting`,
//! `languages::php::births::names` and others.

use super::blocks::{Blocks, Known};
use super::tally::{add_living, row};
use super::texts::Texts;
use crate::births::books::{Booked, Books, CUT_HERE, DEEPEST, Desk, Key};
use crate::births::heartbeat::Presence;
use crate::births::tally::Tally;
use crate::guard;
use crate::memory::bound::Refusal;
use crate::memory::follow::ours;
use crate::memory::store::mix;
use crate::shared::CONTROL_PAGE;
use wire::Ledger;
use wire::slots::{epoch_of, site_of};

/// What is asked about the script that takes blocks: where it is, and the texts of its code. `thread` is what a language's allocator
/// functions hand on about the thread that called them.
pub trait Script: Texts {
    /// Code and instruction of the innermost frame; 0 and 0 where no script runs, `None` where that cannot be read.
    fn point(&self, thread: u64) -> Option<(u64, u64)>;

    /// Calls `each` with code and instruction of the frames, from the innermost outward, until it returns `None`. The texts that are asked for
    /// next are of this code.
    fn frames(&mut self, thread: u64, each: impl FnMut(u64, u64) -> Option<()>);
}

/// Entries whose numbers are remembered.
pub const RECENT: usize = 1024;

/// Where the number of a key's entry is remembered: most lines take blocks at several instructions, whose numbers are multiples of two.
#[inline(always)]
pub fn place_of(key: Key) -> usize {
    let at = key.code.wrapping_add(key.pc);
    (at >> 1 ^ key.class << 9) as usize % RECENT
}

/// The number of the present epoch, as it stands in the number of a block.
#[inline(always)]
pub fn epoch(ledger: &Ledger) -> u32 {
    // SAFETY: `ledger` is a live reference; the command writes the word at any time, as one aligned word, hence the volatile read.
    unsafe { (&raw const ledger.epoch).read_volatile() as u32 }
}

/// What is counted. It is used by one thread at a time, which each language makes sure of; `ALIGN` as of [`Blocks`].
pub struct Births<N, const ALIGN: u64 = 16> {
    pub names: N,
    pub books: Books,
    pub blocks: Blocks<ALIGN>,
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

impl<N: Script, const ALIGN: u64> Births<N, ALIGN> {
    pub const fn new(names: N) -> Self {
        Births {
            names,
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

    /// Where the thread is.
    #[inline(always)]
    pub fn key(&mut self, thread: u64, kind: u64) -> Option<Key> {
        if self.depth > 1 {
            return Some(self.path_key(thread, kind));
        }
        let (code, pc) = self.names.point(thread)?;
        let class = kind;
        Some(Key { code, pc, class })
    }

    #[inline(never)]
    fn path_key(&mut self, thread: u64, kind: u64) -> Key {
        let (mut code, mut pc, mut left) = (0u64, 0u64, self.depth);
        self.names.frames(thread, |of, at| {
            left = left.checked_sub(1)?;
            code = mix(code.rotate_left(1) ^ of, at);
            pc = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at;
            (left > 0).then_some(())
        });
        let class = kind;
        Key { code, pc, class }
    }

    /// Books a block of `size` bytes at `at`, which the thread has taken.
    #[inline(always)]
    pub fn born(
        &mut self,
        ledger: &mut Ledger,
        thread: u64,
        kind: u64,
        (at, size): (u64, u64),
    ) -> Option<()> {
        if Blocks::<ALIGN>::is_tiny(size) {
            return self.tiny_born(ledger, thread, kind, at);
        }
        // A birth that is counted is noted, too.
        let place = self.blocks.place(at)?;
        let key = self.key(thread, kind)?;
        let recent = place_of(key);
        let Booked { site, measure } = match self.books.count_at(self.recent[recent], key) {
            Some(booked) => booked,
            None => self.count_key(ledger, key, thread)?,
        };
        if measure {
            self.books.measured(ledger, site, size);
        }
        let before = self.blocks.born(place, epoch(ledger) | site, size);
        if before.is_owner() {
            self.reborn(ledger, at);
        }
        Some(())
    }

    #[inline(never)]
    fn tiny_born(&mut self, ledger: &mut Ledger, thread: u64, kind: u64, at: u64) -> Option<()> {
        let key = self.key(thread, kind)?;
        let Booked { site, measure } = self.count_key(ledger, key, thread)?;
        if measure {
            self.books.measured(ledger, site, 8);
        }
        self.blocks.tiny_born(at, epoch(ledger) | site)
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
    pub fn lose(&mut self, ledger: &mut Ledger, thread: u64, kind: u64, at: u64) {
        if self.full.is_some() {
            ledger.lost_memory += 1;
            return;
        }
        let loss = if !Blocks::<ALIGN>::is_place(at) || self.is_misplaced(thread) {
            &mut ledger.misplaced
        } else if self.key(thread, kind).is_none() {
            &mut ledger.unreadable
        } else {
            // What is noted stays right; what is noted in part only says less than nothing. Where it was not memory that was missing, but
            // records for a new line, all other births are noted as before.
            self.full = Refusal::take();
            &mut ledger.lost_memory
        };
        *loss += 1;
    }

    /// Whether code of the thread lies where no block can.
    fn is_misplaced(&mut self, thread: u64) -> bool {
        let (mut misplaced, mut left) = (false, self.depth);
        self.names.frames(thread, |code, _| {
            left = left.checked_sub(1)?;
            misplaced |= !Blocks::<ALIGN>::is_place(code);
            (left > 0).then_some(())
        });
        misplaced
    }

    /// Has births noted again if there may be memory for them again. What was refused to a census is not theirs.
    pub fn try_again(&mut self) {
        Refusal::take();
        self.full = self.full.filter(|refusal| !refusal.is_over());
    }

    /// All blocks are dead, and with them the code that lies in them. Their notes have room again, so births that were refused memory are noted
    /// again.
    pub fn all_dead(&mut self, ledger: &mut Ledger) {
        let (blocks, books) = (&mut self.blocks, &mut self.books);
        blocks.each_owner(|at| books.reborn(ledger, at));
        // Without memory for them births are lost, and counted as such.
        if blocks.all_dead().is_some() {
            Refusal::take();
            self.full = None;
        }
    }

    /// Counts a birth at a line that was not seen just now.
    #[inline(never)]
    pub fn count_key(&mut self, ledger: &mut Ledger, key: Key, thread: u64) -> Option<Booked> {
        let booked = match self.books.count(key) {
            Some(booked) => booked,
            None => self.new_key(ledger, key, thread)?,
        };
        self.recent[place_of(key)] = self.books.entry_of(key).unwrap_or(0);
        Some(booked)
    }

    /// Books a birth at a line that has no entry.
    #[cold]
    #[inline(never)]
    fn new_key(&mut self, ledger: &mut Ledger, key: Key, thread: u64) -> Option<Booked> {
        let mut new = NewKey {
            births: self,
            ledger,
            key,
            thread,
            booked: None,
        };
        // SAFETY: `book_new_line` owns nothing that a panic would leak and calls no code of the VM.
        unsafe { guard::guarded(book_new_line::<N, ALIGN>, (&raw mut new) as u64) };
        let booked = new.booked;
        if guard::broken() {
            self.presence.until_look = 1;
        }
        booked
    }

    /// Finds the frames of a new key, and its site. What is cached under the address of their code must go when the code does, so it is
    /// marked first.
    fn add(&mut self, ledger: &mut Ledger, key: Key, thread: u64) -> Option<Booked> {
        let (depth, mut count, mut whole) = (self.depth, 0, Some(()));
        let most = if depth > 1 { depth + 1 } else { 1 };
        let (blocks, frames) = (&mut self.blocks, &mut self.frames);
        self.names.frames(thread, |code, at| {
            let place = frames.get_mut(count).filter(|_| count < most)?;
            *place = (code, at);
            if depth > 1 && count == depth {
                *place = CUT_HERE;
            } else if blocks.own(code).is_none() {
                whole = None;
            }
            count += 1;
            // No frame is walked that is not wanted.
            whole.filter(|()| count < most)
        });
        whole?;
        let mut desk = Desk {
            ledger,
            names: &mut self.names,
        };
        let frames = self.frames.get(..count)?;
        self.books.count_new(&mut desk, key, frames, depth > 1)
    }

    /// Counts the living by site. `None`: there is no memory for that.
    pub fn count(&mut self, ledger: &mut Ledger) -> Option<()> {
        self.tally.free(ledger);
        self.books.reuse_freed(ledger);
        (
            ledger.unsized_objects,
            ledger.empty_bytes,
            ledger.large_count,
        ) = (0, 0, 0);
        let (sites, mut whole, mut blocks) = (&mut self.tally.sites, Some(()), 0);
        self.blocks.each(|number, bytes| {
            blocks += 1;
            match row(sites, site_of(number)) {
                Some(counts) => add_living(counts, ledger, epoch_of(number), bytes),
                None => whole = None,
            }
        });
        ledger.slots = blocks;
        self.tally.add_births(&self.books, ledger)?;
        self.try_again();
        ledger.mapped = self.books.mapped(ledger) + self.blocks.mapped() + self.tally.mapped();
        whole
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
        unsafe { guard::guarded(drop_gone::<N, ALIGN>, (&raw mut gone) as u64) };
    }
}

struct NewKey<'a, N, const ALIGN: u64> {
    births: &'a mut Births<N, ALIGN>,
    ledger: &'a mut Ledger,
    key: Key,
    thread: u64,
    booked: Option<Booked>,
}

extern "C" fn book_new_line<N: Script, const ALIGN: u64>(argument: u64) -> u64 {
    // SAFETY: `new_key` passes the address of its own `NewKey`, which lives until this returns.
    let new = unsafe { &mut *ours::<NewKey<'_, N, ALIGN>>(argument) };
    new.booked = new.births.add(new.ledger, new.key, new.thread);
    0
}

struct Gone<'a, N, const ALIGN: u64> {
    births: &'a mut Births<N, ALIGN>,
    ledger: &'a mut Ledger,
    at: u64,
}

extern "C" fn drop_gone<N: Script, const ALIGN: u64>(argument: u64) -> u64 {
    // SAFETY: `reborn` passes the address of its own `Gone`, which lives until this returns.
    let gone = unsafe { &mut *ours::<Gone<'_, N, ALIGN>>(argument) };
    gone.births.books.reborn(gone.ledger, gone.at);
    0
}

#[cfg(test)]
mod tests;
