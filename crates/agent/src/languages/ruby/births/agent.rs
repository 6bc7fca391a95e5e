//! The state of `mem` in the guest: books, numbers of heap slots, what is known of the command. It is one static,
//! which only the thread that holds the VM's lock uses. Used by `birth`, `rest`, `watch` and others.

use super::names::{Names, Type, class_key, internal_module_key};
use crate::births::accounts::Own;
use crate::births::books::{Books, DEEPEST, Desk, site_at};
use crate::births::heartbeat::Presence;
use crate::births::slots::Slots;
use crate::births::summary::Summary;
use crate::languages::ruby::vmcalls::{Hook, Vm};
use wire::slots::with_site;
use wire::{Config, Farewell, Ledger};

/// The least number of births for which the hook stays set after the last account has ended.
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
    /// An object of ours, kept alive so that the collector calls us when objects move; 0 = none.
    pub mover: u64,
    /// Whether a census walks the heap; births are not booked meanwhile.
    pub busy: bool,
    /// The function that the VM calls, by which the hook is removed; `None` = no hook is set.
    pub hook: Option<Hook>,
    /// Whether the end procedure is registered in the VM. It cannot be removed; after a session it does nothing.
    pub ends: bool,
    /// The reason to leave that was found while a birth was booked.
    pub farewell: Option<Farewell>,
    /// The last objects born, until they are looked at once more; a ring buffer.
    pub newborns: [Newborn; NEWBORNS],
    /// Index of the oldest of them, used modulo [`NEWBORNS`].
    pub oldest: usize,
    /// Whether the command is there.
    pub presence: Presence,
    /// The account that the last birth was looked up for.
    pub own: Own,
    /// Births until the hook is taken out after the last account has ended.
    pub patience: u32,
    /// The time-stamp counter when it was taken out.
    pub resting_since: u64,
    /// Whether the agent must not leave by itself, because the VM reads its memory (`door`).
    pub held: bool,
    /// What an account holds, by name.
    pub summary: Summary,
    /// Scratch room for the frames of the birth that is being booked: code and pc.
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
            presence: Presence::new(),
            own: Own::NONE,
            patience: LEAST_PATIENCE,
            resting_since: 0,
            held: false,
            summary: Summary::new(),
            frames: [(0, 0); DEEPEST],
        }
    }

    #[inline]
    pub fn desk_and_books<'a>(
        &'a mut self,
        ledger: &'a mut Ledger,
    ) -> (&'a mut Books, Desk<'a, Names>) {
        let desk = Desk {
            ledger,
            names: &mut self.names,
        };
        (&mut self.books, desk)
    }

    /// Returns the kind of objects booked under `class`.
    pub fn kind_of(&mut self, ledger: &mut Ledger, class: u64) -> Option<u32> {
        let (books, mut desk) = self.desk_and_books(ledger);
        books.kind_of(&mut desk, class)
    }

    /// Returns the key of the type that an object is booked under now: see `class_key`.
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

    /// Moves the birth of an object of `site` to the row of `key`, if that is another one. Returns its site.
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

    /// Looks up the name of a class that had none.
    pub fn rename(&mut self, ledger: &mut Ledger, class: u64) {
        let (books, mut desk) = self.desk_and_books(ledger);
        let _ = books.rename(&mut desk, class);
    }
}

/// Number of births after which an object is looked at once more.
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
    /// Whether it is looked at once more even if its class word is the same: its size is to be taken, or it is a
    /// class, which may become a singleton class.
    pub look_again: bool,
    /// Whether its size is taken when it is looked at again.
    pub measure: bool,
    /// Whether it was hidden at the next birth. Up to Ruby 3.0 such an object may be freed before it is looked at
    /// again (`rb_gc_force_recycle`); then it counts as a hidden object.
    pub hidden: bool,
    /// The number of the account that has counted it, plus one; 0 = none has.
    pub account: u8,
}

/// The value of an empty place of the ring.
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
