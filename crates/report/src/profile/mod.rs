//! Where threads run: the answers of `lancet profile`. Used by `lancet::commands::profile::run` and
//! `lancet::commands::profile::args`.
//!
//! | module | what it writes |
//! |---|---|
//! | `table` | the verdict, and functions with their own and total shares |
//! | [`difference`] | of which functions the share has changed since an earlier profile |
//! | `tree` | who calls whom, the dear ways first |
//! | `json` | functions and their callers, for programs |
//! | `html` | a page with a flame graph to go into, functions, and who calls them |
//! | `stacks` | the stacks that were seen, for all forms that show stacks |

mod calls;
pub mod difference;
mod format;
mod html;
mod json;
mod stacks;
mod table;
mod tree;
mod words;

pub use format::{Format, Head};

/// The formats, in the order in which help lists them.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &tree::FORMAT,
    &stacks::FORMAT,
    &html::FORMAT,
    &json::FORMAT,
];
