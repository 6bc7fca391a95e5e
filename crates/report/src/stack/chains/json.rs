//! Chains of calls, for programs: a `chain` for each row. Used by `lancet::commands::stack::run`.

use std::io::{self, Write};

use answer::place::Address;
use answer::stack::{Called, Record};

use super::Chains;
use crate::json::line;

/// Writes a line of JSON for each chain, the deepest first.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, chains: &Chains<'_>) -> io::Result<()> {
    for (number, chain) in &chains.rows {
        let scan = &chains.scans[*number];
        let frames = chain.frames.iter().map(|frame| Called {
            address: Address(frame.range.start),
            name: scan.name(frame),
            bytes: frame.bytes,
        });
        let record = Record::Chain {
            file: scan.image().path().to_string_lossy().into_owned(),
            bytes: chain.bytes,
            recursive: chain.recursive,
            open: chain.open,
            frames: frames.collect(),
        };
        line(out, &record)?;
    }
    Ok(())
}
