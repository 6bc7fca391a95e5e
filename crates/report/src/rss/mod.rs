//! What resident memory is used for: `lancet heap --rss`. Used by `lancet::commands::heap::ledger` and
//! `lancet::commands::heap::args`.

mod json;
mod saved;
mod table;
mod words;

use std::io::{self, Write};

use rss::Ledger;

use crate::Style;
pub use saved::saved;
pub use words::{losses, sentence, summed};

/// How a ledger is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most rows of each list below the ledger.
    pub top: usize,
    /// As JSON, one object a line, and not as a table.
    pub json: bool,
    /// How a table may look.
    pub style: Style,
}

/// Writes a ledger.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, ledger: &Ledger, options: &Options) -> io::Result<()> {
    if options.json {
        json::write(out, ledger)
    } else {
        table::write(out, ledger, options.top, &options.style)
    }
}
