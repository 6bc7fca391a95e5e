//! Our functions, which the VM calls: for blocks while they are set (`custom_heap` of `struct _zend_mm_heap`, `zend_alloc.c`), and where a request
//! begins and ends (`requests`). Used by `jobs`.
//!
//! The VM calls them with what its own functions are called with. `_zend_mm_alloc` and `_zend_mm_realloc` may not return: an error of the memory
//! limit jumps to where errors are caught. So nothing is held while they run, and nothing is noted before.
//!
//! Where the VM has no free slot for a block it may meet the limit or find no memory to map, and looks for what it can give back then
//! (`zend_mm_gc`), which it does not do while custom functions are set. So ours are out while it makes such a block, and set again when it is
//! made or an error has jumped out of it.

use super::allocator::{Functions, heap};
use super::requests::ALL;
use super::{allocator, bailout, counting};
use crate::languages::functions::{at, function};
use core::arch::naked_asm;
use vm::php::api::{ALLOCATE, FREE, REALLOCATE, SHUT_DOWN};

/// Ours for blocks, and those for the beginning and the end of a request.
pub fn ours() -> (Functions, [u64; 3]) {
    let functions = [
        malloc as *const () as u64,
        free as *const () as u64,
        realloc as *const () as u64,
    ];
    let requests = [
        begins as *const () as u64,
        ends as *const () as u64,
        closes as *const () as u64,
    ];
    (Functions(functions), requests)
}

/// `void *malloc(size_t)`. What the VM has in r15 may be the operation that runs ([`vm::php::Place`]).
#[unsafe(naked)]
unsafe extern "C" fn malloc(size: u64) -> u64 {
    naked_asm!("mov rsi, r15", "jmp {}", sym allocate)
}

/// `void *realloc(void *, size_t)`.
#[unsafe(naked)]
unsafe extern "C" fn realloc(block: u64, size: u64) -> u64 {
    naked_asm!("mov rdx, r15", "jmp {}", sym reallocate)
}

/// Has the VM make a block of this size.
unsafe fn made(place: usize, size: u64, arguments: [u64; 3]) -> u64 {
    let is_aside = !allocator::has_slot(size) && counting::step_aside();
    // SAFETY: the command has written the function's address, and the VM has called ours for a block of this heap: for what the function at this
    // `place` of the table is for. Nothing is owned here, and no frame of another function lies between.
    unsafe {
        if is_aside {
            return bailout::caught(function(place), arguments, counting::step_back);
        }
        let [first, second, third] = arguments;
        let make: unsafe extern "C" fn(u64, u64, u64) -> u64 = function(place);
        make(first, second, third)
    }
}

unsafe extern "C" fn allocate(size: u64, register: u64) -> u64 {
    counting::before();
    // SAFETY: `_zend_mm_alloc` is called as its prototype says, with one argument more than it looks at.
    let block = unsafe { made(ALLOCATE, size, [heap(), size, 0]) };
    counting::born(block, size, register);
    block
}

/// A death where the block was, and a birth where it is. Nobody takes blocks in between, so both are noted when it is sure that it is moved.
unsafe extern "C" fn reallocate(block: u64, size: u64, register: u64) -> u64 {
    counting::before();
    // SAFETY: `_zend_mm_realloc` is called as its prototype says; the block is one of this heap, or null.
    let moved = unsafe { made(REALLOCATE, size, [heap(), block, size]) };
    counting::dead(block);
    counting::born(moved, size, register);
    moved
}

/// `void free(void *)`. When the VM ends, it is called for the heap itself (`zend_mm_shutdown`).
unsafe extern "C" fn free(block: u64) {
    if block != 0 && block == heap() {
        if allocator::end() {
            // SAFETY: the command has written the function's address. The VM wants its heap to be freed and uses it no more; it has no custom
            // functions now, so its chunks are freed as without us.
            unsafe {
                let shut_down: unsafe extern "C" fn(u64, i32, i32) = function(SHUT_DOWN);
                shut_down(block, 1, 1);
            }
        }
        return;
    }
    counting::dead(block);
    // SAFETY: as in `allocate`; the block is one of this heap, or null.
    unsafe {
        let free: unsafe extern "C" fn(u64, u64) = function(FREE);
        free(heap(), block);
    }
}

