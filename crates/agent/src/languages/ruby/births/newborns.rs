//! Looks at each object once more, shortly after its birth.
//!
//! Soon after the birth of an object, the VM may hide it or make it a singleton class, and then `ObjectSpace` does not
//! show it; others are hidden only for a moment, such as the buffer of a `sort_by`. So an object is counted by what it is
//! [`NEWBORNS`] births later, or when a collection begins, after which it may be gone, whichever comes first. A census
//! looks at all living objects.

use super::agent::{Agent, NEWBORNS, NOBODY};
use super::names::{Type, class_key};
use crate::births::accounts;
use crate::guard;
use crate::memory::follow::{kept, ours};
use wire::Ledger;
use wire::slots::site_of;

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
