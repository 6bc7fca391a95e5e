//! What entries rest on: code and classes, by their address, until something else is born there.

use super::records::{kind_at, set_site, site_at};
use super::{Books, key_of};
use crate::memory::store::mix;
use wire::ledger::ANONYMOUS;
use wire::{Entry, Ledger};

/// Code (an iseq) or a class whose address entries rest on.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    /// Its address, or the small number that stands for a type without class.
    address: u64,
    /// For a class: its kind. 0 for code.
    pub(super) kind: u32,
    /// First of its links; 0 = none. In a free record: the next free one.
    first_link: u32,
    links: u32,
    /// When it has this many links, stale ones are swept.
    sweep_at: u32,
}

/// An entry that rests on an owner; stale when the entry's `age` has moved on.
#[derive(Clone, Copy)]
pub(super) struct Link {
    entry: u32,
    age: u32,
    next: u32,
}

const FEWEST_SWEPT: u32 = 64;

impl Owner {
    /// Nothing rests on it yet.
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
    /// The end of every list.
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
        // SAFETY: the index holds numbers of owners only.
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
                // SAFETY: free records are in the list; no other reference is alive.
                unsafe {
                    self.free_owner = (*self.owners.get(free)).first_link;
                    *self.owners.get(free) = fresh;
                }
                free
            }
        };
        let owners = &self.owners;
        self.by_address.insert(number, |number| {
            // SAFETY: the index holds numbers of owners only.
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
        // SAFETY: both numbers are of their lists, and no other reference is alive.
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

    /// Drops an owner's stale links when it has many.
    fn sweep(&mut self, number: u32) {
        // SAFETY: the caller's number is of an owner; links are reached through one reference at a time.
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

    /// A new object was born at `address`: what rested on the old one is over.
    #[cold]
    pub fn reborn(&mut self, ledger: &mut Ledger, address: u64) {
        let Some(number) = self.owner(address) else {
            return;
        };
        // SAFETY: `owner` gives numbers of owners only; copied out.
        let owner = unsafe { *self.owners.get(number) };
        let mut at = owner.first_link;
        while at != 0 {
            // SAFETY: links of an owner are numbers of the list; copied out.
            let link = unsafe { *self.links.get(at) };
            // SAFETY: a link's entry is in the list.
            if unsafe { (*self.entries.get(link.entry)).age } == link.age {
                self.retire(ledger, link.entry);
            }
            // SAFETY: as above, no reference is alive.
            unsafe { (*self.links.get(at)).next = self.free_link };
            self.free_link = at;
            at = link.next;
        }
        self.by_address.remove(number, mix(1, address));
        // SAFETY: as above.
        unsafe { (*self.owners.get(number)).first_link = self.free_owner };
        self.free_owner = number;
        // Singleton classes share the kind of their class, which lives on without them.
        let kind = kind_at(&ledger.kinds, owner.kind);
        if kind.flags & ANONYMOUS != 0 && kind.address == address {
            self.forget_anonymous(ledger, owner.kind);
        }
    }

    /// Folds an entry's births into its site and frees it.
    fn retire(&mut self, ledger: &mut Ledger, number: u32) {
        // SAFETY: the caller's number is of an entry, and no other reference is alive.
        let hash = key_of(unsafe { &*self.entries.get(number) }).hash();
        self.by_key.remove(number, hash);
        self.fold(ledger, number);
    }

    /// The same of an entry that no key leads to any more.
    fn fold(&mut self, ledger: &mut Ledger, number: u32) {
        // SAFETY: the caller's number is of an entry, and no other reference is alive.
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

    /// No address means what it did: objects have been moved, or were born unseen. What was counted stays in the sites.
    pub fn flush(&mut self, ledger: &mut Ledger) {
        self.by_key.clear();
        for number in 1..self.entries.len() {
            // SAFETY: within the list; copied. A used entry's class is never 0.
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
