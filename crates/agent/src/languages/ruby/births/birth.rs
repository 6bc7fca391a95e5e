//! Books each birth at its line, on the thread that makes the object, and looks at each object once more, shortly after its birth.
//! Used by `door` and `watch`.
//!
//! Soon after the birth of an object, the VM may hide it or make it a singleton class, and then `ObjectSpace` does not
//! show it; others are hidden only for a moment, such as the buffer of a `sort_by`. So an object is counted by what it is
//! [`NEWBORNS`] births later, or when a collection begins, after which it may be gone, whichever comes first
//! ([`Agent::settle`]). A census looks at all living objects.

use super::agent::{Agent, NEWBORNS, NOBODY, Newborn};
use super::names::{Type, class_key, is_code, trace_arg};
use crate::births::accounts;
use crate::births::books::{Booked, CUT_HERE, DEEPEST, Desk, Key, OUTWARD};
use crate::guard;
use crate::memory::follow::{kept, ours};
use crate::memory::store::mix;
use wire::accounts::OPEN;
use wire::slots::site_of;
use wire::{Farewell, Ledger};

impl Agent {
    /// Books the birth that the VM's `rb_trace_arg_t` at address `arg` describes.
    #[inline]
    pub fn birth(&mut self, ledger: &mut Ledger, arg: u64) -> Option<()> {
        // SAFETY: the VM hands a valid record to its hooks, and in it a new object with its header set.
        let (ec, cfp, object, flags, class) = unsafe {
            let word = |offset: u64| *kept::<u64>(arg + offset);
            let object = word(trace_arg::DATA);
            (
                word(trace_arg::EC),
                word(trace_arg::CFP),
                object,
                *kept::<u64>(object),
                *kept::<u64>(object + 8),
            )
        };
        if is_owner(flags) {
            self.owner_born(ledger, object);
        }
        // Masked, so that the compiler sees that the index is within the ring.
        let at = self.oldest & (NEWBORNS - 1);
        let oldest = &self.newborns[at];
        if oldest.object != 0 {
            // SAFETY: the start of every collection empties the ring (`on_event`), so none has begun since that object was
            // born, and its slot is still mapped.
            let unchanged = unsafe { *kept::<u64>(oldest.object + 8) } == oldest.class;
            if !unchanged || oldest.look_again {
                self.settle(ledger, 1);
            }
        }
        let last = &mut self.newborns[at.wrapping_sub(1) & (NEWBORNS - 1)];
        // SAFETY: the start of every collection empties the ring, so the slot of an object in it is still mapped.
        if last.object != 0 && unsafe { *kept::<u64>(last.object + 8) } == 0 {
            // This excludes an object that was freed by a collection which had begun before its birth: an empty slot's
            // class word is the address of the next empty slot, and 0 in the last.
            // SAFETY: the start of every collection empties the ring, so the slot is still mapped.
            last.hidden = Type::of(unsafe { *kept::<u64>(last.object) }) != Type::None;
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
        let Booked { site, measure } = match self.books.count(key) {
            Some(Booked { site: OUTWARD, .. }) => self.outward(ledger, key.class, ec, cfp)?,
            Some(booked) => booked,
            None => self.new_key(ledger, key, ec, cfp)?,
        };
        self.newborns[at] = Newborn {
            object,
            class,
            site,
            flags,
            look_again: measure || Type::of(flags) == Type::Class,
            measure,
            hidden: false,
            account: 0,
        };
        self.oldest = at + 1;
        // SAFETY: `ledger` is a live reference; the command writes the word at any time, as one aligned word, hence the
        // volatile read.
        let epoch = unsafe { (&raw const ledger.epoch).read_volatile() };
        if epoch & OPEN != 0 {
            self.newborns[at].account = self.own.count(ledger, site);
        }
        let noted = self.slots.set(object, epoch as u32 | site);
        if noted.is_none() {
            self.newborns[at] = NOBODY;
            self.books.unborn(ledger, site);
        }
        noted
    }

    /// Makes the slot of a birth that was not booked nobody's: its number is that of the object before.
    #[cold]
    #[inline(never)]
    pub fn disown(&mut self, arg: u64) {
        // SAFETY: the VM hands a valid record to its hooks.
        let object = unsafe { *kept::<u64>(arg + trace_arg::DATA) };
        self.slots.clear(object);
    }

    /// Books a birth in a method that the VM itself has written in Ruby (`<internal:kernel>`), at the nearest calling line
    /// that is not internal. If there is none, the VM made the object.
    #[inline(never)]
    fn outward(&mut self, ledger: &mut Ledger, class: u64, ec: u64, cfp: u64) -> Option<Booked> {
        let mut at = cfp;
        for _ in 0..MOST_INTERNAL {
            let frames = self.names.frames(ec, at)?;
            // The first is the frame at `at` itself.
            let Some(frame) = frames.map_while(Result::ok).nth(1) else {
                break;
            };
            at = frame.cfp;
            let key = Key {
                code: frame.iseq,
                pc: frame.pc,
                class,
            };
            let booked = match self.books.count(key) {
                Some(booked) => booked,
                None => self.new_site(ledger, key, ec, at)?,
            };
            if booked.site != OUTWARD {
                return Some(booked);
            }
        }
        let key = Key {
            code: 0,
            pc: 0,
            class,
        };
        match self.books.count(key) {
            Some(booked) => Some(booked),
            None => self.new_site(ledger, key, ec, at),
        }
    }

    /// Returns the call path as two hashes.
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

    /// Handles the birth of code or a class: what was booked under its address belongs to an object that is gone.
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
        // SAFETY: `drop_reborn` owns nothing that a panic would leak and calls no code of the VM.
        unsafe { guard::guarded(drop_reborn, (&raw mut reborn) as u64) };
    }

