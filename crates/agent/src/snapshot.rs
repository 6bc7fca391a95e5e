//! A snapshot of the heap, without the guest standing still while it is written. Used by `jobs`,
//! `languages::ruby::jobs` and `languages::python::jobs`.
//!
//! ```text
//!   guest, with the VM's lock                     child: a copy of the guest at that moment
//!   take() ── clone ─────────────────────────────► one thread, with the VM's lock, copy-on-write
//!     │ ◄── shared word ─────────────────────────  asks to be the one that a memory limit ends
//!     │ its id, for the command                    closes every descriptor, makes a pipe, waits for its reader
//!     ▼                                            roots, objects, references ──► pipe ──► the command
//!   the program goes on                            waits: the command reads names in its memory
//!                                                  is killed by the command, or ends when that is gone
//!   reap() ── wait4(__WCLONE) ◄────────────────────
//! ```
//!
//! The copy is made by a bare `clone` whose exit signal is 0: the guest gets no SIGCHLD, and its `wait(-1)` does not see the child.
//! glibc's `fork` is not used: its handlers run code of the program's. So locks that other threads held (malloc's, a
//! library's) stay taken for ever in the child, which calls nothing that takes one: it walks the pages by `vm`'s reader and not by
//! `rb_objspace_each_objects` (which allocates, and frees garbage), and keeps its own buffer. What a C type's mark function or size function may take
//! nobody knows; an alarm ends the child that waits for such a lock.
//!
//! | file | what |
//! |---|---|
//! | `child` | how the child lives and ends |
//! | `allocator` | in the place of that: what another allocator than glibc's has in use and free |
//! | `confined` | how code of the program's that the child runs is kept from having an effect |
//! | `seen` | which objects were told, where the VM has no list of all |
//! | `heap` | what a language says of its VM's heap |
//! | `stream`, `pipe` | the bytes it writes ([`wire::snapshot`]), and how |
//!
//! What it tells of a heap, and how the VM compacts one, is each language's ([`heap::Heap`]).

mod allocator;
mod child;
pub mod confined;
pub mod heap;
pub mod pipe;
pub mod seen;
pub mod stream;

use crate::memory::follow::ours;
use crate::memory::sys;
use crate::shared::SNAPSHOT;
use core::sync::atomic::{AtomicU32, Ordering};
use heap::Heap;
use wire::Reply;
use wire::snapshot::Collector;

/// Makes the child, which tells this heap. The VM's lock is held, at a safe point. `None` = the copy only lives, and the command reads its
/// memory; all threads stand still.
pub fn take(heap: Option<&'static Heap>) -> Reply {
    if heap.is_some_and(|heap| !(heap.is_known)()) || !end_last() {
        return Reply::Refused;
    }
    let Some(page) = sys::child::map_shared() else {
        return Reply::NoMemory;
    };
    // SAFETY: a fresh page of zeros, which is unmapped below, after the last use.
    let prepared = unsafe { &*ours::<AtomicU32>(page) };
    let started = sys::now();
    let collector = heap.map_or(Collector::Unknown, |heap| (heap.collector)());
    SNAPSHOT
        .collector
        .store(collector as u64, Ordering::Relaxed);
    // Of the program's handlers none may run in the child.
    let blocked = sys::SignalsBlocked::all();
    // SAFETY: the child takes no lock: see the module's text.
    let made = unsafe { sys::child::copy() };
    let (child, errno) = match made {
        Ok(0) => child::live(prepared, heap),
        Ok(child) => {
            // Until then a memory limit would end the program as likely as its copy, and what the program closes would stay open in that.
            sys::child::await_word(prepared, SNAPSHOT.prepare.load(Ordering::Relaxed));
            let said = prepared.load(Ordering::Acquire);
            SNAPSHOT.prepared.store(said.into(), Ordering::Relaxed);
            (child, 0)
        }
        Err(errno) => (0, errno),
    };
    drop(blocked);
    SNAPSHOT
        .pause
        .store(sys::now() - started, Ordering::Relaxed);
    // SAFETY: mapped above, and used by nobody in this process any more.
    unsafe { sys::unmap(page, 4096) };
    SNAPSHOT.errno.store(errno, Ordering::Relaxed);
    SNAPSHOT.status.store(u64::MAX, Ordering::Relaxed);
    SNAPSHOT.child.store(child, Ordering::Relaxed);
    if errno == 0 {
        Reply::Done
    } else {
        Reply::Refused
    }
}

/// Waits for the children that have ended, also for those of commands that died.
pub fn reap() {
    let older = SNAPSHOT.older.iter();
    for place in core::iter::once(&SNAPSHOT.child).chain(older) {
        let child = place.load(Ordering::Relaxed);
        if child == 0 {
            continue;
        }
        match sys::child::ended(child) {
            Ok(None) => continue,
            Ok(Some(status)) => SNAPSHOT.status.store(status.into(), Ordering::Relaxed),
            // Not ours: we are a copy of the guest that made it.
            Err(()) => {}
        }
        place.store(0, Ordering::Relaxed);
    }
}

/// Ends the child of a command that died, if it has not noticed yet; whether there is room for another one. Nobody else can have
/// its id, as nobody has waited for it.
fn end_last() -> bool {
    reap();
    let child = SNAPSHOT.child.load(Ordering::Relaxed);
    if child == 0 {
        return true;
    }
    let older = SNAPSHOT.older.iter();
    let Some(free) = { older }.find(|place| place.load(Ordering::Relaxed) == 0) else {
        return false;
    };
    sys::child::kill(child);
    free.store(child, Ordering::Relaxed);
    SNAPSHOT.child.store(0, Ordering::Relaxed);
    true
}
