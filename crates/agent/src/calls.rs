//! What a hooked function does on its way in and out. It runs on the guest's own stack where that has the room and else
//! on a work stack (`routine::room`), in any thread, at any point of the program where a C function may be called, also
//! inside the allocator and in signal handlers. So nothing here calls the guest, takes a lock, allocates except by
//! `mmap`, or follows a pointer that neither the VM nor the ABI guarantees.
//!
//! # The way of a call
//!
//! Each step is one file and calls only those below it.
//!
//! ```text
//!   routine ─► call::enter                    routine ─► call::leave         probe ─► probes       system_calls
//!               │                                         │                            │             │      │
//!               ├─ own        hooked for ourselves?       ├─ notices                   │             │      │
//!               ├─ scripted   which function of the VM    │                            │             │      │
//!               ├─ selection  wanted? its ring, lines     ├─ ticket  read back         ├─ selection ─┤      │
//!               ├─ ticket     noted for `leave`           └─ finish ─────────────────── │ ───────────│──────┤
//!               ├─ counts     (entry only) or             ·   selection  still wanted?  ▼             ▼      ▼
//!               └─ events     an ENTRY record             ·   counts, or events         events      events finish
//!                                                             a RETURN record
//!   events, counts ─► captures ─► scalars ─► languages              what is copied of arguments and results
//!                 └─► record ─► ring's memory, read by the command
//! ```
//!
//! A call is passed along as one [`Hooked`](hooked::Hooked), made by `enter`, `leave` or a probe.
//!
//! | file | what |
//! |---|---|
//! | `call`, `probes`, `system_calls` | what the routine calls: functions, points in mid-function, system calls |
//! | `quick` | the short way of a function's call that needs no vector registers |
//! | `blocks` | of the allocators' functions: the blocks that they take and give back, in the place of all that |
//! | `own_hooks`, `notices`, `locks`, `loader`, `children`, `wait`, `pulse` | our own hooks, and waits for the command |
//! | `hooked`, `ticket` | a call; what its return must know |
//! | `selection`, `scripted`, `places` | whether a call is wanted; which function of the VM, which line of the script |
//! | `events`, `x87`, `captures`, `counts`, `finish` | the event's record, or the figures in its place |
//! | `scalars`, `languages` | words of the VM as text |
//! | `session`, `thread`, `ring`, `record`, `tables`, `pool` | what the command wrote; a thread's ring and its memory |
//! | `room` | the bounds of a thread's own stack, for the routine |
//!
//! A panic anywhere in here ends the session, not the guest: see `guard`.

mod blocks;
mod call;
mod captures;
mod children;
mod counts;
mod events;
mod finish;
mod hooked;
#[cfg(all(test, not(miri)))]
mod interleaved;
mod languages;
mod loader;
mod locks;
mod notices;
mod own_hooks;
mod places;
mod pool;
mod probes;
mod pulse;
mod quick;
mod record;
pub mod ring;
mod room;
mod scalars;
mod scripted;
mod selection;
pub mod session;
pub mod share;
mod system_calls;
mod tables;
pub mod thread;
mod ticket;
mod wait;
mod x87;

use crate::shared::CONTROL_PAGE;
use wire::calls::Hook;

routine::routines! {
    enter = call::enter,
    leave = call::leave,
    quick_enter = quick::quick_enter,
    quick_leave = quick::quick_leave,
    probe = probes::probe,
    quick_probe = system_calls::quick_probe,
    gate = CONTROL_PAGE,
    offset = core::mem::offset_of!(wire::ControlPage, calls),
    rooms = session::CALLS,
    blocks = blocks::LAYOUT,
}

const _: () = {
    use core::mem::offset_of;
    use routine::frame::Descriptor;
    use routine::{Room, Rooms};
    use wire::calls::{Calls, Ring};
    assert!(offset_of!(Hook, original) == offset_of!(Descriptor, original));
    assert!(offset_of!(Hook, flags) == offset_of!(Descriptor, flags));
    assert!(offset_of!(Hook, copied) == offset_of!(Descriptor, copied));
    assert!(offset_of!(Hook, number) == offset_of!(Descriptor, payload));
    assert!(offset_of!(Hook, place) == offset_of!(Descriptor, site));
    assert!(offset_of!(Hook, guard) == offset_of!(Descriptor, guard));
    assert!(offset_of!(Calls, rings) == offset_of!(Rooms, threads));
    assert!(wire::calls::RINGS == routine::room::THREADS);
    assert!(wire::calls::MOVED == routine::room::MOVED);
    assert!(offset_of!(Calls, without_ring) == offset_of!(Rooms, unseen));
    assert!(offset_of!(Calls, stack) == offset_of!(Rooms, stack));
    assert!(offset_of!(Calls, tells_pointer) == offset_of!(Rooms, tells_pointer));
    assert!(offset_of!(Ring, thread) == offset_of!(Room, thread));
    assert!(offset_of!(Ring, low) == offset_of!(Room, low));
    assert!(offset_of!(Ring, span) == offset_of!(Room, span));
};

/// Begins a new session, for which everything that hooks read is in place. A thread of the guest calls this in a remote
/// call, while all others stand still. Or forgets a part of what was counted of blocks, while they run.
#[unsafe(no_mangle)]
extern "C" fn open_calls(what: u64) -> u64 {
    if what == wire::calls::FORGET_BLOCKS {
        blocks::forget();
        return 0;
    }
    places::open(session::calls());
    0
}
