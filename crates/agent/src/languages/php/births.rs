//! `mem` of a PHP: counts every block of its allocator by the line of PHP that takes it, and every one that is freed.
//!
//! ```text
//!   _emalloc, _emalloc_56 … ─► ours ─► _zend_mm_alloc     the heap's custom functions (zend_mm_set_custom_handlers)
//!                               ├─► line of the innermost frame ─► entry ─► site     births::books, as for a Ruby
//!                               └─► number of the site and size, by the block's address     births::blocks
//!   _efree … ────────────────► ours: the number is cleared ─► _zend_mm_free
//!   first module, request begins ─► ours: the custom functions are set ─► the module's own
//!   last module, request ends ────► ours: they are taken out, all blocks are dead ─► the module's own
//!   request closes ───────────────► ours: the same, if they are set then ──────────► the server interface's own
//! ```
//!
//! Blocks are the VM's own: ours call the functions that give blocks of a heap and do not ask for its custom functions. No state has to be
//! right while they run, and an error of the memory limit, which jumps out of them, is caught and goes on ([`bailout`]).
//!
//! While a heap has custom functions the VM does two things differently, so ours are in front of both:
//! - It does not look for memory to give back (`zend_mm_gc`) before it refuses a block because of the limit, or because the kernel gives it none:
//!   ours are taken out while it makes a block that it has no free slot for ([`handlers`]).
//! - It frees nothing at once at a request's end (`zend_mm_shutdown`, `is_zend_mm`): ours are taken out before ([`requests`]).
//!
//! | file | what |
//! |---|---|
//! | `allocator` | the heap and its custom functions: set, taken out |
//! | `handlers` | our functions, which the VM calls |
//! | `bailout` | catches the errors that jump out of the VM's functions |
//! | `requests` | where a request begins and ends |
//! | `counting` | what is done at a birth and at a death, and what the command asks for |
//! | `names` | the VM's code as text |

mod allocator;
mod bailout;
pub mod counting;
pub mod handlers;
mod names;
mod requests;
