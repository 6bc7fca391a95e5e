//! What the command has written for the hooks of this session. Used by `children`, `notices`, `record` and others.

use crate::shared::CONTROL_PAGE;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::calls::blocks::{Blocks, GRAINS, WRAPPERS};
use wire::calls::share::Share;
use wire::calls::{AREAS, Area, Calls, Pool, RINGS};

/// What hooks read; the command writes it before it sets `ControlPage::calls`.
#[unsafe(no_mangle)]
pub static mut CALLS: Calls = Calls {
    rings: [const { AtomicU64::new(0) }; RINGS],
    made: AtomicU64::new(0),
    without_ring: AtomicU64::new(0),
    stack: [u64::MAX, 0],
    tells_pointer: 0,
    forking: AtomicU64::new(0),
    sweep: AtomicU64::new(0),
    pool: Pool {
        at: 0,
        slots: AtomicU64::new(0),
        slot: 0,
        open: AtomicU64::new(0),
        used: AtomicU64::new(0),
        asks: 0,
        name: wire::calls::POOL_NAME,
        share: Share::nothing(),
    },
    apart: AtomicU64::new(0),
    ring_size: 0,
    most_wait: 0,
    tid_offset: 0,
    state_offset: 0,
    language: 0,
    facts: [0; wire::calls::FACTS],
    room: 0,
    r_debug: 0,
    line_tests: [0; 2],
    line_policy: 0,
    passed_over: 0,
    wary: AtomicU64::new(0),
    copies: AtomicU64::new(0),
    copying: AtomicU64::new(0),
    uncopied: AtomicU64::new(0),
    pid: 0,
    follow: 0,
    patience: 0,
    child_patience: 0,
    owner: 0,
    late: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    panics: AtomicU64::new(0),
    blocks: Blocks {
        grain: 0,
        most: AtomicU64::new(u64::MAX),
        most_mapped: AtomicU64::new(u64::MAX),
        taken: AtomicU64::new(0),
        mapped: AtomicU64::new(0),
        book: AtomicU64::new(0),
        books: [const { AtomicU64::new(0) }; GRAINS],
        wrappers: [const { [const { AtomicU64::new(0) }; 2] }; WRAPPERS],
        depths: [const { AtomicU64::new(0) }; WRAPPERS],
        forgotten: AtomicU64::new(0),
    },
    silenced: AtomicU64::new(0),
    areas: [Area {
        at: 0,
        size: 0,
        used: 0,
        holds: 0,
    }; AREAS],
};

/// Returns what the command has written for the hooks.
#[inline]
pub fn calls() -> &'static Calls {
    // SAFETY: the command writes the plain fields of `CALLS` while the gate is 0 and every thread stands still; the
    // fields that change later are atomics.
    unsafe { &*(&raw const CALLS) }
}

/// Returns the number of the session; 0 = the gate is closed. It changes at any time.
#[inline]
pub fn number() -> u32 {
    CONTROL_PAGE.calls.load(Ordering::Relaxed)
}

/// Closes the gate because a hook has panicked, and counts the panic for the command.
#[cold]
pub fn close_after_panic() {
    CONTROL_PAGE.calls.store(0, Ordering::Relaxed);
    calls().panics.fetch_add(1, Ordering::Relaxed);
}
