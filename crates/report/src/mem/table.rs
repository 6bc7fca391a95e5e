//! Columns for people. The numbers come first and the name last, so that a long path can run on
//! without moving anything. Used by `mem`, and by `lancet::commands::mem::live::screen`.
//!
//! A table is a head line (who, which Ruby, how long), the rows, a remainder so that the totals
//! agree, the totals, and a foot that says what the look cost the guest and what was lost.

mod temporary;
mod vm_memory;

use std::io;
use std::sync::Arc;

use births::analysis::{
    By, Census, Counts, Delta, Frame, Growth, Key, MERGED_PID, Order, Report, Trend, Unit, Verdict,
    leaks,
};

use super::label::{label, label_of_key, short};
use super::reporter::Format;
use super::verdict::{sentences, why_uncollected};
use crate::Style;
use crate::figures::{change, grouped, pause, plural, size, size_change, span};
use crate::text::printable;
pub use vm_memory::parts;

use crate::Writes;
use crate::columns::{Line, Tone, aligned, written};

/// For people; so many guests and no more are read one by one.
pub static FORMAT: Format = Format {
    writes: Writes::text("table", "Columns, for people"),
    for_people: true,
    most_guests: 16,
    blank_lines: true,
    says_losses: true,
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
    if report.order == Order::Dead {
        return temporary::write(out, census, report, style);
    }
    let watched = format!("{}, watched for {}", subject(census), span(census.seconds));
    head(out, &watched, style)?;
    judged(out, census, report.verdict.as_ref(), style)?;

    let age = Age::of(census);
    let names = ["live", "born", "dead", "bytes", "allocated"].map(str::to_owned);
    let names = age.heading(names.to_vec());
    let mut lines = vec![Line::words(
        names,
        title(report.by, census.unit),
        Tone::Head,
    )];
    lines.extend(report.rows.iter().map(|row| {
        let cells = if row.before {
            age.unknown(before_cells(&row.counts))
        } else {
            age.cells(cells(&row.counts), &row.counts)
        };
        let tone = tone(report.verdict.as_ref(), &row.key, row.before);
        Line::row(
            cells,
            label(row, &census.root),
            tone,
            callers(&row.key, &census.root),
        )
    }));
    let sum = |counts: &Counts| age.cells(cells(counts), counts);
    if let Some(rest) = report.rest {
        let Counts { live, bytes, .. } = rest.counts;
        let words = remainder(rest.rows, &objects(census, live), &size(bytes));
        lines.push(Line::words(sum(&rest.counts), words, Tone::Dim));
    }
    lines.push(Line::words(sum(&report.total), "total", Tone::Head));
    aligned(out, &lines, style)?;
    writeln!(out)?;

    age.foot(out, style)?;
    written(out, allocated(census.unit), Tone::Dim, style)?;
    let Counts { live, bytes, .. } = report.before;
    if live > 0 {
        let text = format!(
            "of the total: {} ({}) from before lancet came",
            objects(census, live),
            size(bytes)
        );
        written(out, &text, Tone::Dim, style)?;
    }
    let Counts { live, bytes, .. } = report.hidden;
    if live > 0 {
        hidden(out, &objects(census, live), &size(bytes), style)?;
        written(out, &kinds(&report.own), Tone::Dim, style)?;
    } else if !report.own.is_empty() {
        vm_memory::write(out, census, report, style)?;
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
    judged(out, newer, growth.verdict.as_ref(), style)?;

    let age = Age::of(newer);
    let names = ["+live", "+bytes", "born", "allocated", "live now"].map(str::to_owned);
    let names = age.heading(names.to_vec());
    let mut lines = vec![Line::words(names, title(growth.by, newer.unit), Tone::Head)];
    lines.extend(growth.rows.iter().map(|row| {
        let now = grouped(row.now.live);
        let cells = delta_cells(&row.delta, !row.before, now);
        let cells = if row.before {
            age.unknown(cells)
        } else {
            age.cells(cells, &row.now)
        };
        let tone = tone(growth.verdict.as_ref(), &row.key, row.before);
        let name = label_of_key(&row.key, row.before, &newer.root);
        Line::row(cells, name, tone, callers(&row.key, &newer.root))
    }));
    let sum = |delta: &Delta| age.unknown(delta_cells(delta, true, String::new()));
    if let Some(rest) = growth.rest {
        let Delta { live, bytes, .. } = rest.delta;
        let words = remainder(rest.rows, &object_change(newer, live), &size_change(bytes));
        lines.push(Line::words(sum(&rest.delta), words, Tone::Dim));
    }
    lines.push(Line::words(sum(&growth.total), "total", Tone::Head));
    aligned(out, &lines, style)?;
    writeln!(out)?;

    age.foot(out, style)?;
    written(out, allocated(newer.unit), Tone::Dim, style)?;
    let Delta { live, bytes, .. } = growth.hidden;
    if live != 0 || bytes != 0 {
        hidden(out, &object_change(newer, live), &size_change(bytes), style)?;
    }
    foot(out, newer, style)
}

/// Returns what the rows of a grouping are called.
pub fn title(by: By, unit: Unit) -> &'static str {
    match by {
        By::Method if unit == Unit::Block => "function (file)",
        By::Line if unit == Unit::Block => "file:line:block, or function (file)",
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
    let vm = format!("{} {}", census.language, census.version);
    let command = census.command.join(" ");
    let (command, vm) = (printable(&command), printable(vm.trim_start()));
    if census.pid == MERGED_PID {
        format!("{command}, {vm}")
    } else {
        format!("{command} (PID {}), {vm}", census.pid)
    }
}

fn head(out: &mut dyn io::Write, text: &str, style: &Style) -> io::Result<()> {
    written(out, text, Tone::Head, style)?;
    writeln!(out)
}

/// How a row stands out.
fn tone(verdict: Option<&Verdict>, key: &Key, before: bool) -> Tone {
    match leaks(verdict, key, before) {
        true => Tone::Worst,
        false if before => Tone::Dim,
        false => Tone::Plain,
    }
}

/// Writes which rows leak.
fn judged(
    out: &mut dyn io::Write,
    census: &Census,
    verdict: Option<&Verdict>,
    style: &Style,
) -> io::Result<()> {
    let Some(verdict) = verdict else {
        return Ok(());
    };
    let (said, leaking) = sentences(verdict, census);
    let tone = if leaking { Tone::Worst } else { Tone::Plain };
    for text in said {
        written(out, &text, tone, style)?;
    }
    writeln!(out)
}

/// The column of objects that are older than the last interval. It stands behind the first, in the place of the third,
/// which the others tell.
struct Age {
    intervals: usize,
    /// How long the last interval was; `None` if there is no other, and then there is no such column.
    last: Option<f64>,
}

impl Age {
    fn of(census: &Census) -> Self {
        let last = match census.intervals[..] {
            [_, .., last] => Some(last),
            _ => None,
        };
        Age {
            intervals: census.intervals.len(),
            last,
        }
    }

    fn put(&self, mut cells: Vec<String>, cell: impl FnOnce(f64) -> String) -> Vec<String> {
        if let Some(last) = self.last {
            cells.remove(2);
            cells.insert(1, cell(last));
        }
        cells
    }

    fn heading(&self, cells: Vec<String>) -> Vec<String> {
        self.put(cells, |last| format!(">{}", span(last)))
    }

    fn cells(&self, cells: Vec<String>, counts: &Counts) -> Vec<String> {
        let trend = Trend::of(counts, self.intervals);
        self.put(cells, |_| grouped(trend.kept))
    }

    fn unknown(&self, cells: Vec<String>) -> Vec<String> {
        self.put(cells, |_| "-".into())
    }

    /// Says what the column is.
    fn foot(&self, out: &mut dyn io::Write, style: &Style) -> io::Result<()> {
        let Some(last) = self.last.map(span) else {
            return Ok(());
        };
        let text = format!(">{last}: born more than {last} ago and alive");
        written(out, &text, Tone::Dim, style)
    }
}

fn cells(counts: &Counts) -> Vec<String> {
    let Counts {
        born,
        live,
        dead,
        bytes,
        allocated,
        ..
    } = *counts;
    vec![
        grouped(live),
        grouped(born),
        grouped(dead),
        size(bytes),
        size(allocated),
    ]
}

/// The cells of objects from before lancet came, whose births and deaths nobody counted.
fn before_cells(counts: &Counts) -> Vec<String> {
    vec![
        grouped(counts.live),
        "-".into(),
        "-".into(),
        size(counts.bytes),
        "-".into(),
    ]
}

/// The cells of a row that changed; `watched` = its births were counted.
fn delta_cells(delta: &Delta, watched: bool, now: String) -> Vec<String> {
    let (born, allocated) = if watched {
        (
            grouped(delta.born.unsigned_abs()),
            size(delta.allocated.unsigned_abs()),
        )
    } else {
        ("-".into(), "-".into())
    };
    let (live, bytes) = (change(delta.live), size_change(delta.bytes));
    vec![live, bytes, born, allocated, now]
}

fn objects(census: &Census, count: u64) -> String {
    let [one, many] = census.counted();
    format!("{} {}", grouped(count), plural(count, one, many))
}

fn object_change(census: &Census, count: i64) -> String {
    let [one, many] = census.counted();
    format!(
        "{} {}",
        change(count),
        plural(count.unsigned_abs(), one, many)
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
fn callers(key: &Key, root: &str) -> Vec<String> {
    let Key::Stack { frames, .. } = key else {
        return Vec::new();
    };
    let call = |frame: &Arc<Frame>| {
        if frame.path.is_empty() {
            return printable(&frame.method).into_owned();
        }
        format!(
            "{}:{} {}",
            printable(&short(&frame.path, root)),
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

/// Returns the types of the VM's own objects that hold most, with their memory.
fn kinds(own: &[(Arc<str>, Counts)]) -> String {
    let sizes = own.iter().take(MOST_KINDS);
    let sizes: Vec<_> = sizes
        .map(|(kind, counts)| format!("{} {}", printable(kind), size(counts.bytes)))
        .collect();
    format!("    most of it: {}", sizes.join(", "))
}

/// How many types the line has.
const MOST_KINDS: usize = 3;

/// Returns what the column says.
const fn allocated(unit: Unit) -> &'static str {
    match unit {
        Unit::Object => {
            "allocated: by all that were born, soon after birth; estimated from 1 in 32"
        }
        Unit::Block => "bytes: as they were asked for; allocated: by all that were born",
    }
}

/// Returns for how much of the time looks have held the process; `None` if there was but one.
pub fn share(census: &Census) -> Option<String> {
    if census.looks < 2 || census.seconds <= 0.0 {
        return None;
    }
    let percent = census.paused.as_secs_f64() / census.seconds * 100.0;
    Some(format!("paused for {percent:.1} % of the time"))
}

fn foot(out: &mut dyn io::Write, census: &Census, style: &Style) -> io::Result<()> {
    if census.unit == Unit::Block {
        return lost(out, census, style);
    }
    let walk = pause(census.walk_pause);
    let cost = match census.gc_pause {
        Some(gc) => format!(
            "paused: {} for a GC before the count, {walk} for the count",
            pause(gc)
        ),
        None => format!("paused: {walk} for the count, no GC before it"),
    };
    written(out, &cost, Tone::Dim, style)?;
    if let Some(share) = share(census) {
        let looks = u64::from(census.looks);
        let text = format!(
            "all {} {}: {share}",
            grouped(looks),
            plural(looks, "look", "looks")
        );
        written(out, &text, Tone::Dim, style)?;
    }
    if census.includes_garbage() {
        let said = why_uncollected(census).map_or_else(
            || "live includes garbage that no GC has collected yet".into(),
            |why| {
                format!("live may include cycles that nobody holds, because no GC was run: {why}")
            },
        );
        written(out, &said, Tone::Warning, style)?;
    }
    lost(out, census, style)
}

/// Writes what was lost.
fn lost(out: &mut dyn io::Write, census: &Census, style: &Style) -> io::Result<()> {
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
