//! The heap of a PHP, and the custom functions of it. Used by `counting` and `handlers`.

use crate::languages::functions::function;
use crate::memory::direct::Direct;
use crate::memory::sys;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vm::Memory;
use vm::php::allocator::{Allocator, CHUNK};
use vm::php::api::{GET_HANDLERS, GET_HEAP, SET_HANDLERS};

/// The heap in which ours are or were set: `_zend_mm_heap`. It stays when they are out, as does what it is known by.
static HEAP: AtomicU64 = AtomicU64::new(0);
static mut ALLOCATOR: Option<Allocator> = None;
/// Whether ours are meant to be set: during a request, but not while they stand aside.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

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
    heap != 0 && current() == Some(heap) && is_in_chunk(heap)
}

/// Whether a heap lies where it says that it does.
fn is_in_chunk(heap: u64) -> bool {
    let chunk = heap & !(CHUNK - 1);
    sys::is_readable(heap) && sys::is_readable(chunk) && Direct.u64(chunk) == Ok(heap)
}

/// Whether ours are meant to be set and are not called, because another tool's are in front of them or the VM uses another heap. From such a heap
/// they are taken out, which its tool may give back to the VM at any time.
pub fn is_replaced() -> bool {
    if !IS_WANTED.load(Ordering::Relaxed) {
        return false;
    }
    let heap = heap();
    let is_used = current() == Some(heap);
    if !is_used && heap != 0 && is_in_chunk(heap) && owner() == Owner::Us {
        set(Functions::default());
    }
    !is_used || owner() != Owner::Us
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
    IS_WANTED.store(true, Ordering::Relaxed);
    match owner() {
        Owner::Nobody => set(ours()),
        Owner::Us => {}
        Owner::Other => return false,
    }
    true
}

/// Takes ours out, if the heap is there and they are set. Returns whether they were.
pub fn put_back() -> bool {
    IS_WANTED.store(false, Ordering::Relaxed);
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
        IS_WANTED.store(false, Ordering::Relaxed);
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
    IS_WANTED.store(false, Ordering::Relaxed);
    HEAP.store(0, Ordering::Relaxed);
    is_ours
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::at_work::tests::PAGE;
    use crate::shared::SCRIPT;
    use core::sync::atomic::AtomicU32;
    use std::sync::{MutexGuard, PoisonError};
    use vm::php::api::{CLOSE, FIRST, LAST};

    /// The custom functions of a made-up heap.
    pub static SET: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    /// The heap that its VM says it uses.
    static USED: AtomicU64 = AtomicU64::new(0);
    /// How often it was asked for it.
    pub static ASKED: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn get(_: u64, malloc: &mut u64, free: &mut u64, realloc: &mut u64) {
        for (place, word) in [malloc, free, realloc].into_iter().zip(&SET) {
            *place = word.load(Ordering::Relaxed);
        }
    }

    unsafe extern "C" fn put(_: u64, malloc: u64, free: u64, realloc: u64) {
        for (place, word) in SET.iter().zip([malloc, free, realloc]) {
            place.store(word, Ordering::Relaxed);
        }
    }

    unsafe extern "C" fn used() -> u64 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        USED.load(Ordering::Relaxed)
    }

    /// A made-up VM without words of requests, for one test at a time.
    pub fn vm() -> MutexGuard<'static, ()> {
        let one = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: these places are used with the lock alone.
        unsafe {
            SCRIPT.functions[GET_HANDLERS] = get as *const () as u64;
            SCRIPT.functions[SET_HANDLERS] = put as *const () as u64;
            SCRIPT.functions[GET_HEAP] = used as *const () as u64;
            for place in [FIRST, LAST, CLOSE] {
                SCRIPT.functions[place] = 0;
            }
        }
        one
    }

    /// What the VM's heap has.
    pub fn has() -> [u64; 3] {
        SET.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    /// Has the heap be at an address, these be ours, and these be set.
    pub fn is_at(heap: u64, Functions(ours): Functions, set: [u64; 3]) {
        HEAP.store(heap, Ordering::Relaxed);
        for (place, function) in OURS.iter().zip(ours) {
            place.store(function, Ordering::Relaxed);
        }
        for (place, function) in SET.iter().zip(set) {
            place.store(function, Ordering::Relaxed);
        }
    }

    /// Functions that stand for ours.
    #[cfg(not(miri))]
    const FUNCTIONS: [u64; 3] = [1, 2, 3];

    /// Where a heap lies in the first chunk that begins in this room of two, and that chunk's first word, which leads to the heap.
    #[cfg(not(miri))]
    fn heap_in(room: &mut [u64]) -> (u64, &mut u64) {
        let from = room.as_mut_ptr().expose_provenance() as u64;
        let chunk = from.next_multiple_of(CHUNK);
        (chunk + 64, &mut room[((chunk - from) / 8) as usize])
    }

    /// Another tool's functions are in front of ours, or its heap is used in the place of ours: it is said, and ours do not stay in a heap that
    /// the VM may use again. While ours are not meant to be set nobody has replaced them.
    #[cfg(not(miri))]
    #[test]
    fn functions_that_are_not_called_any_more_are_noticed() {
        let _one = vm();
        let mut room = std::vec![0u64; (2 * CHUNK) as usize / 8];
        let (heap, first) = heap_in(&mut room);
        *first = heap;
        is_at(heap, Functions(FUNCTIONS), [0; 3]);
        USED.store(heap, Ordering::Relaxed);
        assert!(take() && !is_replaced());
        is_at(heap, Functions(FUNCTIONS), [4, 5, 6]);
        assert!(is_replaced(), "another tool's functions");
        is_at(heap, Functions(FUNCTIONS), FUNCTIONS);
        assert!(step_aside() && !is_replaced());
        assert!(take() && !is_replaced());
        USED.store(heap + CHUNK, Ordering::Relaxed);
        assert!(is_replaced(), "another heap");
        assert_eq!(has(), [0; 3]);
        put_back();
        assert!(!is_replaced());
        is_at(0, Functions::default(), [0; 3]);
    }

    /// When the VM ends it unmaps its heap, and the word that leads to it stays. Neither that heap is asked for its custom functions, nor one that the
    /// VM does not use any more, nor one in whose place something else was mapped.
    #[cfg(not(miri))]
    #[test]
    fn a_heap_that_is_gone_is_left_alone() {
        let _one = vm();
        let mut room = std::vec![0u64; (2 * CHUNK) as usize / 8];
        let (heap, first) = heap_in(&mut room);
        let is_out = |used: u64, heap: u64| {
            is_at(heap, Functions(FUNCTIONS), FUNCTIONS);
            USED.store(used, Ordering::Relaxed);
            let were_set = put_back();
            assert_eq!(has() == [0; 3], were_set);
            were_set
        };
        *first = heap;
        assert!(is_out(heap, heap), "it is there");
        assert!(!is_out(heap + CHUNK, heap), "the VM uses another");
        *first = 0;
        assert!(!is_out(heap, heap), "something else is there");
        // Nothing is mapped so high.
        let gone = (1 << 47) - CHUNK + 64;
        assert!(!is_out(gone, gone), "it is unmapped");
        // SAFETY: the place is used with the lock alone.
        unsafe { SCRIPT.functions[GET_HEAP] = gone };
        *first = heap;
        assert!(!is_out(heap, heap), "the VM's code is unmapped");
        is_at(0, Functions::default(), [0; 3]);
    }
}
