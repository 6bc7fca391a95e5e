//! `mem` of a Python: counts every block of its two allocators by the line of Python that takes it, and every one that is freed.
//!
//! ```text
//!   PyObject_Malloc, PyMem_Malloc ─► ours ─► the VM's own           the table of allocators, in which ours are put in front
//!                                     ├─► line of the innermost frame ─► entry ─► site      births::books, as for a Ruby
//!                                     └─► number of the site and size, by the block's address      births::blocks
//!   PyObject_Free, PyMem_Free ──────► ours: the number is cleared ─► the VM's own
//! ```
//!
//! So births and deaths are exact, and what has a number lives. Blocks from before have none, and their death counts nothing. Blocks
//! are the VM's own, whoever has taken them: to leave is to put the old table back.
//!
//! The functions come with the VM's lock held (`Doc/c-api/memory.rst`). What is counted is used with the lock of the main interpreter
//! alone: other interpreters may have locks of their own since Python 3.12, and their calls pass through, as do those of a process
//! whose control page says that nobody counts: a forked child, one whose lancet was killed.
//!
//! | file | what |
//! |---|---|
//! | `allocator` | the table of allocators: taken, put back; our functions |
//! | `caller` | whether the running thread has the lock |
//! | `counting` | what is done at a birth and at a death, and by whom |
//! | `census` | the walk over the living blocks |
//! | `end` | the count at the end of a program that lancet has started |
//! | `image` | which functions are the VM's own |
//! | `names` | the VM's code as text |

mod allocator;
mod caller;
pub mod census;
pub mod counting;
pub mod end;
mod image;
mod names;
