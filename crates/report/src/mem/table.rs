//! Columns for people. The numbers come first and the name last, so that a long path can run on
//! without moving anything.
//!
//! A table is a head line (who, which Ruby, how long), the rows, a remainder so that the totals
//! agree, the totals, and a foot that says what the look cost the guest and what was lost.

mod layout;

use std::io;
use std::sync::Arc;

use births::analysis::{By, Census, Counts, Delta, Frame, Growth, Key, MERGED_PID, Report};

use super::format::Format;
use super::label::{label, label_of_key};
use crate::Style;
use crate::figures::{change, grouped, pause, plural, size, size_change, span};
use crate::text::printable;
use layout::{Line, Tone, aligned, written};

/// For people; so many guests and no more are read one by one.
pub static FORMAT: Format = Format {
    name: "table",
    about: "Columns, for people",
    for_people: true,
    most_guests: 16,
    blank_lines: true,
    says_losses: true,
    is_json: false,
    holders: |out, look, options| write(out, look.census, look.report, &options.style),
    growth: Some(|out, newer, growth, options| write_growth(out, newer, growth, &options.style)),
};

/// Writes who holds the memory.
pub fn write(
    out: &mut dyn io::Write,
    census: &Census,
    report: &Report,
    style: &Style,
) -> io::Result<()> {
    let watched = format!("{}, watched for {}", subject(census), span(census.seconds));
    head(out, &watched, style)?;

    let mut lines = vec![heading(["live", "born", "dead", "bytes"], report.by)];
    lines.extend(report.rows.iter().map(|row| {
        let (cells, tone) = if row.before {
            (before_cells(&row.counts), Tone::Dim)
        } else {
            (cells(&row.counts), Tone::Plain)
        };
        Line::row(cells, label(row), tone, callers(&row.key))
    }));
    if let Some(rest) = report.rest {
        let Counts { live, bytes, .. } = rest.counts;
        let words = remainder(rest.rows, &objects(live), &size(bytes));
        lines.push(Line::words(cells(&rest.counts), words, Tone::Dim));
    }
    lines.push(Line::words(cells(&report.total), "total", Tone::Head));
    aligned(out, &lines, style)?;
    writeln!(out)?;

    let Counts { live, bytes, .. } = report.before;
    if live > 0 {
        let text = format!(
            "of the total: {} ({}) from before lancet came",
            objects(live),
            size(bytes)
        );
        written(out, &text, Tone::Dim, style)?;
    }
    let Counts { live, bytes, .. } = report.hidden;
    if live > 0 {
        hidden(out, &objects(live), &size(bytes), style)?;
    }
    foot(out, census, style)
}

/// Writes what grew between two looks, of which `newer` is the second.
pub fn write_growth(
    out: &mut dyn io::Write,
    newer: &Census,
    growth: &Growth,
    style: &Style,
) -> io::Result<()> {
    let (interval, since) = (span(growth.seconds), span(newer.seconds));
    let grew = format!(
        "{}, what changed in {interval} ({since} after opening)",
        subject(newer)
    );
    head(out, &grew, style)?;

    let mut lines = vec![heading(["+live", "+bytes", "born", "live now"], growth.by)];
    lines.extend(growth.rows.iter().enumerate().map(|(at, row)| {
        let born = if row.before {
            "-".into()
        } else {
            grouped(row.delta.born.unsigned_abs())
        };
        let cells = delta_cells(&row.delta, born, grouped(row.now.live));
        let grew = row.delta.live > 0 || row.delta.bytes > 0;
        let tone = match (at, row.before) {
            (0, _) if grew => Tone::Worst,
            (_, true) => Tone::Dim,
            (_, false) => Tone::Plain,
        };
        Line::row(
            cells,
            label_of_key(&row.key, row.before),
            tone,
            callers(&row.key),
        )
    }));
    let sum = |delta: &Delta| delta_cells(delta, grouped(delta.born.unsigned_abs()), String::new());
    if let Some(rest) = growth.rest {
        let Delta { live, bytes, .. } = rest.delta;
        let words = remainder(rest.rows, &object_change(live), &size_change(bytes));
        lines.push(Line::words(sum(&rest.delta), words, Tone::Dim));
    }
    lines.push(Line::words(sum(&growth.total), "total", Tone::Head));
    aligned(out, &lines, style)?;
    writeln!(out)?;

    let Delta { live, bytes, .. } = growth.hidden;
    if live != 0 || bytes != 0 {
        hidden(out, &object_change(live), &size_change(bytes), style)?;
    }
    foot(out, newer, style)
}

