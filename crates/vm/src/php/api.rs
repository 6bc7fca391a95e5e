//! The functions of the Zend engine that the agent calls, by their places in a table of addresses. Prototypes: `zend_alloc.h` and `zend.h`,
//! alike in 7.4 to 8.6. `_setjmp` is the C library's. Used by the crates `agent` and `enter`.
//!
//! `_zend_mm_alloc`, `_zend_mm_realloc` and `_zend_mm_free` do not look whether the heap has custom functions (read in the sources of 7.4 and
//! 8.2, and in the code of 8.4, 8.5 and 8.6), so custom functions can call them for the heap that they are set in.

/// The place of `zend_mm_get_heap`.
pub const GET_HEAP: usize = 0;
/// The place of `zend_mm_get_custom_handlers`.
pub const GET_HANDLERS: usize = 1;
/// The place of `zend_mm_set_custom_handlers`.
pub const SET_HANDLERS: usize = 2;
/// The place of `_zend_mm_alloc`.
pub const ALLOCATE: usize = 3;
/// The place of `_zend_mm_realloc`.
pub const REALLOCATE: usize = 4;
/// The place of `_zend_mm_free`.
pub const FREE: usize = 5;
/// The place of `zend_mm_shutdown`.
pub const SHUT_DOWN: usize = 6;
/// The place of `_setjmp`, whose buffers `longjmp` takes, by which the engine leaves its functions at an error.
pub const SET_JUMP: usize = 7;
/// The place of `_zend_bailout`, which jumps to where errors are caught.
pub const BAIL_OUT: usize = 8;
/// The place of the address of a word that leads to what a request begins with ([`Requests`](super::Requests)): behind the functions.
pub const FIRST: usize = 9;
/// The place of the address of the word that leads to what a request ends with.
pub const LAST: usize = 10;
/// The place of the address of the word that leads to what is called when all of a request but its memory is freed.
pub const CLOSE: usize = 11;

/// Names of the functions as symbols; the index of each is its constant above.
pub const NAMES: [&str; 9] = [
    "zend_mm_get_heap",
    "zend_mm_get_custom_handlers",
    "zend_mm_set_custom_handlers",
    "_zend_mm_alloc",
    "_zend_mm_realloc",
    "_zend_mm_free",
    "zend_mm_shutdown",
    "_setjmp",
    "_zend_bailout",
];
