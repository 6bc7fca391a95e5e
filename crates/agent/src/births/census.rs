//! The living: a walk over the heap that asks each object for its number.
//!
//! Runs as a job of the VM, with its lock, after a full collection, so that what is found is what is
//! reachable. The VM itself lists the pages (`rb_objspace_each_objects`, which also finishes a sweep
//! that is under way) and gives each object's size.

use super::agent::{AGENT, Agent, NEWBORNS};
use super::books::site_at;
use super::names::Type;
use crate::guard;
use crate::memory::store::List;
use crate::memory::sys;
use crate::shared::{CONTROL_PAGE, LEDGER};
use core::sync::atomic::Ordering;
use wire::slots::{epoch_of, site_of, with_site};
use wire::{Counts, Ledger, Reply, State};

/// [`wire::ControlPage::argument`] bit: collect first.
const COLLECT: u64 = 1;

/// Counts per site and per kind; kept after the census for the command to read.
struct Tally {
    sites: List<Counts>,
    kinds: List<Counts>,
    /// The last class and its kind: neighbours in the heap are often alike.
    last: (u64, u32),
}

static mut TALLY: Tally = Tally {
    sites: List::new(),
    kinds: List::new(),
    last: (0, 0),
};

/// Gives the counts' memory back.
pub fn free(ledger: &mut Ledger) {
    // SAFETY: the VM's lock is held, as for all of the agent's books.
    let tally = unsafe { &mut *(&raw mut TALLY) };
    tally.sites.free();
    tally.kinds.free();
    tally.last = (0, 0);
    (ledger.site_counts, ledger.site_count) = (0, 0);
    (ledger.kind_counts, ledger.kind_count) = (0, 0);
}

/// Counts the living. The VM's lock is held, at a safe point.
pub fn take(argument: u64) -> Reply {
    // SAFETY: the VM's lock is held. The references are not used across the collection below, where
    // finalizers may run Ruby code and with it the hook.
    let (vm, walk) = unsafe { ((*(&raw const AGENT)).vm, &raw mut TALLY) };
    let mut pause = 0;
    let mut collected = false;
    if argument & COLLECT != 0 {
        let started = sys::now();
        // SAFETY: a job runs at a safe point with the VM's lock.
        unsafe {
            let before = vm.collections();
            vm.collect();
            collected = vm.collections() != before;
        }
        pause = sys::now() - started;
    }

    let started = sys::now();
    // SAFETY: the VM's lock is held, and from here to the end no Ruby code runs.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    free(ledger);
    (ledger.slots, ledger.unsized_objects, ledger.empty_bytes) = (0, 0, 0);
    agent.books.reuse_freed(ledger);
    agent.settle(ledger, NEWBORNS);
    agent.busy = true;
    // SAFETY: as above; `on_page` reaches the books through the statics, so no reference is kept.
    unsafe { vm.each_objects(on_page, 0) };
    // SAFETY: as above.
    let (agent, ledger, tally) =
        unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER), &mut *walk) };
    agent.busy = false;
    if guard::broken() {
        return Reply::Refused;
    }
    // SAFETY: `add_births` owns nothing and calls nobody.
    if unsafe { guard::guarded(add_births, 0) } != 0 {
        return Reply::NoMemory;
    }
    ledger.gc_nanos = if collected { pause } else { 0 };
    ledger.garbage = u64::from(!collected);
    ledger.walk_nanos = sys::now() - started;
    ledger.mapped = agent.books.mapped(ledger)
        + agent.slots.mapped()
        + tally.sites.mapped()
        + tally.kinds.mapped();
    Reply::Done
}

/// Completes the counts by the births; 0 if there was memory for them.
extern "C" fn add_births(_: u64) -> u64 {
    // SAFETY: the VM's lock is held, and `take` uses no reference while this runs.
    let (agent, ledger, tally) = unsafe {
        (
            &mut *(&raw mut AGENT),
            &mut *(&raw mut LEDGER),
            &mut *(&raw mut TALLY),
        )
    };
    let mut short = 0;
    for number in 1..ledger.sites.length as u32 {
        let born = site_at(&ledger.sites, number).born;
        match row(&mut tally.sites, number) {
            Some(counts) => counts.born = counts.born.wrapping_add(born),
            None => short = 1,
        }
    }
    agent
        .books
        .each_entry(|site, born| match row(&mut tally.sites, site) {
            Some(counts) => counts.born = counts.born.wrapping_add(born),
            None => short = 1,
        });
    (ledger.site_counts, ledger.site_count) = (tally.sites.address(), u64::from(tally.sites.len()));
    (ledger.kind_counts, ledger.kind_count) = (tally.kinds.address(), u64::from(tally.kinds.len()));
    short
}

