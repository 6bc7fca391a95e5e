//! Where threads run, and what they wait for: the answers of `lancet profile`. Used by `lancet::commands::profile::run` and
//! `lancet::commands::profile::args`.
//!
//! | module | what it writes |
//! |---|---|
//! | `table` | the verdict, functions with their own and total shares, and `waits` |
//! | [`difference`] | of which functions the share has changed since an earlier profile |
//! | [`function`] | who calls one function, and what it calls |
//! | `tree` | who calls whom, the dear ways first |
//! | `json` | functions and their callers, for programs |
//! | `html` | a page with a flame graph to go into, functions, and who calls them |
//! | `stacks` | the stacks that were seen, for all forms that show stacks |

mod asleep;
mod calls;
pub mod difference;
mod format;
pub mod function;
mod html;
mod json;
mod stacks;
mod table;
mod tree;
mod waits;
mod words;

pub use asleep::asleep;
pub use format::{Format, Head};
pub use table::verdict;
pub use waits::listed;
pub use words::{at, called, share, shown, threads};

/// The formats, in the order in which help lists them.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &tree::FORMAT,
    &stacks::FORMAT,
    &html::FORMAT,
    &json::FORMAT,
];
