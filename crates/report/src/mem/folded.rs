//! Collapsed stacks, one a line: frames from the outermost to the innermost, then the type, then
//! a number. Flame graph scripts, speedscope and others read it.
//!
//! ```text
//! <main> (app.rb:40);fill (app.rb:12);String 150001
//! (before lancet);String 2000
//! ```
//!
//! Frames are separated by `;`, which a file name may hold as well: there it becomes `:`.

use std::io;

use births::analysis::{Growth, Key, Report};

use super::format::Format;
pub use super::format::Weight;
use super::label::BEFORE;
use crate::text::printable;

/// For programs that draw flame graphs.
pub static FORMAT: Format = Format {
    name: "folded",
    about: "Collapsed stacks, for flame graphs",
    for_people: false,
    most_guests: 1,
    blank_lines: false,
    says_losses: false,
    is_text: true,
    has_records: false,
    holders: |out, look, options| write(out, look.report, options.weight),
    growth: Some(|out, _, growth, options| write_growth(out, growth, options.weight)),
};

/// Writes the rows of a report, best one made with [`births::analysis::By::Stack`]. Rows of zero are left
/// out: they have no width.
pub fn write(out: &mut dyn io::Write, report: &Report, weight: Weight) -> io::Result<()> {
    for row in &report.rows {
        let number = match weight {
            Weight::Live => row.counts.live,
            Weight::Born => row.counts.born,
            Weight::Bytes => row.counts.bytes,
        };
        line(out, &row.key, row.before, number)?;
    }
    Ok(())
}

/// Writes what grew. A flame graph has no negative widths: what shrank is left out.
pub fn write_growth(out: &mut dyn io::Write, growth: &Growth, weight: Weight) -> io::Result<()> {
    for row in &growth.rows {
        let number = match weight {
            Weight::Live => row.delta.live,
            Weight::Born => row.delta.born,
            Weight::Bytes => row.delta.bytes,
        };
        line(
            out,
            &row.key,
            row.before,
            u64::try_from(number).unwrap_or(0),
        )?;
    }
    Ok(())
}

fn line(out: &mut dyn io::Write, key: &Key, before: bool, number: u64) -> io::Result<()> {
    if number == 0 {
        return Ok(());
    }
    if before {
        write!(out, "{BEFORE};")?;
    }
    match key {
        Key::Stack { frames, kind } => {
            if frames.is_empty() {
                write!(out, "(vm);")?;
            }
            for frame in frames.iter().rev() {
                let method = one(&frame.method);
                if frame.path.is_empty() {
                    write!(out, "{method};")?;
                    continue;
                }
                write!(out, "{method} ({}:{});", one(&frame.path), frame.line)?;
            }
            writeln!(out, "{} {number}", one(kind))
        }
        key => writeln!(out, "{} {number}", one(&key.to_string())),
    }
}

/// A text that is one frame whatever it holds.
fn one(text: &str) -> String {
    printable(text).replace(';', ":")
}
