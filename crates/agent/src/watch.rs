//! Births: the hook, and what it does when nobody reads its books any more.

mod moves;
mod newborns;

use crate::AGENT;
use crate::books::{Books, DEEPEST, Desk, Key, site_at};
use crate::guard;
use crate::names::{Names, class_key, internal_module_key};
use crate::slots::Slots;
use crate::store::mix;
use crate::sys;
use crate::vmcalls::{Calls, NEWOBJ};
use core::sync::atomic::Ordering;
use moves::{MOVER, MOVER_DATA};
pub use newborns::NEWBORNS;
use newborns::{NOBODY, Newborn};
use vm::ruby::frames::trace_arg;
use vm::ruby::{Imemo, Type};
use wire::{Board, Config, Farewell, Ledger, Reply, State};

/// Births between two looks at the command's beat.
const LOOK_EVERY: u32 = 1024;

/// Everything of the agent that only one thread at a time touches.
pub struct Agent {
    pub calls: Calls,
    pub config: Config,
    pub books: Books,
    pub slots: Slots,
    pub names: Names,
    /// Kept alive so that the collector tells us when objects move; 0 = none.
    pub mover: u64,
    /// A census walks the heap: births now are not booked.
    pub busy: bool,
    /// The hook is in the VM.
    pub hooked: bool,
    /// The end procedure is in the VM; it cannot be taken out, only be deaf.
    pub ends: bool,
    /// Why we must leave, found while a birth was booked.
    farewell: Option<Farewell>,
    /// The last objects born, until they are looked at again; a ring.
    newborns: [Newborn; NEWBORNS],
    oldest: usize,
    until_look: u32,
    beat: u64,
    beat_seen: u64,
    /// The beat has been late once since it last changed.
    doubted: bool,
    frames: [(u64, u64); DEEPEST],
}

