//! The functions of the Zend engine that the agent calls, by their places in a table of addresses. Prototypes: `zend_alloc.h`,
//! alike in 7.4 to 8.6.
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
/// The place of `zend_mm_gc`.
pub const COLLECT: usize = 6;
/// The place of `zend_mm_shutdown`.
pub const SHUT_DOWN: usize = 7;
/// The place of the address of a word that leads to what a request begins with ([`Requests`](super::Requests)): behind the functions.
pub const FIRST: usize = 8;
/// The place of the address of the word that leads to what a request ends with.
pub const LAST: usize = 9;

/// Names of the functions as symbols; the index of each is its constant above.
pub const NAMES: [&str; 8] = [
    "zend_mm_get_heap",
    "zend_mm_get_custom_handlers",
    "zend_mm_set_custom_handlers",
    "_zend_mm_alloc",
    "_zend_mm_realloc",
    "_zend_mm_free",
    "zend_mm_gc",
    "zend_mm_shutdown",
];
