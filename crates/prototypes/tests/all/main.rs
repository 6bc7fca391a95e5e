//! The tests of the crate as its users see it: one executable, so that it is linked once.

mod abi;
mod bundle;
mod condition;
mod constants;
mod dwarf;
mod filter;
mod guest;
mod parse;
mod robust;
mod search;
mod show;
mod texts;