impl Agent {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        Agent {
            calls: Calls(wire::board::Functions::NONE),
            config: crate::NO_CONFIG,
            books: Books::new(),
            slots: Slots::new(),
            names: Names::new(),
            mover: 0,
            busy: false,
            hooked: false,
            ends: false,
            farewell: None,
            newborns: [NOBODY; NEWBORNS],
            oldest: 0,
            until_look: LOOK_EVERY,
            beat: 0,
            beat_seen: 0,
            doubted: false,
            frames: [(0, 0); DEEPEST],
        }
    }

    /// Sets the hook. The VM's lock is held.
    pub fn watch(&mut self, board: &Board, ledger: &mut Ledger, config: Config) -> Reply {
        if self.hooked {
            // A command died, and the agent had not noticed yet.
            self.leave(ledger);
        }
        self.calls = Calls(config.functions);
        self.config = config;
        if self.names.open(&config.facts).is_err() {
            return Reply::Refused;
        }
        let Some(ruby) = self.names.ruby() else {
            return Reply::Refused;
        };
        if config.collections != 0 {
            // SAFETY: the VM's lock is held.
            return match unsafe { crate::collections::start(&self.calls, ledger) } {
                true => {
                    self.farewell = None;
                    self.beat_seen = 0;
                    self.look(board);
                    self.hooked = true;
                    Reply::Done
                }
                false => Reply::Refused,
            };
        }
        let heap = &ruby.layout().heap;
        let page_shift = heap.align.trailing_zeros();
        let sizes = heap.pools.as_ref().map_or(1, |pools| pools.count);
        if self.slots.open(page_shift, sizes as u32).is_none() || self.books.open(ledger).is_none()
        {
            self.forget(ledger);
            return Reply::NoMemory;
        }
        ledger.slot_roots = self.slots.address();
        ledger.page_shift = u64::from(self.slots.page_shift());
        self.farewell = None;
        self.newborns = [NOBODY; NEWBORNS];
        self.beat_seen = 0;
        self.look(board);
        // SAFETY: the VM's lock is held; the type and the place live as long as the agent's image,
        // which is never unmapped.
        unsafe {
            self.mover = self.calls.wrap(0, MOVER_DATA, &raw const MOVER);
            self.calls.keep(&raw mut self.mover);
            self.calls.add_hook(on_event);
        }
        self.hooked = true;
        if config.census_at_end != 0 && !self.ends {
            self.ends = true;
            // SAFETY: the VM's lock is held.
            unsafe { self.calls.at_end(crate::census::at_end, 0) };
        }
        Reply::Done
    }

    /// Takes the hook out and gives all memory back. The VM's lock is held.
    pub fn leave(&mut self, ledger: &mut Ledger) {
        if self.hooked {
            self.hooked = false;
            // SAFETY: the VM's lock is held; `watch` set both.
            unsafe {
                self.calls.remove_hook(match self.config.collections {
                    0 => on_event,
                    _ => crate::collections::on_event,
                });
                if self.mover != 0 {
                    self.calls.let_go(&raw mut self.mover);
                }
            }
            self.mover = 0;
        }
        self.forget(ledger);
    }

    fn forget(&mut self, ledger: &mut Ledger) {
        self.slots.free();
        (ledger.slot_roots, ledger.page_shift) = (0, 0);
        self.books.free(ledger);
        crate::census::free(ledger);
    }

    #[inline]
    fn desk_and_books<'a>(&'a mut self, ledger: &'a mut Ledger) -> (&'a mut Books, Desk<'a>) {
        let desk = Desk {
            ledger,
            names: &mut self.names,
        };
        (&mut self.books, desk)
    }

    /// The kind of objects booked under `class`.
    pub fn kind_of(&mut self, ledger: &mut Ledger, class: u64) -> Option<u32> {
        let (books, mut desk) = self.desk_and_books(ledger);
        books.kind_of(&mut desk, class)
    }

    /// What an object counts as now.
    pub fn key_of(&self, object: u64, flags: u64, class: u64) -> u64 {
        let internal = matches!(Type::of(flags), Type::Class | Type::Module)
            && self
                .names
                .ruby()
                .is_some_and(|ruby| ruby.is_internal(object).unwrap_or(false));
        match internal {
            true => internal_module_key(flags),
            false => class_key(flags, class),
        }
    }

    /// Moves the birth of an object of `site` to the row of `key`, if that is another; its site then.
    pub fn rebook_as(
        &mut self,
        ledger: &mut Ledger,
        object: u64,
        site: u32,
        key: u64,
    ) -> Option<u32> {
        let kind = self.kind_of(ledger, key)?;
        if site_at(&ledger.sites, site).kind == kind {
            return Some(site);
        }
        let site = self.books.rebook(ledger, site, kind)?;
        self.slots.set(object, site)?;
        Some(site)
    }

    /// A class that had no name may have one now.
    pub fn rename(&mut self, ledger: &mut Ledger, class: u64) {
        let (books, mut desk) = self.desk_and_books(ledger);
        let _ = books.rename(&mut desk, class);
    }

    /// Books the birth that `arg`, a `rb_trace_arg_t`, tells of.
    #[inline]
    fn birth(&mut self, ledger: &mut Ledger, arg: u64) -> Option<()> {
        // SAFETY: the VM hands a valid record to its hooks, and in it a new object with its header set.
        let (ec, cfp, object, flags, class) = unsafe {
            let word = |offset: u64| *((arg + offset) as *const u64);
            let object = word(trace_arg::DATA);
            (
                word(trace_arg::EC),
                word(trace_arg::CFP),
                object,
                *(object as *const u64),
                *((object + 8) as *const u64),
            )
        };
        if is_owner(flags) {
            self.owner_born(ledger, object);
        }
        // Masked, so that the compiler sees that it is within the ring.
        let at = self.oldest & (NEWBORNS - 1);
        let oldest = &self.newborns[at];
        if oldest.object != 0 {
            // SAFETY: no collection has begun since that object was born, or it would not be noted.
            let unchanged = unsafe { *((oldest.object + 8) as *const u64) } == oldest.class;
            if !unchanged || oldest.may_turn {
                self.settle(ledger, 1);
            }
        }
        let last = &mut self.newborns[at.wrapping_sub(1) & (NEWBORNS - 1)];
        // SAFETY: as above.
        if last.object != 0 && unsafe { *((last.object + 8) as *const u64) } == 0 {
            // Not one that was freed meanwhile, in a collection that had begun before its birth: an empty
            // slot's class word is the next one of its list, and 0 in the last.
            // SAFETY: as above.
            last.hidden = Type::of(unsafe { *(last.object as *const u64) }) != Type::None;
        }
        let mut key = Key {
            code: 0,
            pc: 0,
            class: class_key(flags, class),
        };
        if self.config.depth > 1 {
            (key.code, key.pc) = self.path(ec, cfp)?;
        } else if let Some(frame) = self.names.frame(ec, cfp) {
            (key.code, key.pc) = (frame.iseq, frame.pc);
        }
        let site = match self.books.count(key) {
            Some(site) => site,
            None => self.new_key(ledger, key, ec, cfp)?,
        };
        self.newborns[at] = Newborn {
            object,
            class,
            site,
            flags,
            may_turn: Type::of(flags) == Type::Class,
            hidden: false,
        };
        self.oldest = at + 1;
        self.slots.set(object, site)
    }

    /// Two hashes of the call path.
    #[inline(never)]
    fn path(&self, ec: u64, cfp: u64) -> Option<(u64, u64)> {
        let (mut codes, mut pcs) = (0u64, 0u64);
        let frames = self.names.frames(ec, cfp)?;
        for frame in frames
            .take(self.config.depth as usize)
            .map_while(Result::ok)
        {
            codes = mix(codes.rotate_left(1) ^ frame.iseq, frame.pc);
            pcs = pcs.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ frame.pc;
        }
        Some((codes, pcs))
    }

    /// Code or a class is born: what was booked under its address rests on something that is gone.
    #[cold]
    #[inline(never)]
    fn owner_born(&mut self, ledger: &mut Ledger, object: u64) {
        if !self.books.knows(object) {
            return;
        }
        let mut reborn = Reborn {
            agent: self,
            ledger,
            object,
        };
        // SAFETY: `drop_reborn` owns nothing and calls nobody.
        unsafe { guard::guarded(drop_reborn, (&raw mut reborn) as u64) };
    }

    #[cold]
    #[inline(never)]
    fn new_key(&mut self, ledger: &mut Ledger, key: Key, ec: u64, cfp: u64) -> Option<u32> {
        let mut new = NewKey {
            agent: self,
            ledger,
            key,
            ec,
            cfp,
            site: None,
        };
        // SAFETY: `add_new_key` owns nothing and calls nobody.
        unsafe { guard::guarded(add_new_key, (&raw mut new) as u64) };
        let site = new.site;
        if guard::broken() {
            self.farewell = Some(Farewell::Broken);
        }
        if self.farewell.is_some() {
            self.until_look = 1;
        }
        site
    }

    /// Every so many births: is the command still there, and is there a reason to leave?
    #[cold]
    #[inline(never)]
    pub fn look_round(&mut self, board: &Board, ledger: &mut Ledger) {
        if self.farewell.is_none() && self.look(board) {
            self.farewell = Some(Farewell::Alone);
        }
        if let Some(why) = self.farewell {
            board.deserted.store(why as u32, Ordering::Relaxed);
            board.hooked.store(0, Ordering::Relaxed);
            board.state.store(State::Quiet as u32, Ordering::Relaxed);
            self.leave(ledger);
        }
    }

    /// Notes the command's beat; whether it has been still for too long. A machine that was asleep looks
    /// the same at first, so the command has a quarter of the time more after that.
    fn look(&mut self, board: &Board) -> bool {
        self.until_look = LOOK_EVERY;
        let beat = board.beat.load(Ordering::Relaxed);
        let now = sys::ticks();
        if beat != self.beat || self.beat_seen == 0 {
            (self.beat, self.beat_seen) = (beat, now);
            self.doubted = false;
        }
        let late = now.wrapping_sub(self.beat_seen) > self.config.beat_ticks;
        if late && !self.doubted {
            self.doubted = true;
            self.beat_seen = now.wrapping_sub(self.config.beat_ticks / 4 * 3);
            return false;
        }
        late
    }
}

