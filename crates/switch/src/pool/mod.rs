//! Pools of stacks: slabs of mappings, with a guard below each stack.
//!
//! ```text
//!   one slab, one mapping (MAP_STACK, no huge pages)
//!   ┌───────┬───────────────┬───────┬───────────────┬───────┬───────────────┐
//!   │ guard │ stack 0       │ guard │ stack 1       │ guard │ stack 2       │
//!   └───────┴───────────────┴───────┴───────────────┴───────┴───────────────┘
//!           limit       top                               higher addresses ►
//! ```
//!
//! A guard made with `MADV_GUARD_INSTALL` (Linux 6.13) lives in the page tables and needs no mapping
//! of its own; with `mprotect`, the only way before, each costs two, and the default
//! `vm.max_map_count` ends the game at about 32,000 stacks. A guard is made when its slot is used for the
//! first time; the light ones for the next 32 slots at once, because the system call is a good part of
//! the price.
//!
//! A free stack is given out again last in, first out: its top is likely still in the cache. Of those that wait longest the
//! memory goes back to the kernel ([`Reuse::Warm`]). Each thread keeps a few stacks of the process's own pool for itself
//! (module `near`).

mod class;
mod fork;
mod near;
mod once;
mod registry;
mod settings;
mod stats;
mod sys;

use core::ops::Range;
use core::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use class::Class;
pub(crate) use once::Once;
pub use registry::{Slot, find, is_near_above};
pub use settings::{Config, DEFAULT_GUARD_SIZE, DEFAULT_STACK_SIZE, MIN_STACK_SIZE};
pub use stats::Stats;
pub use sys::{Guard, PAGE, Reuse, high_water_mark};

use crate::error::Error;
use crate::stack::Stack;

/// A pool of stacks. Clones are handles to the same pool; its slabs are unmapped with the last
/// handle and the last stack.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    classes: Vec<Class>,
    stats: Stats,
    /// What threads have kept for themselves, of the process's own pool.
    near: Vec<NonNull<near::Counts>>,
}

// SAFETY: the counts of a thread are atomic, and valid while they are in the list: see `near`.
unsafe impl Send for State {}

/// A stack of a [`Pool`]; it goes back when dropped.
#[derive(Debug)]
pub struct PoolStack {
    /// `None` for the process's own pool, which is never dropped: its stacks need not count.
    pool: Option<Pool>,
    range: Range<usize>,
}

/// The process's own pool.
static GLOBAL: Once<Pool> = Once::new();

/// The same for what threads keep of it.
static HOME: near::Home = near::Home {
    enter: |counts| {
        let mut state = Pool::global().lock();
        let room = state.near.try_reserve(1).is_ok();
        if room {
            state.near.push(counts);
        }
        room
    },
    leave: |counts| {
        let mut state = Pool::global().lock();
        // SAFETY: counts are freed after they have left the list, here.
        unsafe { counts.as_ref() }.add_to(&mut state.stats);
        state.near.retain(|other| *other != counts);
    },
    put: |range| Pool::global().put(range),
};

// SAFETY: the range lies in a slab that is mapped as long as a stack of it is out (`pool` counts),
// and `Class` gives out each slot to one owner at a time.
unsafe impl Stack for PoolStack {
    #[inline]
    fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    fn abandon(self) {
        self.pool().lock().stats.abandoned += 1;
        core::mem::forget(self);
    }
}

impl PoolStack {
    fn pool(&self) -> &Pool {
        match &self.pool {
            Some(pool) => pool,
            None => Pool::global(),
        }
    }
}

impl Drop for PoolStack {
    #[inline]
    fn drop(&mut self) {
        if self.pool.is_some() || !near::put(&self.range) {
            self.pool().put(self.range.clone());
        }
    }
}

impl Pool {
    /// Makes a pool with its own settings.
    pub fn new(config: Config) -> Result<Pool, Error> {
        Ok(Pool::of(config.checked()?))
    }

