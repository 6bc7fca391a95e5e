//! What entries rest on: code and classes by their address, until another object is born there. Used by `books`.

use super::records::{kind_at, set_site, site_at};
use super::{Books, key_of};
use crate::memory::store::mix;
use wire::ledger::ANONYMOUS;
use wire::{Entry, Ledger};

/// Code (an iseq) or a class on whose address entries rest.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    /// Its address, or the small number that stands for a type without class.
    address: u64,
    /// For a class: its kind. 0 for code.
    pub(super) kind: u32,
    /// First of its links; 0 = none. In a free record: the next free one.
    first_link: u32,
    links: u32,
    /// Number of links at which stale ones are removed.
    sweep_at: u32,
}

/// A link from an owner to an entry that rests on it. It is stale if the entry's `age` has changed.
#[derive(Clone, Copy)]
pub(super) struct Link {
    entry: u32,
    age: u32,
    next: u32,
}

const FEWEST_SWEPT: u32 = 64;

impl Owner {
    /// An owner on which no entry rests yet.
    pub(super) const fn of(address: u64, kind: u32) -> Self {
        Owner {
            address,
            kind,
            first_link: 0,
            links: 0,
            sweep_at: FEWEST_SWEPT,
        }
    }
}

impl Link {
    /// Marks the end of every list.
    pub(super) const NONE: Link = Link {
        entry: 0,
        age: 0,
        next: 0,
    };
}

impl Books {
    #[inline]
    pub(super) fn owner(&self, address: u64) -> Option<u32> {
        let owners = &self.owners;
        // SAFETY: `by_address` holds numbers that were added to `owners`, so they are less than its length.
        self.by_address.find(
            mix(1, address),
            |number| unsafe { (*owners.get(number)).address } == address,
        )
    }

    pub(super) fn new_owner(&mut self, address: u64, kind: u32) -> Option<u32> {
        let fresh = Owner::of(address, kind);
        let number = match self.free_owner {
            0 => self.owners.push(fresh)?,
            free => {
                // SAFETY: the free list holds numbers of `owners` only; `self` is borrowed mutably, so no reference to
                // the record is alive.
                unsafe {
                    self.free_owner = (*self.owners.get(free)).first_link;
                    *self.owners.get(free) = fresh;
                }
                free
            }
        };
        let owners = &self.owners;
        self.by_address.insert(number, |number| {
            // SAFETY: `by_address` holds numbers that were added to `owners`, so they are less than its length.
            mix(1, unsafe { (*owners.get(number)).address })
        })?;
        Some(number)
    }

    pub(super) fn link(&mut self, address: u64, kind: u32, entry: u32, age: u32) -> Option<()> {
        let number = match self.owner(address) {
            Some(number) => number,
            None => self.new_owner(address, kind)?,
        };
        self.sweep(number);
        let fresh = match self.free_link {
            0 => self.links.push(Link {
                entry,
                age,
                next: 0,
            })?,
            free => free,
        };
        // SAFETY: `number` is of `owners` and `fresh` of `links`, so each is less than its list's length. The two lists
        // are different memory, and `self` is borrowed mutably.
        let (owner, link) = unsafe { (&mut *self.owners.get(number), &mut *self.links.get(fresh)) };
        if fresh == self.free_link {
            self.free_link = link.next;
        }
        *link = Link {
            entry,
            age,
            next: owner.first_link,
        };
        owner.first_link = fresh;
        owner.links += 1;
        Some(())
    }

