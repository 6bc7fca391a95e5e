//! Many looks at stacks, folded into one: how often each stack was seen.

pub mod collapsed;
mod format;
pub mod json;
mod places;
pub mod speedscope;
mod stacks;
pub mod svg;
pub mod table;

pub use format::Format;
pub use stacks::Stacks;

/// The formats, in the order in which help lists them.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &collapsed::FORMAT,
    &speedscope::FORMAT,
    &svg::FORMAT,
    &json::FORMAT,
];
