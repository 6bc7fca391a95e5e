//! The census: a walk over the heap that counts the living objects by site. Used by `presence`, `watch` and `jobs`.
//!
//! It runs as a job of the VM, with its lock, after a full collection, so that only reachable objects
//! are found. The VM itself lists the pages (`rb_objspace_each_objects`, which also finishes a sweep
//! that is under way) and computes each object's size.

use super::agent::{AGENT, Agent, NEWBORNS};
use super::large;
use super::names::Type;
use crate::births::books::site_at;
use crate::births::tally::{Tally, add_living, row};
use crate::guard;
use crate::memory::bound::Kept;
use crate::memory::follow::{kept, ours};
use crate::memory::sys;
use crate::shared::{CONTROL_PAGE, LEDGER};
use core::sync::atomic::Ordering;
use wire::ledger::{LARGE_BYTES, Large};
use wire::slots::{epoch_of, site_of, with_site};
use wire::{Ledger, Reply, State};

/// [`wire::ControlPage::argument`] bit: collect first.
const COLLECT: u64 = 1;

static mut TALLY: Tally = Tally::new();

/// Unmaps the counts.
pub fn free(ledger: &mut Ledger) {
    // SAFETY: callers hold the VM's lock, under which alone `TALLY` is used, and keep no reference to
    // it.
    let tally = unsafe { &mut *(&raw mut TALLY) };
    tally.free(ledger);
}

/// Counts the living objects. The VM's lock is held, at a safe point.
pub fn take(argument: u64) -> Reply {
    // SAFETY: the VM's lock is held, under which alone `AGENT` and `TALLY` are used. `vm` is copied and
    // `walk` a raw pointer, so no reference lives across the collection below, where finalizers may run
    // Ruby code and with it the hook.
    let (vm, walk) = unsafe { ((*(&raw const AGENT)).vm, &raw mut TALLY) };
    // SAFETY: this runs as a job, at a safe point and with the VM's lock, as the function requires.
    let off = unsafe { vm.is_collector_off() };
    let mut pause = 0;
    let mut collected = false;
    // What the program has switched off is not run for us: since Ruby 3.4 `rb_gc` would collect all the same.
    if argument & COLLECT != 0 && !off {
        let started = sys::now();
        // SAFETY: this runs as a job, at a safe point and with the VM's lock, as these functions
        // require.
        unsafe {
            let before = vm.collections();
            vm.collect();
            collected = vm.collections() != before;
        }
        pause = sys::now() - started;
    }

    let started = sys::now();
    // SAFETY: the VM's lock is held, and no Ruby code runs from here to the end, so no other reference
    // to `AGENT` or `LEDGER` is made but by `on_page`.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    let _kept = Kept::open();
    free(ledger);
    (ledger.slots, ledger.unsized_objects, ledger.empty_bytes) = (0, 0, 0);
    ledger.large_count = 0;
    agent.books.reuse_freed(ledger);
    agent.books.forget_threads(ledger);
    agent.settle(ledger, NEWBORNS);
    agent.busy = true;
    // SAFETY: the VM's lock is held, as `each_objects` requires. `on_page` makes references to the
    // statics, so those from above are not used any more.
    unsafe { vm.each_objects(on_page, 0) };
    // SAFETY: the VM's lock is held, and the references of `on_page` ended with the walk.
    let (agent, ledger, tally) =
        unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER), &mut *walk) };
    agent.busy = false;
    if guard::broken() {
        return Reply::Refused;
    }
    // SAFETY: `add_births` owns nothing that a panic would leak and calls no code of the VM.
    if unsafe { guard::guarded(add_births, 0) } != 0 {
        return Reply::NoMemory;
    }
    ledger.gc_nanos = if collected { pause } else { 0 };
    ledger.garbage = u64::from(!collected);
    ledger.collector_off = u64::from(off);
    ledger.walk_nanos = sys::now() - started;
    ledger.mapped = agent.books.mapped(ledger) + agent.slots.mapped() + tally.mapped();
    Reply::Done
}

