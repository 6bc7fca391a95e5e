//! The answers of `lancet heap`: who keeps what alive.

mod format;
pub mod json;
pub mod path;
pub mod table;
mod words;

pub use format::{Format, Options};
pub use words::{losses, owner};

/// The formats, in the order in which help lists them. The first is the default.
pub static FORMATS: &[&Format] = &[&table::FORMAT, &json::FORMAT];