    /// Removes an owner's stale links when it has many.
    fn sweep(&mut self, number: u32) {
        // SAFETY: callers pass a number of `owners`; links hold numbers of `links` and `entries`. All are less than the
        // length of their list, records are reached through raw pointers, and `self` is borrowed mutably.
        unsafe {
            let owner = self.owners.get(number);
            if (*owner).links < (*owner).sweep_at {
                return;
            }
            let (mut at, mut kept, mut count) = ((*owner).first_link, 0, 0);
            while at != 0 {
                let link = self.links.get(at);
                let next = (*link).next;
                if (*self.entries.get((*link).entry)).age == (*link).age {
                    (*link).next = kept;
                    kept = at;
                    count += 1;
                } else {
                    (*link).next = self.free_link;
                    self.free_link = at;
                }
                at = next;
            }
            (*owner).first_link = kept;
            (*owner).links = count;
            (*owner).sweep_at = (count * 2).max(FEWEST_SWEPT);
        }
    }

    /// Whether anything rests on `address`.
    #[inline]
    pub fn knows(&self, address: u64) -> bool {
        self.owner(address).is_some()
    }

    /// Drops all entries that rest on `address`, because a new object was born there.
    #[cold]
    pub fn reborn(&mut self, ledger: &mut Ledger, address: u64) {
        let Some(number) = self.owner(address) else {
            return;
        };
        // SAFETY: `owner` returns numbers of `owners` only; the record is copied.
        let owner = unsafe { *self.owners.get(number) };
        let mut at = owner.first_link;
        while at != 0 {
            // SAFETY: an owner's list of links holds numbers of `links` only; the record is copied.
            let link = unsafe { *self.links.get(at) };
            // SAFETY: a link holds a number of `entries`.
            if unsafe { (*self.entries.get(link.entry)).age } == link.age {
                self.retire(ledger, link.entry);
            }
            // SAFETY: `at` is a number of `links`, and `self` is borrowed mutably, so no reference to the record is
            // alive.
            unsafe { (*self.links.get(at)).next = self.free_link };
            self.free_link = at;
            at = link.next;
        }
        self.by_address.remove(number, mix(1, address));
        // SAFETY: `number` came from `owner`, so it is of `owners`; `self` is borrowed mutably, so no reference to the
        // record is alive.
        unsafe { (*self.owners.get(number)).first_link = self.free_owner };
        self.free_owner = number;
        // Singleton classes share the kind of their class, which continues to exist without them.
        let kind = kind_at(&ledger.kinds, owner.kind);
        if kind.flags & ANONYMOUS != 0 && kind.address == address {
            self.forget_anonymous(ledger, owner.kind);
        }
    }

    /// Folds an entry's births into its site and frees it.
    pub(super) fn retire(&mut self, ledger: &mut Ledger, number: u32) {
        // SAFETY: callers pass the number of an entry that a link or the index names, so it is less than the length;
        // `self` is borrowed mutably.
        let hash = key_of(unsafe { &*self.entries.get(number) }).hash();
        self.by_key.remove(number, hash);
        self.fold(ledger, number);
    }

    /// Adds an entry's births to its site and frees it, when no key leads to it any more.
    fn fold(&mut self, ledger: &mut Ledger, number: u32) {
        // SAFETY: callers pass a number less than the length of `entries`; `self` is borrowed mutably, so no other
        // reference to the entry is alive.
        let entry = unsafe { &mut *self.entries.get(number) };
        let mut site = site_at(&ledger.sites, entry.site);
        site.born = site.born.wrapping_add(entry.born);
        set_site(&mut ledger.sites, entry.site, site);
        *entry = Entry {
            site: self.free_entry,
            age: entry.age.wrapping_add(1),
            ..Entry::default()
        };
        self.free_entry = number;
    }

    /// Drops all entries, because addresses no longer mean what they did: objects have been moved, or were born unseen.
    /// The counts stay in the sites.
    pub fn flush(&mut self, ledger: &mut Ledger) {
        self.by_key.clear();
        for number in 1..self.entries.len() {
            // SAFETY: `number` is less than the length; the word is copied. A used entry's class is never 0.
            if unsafe { (*self.entries.get(number)).class } != 0 {
                self.fold(ledger, number);
            }
        }
        self.by_address.clear();
        self.owners.clear_to(1);
        self.free_owner = 0;
        self.links.clear_to(1);
        self.free_link = 0;
    }
}
