//! What `GC.compact` would give back, found out in a copy of the program, which is ended afterwards. Used by
//! `snapshot`.
//!
//! A collection runs code of the program's: finalizers, and what C types free. In the copy it must have no effect on anything else, so it is confined
//! before the VM is asked. Where the program has switched collections off, the copy switches them on again: 2.7 compacts nothing otherwise.

use crate::languages::ruby::births::agent::AGENT;
use crate::languages::ruby::births::names::Type;
use crate::shared::SNAPSHOT;
use crate::snapshot::{confined, pipe};
use core::sync::atomic::Ordering;
use wire::snapshot::Stage;

/// Has the VM compact its heap, and says in `stage` how that went. In the child, which has the VM's lock and no other thread.
pub fn run(write: u64) {
    if !confined::confine(write) {
        return confined::say(Stage::Refused);
    }
    // SAFETY: nobody else runs in this process.
    let vm = unsafe { (*(&raw const AGENT)).vm };
    if !count_pages(0) {
        return confined::say(Stage::Refused);
    }
    let mut state = 0;
    // SAFETY: the VM's lock is held, at a safe point; the text ends with a zero.
    unsafe { vm.run(c"GC.enable; GC.compact".as_ptr().cast(), &raw mut state) };
    if state != 0 || !count_pages(1) {
        return confined::say(Stage::Refused);
    }
    confined::say(Stage::Compacted);
    pipe::go_on();
}

/// Counts the pages of the heap, and those in which there is no object: the first time or the second.
fn count_pages(time: usize) -> bool {
    // SAFETY: nobody else runs in this process.
    let agent = unsafe { &*(&raw const AGENT) };
    let Some(ruby) = agent.names.reader() else {
        return false;
    };
    let Ok(pages) = ruby.pages() else {
        return false;
    };
    let (mut all, mut empty) = (0, 0);
    for page in pages.flatten() {
        all += 1;
        let has_object = ruby.slots(page).flatten().any(|slot| {
            // What compaction has left at the old place of an object is none.
            let of = Type::of(slot.flags);
            !matches!(
                of,
                Type::None | Type::Moved | Type::Zombie | Type::Node | Type::Unknown
            )
        });
        empty += u64::from(!has_object);
    }
    let [pages, without] = &SNAPSHOT.pages[time];
    pages.store(all, Ordering::Relaxed);
    without.store(empty, Ordering::Relaxed);
    true
}
