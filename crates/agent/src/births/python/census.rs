//! The census: a walk over the tables of living blocks, with the VM's lock.
//!
//! It may have the VM collect first (`PyGC_Collect`), so that what is left of garbage in cycles does not count as living. That runs the
//! program's finalizers, as each collection does, so nothing of ours is held meanwhile, and other threads may run.

use super::allocator;
use super::counting::{Births, Held, tell_lost};
use crate::births::tally::{add_living, row};
use crate::guard;
use crate::memory::follow::ours;
use crate::memory::sys;
use crate::scripts::function;
use crate::snapshot::python_reader;
use wire::script::python::COLLECT;
use wire::slots::{epoch_of, site_of};
use wire::{Farewell, Ledger, Reply};

/// [`wire::ControlPage::argument`] bit: collect first.
const COLLECT_FIRST: u64 = 1;

/// Counts the living blocks. The VM's lock is held, at a safe point.
pub fn take(argument: u64) -> Reply {
    // SAFETY: the VM's lock is held, at a safe point.
    if !unsafe { allocator::are_all_called() } {
        if let Some(mut held) = Held::wait() {
            let (births, ledger) = held.both();
            births.depart(ledger, Farewell::Replaced);
        }
        return Reply::Refused;
    }
    let collected = match argument & COLLECT_FIRST {
        0 => None,
        _ => collect(),
    };
    let started = sys::now();
    let Some(mut held) = Held::wait() else {
        return Reply::Refused;
    };
    // SAFETY: `count` owns nothing that a panic would leak and calls no code of the VM.
    let counted = unsafe { guard::guarded(count, (&raw mut held) as u64) };
    if guard::broken() {
        return Reply::Refused;
    }
    if counted == 0 {
        return Reply::NoMemory;
    }
    let (_, ledger) = held.both();
    ledger.gc_nanos = collected.unwrap_or(0);
    ledger.garbage = u64::from(collected.is_none());
    ledger.collector_off = 0;
    ledger.walk_nanos = sys::now() - started;
    Reply::Done
}

/// Has the VM collect, if the program has not switched that off, and no collection is under way. Returns how long it took.
fn collect() -> Option<u64> {
    let python = python_reader()?;
    let may = python.is_collector_on() == Ok(Some(true)) && python.is_collecting() == Ok(false);
    if !may {
        return None;
    }
    let started = sys::now();
    // SAFETY: the VM's lock is held, at a safe point, and the command has written the function's address.
    unsafe {
        let collect: unsafe extern "C" fn() -> i64 = function(COLLECT);
        collect();
    }
    Some((sys::now() - started).max(1))
}

extern "C" fn count(held: u64) -> u64 {
    // SAFETY: `take` passes the address of its own `Held`, which lives until this returns.
    let held = unsafe { &mut *ours::<Held>(held) };
    let (births, ledger) = held.both();
    u64::from(births.count(ledger).is_some())
}

impl Births {
    /// Counts the living by site. `None`: there is no memory for that.
    fn count(&mut self, ledger: &mut Ledger) -> Option<()> {
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
        tell_lost(ledger);
        self.tally.add_births(&self.books, ledger)?;
        ledger.mapped = self.books.mapped(ledger) + self.blocks.mapped() + self.tally.mapped();
        whole
    }
}