struct Reborn<'a> {
    agent: &'a mut Agent,
    ledger: &'a mut Ledger,
    object: u64,
}

extern "C" fn drop_reborn(argument: u64) -> u64 {
    // SAFETY: `owner_born` passes its own live record.
    let reborn = unsafe { &mut *(argument as *mut Reborn) };
    reborn.agent.books.reborn(reborn.ledger, reborn.object);
    0
}

struct NewKey<'a> {
    agent: &'a mut Agent,
    ledger: &'a mut Ledger,
    key: Key,
    ec: u64,
    cfp: u64,
    site: Option<u32>,
}

extern "C" fn add_new_key(argument: u64) -> u64 {
    // SAFETY: `new_key` passes its own live record.
    let new = unsafe { &mut *(argument as *mut NewKey) };
    let agent = &mut *new.agent;
    if agent
        .names
        .descends(new.key.class, agent.config.ractor_class)
    {
        // The Ractor's object is born before its thread: there is still time to be gone by then.
        agent.farewell = Some(Farewell::Ractor);
    }
    let depth = (agent.config.depth.max(1) as usize).min(DEEPEST);
    let mut count = 0;
    if let Some(frames) = agent.names.frames(new.ec, new.cfp) {
        for frame in frames.take(depth).map_while(Result::ok) {
            if let Some(place) = agent.frames.get_mut(count) {
                *place = (frame.iseq, frame.pc);
                count += 1;
            }
        }
    }
    let mut desk = Desk {
        ledger: new.ledger,
        names: &mut agent.names,
    };
    let frames = agent.frames.get(..count).unwrap_or(&[]);
    new.site = agent.books.count_new(&mut desk, new.key, frames, depth > 1);
    0
}

