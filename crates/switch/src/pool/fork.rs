//! fork while other threads are inside of a pool: the child has their locks, but not the threads.
//!
//! The thread that forks therefore holds the lock of every pool meanwhile, as malloc does with its own
//! (`pthread_atfork`). It waits for them as long as it takes: a thread inside of a pool waits for nothing but memory
//! and the kernel, yet on a loaded machine it can be off its processor for seconds.
//!
//! One thread must not wait so: one that forks in a signal handler that interrupted this module, because the lock may
//! be its own. Every thread notes that it is inside. Such a thread tries for a while, and goes on without the locks
//! that it cannot have.
//!
//! The handlers allocate nothing, because that signal handler may have interrupted malloc as well.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::vec::Vec;

use super::{Shared, State};

/// How often a thread tries for a lock that may be its own, each time with a turn for other threads; with many of them
/// that is a time slice each.
const ATTEMPTS: usize = 1000;

/// All pools of the process.
static POOLS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

struct Entry {
    /// Valid while the entry is in the table: see [`leave`].
    pool: NonNull<Shared>,
    /// The pool's lock, from [`before`] to [`after`].
    held: Option<MutexGuard<'static, State>>,
}

// SAFETY: `Shared` may be used from any thread. A guard must be dropped by the thread that locked:
// `held` is filled and emptied during one hold of POOLS, whose own guard is bound to the thread.
unsafe impl Send for Entry {}

std::thread_local! {
    /// How many locks of this module the thread holds, or is about to, or has just let go.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    /// Forks of this thread between [`before`] and [`after`]: two if a handler interrupted the first.
    static FORKS: Cell<usize> = const { Cell::new(0) };
    /// The table, held from `before` to `after`. Without a destructor, as registering one allocates.
    static HELD: Cell<Option<ManuallyDrop<MutexGuard<'static, Vec<Entry>>>>> = const { Cell::new(None) };
}

/// A lock held by a thread that is noted to be inside.
pub struct Inside<'a, T> {
    // First, so that it is let go before the note is taken back.
    guard: MutexGuard<'a, T>,
    _note: Note,
}

struct Note;

/// Changes the number of locks that this thread holds. A call, for the reason that [`crate::blocks`] gives.
#[inline(never)]
fn step(by: isize) {
    INSIDE.set(INSIDE.get().wrapping_add_signed(by));
}

impl Note {
    fn new() -> Note {
        step(1);
        // Only a signal handler of this thread reads it.
        compiler_fence(Ordering::SeqCst);
        Note
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        step(-1);
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Locks, so that a fork of another thread waits. A panic while the lock was held leaves the counts as
/// they were at that moment: usable.
pub fn lock<T>(mutex: &Mutex<T>) -> Inside<'_, T> {
    let note = Note::new();
    Inside {
        guard: mutex.lock().unwrap_or_else(PoisonError::into_inner),
        _note: note,
    }
}

/// Notes a new pool.
pub fn enter(pool: &Shared) {
    // Not a `Once`: the child of a fork in the middle of that would wait for ever. Handlers that two
    // threads registered do no harm, they are counted.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // SAFETY: the three functions live as long as the program (or the library: glibc takes the
        // handlers of a library out when it is closed).
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
        REGISTERED.store(true, Ordering::Release);
    }
    let mut pools = lock(&POOLS);
    // A pool that cannot be noted for want of memory does without.
    if pools.try_reserve(1).is_ok() {
        pools.push(Entry {
            pool: NonNull::from(pool),
            held: None,
        });
    }
}

/// Removes a pool. This waits for a fork that holds its lock.
pub fn leave(pool: &Shared) {
    let this = NonNull::from(pool);
    let mut pools = lock(&POOLS);
    if let Some(index) = pools.iter().position(|entry| entry.pool == this) {
        pools.swap_remove(index);
    }
}

/// Returns the lock; `None` if this thread is `inside` and could not get it.
fn lock_to_fork<T>(mutex: &Mutex<T>, inside: bool) -> Option<MutexGuard<'_, T>> {
    if !inside {
        return Some(mutex.lock().unwrap_or_else(PoisonError::into_inner));
    }
    for _ in 0..ATTEMPTS {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    None
}

unsafe extern "C" fn before() {
    let inside = INSIDE.get() != 0;
    let forks = FORKS.get();
    FORKS.set(forks + 1);
    compiler_fence(Ordering::SeqCst);
    if forks != 0 {
        return;
    }
    let Some(mut pools) = lock_to_fork(&POOLS, inside) else {
        return;
    };
    for entry in pools.iter_mut() {
        // SAFETY: pools leave the table, under its lock, before they go; and this thread keeps that lock
        // until `after` has emptied `held`. So the pool outlives the guard.
        let pool: &'static Shared = unsafe { entry.pool.as_ref() };
        entry.held = lock_to_fork(&pool.state, inside);
    }
    HELD.set(Some(ManuallyDrop::new(pools)));
}

/// Runs after the fork in both processes.
unsafe extern "C" fn after() {
    if FORKS.get() == 1
        && let Some(pools) = HELD.take()
    {
        let mut pools = ManuallyDrop::into_inner(pools);
        for entry in pools.iter_mut() {
            entry.held = None;
        }
    }
    compiler_fence(Ordering::SeqCst);
    FORKS.set(FORKS.get() - 1);
}
