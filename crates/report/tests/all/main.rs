//! The tests of the crate as its users see it: one executable, so that it is linked once.

mod formats;
mod forms;
mod heap;
mod heap_first;
mod heap_page;
mod mem_sentences;
mod profile_page;
mod sentences;
