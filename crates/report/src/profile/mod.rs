//! Where threads run: the answers of `lancet profile`.
//!
//! | module | what it writes |
//! |---|---|
//! | `table` | the verdict, and functions with their own and total shares |
//! | `tree` | who calls whom, the dear ways first |
//! | `json` | functions and their callers, for programs |
//! | `drawn` | what the folded formats of `stack --for` draw: collapsed stacks, speedscope, a flame graph |

mod drawn;
mod format;
mod json;
mod table;
mod tree;
mod words;

pub use format::{Format, Head};

/// The formats, in the order in which help lists them.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &tree::FORMAT,
    &drawn::COLLAPSED,
    &drawn::SPEEDSCOPE,
    &drawn::SVG,
    &json::FORMAT,
];

/// What is written unless something else is asked for.
pub static TABLE: &Format = &table::FORMAT;

/// What `--json` asks for.
pub static JSON: &Format = &json::FORMAT;
