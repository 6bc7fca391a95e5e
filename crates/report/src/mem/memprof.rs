//! The classic format: a count in seven columns, a space, `file:line:Type`. Used by `mem`.
//!
//! ```text
//!    1000 test.rb:11:String
//!     100 test.rb:7:String
//! ```
//!
//! The count is of living objects born while we watched, the highest first. The lines of equal
//! counts stand as memprof left them, in falling byte order: it sorted the finished lines and
//! printed them backwards. Objects from before have no line, since memprof saw none either, and a
//! place the VM does not name is `__null__:0`.

use std::cmp::Reverse;
use std::io;

use births::analysis::{Key, Report};

use super::reporter::Format;
use crate::Writes;
use crate::text::printable;

/// For scripts and eyes used to memprof. It has no line for a change, so that growth is shown by two lists.
pub static FORMAT: Format = Format {
    writes: Writes::text("memprof", "The classic lines: count, file:line:Type"),
    for_people: false,
    most_guests: 1,
    blank_lines: true,
    says_losses: false,
    holders: |out, look, _| write(out, look.report),
    growth: None,
};

/// Writes the living objects of a report.
pub fn write(out: &mut dyn io::Write, report: &Report) -> io::Result<()> {
    let mut lines: Vec<(u64, String)> = report
        .rows
        .iter()
        .filter(|row| !row.before && row.counts.live > 0)
        .map(|row| (row.counts.live, name(&row.key)))
        .collect();
    lines.sort_unstable_by(|a, b| (Reverse(a.0), &b.1).cmp(&(Reverse(b.0), &a.1)));
    for (count, name) in lines {
        writeln!(out, "{count:7} {name}")?;
    }
    Ok(())
}

fn name(key: &Key) -> String {
    match key {
        Key::Line {
            path: None, kind, ..
        } => format!("__null__:0:{}", printable(kind)),
        key => printable(&key.to_string()).into_owned(),
    }
}
