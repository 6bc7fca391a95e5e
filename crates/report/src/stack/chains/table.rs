//! Chains of calls, for people. Used by `lancet::commands::stack::run`.
//!
//! ```text
//!   bytes  chain of calls
//!   6,464+ main 1,024 > parse 5,024 > … 3 more … > read_block 96
//! ```

use std::io::{self, Write};

use frames::Scan;
use frames::chains::Chain;

use super::{Chains, name};
use crate::figures::grouped;
use crate::stack::names::file_name;
use crate::text::printable;

/// A frame of less than this part of a chain is not named, but for the first and the last.
const PART: u64 = 20;

/// Writes the rows.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, chains: &Chains<'_>) -> io::Result<()> {
    let bytes: Vec<String> = chains
        .rows
        .iter()
        .map(|(_, chain)| {
            let mark = if chain.open || chain.recursive {
                "+"
            } else {
                " "
            };
            format!("{}{mark}", grouped(chain.bytes))
        })
        .collect();
    let widest = bytes.iter().map(String::len).max().unwrap_or(0);
    let widest = widest.max("bytes ".len());
    writeln!(out, "{:>widest$} chain of calls", "bytes ")?;
    for ((number, chain), bytes) in chains.rows.iter().zip(&bytes) {
        let scan = &chains.scans[*number];
        write!(out, "{bytes:>widest$} ")?;
        if chains.scans.len() > 1 {
            write!(out, "{}: ", file_name(scan))?;
        }
        writeln!(out, "{}", printable(&words(scan, chain)))?;
    }
    if chains.more > 0 {
        writeln!(
            out,
            "{:>widest$} … and {} more",
            "",
            grouped(chains.more as u64)
        )?;
    }
    if chains.rows.iter().any(|(_, c)| c.open || c.recursive) {
        writeln!(
            out,
            "\n+ and more: calls by a pointer, of other files, and in recursion are not counted, nor what is decided at run time"
        )?;
    }
    Ok(())
}

/// Returns the functions of a chain with the bytes of each, without the small ones in its middle.
fn words(scan: &Scan, chain: &Chain) -> String {
    let mut words = Vec::new();
    let mut left_out = 0;
    let last = chain.frames.len().saturating_sub(1);
    for (at, frame) in chain.frames.iter().enumerate() {
        if at != 0 && at != last && frame.bytes < chain.bytes / PART {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            words.push(format!("… {left_out} more …"));
            left_out = 0;
        }
        words.push(format!("{} {}", name(scan, frame), grouped(frame.bytes)));
    }
    let recursion = if chain.recursive { " (recursion)" } else { "" };
    format!("{}{recursion}", words.join(" > "))
}