type Request = unsafe extern "C" fn(i32, i32) -> i32;

/// `int request_startup_func(int type, int module_number)`.
unsafe extern "C" fn begins(kind: i32, number: i32) -> i32 {
    counting::at_request(counting::request_begins);
    // SAFETY: the word led to this function, which the VM would have called now.
    unsafe { at::<Request>(ALL[0].before())(kind, number) }
}

/// `int request_shutdown_func(int type, int module_number)`.
unsafe extern "C" fn ends(kind: i32, number: i32) -> i32 {
    counting::at_request(counting::request_ends);
    // SAFETY: the word led to this function, which the VM would have called now.
    unsafe { at::<Request>(ALL[1].before())(kind, number) }
}

/// `int deactivate(void)`.
unsafe extern "C" fn closes() -> i32 {
    counting::at_request(counting::request_closes);
    match ALL[2].before() {
        0 => 0,
        // SAFETY: the word led to this function, which the VM would have called now.
        before => unsafe { at::<unsafe extern "C" fn() -> i32>(before)() },
    }
}

#[cfg(test)]
mod tests {
    use super::super::allocator::tests::{SET, has, is_at, vm};
    use super::*;
    use crate::shared::SCRIPT;
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    /// How often the heap was shut down.
    static SHUT_DOWNS: AtomicU32 = AtomicU32::new(0);
    const AT: u64 = 0x20_0040;

    /// As the VM's: it calls the custom function, if there is one.
    unsafe extern "C" fn shut_down(heap: u64, _: i32, _: i32) {
        assert_eq!(heap, AT);
        assert_eq!(
            SHUT_DOWNS.fetch_add(1, Ordering::Relaxed),
            0,
            "a second time"
        );
        if SET[1].load(Ordering::Relaxed) != 0 {
            // SAFETY: ours takes the heap's address.
            unsafe { free(heap) };
        }
    }

    /// The VM frees its heap by our function: as without us if ours are the heap's, and not at all if another tool stands in front of ours,
    /// whose function the VM would call again.
    #[test]
    fn the_heap_itself_is_freed_once() {
        let _one = vm();
        // SAFETY: the place is used with the lock alone.
        unsafe { SCRIPT.functions[SHUT_DOWN] = shut_down as *const () as u64 };
        let (Functions(ours), _) = ours();
        for (is_ours, count) in [(false, 0), (true, 1)] {
            let [malloc, behind, realloc] = ours;
            let front = if is_ours { behind } else { 0x1234 };
            is_at(AT, Functions(ours), [malloc, front, realloc]);
            // SAFETY: it is the heap's address, which ours compare.
            unsafe { free(AT) };
            assert_eq!(SHUT_DOWNS.load(Ordering::Relaxed), count, "{is_ours}");
            assert_eq!(heap(), 0);
        }
        assert_eq!(has(), [0; 3]);
    }

    /// What `free` of the VM was called with last.
    static FREED: AtomicU64 = AtomicU64::new(1);

    unsafe extern "C" fn freed(_: u64, block: u64) {
        FREED.store(block, Ordering::Relaxed);
    }

    /// When the heap has ended, null is no heap's address.
    #[test]
    fn null_is_not_the_heap_when_that_has_ended() {
        let _one = vm();
        // SAFETY: the place is used with the lock alone.
        unsafe { SCRIPT.functions[FREE] = freed as *const () as u64 };
        let (ours, _) = ours();
        is_at(0, ours, [0x1234; 3]);
        // SAFETY: null is freed at any time.
        unsafe { free(0) };
        assert_eq!(FREED.load(Ordering::Relaxed), 0);
        is_at(0, Functions::default(), [0; 3]);
    }
}