/// The counts of row `number`, which is added if need be.
fn row(list: &mut List<Counts>, number: u32) -> Option<&mut Counts> {
    if number >= list.len() {
        // Fresh memory is zero, and a list that was given back starts anew.
        list.resize((number + 1).next_multiple_of(1024))?;
    }
    // SAFETY: within the length; the borrow of the list keeps others away.
    Some(unsafe { &mut *list.get(number) })
}

/// Called by the VM for each page.
unsafe extern "C" fn on_page(start: u64, end: u64, stride: u64, _: u64) -> i32 {
    let mut page = (start, end, stride);
    // SAFETY: `walk_page` owns nothing, and the only code it calls is the VM's size function. That calls
    // an extension's for objects of its types, and what is raised there is caught there.
    unsafe { guard::guarded(walk_page, (&raw mut page) as u64) };
    // Not 0 ends the walk.
    i32::from(guard::broken())
}

extern "C" fn walk_page(argument: u64) -> u64 {
    // SAFETY: `on_page` passes its own live triple.
    let (start, end, stride) = unsafe { *(argument as *const (u64, u64, u64)) };
    // SAFETY: the VM's lock is held, and `take` keeps no reference across the walk.
    let (agent, ledger, tally) = unsafe {
        (
            &mut *(&raw mut AGENT),
            &mut *(&raw mut LEDGER),
            &mut *(&raw mut TALLY),
        )
    };
    let mut object = start;
    while object < end && stride != 0 {
        if visit(agent, ledger, tally, object, stride).is_none() {
            ledger.lost_memory += 1;
        }
        object += stride;
    }
    0
}

#[inline]
fn visit(
    agent: &mut Agent,
    ledger: &mut Ledger,
    tally: &mut Tally,
    object: u64,
    stride: u64,
) -> Option<()> {
    // SAFETY: the VM said that there is a slot here; every slot has these two words.
    let (flags, class) = unsafe { (*(object as *const u64), *((object + 8) as *const u64)) };
    let of = Type::of(flags);
    if matches!(of, Type::None | Type::Moved) || object == agent.mover {
        ledger.empty_bytes += stride;
        return Some(());
    }
    if matches!(of, Type::Class | Type::Module) {
        agent.rename(ledger, object);
    }
    let key = agent.key_of(object, flags, class);
    let kind = if tally.last.0 == key {
        tally.last.1
    } else {
        agent.kind_of(ledger, key)?
    };
    tally.last = (key, kind);
    let bytes = match of {
        Type::Zombie | Type::Node | Type::Unknown => 0,
        // SAFETY: as below.
        Type::Data => match unsafe { agent.vm.memsize_guarded(object) } {
            Some(bytes) => bytes,
            None => {
                ledger.unsized_objects += 1;
                stride
            }
        },
        // SAFETY: the VM's own function on an object it listed; types it does not know are left out.
        _ => unsafe { agent.vm.memsize(object) },
    };
    ledger.slots += 1;
    let number = agent.slots.get(object);
    let mut site = site_of(number);
    let counts = if site == 0 {
        row(&mut tally.kinds, kind)?
    } else {
        if site_at(&ledger.sites, site).kind != kind {
            // Born hidden and shown since, or given another class.
            site = agent.books.rebook(ledger, site, kind)?;
            agent.slots.set(object, with_site(number, site))?;
        }
        row(&mut tally.sites, site)?
    };
    let interval = ledger.intervals.get(epoch_of(number) as usize);
    if let Some(alive) = interval.and_then(|at| counts.alive.get_mut(usize::from(*at))) {
        *alive = alive.saturating_add(1);
    }
    counts.live += 1;
    counts.bytes += bytes;
    Some(())
}

/// Runs when a program we started has ended, before its VM is torn down.
pub unsafe extern "C" fn at_end(_: u64) {
    if CONTROL_PAGE.state.load(Ordering::Relaxed) != State::Open as u32 {
        return;
    }
    // SAFETY: end procedures run with the VM's lock.
    let argument = unsafe { (*(&raw const AGENT)).config.end_argument };
    let reply = take(u64::from(argument));
    CONTROL_PAGE.ended.store(reply as u32, Ordering::Release);
}