/// Returns what the rows of a grouping are called.
pub fn title(by: By) -> &'static str {
    match by {
        By::Line => "file:line:Type",
        By::Method => "method (file)",
        By::File => "file",
        By::Gem => "gem",
        By::Type => "Type",
        By::Stack => "file:line:Type, with its callers",
    }
}

/// Returns of which process a census is, `ruby app.rb (PID 42), Ruby 3.1.2`; safe to print.
pub fn subject(census: &Census) -> String {
    let (command, ruby) = (printable(&census.command), printable(&census.ruby));
    if census.pid == MERGED_PID {
        format!("{command}, Ruby {ruby}")
    } else {
        format!("{command} (PID {}), Ruby {ruby}", census.pid)
    }
}

fn head(out: &mut dyn io::Write, text: &str, style: &Style) -> io::Result<()> {
    written(out, text, Tone::Head, style)?;
    writeln!(out)
}

fn heading(cells: [&str; 4], by: By) -> Line {
    Line::words(cells.map(str::to_owned).to_vec(), title(by), Tone::Head)
}

fn cells(counts: &Counts) -> Vec<String> {
    let Counts {
        born,
        live,
        dead,
        bytes,
    } = *counts;
    vec![grouped(live), grouped(born), grouped(dead), size(bytes)]
}

/// The cells of objects from before lancet came, whose births and deaths nobody counted.
fn before_cells(counts: &Counts) -> Vec<String> {
    vec![
        grouped(counts.live),
        "-".into(),
        "-".into(),
        size(counts.bytes),
    ]
}

fn delta_cells(delta: &Delta, born: String, now: String) -> Vec<String> {
    vec![change(delta.live), size_change(delta.bytes), born, now]
}

fn objects(count: u64) -> String {
    format!("{} {}", grouped(count), plural(count, "object", "objects"))
}

fn object_change(count: i64) -> String {
    format!(
        "{} {}",
        change(count),
        plural(count.unsigned_abs(), "object", "objects")
    )
}

fn remainder(rows: usize, objects: &str, bytes: &str) -> String {
    let rows = rows as u64;
    format!(
        "… and {} more {} ({objects}, {bytes})",
        grouped(rows),
        plural(rows, "row", "rows")
    )
}

/// Returns the callers, innermost first: the frames without the innermost, which is the name of the row itself.
fn callers(key: &Key) -> Vec<String> {
    let Key::Stack { frames, .. } = key else {
        return Vec::new();
    };
    let call = |frame: &Arc<Frame>| {
        format!(
            "{}:{} {}",
            printable(&frame.path),
            frame.line,
            printable(&frame.method)
        )
    };
    frames.iter().skip(1).map(call).collect()
}

fn hidden(out: &mut dyn io::Write, objects: &str, bytes: &str, style: &Style) -> io::Result<()> {
    let text = format!("not shown: {objects} ({bytes}) of the VM's own; --internal shows them");
    written(out, &text, Tone::Dim, style)
}

fn foot(out: &mut dyn io::Write, census: &Census, style: &Style) -> io::Result<()> {
    let walk = pause(census.walk_pause);
    let cost = match census.gc_pause {
        Some(gc) => format!(
            "paused: {} for a GC before the count, {walk} for the count",
            pause(gc)
        ),
        None => format!("paused: {walk} for the count, no GC before it"),
    };
    written(out, &cost, Tone::Dim, style)?;
    if census.garbage_included {
        written(
            out,
            "live includes garbage that no GC has collected yet",
            Tone::Warning,
            style,
        )?;
    }
    for loss in &census.losses {
        written(
            out,
            &format!("lost: {}", printable(&loss.text)),
            Tone::Warning,
            style,
        )?;
    }
    Ok(())
}
