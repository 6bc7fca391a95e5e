//! The heap of a PHP, and the custom functions of it.

use crate::languages::functions::function;
use crate::memory::direct::Direct;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use vm::Memory;
use vm::php::allocator::{Allocator, CHUNK};
use vm::php::api::{GET_HANDLERS, GET_HEAP, SET_HANDLERS};

/// The heap in which ours are or were set: `_zend_mm_heap`. It stays when they are out, as does what it is known by.
static HEAP: AtomicU64 = AtomicU64::new(0);
static mut ALLOCATOR: Option<Allocator> = None;

/// Custom functions: malloc, free, realloc. All are 0 where a heap has none.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Functions(pub [u64; 3]);

/// Ours.
static OURS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

fn ours() -> Functions {
    Functions(
        OURS.each_ref()
            .map(|function| function.load(Ordering::Relaxed)),
    )
}

/// Who has custom functions in a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    Us,
    Other,
}

/// The heap's address, as the VM's functions take it.
#[inline(always)]
pub fn heap() -> u64 {
    HEAP.load(Ordering::Relaxed)
}

/// The heap's layout.
#[inline(always)]
pub fn layout() -> Option<&'static Allocator> {
    // SAFETY: it is written by `find` alone, on the one thread that the VM has, and nobody keeps the reference until then.
    unsafe { (*(&raw const ALLOCATOR)).as_ref() }
}

/// Finds the heap that the VM uses now, and says whose custom functions it has, if these are ours. `None`: its layout was not recognised. It may be one that is not
/// known, or the thread stands in the middle of a change of what it is known by.
///
/// A heap without custom functions is one of the VM's own, which lies in its first chunk; a tool's may lie anywhere, and what is around that
/// is not read.
pub fn find(Functions(ours): Functions) -> Option<Owner> {
    for (place, function) in OURS.iter().zip(ours) {
        place.store(function, Ordering::Relaxed);
    }
    let heap = current()?;
    HEAP.store(heap, Ordering::Relaxed);
    let owner = owner();
    if owner == Owner::Nobody {
        let found = Allocator::of(&Direct, heap).filter(|found| found.heap() == heap)?;
        // SAFETY: this is the VM's one thread, and no reference to it is in use here.
        unsafe { (&raw mut ALLOCATOR).write(Some(found)) };
    }
    Some(owner)
}

/// The heap that the VM uses now. `None`: the VM's code is not there any more.
fn current() -> Option<u64> {
    // SAFETY: the command has written the function's address, which is taken as a number.
    let at = unsafe { function::<u64>(GET_HEAP) };
    // SAFETY: the function's code is there, and returns a word.
    sys::is_readable(at).then(|| unsafe { function::<unsafe extern "C" fn() -> u64>(GET_HEAP)() })
}

/// Whether the heap is there. When the VM ends it unmaps it, and the word that leads to it stays as it is.
fn is_there() -> bool {
    let heap = heap();
    let chunk = heap & !(CHUNK - 1);
    heap != 0
        && current() == Some(heap)
        && sys::is_readable(heap)
        && sys::is_readable(chunk)
        && Direct.u64(chunk) == Ok(heap)
}

/// Whose custom functions the heap has, which is there.
pub fn owner() -> Owner {
    let mut found = Functions::default();
    let [malloc, free, realloc] = &mut found.0;
    // SAFETY: the command has written the function's address; the heap is the one that the VM uses or has used, and the function writes three
    // words, which live until it returns.
    unsafe {
        let get: unsafe extern "C" fn(u64, *mut u64, *mut u64, *mut u64) = function(GET_HANDLERS);
        get(heap(), malloc, free, realloc);
    }
    match found {
        Functions([0, 0, 0]) => Owner::Nobody,
        found if found == ours() => Owner::Us,
        _ => Owner::Other,
    }
}

fn set(Functions([malloc, free, realloc]): Functions) {
    // SAFETY: the command has written the function's address; the heap is the VM's own. It writes words of the heap, and ours give blocks of
    // the same heap.
    unsafe {
        let set: unsafe extern "C" fn(u64, u64, u64, u64) = function(SET_HANDLERS);
        set(heap(), malloc, free, realloc);
    }
}

/// Sets ours, unless there are others. Returns whether they are set.
pub fn take() -> bool {
    match owner() {
        Owner::Nobody => set(ours()),
        Owner::Us => {}
        Owner::Other => return false,
    }
    true
}

/// Takes ours out, if the heap is there and they are set. Returns whether they were.
pub fn put_back() -> bool {
    let are_set = is_there() && owner() == Owner::Us;
    if are_set {
        set(Functions::default());
    }
    are_set
}

/// The same where the VM has called ours for a block, so that the heap is there.
pub fn step_aside() -> bool {
    let are_set = owner() == Owner::Us;
    if are_set {
        set(Functions::default());
    }
    are_set
}

/// Whether the VM has a free slot for a block of this size, so that it neither looks at the limit nor maps memory for it.
#[inline(always)]
pub fn has_slot(size: u64) -> bool {
    layout().is_some_and(|layout| layout.has_slot(&Direct, size) == Ok(true))
}

/// The VM wants its heap itself to be freed. Returns whether it is to be freed as without us: custom functions of another tool stand in front of
/// ours else, which the VM would call again.
pub fn end() -> bool {
    let is_ours = owner() == Owner::Us;
    if is_ours {
        set(Functions::default());
    }
    HEAP.store(0, Ordering::Relaxed);
    is_ours
}

/// Has the heap be at an address, and these be ours.
#[cfg(test)]
pub fn is_at(heap: u64, Functions(ours): Functions) {
    HEAP.store(heap, Ordering::Relaxed);
    for (place, function) in OURS.iter().zip(ours) {
        place.store(function, Ordering::Relaxed);
    }
}
