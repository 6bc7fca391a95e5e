//! A few stacks of the process's own pool that a thread keeps for itself.
//!
//! A lock that nobody else wants takes four atomic instructions for a stack that is taken and given back, three quarters of
//! what it costs to make a coroutine. So a stack that comes back stays with the thread, up to [`KEPT`] of them, if it has
//! the pool's own size. Nothing but this thread reads the list.
//!
//! What is counted stays true: the pool counts a stack that is kept as in use, and each thread has [`Counts`] of its own, in
//! a list of the pool, by which [`stats`](super::Pool::stats) corrects that. They are atomic, but only written by their thread, so that no
//! write needs a lock. They are in memory of their own, because a thread's storage ends with it, in the child of a fork
//! too, where the other threads do not come to say so.
//!
//! Each function that uses the list is a call (`inline(never)`), for the reason that [`crate::blocks`] gives.

use core::cell::Cell;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::boxed::Box;

use super::stats::Stats;
use crate::blocks::allocate;

/// The most stacks that a thread keeps.
pub const KEPT: usize = 8;

/// What a thread has done without the pool's lock.
#[derive(Debug, Default)]
pub struct Counts {
    /// Stacks that it keeps now.
    kept: AtomicUsize,
    /// Stacks that it has given out, ever; all of them were used before.
    given: AtomicU64,
}

impl Counts {
    /// Corrects the pool's counts, for which a stack that a thread keeps is in use.
    pub fn add_to(&self, stats: &mut Stats) {
        let kept = self.kept.load(Ordering::Relaxed);
        let given = self.given.load(Ordering::Relaxed);
        stats.live = stats.live.saturating_sub(kept);
        stats.free += kept;
        stats.given += given;
        stats.reused += given;
    }
}

/// The pool that the stacks are of, as this module needs it.
pub struct Home {
    /// Enters the counts of a thread into the pool's list; false if there is no memory for that.
    pub enter: fn(NonNull<Counts>) -> bool,
    /// Takes them out of the list, and adds them to the pool's own.
    pub leave: fn(NonNull<Counts>),
    /// Takes a stack back.
    pub put: fn(Range<usize>),
}

/// The list of a thread. It has no destructor, so that the two functions that matter need not ask whether it has run.
struct Near {
    /// `None` until the thread has had a stack from the pool, and when [`Ending`] was dropped.
    counts: Cell<Option<NonNull<Counts>>>,
    home: Cell<Option<&'static Home>>,
    /// Bytes of each stack.
    size: Cell<usize>,
    kept: Cell<usize>,
    /// Lowest addresses.
    limits: [Cell<usize>; KEPT],
}

std::thread_local! {
    static NEAR: Near = const {
        Near {
            counts: Cell::new(None),
            home: Cell::new(None),
            size: Cell::new(0),
            kept: Cell::new(0),
            limits: [const { Cell::new(0) }; KEPT],
        }
    };
    static ENDING: Ending = const { Ending };
}

/// Empties the list when its thread ends.
struct Ending;

impl Near {
    /// Takes note of a new number of stacks, for the pool's counts.
    #[inline]
    fn keep(&self, counts: NonNull<Counts>, kept: usize) {
        self.kept.set(kept);
        // SAFETY: the counts are freed by this thread, which then forgets them.
        unsafe { counts.as_ref() }
            .kept
            .store(kept, Ordering::Relaxed);
    }

    /// Gives all stacks back to the pool.
    fn give_back(&self) {
        let (Some(counts), Some(home)) = (self.counts.get(), self.home.get()) else {
            return;
        };
        while let Some(last) = self.kept.get().checked_sub(1) {
            let limit = self.limits[last].get();
            self.keep(counts, last);
            (home.put)(limit..limit + self.size.get());
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        NEAR.with(|near| {
            near.give_back();
            if let (Some(counts), Some(home)) = (near.counts.take(), near.home.get()) {
                (home.leave)(counts);
                // SAFETY: `begin` has made them, nobody but this thread frees them, and the pool's list does not have them
                // any more.
                drop(unsafe { Box::from_raw(counts.as_ptr()) });
            }
        });
    }
}

/// Returns a stack of the process's own pool that this thread has kept.
#[inline(always)]
pub fn take() -> Option<Range<usize>> {
    let (limit, size) = take_near();
    (limit != 0).then(|| limit..limit + size)
}

/// Returns the lowest address and the size of such a stack, or zeros. Two words, which are returned in registers.
#[inline(never)]
fn take_near() -> (usize, usize) {
    let taken = NEAR.with(|near| {
        let counts = near.counts.get()?;
        let kept = near.kept.get().checked_sub(1)?;
        let limit = near.limits.get(kept)?.get();
        near.keep(counts, kept);
        // SAFETY: as in `keep`.
        let given = &unsafe { counts.as_ref() }.given;
        given.store(given.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some((limit, near.size.get()))
    });
    taken.unwrap_or((0, 0))
}

/// Keeps a stack of the process's own pool for this thread; false if it is to go back to the pool.
#[inline(always)]
pub fn put(range: &Range<usize>) -> bool {
    put_near(range.start, range.len())
}

/// As [`put`], for a stack of `size` bytes from `limit` up.
#[inline(never)]
fn put_near(limit: usize, size: usize) -> bool {
    NEAR.with(|near| {
        let kept = near.kept.get();
        let (Some(counts), true) = (near.counts.get(), kept < KEPT) else {
            return false;
        };
        if size != near.size.get() {
            return false;
        }
        near.limits[kept].set(limit);
        near.keep(counts, kept + 1);
        true
    })
}

/// Makes this thread keep stacks of `size` bytes from now on, if it can. A thread that never comes here keeps none: giving
/// back must not need memory.
#[cold]
#[inline(never)]
pub fn begin(home: &'static Home, size: usize) {
    NEAR.with(|near| {
        // A thread whose end has emptied the list does not begin again.
        if near.counts.get().is_some() || ENDING.try_with(|_| ()).is_err() {
            return;
        }
        let Ok(counts) = allocate::<Counts>() else {
            return;
        };
        // SAFETY: the block is new, and a Counts fits.
        let counts = unsafe {
            counts.write(Counts::default());
            NonNull::new_unchecked(counts)
        };
        if !(home.enter)(counts) {
            // SAFETY: made above, and nobody else has it.
            drop(unsafe { Box::from_raw(counts.as_ptr()) });
            return;
        }
        near.size.set(size);
        near.home.set(Some(home));
        near.counts.set(Some(counts));
    });
}

/// Gives what this thread keeps back to the pool.
#[inline(never)]
pub fn give_back() {
    NEAR.with(Near::give_back);
}
