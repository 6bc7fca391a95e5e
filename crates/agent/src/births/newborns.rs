//! The objects born last, looked at once more.
//!
//! The VM hides some objects, or makes a class somebody's singleton class, soon after their birth, and
//! `ObjectSpace` does not show them then; others are hidden for a moment only, as the buffer of a
//! `sort_by`. They are counted by what they are [`NEWBORNS`] births later, or when a collection begins,
//! after which they may be gone, whichever is first. A census looks at all that live.

use super::agent::{Agent, NEWBORNS, NOBODY};
use super::names::{Type, class_key};
use crate::guard;
use wire::Ledger;
use wire::slots::site_of;

struct Settling<'a> {
    agent: &'a mut Agent,
    ledger: &'a mut Ledger,
    count: usize,
}

extern "C" fn settle_newborns(argument: u64) -> u64 {
    // SAFETY: `settle` passes its own live record.
    let Settling {
        agent,
        ledger,
        count,
    } = unsafe { &mut *(argument as *mut Settling) };
    for step in 0..*count {
        let at = (agent.oldest + step) % NEWBORNS;
        let newborn = core::mem::replace(&mut agent.newborns[at], NOBODY);
        if newborn.object == 0 {
            continue;
        }
        // SAFETY: no collection has begun since this object was born, or it would no longer be among the newborns; so its
        // header is readable.
        let (flags, class) = unsafe {
            (
                *(newborn.object as *const u64),
                *((newborn.object + 8) as *const u64),
            )
        };
        let here = Type::of(flags) != Type::None
            && site_of(agent.slots.get(newborn.object)) == newborn.site;
        if here {
            let key = agent.key_of(newborn.object, flags, class);
            agent.rebook_as(ledger, newborn.object, newborn.site, key);
        } else if newborn.hidden
            && let Some(kind) = agent.kind_of(ledger, class_key(newborn.flags, 0))
        {
            let _ = agent.books.rebook(ledger, newborn.site, kind);
        }
    }
    0
}

impl Agent {
    /// Looks again at the `count` oldest newborns.
    #[cold]
    #[inline(never)]
    pub fn settle(&mut self, ledger: &mut Ledger, count: usize) {
        let mut settling = Settling {
            agent: self,
            ledger,
            count,
        };
        // SAFETY: `settle_newborns` owns nothing and calls nobody.
        unsafe { guard::guarded(settle_newborns, (&raw mut settling) as u64) };
    }
}
