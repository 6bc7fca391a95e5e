//! The census: a walk over the tables of living blocks, with the VM's lock. Used by `end` and `jobs`.
//!
//! It may have the VM collect first (`PyGC_Collect`), so that what is left of garbage in cycles does not count as living. That runs the
//! program's finalizers, so nothing of ours is held meanwhile, and other threads may run. They run on the thread that collects, and a
//! finalizer may wait for a lock that the program holds around a call that this thread waits in (`with lock: sleep()`): it would wait for
//! ever. So there is no collection within such a call, nor directly after it, but only where Python's code runs. Where the main thread waits,
//! the command brings the VM to collect by itself, on whichever thread comes to it (`vm::python::Automatic`).

use super::allocator;
use super::counting::{Held, tell_lost};
use crate::guard;
use crate::languages::functions::function;
use crate::languages::python::snapshot::reader;
use crate::memory::bound::Kept;
use crate::memory::follow::ours;
use crate::memory::sys;
use vm::python::api::COLLECT;
use wire::control_page::{CENSUS_BLOCKED, CENSUS_COLLECT, CENSUS_RAN, CENSUS_TIME};
use wire::ledger::Uncollected;
use wire::{Farewell, Reply};

/// Counts the living blocks, as `argument` says (`wire::control_page::CENSUS_COLLECT`, `CENSUS_BLOCKED`, `CENSUS_RAN`). The VM's lock is held, at a safe
/// point.
pub fn take(argument: u64) -> Reply {
    // SAFETY: the VM's lock is held, at a safe point.
    if !unsafe { allocator::are_all_called() } {
        if let Some(mut held) = Held::wait() {
            let (births, ledger) = held.both();
            births.depart(ledger, Farewell::Replaced);
        }
        return Reply::Refused;
    }
    let collected = collect(argument);
    let started = sys::now();
    let Some(mut held) = Held::wait() else {
        return Reply::Refused;
    };
    // It lives here, and not in `count`, whose frame a panic skips.
    let kept = Kept::open();
    // SAFETY: `count` owns nothing that a panic would leak and calls no code of the VM.
    let counted = unsafe { guard::guarded(count, (&raw mut held) as u64) };
    drop(kept);
    if guard::broken() {
        return Reply::Refused;
    }
    if counted == 0 {
        return Reply::NoMemory;
    }
    let (_, ledger) = held.both();
    ledger.gc_nanos = collected.unwrap_or(0);
    ledger.garbage = collected.map_or_else(|why| why as u64, |_| 0);
    ledger.collector_off = 0;
    ledger.walk_nanos = sys::now() - started;
    Reply::Done
}

/// Has the VM collect, if that is asked for and may be, and it has not just done so. Returns how long it took, or why there was no collection.
fn collect(argument: u64) -> Result<u64, Uncollected> {
    if argument & CENSUS_RAN != 0 {
        return Ok((argument >> CENSUS_TIME).max(1));
    }
    let why = match reader() {
        _ if argument & CENSUS_COLLECT == 0 => Uncollected::Unasked,
        _ if argument & CENSUS_BLOCKED != 0 => Uncollected::Blocked,
        None => Uncollected::Unknown,
        Some(python) => match (python.is_collector_on(), python.is_collecting()) {
            (Ok(Some(true)), Ok(false)) => Uncollected::Ran,
            (Ok(Some(false)), _) => Uncollected::Off,
            (Ok(Some(true)), Ok(true)) => Uncollected::UnderWay,
            _ => Uncollected::Unknown,
        },
    };
    if why != Uncollected::Ran {
        return Err(why);
    }
    let started = sys::now();
    // SAFETY: the VM's lock is held, at a safe point, and the command has written the function's address.
    unsafe {
        let collect: unsafe extern "C" fn() -> i64 = function(COLLECT);
        collect();
    }
    Ok((sys::now() - started).max(1))
}

extern "C" fn count(held: u64) -> u64 {
    // SAFETY: `take` passes the address of its own `Held`, which lives until this returns.
    let held = unsafe { &mut *ours::<Held>(held) };
    let (births, ledger) = held.both();
    tell_lost(ledger);
    u64::from(births.count(ledger).is_some())
}
