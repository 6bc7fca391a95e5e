//! fork while other threads are inside of a pool: the child has their locks, but not the threads.
//!
//! So whoever forks holds the lock of every pool meanwhile, as malloc does with its own
//! (`pthread_atfork`). One that cannot be had for a long time is let go: fork was then called in a
//! signal handler that interrupted the pool itself, and waiting would be for ever.

use core::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError, Weak};
use std::thread;
use std::vec::Vec;

use super::{Shared, State};

/// Attempts to have a lock, each with a turn for other threads.
const ATTEMPTS: usize = 100_000;

/// All pools; some are gone already.
static POOLS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// What the thread that forks holds. The guards come first: they are dropped before their pools.
struct Held {
    _states: Vec<MutexGuard<'static, State>>,
    _pools: MutexGuard<'static, Vec<Weak<Shared>>>,
    _alive: Vec<Arc<Shared>>,
}

std::thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// A new pool.
pub fn enter(pool: &Arc<Shared>) {
    static HANDLERS: Once = Once::new();
    // SAFETY: the three functions live as long as the program (or the library: glibc takes the handlers
    // of a library out when it is closed).
    HANDLERS.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after), Some(after));
    });
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|pool| pool.strong_count() > 0);
    // A pool that cannot be noted for want of memory does without.
    if pools.try_reserve(1).is_ok() {
        pools.push(Arc::downgrade(pool));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
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
    let Some(pools) = lock(&POOLS) else { return };
    let alive: Vec<_> = pools.iter().filter_map(Weak::upgrade).collect();
    let states = alive
        .iter()
        .filter_map(|pool| {
            let guard = lock(&pool.state)?;
            // SAFETY: `alive` keeps the mutex at its address longer than `Held` keeps the guard.
            Some(unsafe {
                core::mem::transmute::<MutexGuard<'_, State>, MutexGuard<'static, State>>(guard)
            })
        })
        .collect();
    let held = Held {
        _states: states,
        _pools: pools,
        _alive: alive,
    };
    // Where thread-local data is gone already, the locks are let go.
    let _ = HELD.try_with(|place| place.replace(Some(held)));
}

/// In both processes.
unsafe extern "C" fn after() {
    let _ = HELD.try_with(RefCell::take);
}
