//! The answers of `lancet heap`: who keeps what alive. Used by crate `lancet`.

pub(crate) mod allocated;
pub mod diff;
pub mod dump_all;
mod format;
pub mod heapsnapshot;
pub mod html;
pub mod json;
pub mod path;
pub mod stacks;
pub mod suspects;
pub mod table;
pub mod words;

pub use format::{Format, Options};
pub use words::{losses, owner};

/// The formats, in the order in which help lists them. The first is the default.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &json::FORMAT,
    &html::FORMAT,
    &stacks::FORMAT,
    &dump_all::FORMAT,
    &heapsnapshot::FORMAT,
];