/// Adds the births to the counts. Returns 0 if there was memory for them.
extern "C" fn add_births(_: u64) -> u64 {
    // SAFETY: the VM's lock is held, and `take` uses none of its references while this runs.
    let (agent, ledger, tally) = unsafe {
        (
            &mut *(&raw mut AGENT),
            &mut *(&raw mut LEDGER),
            &mut *(&raw mut TALLY),
        )
    };
    u64::from(tally.add_births(&agent.books, ledger).is_none())
}

/// Called by the VM for each page.
unsafe extern "C" fn on_page(start: u64, end: u64, stride: u64, _: u64) -> i32 {
    let mut page = (start, end, stride);
    // SAFETY: `walk_page` owns nothing that a panic would leak. The only code it calls is the VM's size
    // function, which calls an extension's for objects of its types; an exception there is caught by
    // `memsize_guarded`.
    unsafe { guard::guarded(walk_page, (&raw mut page) as u64) };
    // A value other than 0 ends the walk.
    i32::from(guard::broken())
}

extern "C" fn walk_page(argument: u64) -> u64 {
    // SAFETY: `on_page` passes the address of its own tuple, which lives until this returns.
    let (start, end, stride) = unsafe { *ours::<(u64, u64, u64)>(argument) };
    // SAFETY: the VM's lock is held, and `take` uses none of its references during the walk.
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

/// Returns how much of what the VM says of an object is the VM stack of a thread: it is room, and hardly any of it is memory.
fn room_of_stack(agent: &Agent, object: u64, bytes: u64) -> Option<u64> {
    let reader = agent.names.reader().filter(|_| bytes >= LARGE_BYTES);
    let room = reader.and_then(|vm| vm.stack_of_thread(object));
    room.filter(|room| *room < bytes)
}

#[inline]
fn visit(
    agent: &mut Agent,
    ledger: &mut Ledger,
    tally: &mut Tally,
    object: u64,
    stride: u64,
) -> Option<()> {
    // SAFETY: the VM has named this slot, and every slot begins with these two words.
    let (flags, class) = unsafe { (*kept::<u64>(object), *kept::<u64>(object + 8)) };
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
        // SAFETY: the VM's lock is held, and the object is one that the VM has named and whose type the
        // size function knows.
        Type::Data => match unsafe { agent.vm.memsize_guarded(object) } {
            Some(bytes) => match room_of_stack(agent, object, bytes) {
                Some(room) => {
                    agent.books.note_threads(ledger, kind);
                    bytes.saturating_sub(room)
                }
                None => bytes,
            },
            None => {
                ledger.unsized_objects += 1;
                stride
            }
        },
        // SAFETY: the VM's lock is held, and the object is one that the VM has named. Types that the
        // size function does not know, or for which it calls an extension, are handled above.
        _ => unsafe { agent.vm.memsize(object) },
    };
    ledger.slots += 1;
    let number = agent.slots.get(object);
    let mut site = site_of(number);
    if site != 0 && site_at(&ledger.sites, site).kind != kind {
        // The object was born hidden and has been shown since, or was given another class.
        site = agent.books.rebook(ledger, site, kind)?;
        agent.slots.set(object, with_site(number, site))?;
    }
    if bytes >= LARGE_BYTES {
        let this = Large {
            object,
            number: if site == 0 {
                0
            } else {
                with_site(number, site)
            },
            kind,
            used: 0,
        };
        large::note(ledger, &agent.names, of, bytes, this);
    }
    let counts = if site == 0 {
        row(&mut tally.kinds, kind)?
    } else {
        row(&mut tally.sites, site)?
    };
    add_living(counts, ledger, epoch_of(number), bytes);
    Some(())
}

/// The VM calls this when a program that we started has ended, before the VM is torn down.
pub unsafe extern "C" fn at_end(_: u64) {
    if CONTROL_PAGE.state.load(Ordering::Relaxed) != State::Open as u32 {
        return;
    }
    // SAFETY: the VM runs end procedures with its lock held, under which alone `AGENT` is used.
    let argument = unsafe { (*(&raw const AGENT)).config.end_argument };
    let reply = take(u64::from(argument));
    CONTROL_PAGE.ended.store(reply as u32, Ordering::Release);
}
