//! C functions by the names that scripts have for them: what each language's file provides, and what several of them use.

pub(crate) mod collection;
pub(crate) mod glob;
mod names;

pub use names::{Calling, Look, Named, Names, Shown};
