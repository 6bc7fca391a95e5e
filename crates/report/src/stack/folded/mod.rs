//! Many looks at stacks, folded into one: how often each stack was seen.

pub mod collapsed;
mod format;
pub mod speedscope;
mod stacks;
pub mod svg;

pub use format::Format;
pub use stacks::Stacks;

/// The formats, in the order in which help lists them.
pub static FORMATS: &[&Format] = &[&collapsed::FORMAT, &speedscope::FORMAT, &svg::FORMAT];
