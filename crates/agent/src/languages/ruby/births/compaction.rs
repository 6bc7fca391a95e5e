//! Follows objects that heap compaction moves. Used by `watch`.
//!
//! The VM calls a C type's `dcompact` for each object of that type while it updates references. The
//! agent keeps one such object alive. At that moment every object that was moved has left its new
//! address in its old slot (`T_MOVED`), in all versions from 2.7 to 4.0, and the slot numbers and
//! addresses in our books are updated.

use super::agent::AGENT;
use super::names::Type;
use crate::guard;
use crate::languages::ruby::vmcalls::DataType;
use crate::shared::{CONTROL_PAGE, LEDGER};
use core::sync::atomic::Ordering;
use wire::State;

/// The data pointer of our object; with null `dcompact` would not be called.
pub const MOVER_DATA: u64 = 1;

/// The type of our object.
pub static MOVER: DataType = DataType {
    name: c"lancet".as_ptr().cast(),
    functions: [0; 3],
    compact: on_move,
    reserved: 0,
    parent: 0,
    data: 0,
    flags: 0,
};

/// The VM calls this while it updates references: objects have been moved, and each has left its new
/// address in its old slot.
unsafe extern "C" fn on_move(_data: u64) {
    if CONTROL_PAGE.state.load(Ordering::Relaxed) != State::Open as u32 {
        return;
    }
    // SAFETY: `follow_moves` owns nothing that a panic would leak and calls no code of the VM.
    unsafe { guard::guarded(follow_moves, 0) };
}

extern "C" fn follow_moves(_: u64) -> u64 {
    // SAFETY: the collector calls `on_move` with the VM's lock held and all Ruby threads stopped, so
    // no other reference to `AGENT` or `LEDGER` is in use.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    let Some(reader) = agent.names.reader().copied() else {
        return 0;
    };
    let Ok(pages) = reader.pages() else {
        return 0;
    };
    for slot in pages
        .flatten()
        .flat_map(|page| reader.slots(page))
        .flatten()
    {
        if Type::of(slot.flags) == Type::Moved
            && let Ok(Some(to)) = reader.moved_to(slot.address)
        {
            if agent.slots.set(to, agent.slots.get(slot.address)).is_none() {
                ledger.lost_memory += 1;
            }
            if agent.books.knows(slot.address) {
                let _ = agent.books.class_moved(ledger, slot.address, to);
            }
            ledger.moved += 1;
        }
    }
    agent.books.flush(ledger);
    0
}
