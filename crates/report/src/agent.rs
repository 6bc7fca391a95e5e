//! What `lancet agent` tells of itself, for its own table; [`answer::agent`]. Used by crate `lancet`.

use std::io::{self, Write};

use answer::agent::Record;
pub use answer::agent::{Captures, Used};

use crate::json::line;

/// Writes what it has used.
///
/// # Errors
/// Those of `out`.
pub fn used(out: &mut dyn Write, used: Used) -> io::Result<()> {
    line(out, &Record::Used(used))
}

/// Writes what has become of captures, behind what was used.
///
/// # Errors
/// Those of `out`.
pub fn captures(out: &mut dyn Write, captures: Captures) -> io::Result<()> {
    line(out, &Record::Captures(captures))
}