    /// Returns the pool of this process, with the defaults and what the environment says: see [`Config::from_env`].
    pub fn global() -> &'static Pool {
        GLOBAL.get_or_make(|| Pool::of(Config::from_env().checked().unwrap_or_default()))
    }

    /// Makes a pool with settings that were checked.
    fn of(config: Config) -> Pool {
        let shared = Arc::new(Shared {
            config,
            state: Mutex::default(),
        });
        // The table of pools holds its address, which the Arc keeps valid.
        fork::enter(&shared);
        Pool(shared)
    }

    /// Returns the settings, with sizes rounded up to pages.
    pub fn config(&self) -> Config {
        self.0.config
    }

    /// Returns a stack of the pool's own size.
    #[inline]
    pub fn stack(&self) -> Result<PoolStack, Error> {
        if self.is_global() {
            if let Some(range) = near::take() {
                return Ok(PoolStack { pool: None, range });
            }
            let Config {
                reuse, stack_size, ..
            } = self.0.config;
            if matches!(reuse, Reuse::Warm | Reuse::Keep) {
                near::begin(&HOME, stack_size);
            }
        }
        self.stack_of(self.0.config.stack_size)
    }

    /// Returns whether this is a handle to the process's own pool.
    #[inline]
    fn is_global(&self) -> bool {
        GLOBAL
            .get()
            .is_some_and(|global| Arc::ptr_eq(&global.0, &self.0))
    }

    /// Returns a stack of at least this many usable bytes. Stacks of one size share slabs, so a program should use few
    /// sizes.
    pub fn stack_of(&self, bytes: usize) -> Result<PoolStack, Error> {
        let size = settings::stack_size(bytes)?;
        let Config {
            guard_size,
            guard,
            reuse,
            max_stacks,
            ..
        } = self.0.config;
        let mut state = self.lock();
        if let Some(max_stacks) = max_stacks
            && state.stats.live >= max_stacks
        {
            return Err(Error::PoolFull { max_stacks });
        }
        let State { classes, stats, .. } = &mut *state;
        let class = match classes.iter_mut().position(|class| class.size == size) {
            Some(index) => &mut classes[index],
            None => {
                classes.try_reserve(1)?;
                classes.push(Class::new(size, guard_size, guard, reuse));
                classes.last_mut().expect("just pushed")
            }
        };
        let limit = class.take(stats)?;
        stats.live += 1;
        stats.given += 1;
        stats.peak = stats.peak.max(stats.live);
        drop(state);
        Ok(PoolStack {
            pool: (!self.is_global()).then(|| self.clone()),
            range: limit..limit + size,
        })
    }

    /// Takes back a stack that nobody uses.
    fn put(&self, range: Range<usize>) {
        sys::release(range.clone(), self.0.config.reuse);
        let mut state = self.lock();
        let too_long = state.class(range.len()).put(range.start);
        state.stats.live -= 1;
        state.stats.free += 1;
        if let Some(limit) = too_long {
            // Without the lock, for others need not wait while the kernel takes the pages. Nobody else has the stack now.
            drop(state);
            sys::release(limit..limit + range.len() - PAGE, Reuse::DontNeed);
            self.lock().class(range.len()).put_cold(limit);
        }
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> Stats {
        let state = self.lock();
        let mut stats = state.stats;
        for counts in &state.near {
            // SAFETY: counts leave the list, under its lock, before they are freed.
            unsafe { counts.as_ref() }.add_to(&mut stats);
        }
        stats
    }

    /// Gives the memory of all free stacks back to the kernel, whatever the reuse policy; the
    /// address space is kept. Of the process's own pool it does not reach what other threads keep for themselves, eight
    /// stacks each.
    pub fn trim(&self) {
        if self.is_global() {
            near::give_back();
        }
        for class in &self.lock().classes {
            for limit in class.free() {
                sys::release(limit..limit + class.size, Reuse::DontNeed);
            }
        }
    }

    fn lock(&self) -> fork::Inside<'_, State> {
        fork::lock(&self.0.state)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        fork::leave(self);
    }
}

impl State {
    /// Returns the class that a stack of this size was taken from.
    fn class(&mut self, size: usize) -> &mut Class {
        self.classes
            .iter_mut()
            .find(|class| class.size == size)
            .expect("the class outlives its stacks")
    }
}
