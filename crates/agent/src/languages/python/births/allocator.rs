//! The table of the VM's allocators (`PyMemAllocatorEx`, `Include/cpython/pymem.h`): ours are put in front of it, and taken out.
//! Used by `counting` and `census`.
//!
//! ```text
//!   0          8          16         24         32         40
//!   ├──────────┼──────────┼──────────┼──────────┼──────────┤
//!     ctx        malloc     calloc     realloc    free         one for each domain; ours keeps the ctx of what it is in front of
//! ```
//!
//! Ours hand the `ctx` on that they are called with, which is that of the functions they call. So a thread of another interpreter that
//! reads the table while it is written calls functions and a `ctx` that fit, whichever of them are the new ones.
//!
//! The table may be changed by others: `tracemalloc` puts its own functions in front of ours and calls them, and puts back what it has
//! found. If it found what was there before us, ours are not called any more. Which it is, is asked by taking blocks ([`ask`]). A tool that
//! has blocks in store answers without calling ours and calls them all the same for others. So ours are put in front only of what cannot
//! lead to them: what was there when they were in no table yet, what they were in front of before, and the VM's own functions, which have
//! nothing in store that they have taken from ours. In front of what calls them they would call each other without end.

use super::caller;
use super::counting;
use super::names::{MEMORY, OBJECT};
use crate::calls::thread::thread_pointer;
use crate::languages::functions::{at, function};
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::{AtomicU64, Ordering};
use vm::python::api::{GET_ALLOCATOR, SET_ALLOCATOR};

/// `PyMemAllocatorEx`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Table {
    ctx: u64,
    malloc: u64,
    calloc: u64,
    realloc: u64,
    free: u64,
}

/// What ours call. It stays when ours are out of the table, because a thread of another interpreter may be about to call it.
struct Behind {
    malloc: AtomicU64,
    calloc: AtomicU64,
    realloc: AtomicU64,
    free: AtomicU64,
}

impl Behind {
    const fn nothing() -> Self {
        Behind {
            malloc: AtomicU64::new(0),
            calloc: AtomicU64::new(0),
            realloc: AtomicU64::new(0),
            free: AtomicU64::new(0),
        }
    }

    fn set(&self, table: Table) {
        self.malloc.store(table.malloc, Ordering::Relaxed);
        self.calloc.store(table.calloc, Ordering::Relaxed);
        self.realloc.store(table.realloc, Ordering::Relaxed);
        self.free.store(table.free, Ordering::Release);
    }

    /// The table with these functions and this `ctx`.
    fn table(&self, ctx: u64) -> Table {
        Table {
            ctx,
            malloc: self.malloc.load(Ordering::Relaxed),
            calloc: self.calloc.load(Ordering::Relaxed),
            realloc: self.realloc.load(Ordering::Relaxed),
            free: self.free.load(Ordering::Relaxed),
        }
    }

    /// Whether ours have never been put in front of anything.
    fn is_nothing(&self) -> bool {
        self.free.load(Ordering::Relaxed) == 0
    }
}

/// What ours call in the domains of `PyMem_Malloc` and `PyObject_Malloc`: by the place that these have among [`DOMAINS`].
static BEHIND: [Behind; 2] = [const { Behind::nothing() }; 2];

/// `PYMEM_DOMAIN_MEM` and `PYMEM_DOMAIN_OBJ`.
const DOMAINS: [i32; 2] = [1, 2];
/// The number that stands for the blocks of a domain.
const KINDS: [u64; 2] = [MEMORY, OBJECT];

/// Our functions in front of those of a domain.
fn ours(domain: usize, ctx: u64) -> Table {
    vm::with_form!(caller::form(), FORM => of_form::<FORM>(domain, ctx))
}

