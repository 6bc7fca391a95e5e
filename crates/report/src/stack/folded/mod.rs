//! Many looks at stacks, folded into one: how often each stack was seen. Used by `lancet::commands::stack::run` and
//! `lancet::commands::stack::args`.

mod format;
pub mod json;
mod places;
mod stacks;
pub mod table;

use crate::Writes;
use crate::forms::stacks::Times;

pub use format::{Format, Head};
pub(crate) use places::{locked, waited};
pub use stacks::Stacks;

/// The formats, in the order in which help lists them.
pub static FORMATS: &[&Format] = &[&table::FORMAT, &STACKS, &json::FORMAT];

/// For all forms that show stacks.
static STACKS: Format = Format {
    writes: Writes::Stacks,
    write: |stacks, out, head| {
        let titled = stacks::Titled {
            stacks,
            title: head.title,
            times: Times::counted(Some(head.began), Some(head.took)).looked(stacks.looks),
        };
        head.stacks.write(&titled, out)
    },
};
