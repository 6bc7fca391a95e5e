//! What was made while lancet watched and was gone by the look (`--temporary`): rows of births in vain, by line. Used by `table`.

use std::io;

use births::analysis::{Census, Counts, Report};

use super::{allocated, callers, foot, head, objects, remainder, subject, title};
use crate::Style;
use crate::columns::{Line, Tone, aligned, written};
use crate::figures::{grouped, size, span};
use crate::mem::label;

/// Writes what was made and is gone.
pub fn write(
    out: &mut dyn io::Write,
    census: &Census,
    report: &Report,
    style: &Style,
) -> io::Result<()> {
    let watched = format!(
        "{}, what was born and died within {}",
        subject(census),
        span(census.seconds)
    );
    head(out, &watched, style)?;
    let names = ["dead", "share", "born", "allocated"].map(str::to_owned);
    let names = Line::words(names.to_vec(), title(report.by, census.unit), Tone::Head);
    let mut lines = vec![names];
    lines.extend(report.rows.iter().map(|row| {
        let name = label(row, &census.root);
        let callers = callers(&row.key, &census.root);
        Line::row(cells(&row.counts), name, Tone::Plain, callers)
    }));
    if let Some(rest) = report.rest {
        let Counts {
            dead, allocated, ..
        } = rest.counts;
        let words = remainder(rest.rows, &objects(census, dead), &size(allocated));
        lines.push(Line::words(cells(&rest.counts), words, Tone::Dim));
    }
    lines.push(Line::words(cells(&report.total), "total", Tone::Head));
    aligned(out, &lines, style)?;
    writeln!(out)?;
    let text =
        "dead: born while lancet watched, and gone by this look; share: of all that were born";
    written(out, text, Tone::Dim, style)?;
    written(out, allocated(census.unit), Tone::Dim, style)?;
    foot(out, census, style)
}

fn cells(counts: &Counts) -> Vec<String> {
    let Counts {
        born,
        dead,
        allocated,
        ..
    } = *counts;
    let share = match born {
        0 => "-".into(),
        born => format!("{} %", u128::from(dead) * 100 / u128::from(born)),
    };
    vec![grouped(dead), share, grouped(born), size(allocated)]
}