/// The same for what threads are read by ([`caller::form`]).
fn of_form<const FORM: u8>(domain: usize, ctx: u64) -> Table {
    let [malloc, calloc, realloc, free] = match domain {
        0 => [
            malloc::<0, FORM> as *const () as u64,
            calloc::<0, FORM> as *const () as u64,
            realloc::<0, FORM> as *const () as u64,
            free::<0, FORM> as *const () as u64,
        ],
        _ => [
            malloc::<1, FORM> as *const () as u64,
            calloc::<1, FORM> as *const () as u64,
            realloc::<1, FORM> as *const () as u64,
            free::<1, FORM> as *const () as u64,
        ],
    };
    Table {
        ctx,
        malloc,
        calloc,
        realloc,
        free,
    }
}

/// Reads the table of a domain.
///
/// # Safety
/// The VM's lock is held, and the command has written the function's address.
unsafe fn read(domain: usize) -> Table {
    let mut table = Table::default();
    // SAFETY: as the caller says; the prototype is the VM's, and the table lives until the call returns.
    unsafe {
        let get: unsafe extern "C" fn(i32, *mut Table) = function(GET_ALLOCATOR);
        get(DOMAINS[domain], &raw mut table);
    }
    table
}

/// Writes the table of a domain.
///
/// # Safety
/// The VM's lock is held, the command has written the function's address, and the functions in the table are allocators of the same blocks.
unsafe fn write(domain: usize, mut table: Table) {
    // SAFETY: as the caller says; the prototype is the VM's, and the table lives until the call returns.
    unsafe {
        let set: unsafe extern "C" fn(i32, *mut Table) = function(SET_ALLOCATOR);
        set(DOMAINS[domain], &raw mut table);
    }
}

fn is_ours(domain: usize, table: Table) -> bool {
    table == ours(domain, table.ctx)
}

/// Sizes of the blocks by which is asked whether ours are called: tools have small blocks in store, and seldom large ones.
const ASKED: [u64; 3] = [1, 600, 100_003];

/// The thread that asks (its thread pointer), and the domain it asks in.
static ASKING: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The last block that ours have handed out to it; 0 = none.
static HANDED_OUT: AtomicU64 = AtomicU64::new(0);

/// What is known of who takes a block of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// Ours are called, and the block is handed on as it is.
    Ours,
    /// Ours are called for a block of which another tool hands a part on: what is freed has another address than what is used.
    Inside,
    /// Ours are not called for these blocks.
    NotNow,
}

/// Whether this thread is in [`ask`], in a call that it makes.
pub fn is_asking() -> bool {
    let id = thread_pointer();
    let is_own = |asks: &AtomicU64| asks.load(Ordering::Relaxed) == id;
    ASKING.iter().any(is_own)
}

/// Notes that ours have handed a block out, if it is one by which was asked. Returns whether it is.
fn is_asked(domain: usize, block: u64) -> bool {
    if CONTROL_PAGE.hooked.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let asks = ASKING[domain].load(Ordering::Relaxed);
    let is_asked = asks != 0 && asks == thread_pointer();
    if is_asked {
        HANDED_OUT.store(block, Ordering::Relaxed);
    }
    is_asked
}

/// Returns whether ours are called by whoever takes a block of this domain. Nothing is counted meanwhile, nor counted as passed through
/// ([`is_asking`]), and the control page is as before.
///
/// # Safety
/// The VM's lock is held, at a safe point.
unsafe fn ask(domain: usize, table: Table) -> Calls {
    if BEHIND[domain].is_nothing() {
        return Calls::NotNow;
    }
    if is_ours(domain, table) {
        return Calls::Ours;
    }
    let hooked = CONTROL_PAGE.hooked.swap(0, Ordering::Relaxed);
    ASKING[domain].store(thread_pointer(), Ordering::Relaxed);
    let mut calls = Calls::NotNow;
    for size in ASKED {
        HANDED_OUT.store(0, Ordering::Relaxed);
        // SAFETY: these are the functions by which the VM takes and frees blocks of this domain, with its lock, which the caller holds.
        let block = unsafe {
            let malloc: Malloc = at(table.malloc);
            let free: Free = at(table.free);
            let block = malloc(table.ctx, size);
            if block != 0 {
                free(table.ctx, block);
            }
            block
        };
        calls = match HANDED_OUT.load(Ordering::Relaxed) {
            0 => calls,
            handed if handed != block => Calls::Inside,
            _ if calls == Calls::Inside => calls,
            _ => Calls::Ours,
        };
    }
    ASKING[domain].store(0, Ordering::Relaxed);
    CONTROL_PAGE.hooked.store(hooked, Ordering::Relaxed);
    calls
}