    #[cold]
    #[inline(never)]
    fn new_key(&mut self, ledger: &mut Ledger, key: Key, ec: u64, cfp: u64) -> Option<Booked> {
        match self.new_site(ledger, key, ec, cfp)? {
            Booked { site: OUTWARD, .. } => self.outward(ledger, key.class, ec, cfp),
            booked => Some(booked),
        }
    }

    /// Books a birth whose key is new. Returns [`OUTWARD`] as its site if its code is the VM's own.
    #[cold]
    #[inline(never)]
    fn new_site(&mut self, ledger: &mut Ledger, key: Key, ec: u64, cfp: u64) -> Option<Booked> {
        let mut new = NewKey {
            agent: self,
            ledger,
            key,
            ec,
            cfp,
            booked: None,
        };
        // SAFETY: `add_new_key` owns nothing that a panic would leak and calls no code of the VM.
        unsafe { guard::guarded(add_new_key, (&raw mut new) as u64) };
        let booked = new.booked;
        if guard::broken() {
            self.farewell = Some(Farewell::Broken);
        }
        if self.farewell.is_some() {
            self.presence.until_look = 1;
        }
        booked
    }
}

struct Reborn<'a> {
    agent: &'a mut Agent,
    ledger: &'a mut Ledger,
    object: u64,
}

extern "C" fn drop_reborn(argument: u64) -> u64 {
    // SAFETY: `owner_born` passes the address of its own `Reborn`, which lives until this returns.
    let reborn = unsafe { &mut *ours::<Reborn>(argument) };
    reborn.agent.books.reborn(reborn.ledger, reborn.object);
    0
}

struct NewKey<'a> {
    agent: &'a mut Agent,
    ledger: &'a mut Ledger,
    key: Key,
    ec: u64,
    cfp: u64,
    booked: Option<Booked>,
}

extern "C" fn add_new_key(argument: u64) -> u64 {
    // SAFETY: `new_site` passes the address of its own `NewKey`, which lives until this returns.
    let new = unsafe { &mut *ours::<NewKey>(argument) };
    let agent = &mut *new.agent;
    if agent
        .names
        .descends(new.key.class, agent.config.ractor_class)
    {
        // The Ractor's object is born before its thread, so the agent can still leave in time.
        agent.farewell = Some(Farewell::Ractor);
    }
    let depth = (agent.config.depth.max(1) as usize).min(DEEPEST - 1);
    let mut count = 0;
    if new.key.code == 0 {
        // No Ruby code is running, or only the VM's own.
    } else if let Some(frames) = agent.names.frames(new.ec, new.cfp) {
        // One frame more shows whether the path must be cut.
        let most = if depth > 1 { depth + 1 } else { depth };
        for frame in frames.take(most).map_while(Result::ok) {
            if let Some(place) = agent.frames.get_mut(count) {
                *place = if count == depth {
                    CUT_HERE
                } else {
                    (frame.iseq, frame.pc)
                };
                count += 1;
            }
        }
    }
    let mut desk = Desk {
        ledger: new.ledger,
        names: &mut agent.names,
    };
    let frames = agent.frames.get(..count).unwrap_or(&[]);
    new.booked = agent.books.count_new(&mut desk, new.key, frames, depth > 1);
    0
}

