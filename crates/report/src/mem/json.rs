//! One JSON object a line, of the records of [`answer::mem`]. Used by `mem`.

use std::io;

use answer::losses::Loss;
use answer::mem::{Change, Cut, Earlier, Figures, Record, Subject};
use answer::place::Place;
use answer::process::{Language, Process};
use answer::time::nanos;
use births::analysis::{
    Census, Counts, Delta, Frame, Growing, Growth, Key, MERGED_PID, Report, Verdict,
};

use super::reporter::Format;
use super::table::parts;
use super::verdict::{is_certain, sentences};
use crate::Writes;
use crate::json::line as record;
use crate::losses::what;

/// For programs; it names each guest, so that however many there are, each has its records.
pub static FORMAT: Format = Format {
    writes: Writes::Tables,
    for_people: false,
    most_guests: usize::MAX,
    blank_lines: false,
    says_losses: true,
    holders: |out, look, _| write(out, look.census, look.report),
    growth: Some(|out, newer, growth, _| write_growth(out, newer, growth)),
};

/// Writes one look at one process.
pub fn write(out: &mut dyn io::Write, census: &Census, report: &Report) -> io::Result<()> {
    let pid = pid(census);
    head(out, census, report.by.name(), None)?;
    judged(out, census, report.verdict.as_ref())?;
    for row in &report.rows {
        if row.before {
            let Counts { live, bytes, .. } = row.counts;
            let kind = &row.key.to_string();
            record(
                out,
                &Record::Before {
                    pid,
                    kind,
                    live,
                    bytes,
                },
            )?;
        } else {
            record(
                out,
                &Record::Row {
                    pid,
                    of: subject(&row.key),
                    counts: figures(row.counts),
                    alive: alive(&row.counts, census),
                },
            )?;
        }
    }
    record(
        out,
        &Record::Total {
            pid,
            counts: figures(report.total),
            rest: report.rest.map(|rest| Cut {
                rows: rest.rows,
                figures: figures(rest.counts),
            }),
            before: Earlier {
                live: report.before.live,
                bytes: report.before.bytes,
            },
            hidden: figures(report.hidden),
        },
    )?;
    for (kind, counts) in &report.own {
        record(
            out,
            &Record::Own {
                pid,
                kind,
                live: counts.live,
                bytes: counts.bytes,
            },
        )?;
    }
    if let Some(memory) = &census.memory {
        let parts = parts(memory, report);
        let parts = parts.iter().map(|(name, bytes, _)| (*name, *bytes));
        record(
            out,
            &Record::Resident {
                pid,
                bytes: memory.rss.total,
                parts: parts.collect(),
            },
        )?;
    }
    losses(out, census)
}

/// Writes what grew between two looks, of which `newer` is the second.
pub fn write_growth(out: &mut dyn io::Write, newer: &Census, growth: &Growth) -> io::Result<()> {
    let pid = pid(newer);
    head(out, newer, growth.by.name(), Some(growth.seconds))?;
    judged(out, newer, growth.verdict.as_ref())?;
    for row in &growth.rows {
        record(
            out,
            &Record::Growth {
                pid,
                of: subject(&row.key),
                before: row.before,
                change: change(row.delta),
                now_live: row.now.live,
                now_bytes: row.now.bytes,
                alive: alive(&row.now, newer),
            },
        )?;
    }
    record(
        out,
        &Record::GrowthTotal {
            pid,
            change: change(growth.total),
            rest: growth.rest.map(|rest| Cut {
                rows: rest.rows,
                figures: change(rest.delta),
            }),
            hidden: change(growth.hidden),
        },
    )?;
    losses(out, newer)
}

fn figures(counts: Counts) -> Figures {
    Figures {
        born: counts.born,
        live: counts.live,
        dead: counts.dead,
        bytes: counts.bytes,
        allocated: counts.allocated,
    }
}

fn change(delta: Delta) -> Change {
    Change {
        born: delta.born,
        live: delta.live,
        bytes: delta.bytes,
        allocated: delta.allocated,
    }
}

fn call(frame: &Frame) -> Place<'_> {
    Place::new(&*frame.path, frame.line, &*frame.method)
}

