//! Chains of calls, for programs: a `chain` for each row.

use std::io::{self, Write};

use serde_json::{Value, json};

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
        let frames: Vec<Value> = chain
            .frames
            .iter()
            .map(|frame| {
                json!({
                    "address": frame.range.start,
                    "name": scan.name(frame),
                    "bytes": frame.bytes,
                })
            })
            .collect();
        let record = json!({
            "record": "chain",
            "file": scan.image().path().to_string_lossy(),
            "bytes": chain.bytes,
            "recursive": chain.recursive,
            "open": chain.open,
            "frames": frames,
        });
        line(out, &record)?;
    }
    Ok(())
}
