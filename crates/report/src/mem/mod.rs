//! The answers of `lancet mem`: who holds the memory, and what grew.
//!
//! | | first look | from the second look on, where growth is wanted |
//! |---|---|---|
//! | table, json | who holds | what grew; a guest not seen before: who holds |
//! | folded | who holds | what grew |
//! | memprof | who holds | who holds, after an empty line |
//! | pprof | who holds | (there is one report) |
//!
//! Of several guests come first all of them merged, then each. The formats that have no place to name a guest, memprof,
//! folded and pprof, have the merged one only.

pub mod folded;
mod format;
pub mod json;
mod label;
pub mod memprof;
mod pprof;
mod reporter;
pub mod table;
mod verdict;

pub use format::{Format, Options, Weight};
pub use label::{BEFORE, label};
pub use reporter::Reporter;
pub use verdict::sentences;

/// The formats, in the order in which help lists them. The first is the default for people.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &memprof::FORMAT,
    &json::FORMAT,
    &folded::FORMAT,
    &pprof::FORMAT,
];
