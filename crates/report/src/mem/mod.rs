//! The answers of `lancet mem`: who holds the memory, and what grew. Used by `lancet::commands::mem::args`.
//!
//! | | first look | from the second look on, where growth is wanted |
//! |---|---|---|
//! | table, json | who holds | what grew; a guest not seen before: who holds |
//! | memprof | who holds | who holds, after an empty line |
//! | stacks | who holds | what grew; in forms that are one document, there is one report |
//!
//! Of several guests come first all of them merged, then each. The formats that have no place to name a guest, memprof
//! and stacks, have the merged one only.

pub mod json;
mod label;
pub mod memprof;
mod reporter;
pub mod stacks;
pub mod table;
mod verdict;

pub use label::{BEFORE, label};
pub use reporter::{Format, Options, Reporter, Weight};
pub use verdict::sentences;

/// The formats, in the order in which help lists them. The first is the default for people.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &memprof::FORMAT,
    &json::FORMAT,
    &stacks::FORMAT,
];
