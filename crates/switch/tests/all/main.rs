//! The tests of the crate as its users see it: one executable, so that it is linked once.
//!
//! Apart from it are `memory`, which brings an allocator of its own, and `nasty`, which forks, limits its address space and sends itself
//! signals: nothing else may run in its process.

mod c;
mod coroutine;
mod elsewhere;
mod endings;
mod harness;
mod lent;
mod model;
mod no_unwinder;
mod overflow;
mod page;
mod parent_stack;
mod pool;
mod scheduler;
mod scope;
