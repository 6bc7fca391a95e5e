//! The state of `mem` in the guest: books, numbers of heap slots, what is known of the command. One static, which
//! only the thread that holds the VM's lock touches.

use super::accounts::Own;
use super::books::{Books, DEEPEST, Desk, site_at};
use super::names::{Names, Type, class_key, internal_module_key};
use super::slots::Slots;
use super::summary::Summary;
use super::vmcalls::{Hook, Vm};
use wire::slots::with_site;
use wire::{Config, Farewell, Ledger};

/// Births between two looks at the command's heartbeat.
pub const LOOK_EVERY: u32 = 1024;

/// Births for which the hook stays in after the last account has ended, at least.
pub const LEAST_PATIENCE: u32 = 32;

/// The agent's state. It is used with the VM's lock held, or while all other threads stand still.
pub static mut AGENT: Agent = Agent::new();

/// Everything of the agent that only one thread at a time touches.
pub struct Agent {
    pub vm: Vm,
    pub config: Config,
    pub books: Books,
    pub slots: Slots,
    pub names: Names,
    /// Kept alive so that the collector tells us when objects move; 0 = none.
    pub mover: u64,
    /// A census walks the heap: births now are not booked.
    pub busy: bool,
    /// The hook in the VM, by which it is taken out; `None` = none is set.
    pub hook: Option<Hook>,
    /// The end procedure is in the VM; it cannot be taken out, only be deaf.
    pub ends: bool,
    /// Why we must leave, found while a birth was booked.
    pub farewell: Option<Farewell>,
    /// The last objects born, until they are looked at again; a ring.
    pub newborns: [Newborn; NEWBORNS],
    /// Index of the oldest of them, counted up without end.
    pub oldest: usize,
    /// Births until the command's heartbeat is looked at again.
    pub until_look: u32,
    /// The last heartbeat that was seen, and the time-stamp counter then; 0 = none was.
    pub heartbeat: u64,
    pub heartbeat_seen: u64,
    /// The heartbeat has been late once since it last changed.
    pub doubted: bool,
    /// Whose account the last birth looked for.
    pub own: Own,
    /// Births until the hook is taken out after the last account has ended.
    pub patience: u32,
    /// The time-stamp counter when it was taken out.
    pub resting_since: u64,
    /// The agent does not leave by itself: its memory is being read by the VM (`door`).
    pub held: bool,
    /// What an account holds, by name.
    pub summary: Summary,
    /// Frames of the birth that is being booked: code and pc.
    pub frames: [(u64, u64); DEEPEST],
}

impl Agent {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        Agent {
            vm: Vm::NONE,
            config: Config::NONE,
            books: Books::new(),
            slots: Slots::new(),
            names: Names::new(),
            mover: 0,
            busy: false,
            hook: None,
            ends: false,
            farewell: None,
            newborns: [NOBODY; NEWBORNS],
            oldest: 0,
            until_look: LOOK_EVERY,
            heartbeat: 0,
            heartbeat_seen: 0,
            doubted: false,
            own: Own::NONE,
            patience: LEAST_PATIENCE,
            resting_since: 0,
            held: false,
            summary: Summary::new(),
            frames: [(0, 0); DEEPEST],
        }
    }

    #[inline]
    pub fn desk_and_books<'a>(&'a mut self, ledger: &'a mut Ledger) -> (&'a mut Books, Desk<'a>) {
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

    /// The key of the type that an object is booked under now: see `class_key`.
    pub fn key_of(&self, object: u64, flags: u64, class: u64) -> u64 {
        let internal = matches!(Type::of(flags), Type::Class | Type::Module)
            && self
                .names
                .reader()
                .is_some_and(|reader| reader.is_internal(object).unwrap_or(false));
        if internal {
            internal_module_key(flags)
        } else {
            class_key(flags, class)
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
        let number = self.slots.get(object);
        self.slots.set(object, with_site(number, site))?;
        Some(site)
    }

    /// A class that had no name may have one now.
    pub fn rename(&mut self, ledger: &mut Ledger, class: u64) {
        let (books, mut desk) = self.desk_and_books(ledger);
        let _ = books.rename(&mut desk, class);
    }
}

/// How many births later an object is looked at again.
pub const NEWBORNS: usize = 64;
const _: () = assert!(NEWBORNS.is_power_of_two());

/// An object born a little while ago.
#[derive(Clone, Copy)]
pub struct Newborn {
    /// Address of the object; 0 = this place of the ring is empty.
    pub object: u64,
    /// Its class word at birth.
    pub class: u64,
    /// Number of the site where the birth is booked.
    pub site: u32,
    /// Its flags at birth.
    pub flags: u64,
    /// It is looked at again although that word is the same: it is to be measured, or it is a class, and may become a
    /// singleton class.
    pub look_again: bool,
    /// Whether its size is taken when it is looked at again.
    pub measure: bool,
    /// It was hidden at the next birth. Up to Ruby 3.0 such an object may be given back before we look
    /// again (`rb_gc_force_recycle`), and then this is what it became.
    pub hidden: bool,
    /// The number of the account that has counted it, plus one; 0 = none has.
    pub account: u8,
}

/// An empty place of the ring.
pub const NOBODY: Newborn = Newborn {
    object: 0,
    class: 0,
    site: 0,
    flags: 0,
    look_again: false,
    measure: false,
    hidden: false,
    account: 0,
};