/// Whether this table, in which ours are not called for some blocks, cannot lead to them for others either.
fn is_innocent(domain: usize, table: Table) -> bool {
    let behind = &BEHIND[domain];
    let functions = [table.malloc, table.calloc, table.realloc, table.free];
    behind.is_nothing() || behind.table(table.ctx) == table || are_vms(&functions)
}

/// The functions of the VM that a test makes up.
#[cfg(test)]
static OWN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Whether these are the VM's own functions.
fn are_vms(functions: &[u64]) -> bool {
    #[cfg(test)]
    return functions.iter().all(|function| {
        OWN.iter()
            .any(|own| own.load(Ordering::Relaxed) == *function)
    });
    #[cfg(not(test))]
    {
        // SAFETY: the command has written the function's address; it is taken as a number.
        let known = unsafe { function::<u64>(GET_ALLOCATOR) };
        super::image::are_in_file_of(known, functions)
    }
}

/// Puts ours in front, where they are not and may be. Returns whether they are called then, for the blocks that are used.
///
/// # Safety
/// The VM's lock is held, at a safe point.
pub unsafe fn take() -> bool {
    // SAFETY: the caller holds the VM's lock, at a safe point. What ours call are the functions that were in the table, and never ours,
    // which are not called by these.
    unsafe {
        for (domain, behind) in BEHIND.iter().enumerate() {
            let found = read(domain);
            if ask(domain, found) == Calls::NotNow && is_innocent(domain, found) {
                behind.set(found);
                write(domain, ours(domain, found.ctx));
            }
        }
        are_all_called()
    }
}

/// Whether ours are called in both domains, for the blocks that are used.
///
/// # Safety
/// The VM's lock is held, at a safe point.
pub unsafe fn are_all_called() -> bool {
    // SAFETY: the caller holds the VM's lock, at a safe point.
    (0..DOMAINS.len()).all(|domain| unsafe { ask(domain, read(domain)) == Calls::Ours })
}

/// Puts back what was there, where ours are in the table. Returns whether none of ours is in it now; others may still call ours.
///
/// # Safety
/// The VM's lock is held. No lock of the VM's allocators is: it is held only while the table is read or written.
pub unsafe fn put_back() -> bool {
    let mut out = true;
    for (domain, behind) in BEHIND.iter().enumerate() {
        // SAFETY: the caller holds the VM's lock; what ours call are allocators of the same blocks.
        unsafe {
            let found = read(domain);
            if is_ours(domain, found) {
                write(domain, behind.table(found.ctx));
            }
            out &= !is_ours(domain, read(domain));
        }
    }
    out
}

/// Whether somebody calls ours, or may do so, although they are not in the table: others have put theirs in front of ours.
///
/// # Safety
/// The VM's lock is held, at a safe point.
pub unsafe fn are_covered() -> bool {
    // SAFETY: the caller holds the VM's lock, at a safe point.
    (0..DOMAINS.len()).any(|domain| unsafe {
        let found = read(domain);
        let is_unknown = || !is_innocent(domain, found);
        !is_ours(domain, found) && (ask(domain, found) != Calls::NotNow || is_unknown())
    })
}

type Malloc = unsafe extern "C" fn(u64, u64) -> u64;
type Calloc = unsafe extern "C" fn(u64, u64, u64) -> u64;
type Realloc = unsafe extern "C" fn(u64, u64, u64) -> u64;
type Free = unsafe extern "C" fn(u64, u64);

