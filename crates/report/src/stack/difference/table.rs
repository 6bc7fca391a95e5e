//! Frames that differ, for people. Used by `lancet::commands::stack::run`.
//!
//! ```text
//! ext.so, then new/ext.so: 2 frames grew, 1 is new, 0 shrank, 0 are gone, 461 are as before; the largest had 9,136 bytes, now 32,976
//!
//!  before   after   change  function
//!   1,040  32,976  +31,936  evma_send_file_data_to_connection
//!       –     512     +512  checksum (new)
//! ```

use std::io::{self, Write};

use frames::difference::{Change, Difference};

use super::{kind, largest, sizes};
use crate::Style;
use crate::columns::{Line, Tone, aligned};
use crate::figures::{change, grouped, plural};
use crate::text::printable;

/// Writes the line on both files, then the rows.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    writeln!(out, "{}", head(difference))?;
    if !difference.changes.is_empty() {
        rows(out, &difference.changes)?;
    }
    if difference.more > 0 {
        let more = grouped(difference.more);
        writeln!(out, "… and {more} more")?;
    }
    let (before, after) = difference.counts.unnamed;
    if before + after > 0 {
        writeln!(
            out,
            "\n{} functions of the old file and {} of the new one have no name and are not compared",
            grouped(before),
            grouped(after)
        )?;
    }
    Ok(())
}

fn rows(out: &mut dyn Write, changes: &[Change]) -> io::Result<()> {
    let bytes = |bytes: Option<u64>| bytes.map_or("–".to_owned(), grouped);
    let line = |cells: [String; 3], name: String| Line::words(cells.into(), name, Tone::Plain);
    let head = ["before", "after", "change"].map(str::to_owned);
    let mut lines = vec![line(head, "function".to_owned())];
    for row in changes {
        let (before, after) = sizes(row);
        let cells = [bytes(before), bytes(after), change(row.growth())];
        lines.push(line(cells, function(row)));
    }
    writeln!(out)?;
    aligned(out, &lines, &Style::default())
}

/// Returns the name, with what the numbers beside it do not say.
fn function(row: &Change) -> String {
    let mut remarks = Vec::new();
    if matches!(kind(row), "new" | "gone") {
        remarks.push(kind(row));
    }
    let dynamic = |frame: &Option<frames::Frame>| frame.as_ref().is_some_and(|f| f.dynamic);
    match (dynamic(&row.old), dynamic(&row.new)) {
        (_, true) => remarks.push("and more, by an amount decided at run time"),
        (true, false) if row.new.is_some() => {
            remarks.push("no amount decided at run time any more")
        }
        _ => {}
    }
    let name = printable(&row.name);
    match remarks.is_empty() {
        true => name.into_owned(),
        false => format!("{name} ({})", remarks.join("; ")),
    }
}

fn head(difference: &Difference) -> String {
    let counts = &difference.counts;
    let (before, after) = largest(difference);
    let path = |scan: &frames::Scan| {
        let path = scan.image().path().display().to_string();
        printable(&path).into_owned()
    };
    let are = |count| plural(count, "is", "are");
    format!(
        "{}, then {}: {} {} grew, {} {} new, {} shrank, {} {} gone, {} {} as before; the largest had {} bytes, now {}",
        path(&difference.old),
        path(&difference.new),
        grouped(counts.grew),
        plural(counts.grew, "frame", "frames"),
        grouped(counts.came),
        are(counts.came),
        grouped(counts.shrank),
        grouped(counts.gone),
        are(counts.gone),
        grouped(counts.same),
        are(counts.same),
        grouped(before),
        grouped(after),
    )
}