/// Whether books may rest on objects of this type: code and classes.
#[inline]
fn is_owner(flags: u64) -> bool {
    match Type::of(flags) {
        Type::Imemo => Imemo::of(flags) == Imemo::Iseq,
        Type::Class | Type::Module | Type::Iclass => true,
        _ => false,
    }
}

/// Called by the VM at every birth and before every collection, with its lock held.
unsafe extern "C" fn on_event(_data: u64, arg: u64) {
    let board = &crate::BOARD;
    if board.state.load(Ordering::Relaxed) != State::Open as u32 {
        return stranger();
    }
    // SAFETY: the VM's lock admits one thread at a time, and no second ractor starts while the hook is in
    // (`Farewell::Ractor`).
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut crate::LEDGER)) };
    // SAFETY: the event is the first word of the VM's record.
    if unsafe { *(arg as *const u32) } != NEWOBJ {
        agent.settle(ledger, NEWBORNS);
    } else if agent.busy {
        ledger.unbooked += 1;
    } else {
        if agent.birth(ledger, arg).is_none() {
            ledger.lost_memory += 1;
        }
        agent.until_look -= 1;
        if agent.until_look == 0 {
            agent.look_round(board, ledger);
        }
    }
}

/// The hook runs although the board is blank: a fork made this process, and wiped the page.
#[cold]
pub fn stranger() {
    // SAFETY: a forked child has one thread, which holds the VM's lock.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut crate::LEDGER)) };
    let board = &crate::BOARD;
    if !agent.hooked {
        return;
    }
    // Read anew: a command that cannot reach the VM's lock clears it before it clears the state.
    // SAFETY: written by the command as one aligned word.
    if unsafe { (&raw const crate::CONFIG.follow).read_volatile() } != 0 {
        agent.beat_seen = 0;
        agent.look(board);
        board.forked.store(1, Ordering::Relaxed);
        board.hooked.store(1, Ordering::Relaxed);
        board.state.store(State::Open as u32, Ordering::Release);
    } else {
        agent.leave(ledger);
        board.hooked.store(0, Ordering::Relaxed);
    }
}
