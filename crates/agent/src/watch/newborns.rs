//! The objects born last, looked at once more.
//!
//! The VM hides some objects, or makes a class somebody's singleton class, soon after their birth, and
//! `ObjectSpace` does not show them then; others are hidden for a moment only, as the buffer of a
//! `sort_by`. They count as what they have become so many births later, or when a collection begins,
//! after which they may be gone. A census looks at all that live.

use super::Agent;
use crate::guard;
use crate::names::class_key;
use vm::ruby::Type;
use wire::Ledger;

/// How many births later an object is looked at again.
pub const NEWBORNS: usize = 64;
const _: () = assert!(NEWBORNS.is_power_of_two());

/// An object born a little while ago.
#[derive(Clone, Copy)]
pub(super) struct Newborn {
    /// 0 = none.
    pub(super) object: u64,
    /// Its class word at birth.
    pub(super) class: u64,
    /// Where it is booked.
    pub(super) site: u32,
    /// Its flags at birth.
    pub(super) flags: u64,
    /// It is a class, and may become a singleton class without a change of that word.
    pub(super) may_turn: bool,
    /// It was hidden at the next birth. Up to Ruby 3.0 such an object may be given back before we look
    /// again (`rb_gc_force_recycle`), and then this is what it became.
    pub(super) hidden: bool,
}

/// None.
pub(super) const NOBODY: Newborn = Newborn {
    object: 0,
    class: 0,
    site: 0,
    flags: 0,
    may_turn: false,
    hidden: false,
};

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
        // SAFETY: as for the look at it in `birth`.
        let (flags, class) = unsafe {
            (
                *(newborn.object as *const u64),
                *((newborn.object + 8) as *const u64),
            )
        };
        let here = Type::of(flags) != Type::None && agent.slots.get(newborn.object) == newborn.site;
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