/// Limit of frames of the VM's own code that are skipped.
const MOST_INTERNAL: usize = 16;

/// Whether entries may rest on objects of this type: code and classes.
#[inline]
fn is_owner(flags: u64) -> bool {
    match Type::of(flags) {
        Type::Imemo => is_code(flags),
        Type::Class | Type::Module | Type::Iclass => true,
        _ => false,
    }
}

struct Settling<'a> {
    agent: &'a mut Agent,
    ledger: &'a mut Ledger,
    count: usize,
    /// Only those that the account with this number plus one has counted; 0 = all.
    account: u8,
}

extern "C" fn settle_newborns(argument: u64) -> u64 {
    // SAFETY: `settle_some` passes the address of its own `Settling`, which lives until this returns.
    let Settling {
        agent,
        ledger,
        count,
        account,
    } = unsafe { &mut *ours::<Settling>(argument) };
    for step in 0..*count {
        let at = (agent.oldest + step) % NEWBORNS;
        let newborn = agent.newborns[at];
        if newborn.object == 0 || (*account != 0 && newborn.account != *account) {
            continue;
        }
        agent.newborns[at] = NOBODY;
        // SAFETY: the start of every collection empties the ring, so none has begun since this object was born, and its
        // header can be read.
        let (flags, class) = unsafe {
            (
                *kept::<u64>(newborn.object),
                *kept::<u64>(newborn.object + 8),
            )
        };
        let here = Type::of(flags) != Type::None
            && site_of(agent.slots.get(newborn.object)) == newborn.site;
        if here {
            let key = agent.key_of(newborn.object, flags, class);
            let site = agent.rebook_as(ledger, newborn.object, newborn.site, key);
            if let Some(site) = site {
                accounts::rebook(ledger, newborn.account, newborn.site, site);
            }
            if newborn.measure
                && let Some(site) = site
                && let Some(bytes) = agent.size_of(newborn.object, flags)
            {
                agent.books.measured(ledger, site, bytes);
            }
        } else if newborn.hidden
            && let Some(kind) = agent.kind_of(ledger, class_key(newborn.flags, 0))
            && let Some(site) = agent.books.rebook(ledger, newborn.site, kind)
        {
            accounts::rebook(ledger, newborn.account, newborn.site, site);
        }
    }
    0
}

impl Agent {
    /// Returns the bytes that a newborn uses, or only its slot's where the VM's size function would read parts that may
    /// not be made yet.
    ///
    /// A collection begins while memory is allocated for an object, so a newborn may be in the middle of being made. The
    /// size functions of these types read nothing but the slot and tables that the collector itself reads. That of a C
    /// type is an extension's code, which may follow a pointer that is not set yet; those of classes and of the VM's own
    /// objects follow several.
    fn size_of(&self, object: u64, flags: u64) -> Option<u64> {
        match Type::of(flags) {
            Type::String
            | Type::Array
            | Type::Hash
            | Type::Object
            | Type::Struct
            | Type::Bignum => {
                // SAFETY: the VM's lock is held, as `memsize` requires, and the caller has just read the object's header.
                Some(unsafe { self.vm.memsize(object) })
            }
            _ => {
                let page = self.names.reader()?.page_of(object).ok()?;
                Some(page.slot_size)
            }
        }
    }

    /// Looks once more at the `count` oldest newborns.
    #[cold]
    #[inline(never)]
    pub fn settle(&mut self, ledger: &mut Ledger, count: usize) {
        self.settle_some(ledger, count, 0);
    }

    /// Looks once more at all newborns that the account with this index has counted, because its thread reads it.
    pub fn settle_account(&mut self, ledger: &mut Ledger, number: usize) {
        let account = number as u8 + 1;
        self.settle_some(ledger, NEWBORNS, account);
    }

    fn settle_some(&mut self, ledger: &mut Ledger, count: usize, account: u8) {
        let mut settling = Settling {
            agent: self,
            ledger,
            count,
            account,
        };
        // SAFETY: `settle_newborns` owns nothing that a panic would leak; the only code of the VM that it calls is the
        // size function, for types of the VM's own.
        unsafe { guard::guarded(settle_newborns, (&raw mut settling) as u64) };
    }
}
