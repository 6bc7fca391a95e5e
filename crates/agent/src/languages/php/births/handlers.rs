//! Our functions, which the VM calls: for blocks while they are set (`custom_heap` of `struct _zend_mm_heap`, `zend_alloc.c`), and where a request
//! begins and ends (`requests`).
//!
//! The VM calls them with what its own functions are called with. `_zend_mm_alloc` and `_zend_mm_realloc` may not return: an error of the memory
//! limit jumps to where errors are caught. So nothing is held while they run, and nothing is noted before.

use super::allocator::{Functions, heap};
use super::requests::BOTH;
use super::{allocator, counting};
use crate::guard;
use crate::languages::functions::{at, function};
use core::arch::naked_asm;
use vm::php::api::{ALLOCATE, FREE, REALLOCATE, SHUT_DOWN};

/// Ours for blocks, and those for the beginning and the end of a request.
pub fn ours() -> (Functions, [u64; 2]) {
    let functions = [
        malloc as *const () as u64,
        free as *const () as u64,
        realloc as *const () as u64,
    ];
    let requests = [begins as *const () as u64, ends as *const () as u64];
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

unsafe extern "C" fn allocate(size: u64, register: u64) -> u64 {
    counting::before(size);
    // SAFETY: the command has written the function's address, and the VM has called ours for a block of this heap.
    let block = unsafe {
        let allocate: unsafe extern "C" fn(u64, u64) -> u64 = function(ALLOCATE);
        allocate(heap(), size)
    };
    counting::born(block, size, register);
    block
}

/// A death where the block was, and a birth where it is. Nobody takes blocks in between, so both are noted when it is sure that it is moved.
unsafe extern "C" fn reallocate(block: u64, size: u64, register: u64) -> u64 {
    counting::before(size);
    // SAFETY: as in `allocate`; the block is one of this heap, or null.
    let moved = unsafe {
        let reallocate: unsafe extern "C" fn(u64, u64, u64) -> u64 = function(REALLOCATE);
        reallocate(heap(), block, size)
    };
    counting::dead(block);
    counting::born(moved, size, register);
    moved
}

/// `void free(void *)`. When the VM ends, it is called for the heap itself (`zend_mm_shutdown`).
unsafe extern "C" fn free(block: u64) {
    if block == heap() {
        allocator::put_back();
        // SAFETY: the command has written the function's address. The VM wants its heap to be freed and uses it no more; it has no custom
        // functions now, so its chunks are freed as without us.
        unsafe {
            let shut_down: unsafe extern "C" fn(u64, i32, i32) = function(SHUT_DOWN);
            shut_down(block, 1, 1);
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
    // SAFETY: `request_begins` owns nothing that a panic would leak and calls no code of the VM that may not be left.
    unsafe { guard::guarded(counting::request_begins, 0) };
    // SAFETY: the word led to this function, which the VM would have called now.
    unsafe { at::<Request>(BOTH[0].before())(kind, number) }
}

/// `int request_shutdown_func(int type, int module_number)`.
unsafe extern "C" fn ends(kind: i32, number: i32) -> i32 {
    // SAFETY: `request_ends` owns nothing that a panic would leak and calls no code of the VM that may not be left.
    unsafe { guard::guarded(counting::request_ends, 0) };
    // SAFETY: the word led to this function, which the VM would have called now.
    unsafe { at::<Request>(BOTH[1].before())(kind, number) }
}