/// Returns the function whose address this word has, with its type.
///
/// # Safety
/// `F` is its prototype.
#[inline(always)]
unsafe fn behind<F: Copy>(address: &AtomicU64) -> F {
    // SAFETY: as the caller says; the VM had this address in its table as that of such a function.
    unsafe { at(address.load(Ordering::Relaxed)) }
}

/// Whether the birth of a block is counted already ([`counting::is_counted`]).
#[inline(always)]
fn is_counted<const DOMAIN: usize, const FORM: u8>(block: u64, size: u64) -> bool {
    // SAFETY: `ours` puts functions of this form into the table, which is that of this process or none.
    unsafe { counting::is_counted::<FORM>(KINDS[DOMAIN], block, size) }
}

unsafe extern "C" fn malloc<const DOMAIN: usize, const FORM: u8>(ctx: u64, size: u64) -> u64 {
    // SAFETY: ours are in the table after `BEHIND` was written, and are called as what is behind them is to be.
    let block = unsafe { behind::<Malloc>(&BEHIND[DOMAIN].malloc)(ctx, size) };
    if block != 0 && !is_counted::<DOMAIN, FORM>(block, size) {
        malloced::<DOMAIN>(block, size);
    }
    block
}

#[cold]
#[inline(never)]
fn malloced<const DOMAIN: usize>(block: u64, size: u64) {
    if !is_asked(DOMAIN, block) {
        counting::born(KINDS[DOMAIN], block, size);
    }
}

unsafe extern "C" fn calloc<const DOMAIN: usize, const FORM: u8>(
    ctx: u64,
    count: u64,
    size: u64,
) -> u64 {
    // SAFETY: ours are in the table after `BEHIND` was written, and are called as what is behind them is to be.
    let block = unsafe { behind::<Calloc>(&BEHIND[DOMAIN].calloc)(ctx, count, size) };
    let size = count.wrapping_mul(size);
    if block != 0 && !is_counted::<DOMAIN, FORM>(block, size) {
        counting::born(KINDS[DOMAIN], block, size);
    }
    block
}

/// A death where the block was, and a birth where it is, as `tracemalloc` has it. The death is noted first: the address may be taken by
/// somebody else before the function returns.
unsafe extern "C" fn realloc<const DOMAIN: usize, const FORM: u8>(
    ctx: u64,
    block: u64,
    size: u64,
) -> u64 {
    let known = match block {
        0 => None,
        // SAFETY: `ours` puts functions of this form into the table, which is that of this process or none.
        block => unsafe { counting::dead_at_hand::<FORM>(block) },
    };
    // SAFETY: ours are in the table after `BEHIND` was written, and are called as what is behind them is to be.
    let moved = unsafe { behind::<Realloc>(&BEHIND[DOMAIN].realloc)(ctx, block, size) };
    if moved != 0 {
        if let Some(known) = known {
            counting::bury(block, known);
        }
        if !is_counted::<DOMAIN, FORM>(moved, size) {
            match known {
                Some(known) => counting::moved(KINDS[DOMAIN], moved, size, known),
                None => counting::born(KINDS[DOMAIN], moved, size),
            }
        }
    } else if let Some(known) = known {
        counting::revive(block, known);
    }
    moved
}

unsafe extern "C" fn free<const DOMAIN: usize, const FORM: u8>(ctx: u64, block: u64) {
    // SAFETY: `ours` puts functions of this form into the table, which is that of this process or none.
    if block != 0 && !unsafe { counting::is_buried::<FORM>(block) } {
        freed(block);
    }
    // SAFETY: ours are in the table after `BEHIND` was written, and are called as what is behind them is to be.
    unsafe { behind::<Free>(&BEHIND[DOMAIN].free)(ctx, block) };
}

#[cold]
#[inline(never)]
fn freed(block: u64) {
    if let Some(known) = counting::dead(block) {
        counting::bury(block, known);
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