fn subject(key: &Key) -> Subject<'_> {
    let mut of = Subject::default();
    match key {
        Key::Line { path, line, kind } => {
            of.place = path.as_deref().map(|path| Place::new(path, *line, ""));
            of.kind = Some(kind);
        }
        Key::Method {
            path,
            method,
            script,
        } => {
            of.place = path.as_deref().map(|path| Place::new(path, 0, &**method));
            of.script = script.as_deref().map(call);
        }
        Key::File { path } => of.place = path.as_deref().map(|path| Place::new(path, 0, "")),
        Key::Gem { name } => of.gem = Some(name),
        Key::Type { kind } => of.kind = Some(kind),
        Key::Stack { frames, kind } => {
            of.stack = Some(frames.iter().map(|frame| call(frame)).collect());
            of.kind = Some(kind);
        }
    }
    of
}

/// Returns the process of a census; `None` (`null`) if it is of several guests added up.
fn pid(census: &Census) -> Option<i32> {
    (census.pid != MERGED_PID).then_some(census.pid)
}

/// Writes what comes before all else of a look.
fn head(
    out: &mut dyn io::Write,
    census: &Census,
    by: &'static str,
    interval: Option<f64>,
) -> io::Result<()> {
    let pid = pid(census);
    // Of processes of several languages that were added up there is none.
    let language = (!census.language.is_empty()).then(|| Language {
        name: census.language,
        version: Some(&census.version),
    });
    let process = Process {
        pid,
        languages: Some(language.into_iter().collect()),
        ..Process::new(census.pid, &*census.command)
    };
    record(out, &Record::Process(process))?;
    let of_seconds = |seconds: f64| (seconds * 1e9).round() as u64;
    let intervals = census.intervals.iter();
    record(
        out,
        &Record::Look {
            pid,
            watched_ns: of_seconds(census.seconds),
            interval_ns: interval.map(of_seconds),
            by,
            collection_pause_ns: census.gc_pause.map(nanos),
            walk_pause_ns: nanos(census.walk_pause),
            looks: census.looks,
            paused_ns: nanos(census.paused),
            garbage_included: census.includes_garbage(),
            intervals_ns: intervals.map(|seconds| of_seconds(*seconds)).collect(),
        },
    )
}

/// The living by the interval of their birth; as many figures as there are intervals.
fn alive<'a>(counts: &'a Counts, census: &Census) -> &'a [u64] {
    let all = &counts.alive.0;
    all.get(..census.intervals.len()).unwrap_or(all)
}

/// Writes whether there is a leak, and each one.
fn judged(out: &mut dyn io::Write, census: &Census, verdict: Option<&Verdict>) -> io::Result<()> {
    let Some(verdict) = verdict else {
        return Ok(());
    };
    let pid = pid(census);
    record(
        out,
        &Record::Verdict {
            pid,
            verdict: match verdict {
                Verdict::Leaks(_) if !is_certain(census) => "perhaps",
                Verdict::Leaks(_) => "leak",
                Verdict::None { .. } => "none",
                Verdict::TooEarly => "too_early",
                Verdict::Garbage | Verdict::CollectorOff => "garbage",
                Verdict::Unseen(_) => "incomplete",
            },
            text: sentences(verdict, census).0.join("; "),
            collector_off: census.collector_off,
            followed: census.followed,
            resident_grown: census.resident.map(|resident| resident.grown),
        },
    )?;
    let Verdict::Leaks(leaks) = verdict else {
        return Ok(());
    };
    for leak in leaks {
        record(
            out,
            &Record::Leak {
                pid,
                of: subject(&leak.key),
                before: leak.before,
                grows: match leak.growing {
                    Growing::InNumber => "number",
                    Growing::InSize => "size",
                },
                grown: leak.counts.grown,
                growing: leak.counts.growing,
                counts: figures(leak.counts),
                alive: alive(&leak.counts, census),
            },
        )?;
    }
    Ok(())
}

fn losses(out: &mut dyn io::Write, census: &Census) -> io::Result<()> {
    for lost in &census.losses {
        let loss = Loss::new(pid(census), what(lost.what), lost.count, &*lost.text);
        record(out, &Record::Loss(loss))?;
    }
    Ok(())
}
