//! One JSON object a line. The schema is a promise, written down in `docs/mem-json.md`: a field
//! never changes its meaning, new ones may come.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use births::analysis::{
    Census, Counts, Delta, Frame, Growing, Growth, Key, MERGED_PID, Report, Verdict,
};
use serde::Serialize;

use super::format::Format;
use super::table::parts;
use super::verdict::sentences;
use crate::json::line as record;

/// For programs; it names each guest, so that however many there are, each has its records.
pub static FORMAT: Format = Format {
    name: "json",
    about: "One JSON object a line (see docs/mem-json.md)",
    for_people: false,
    most_guests: usize::MAX,
    blank_lines: false,
    says_losses: true,
    is_text: true,
    is_json: true,
    holders: |out, look, _| write(out, look.census, look.report),
    growth: Some(|out, newer, growth, _| write_growth(out, newer, growth)),
};

/// The number of the schema. It rises when a field goes away or changes its meaning.
const SCHEMA: u32 = 1;

/// Writes one look at one guest: `guest`, then `row` and `before` in the order of the report, then
/// `total`, then a `loss` for each sentence.
pub fn write(out: &mut dyn io::Write, census: &Census, report: &Report) -> io::Result<()> {
    let pid = pid(census);
    record(out, &guest(census, report.by.name(), None))?;
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
                    key: Subject::from(&row.key),
                    counts: row.counts.into(),
                    alive: alive(&row.counts, census),
                },
            )?;
        }
    }
    record(
        out,
        &Record::Total {
            pid,
            counts: report.total.into(),
            rest: report.rest.map(|rest| Cut {
                rows: rest.rows,
                figures: rest.counts.into(),
            }),
            before: Held {
                live: report.before.live,
                bytes: report.before.bytes,
            },
            hidden: report.hidden.into(),
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

/// Writes what grew between two looks, of which `newer` is the second: `guest`, a `growth` for
/// each row, `growth_total`, `loss`.
pub fn write_growth(out: &mut dyn io::Write, newer: &Census, growth: &Growth) -> io::Result<()> {
    let pid = pid(newer);
    record(out, &guest(newer, growth.by.name(), Some(growth.seconds)))?;
    judged(out, newer, growth.verdict.as_ref())?;
    for row in &growth.rows {
        record(
            out,
            &Record::Growth {
                pid,
                key: Subject::from(&row.key),
                before: row.before,
                change: row.delta.into(),
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
            change: growth.total.into(),
            rest: growth.rest.map(|rest| Cut {
                rows: rest.rows,
                figures: rest.delta.into(),
            }),
            hidden: growth.hidden.into(),
        },
    )?;
    losses(out, newer)
}

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record<'a> {
    Guest {
        schema: u32,
        pid: Option<i32>,
        command: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        ruby: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        python: Option<&'a str>,
        seconds: f64,
        interval: Option<f64>,
        by: &'static str,
        gc_pause_us: Option<u64>,
        walk_pause_us: u64,
        looks: u32,
        paused_us: u64,
        garbage_included: bool,
        #[serde(skip_serializing_if = "none")]
        intervals: &'a [f64],
    },
    Verdict {
        pid: Option<i32>,
        verdict: &'static str,
        text: String,
        collector_off: bool,
        followed: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        resident_grown: Option<u64>,
    },
    Leak {
        pid: Option<i32>,
        #[serde(flatten)]
        key: Subject<'a>,
        before: bool,
        grows: &'static str,
        #[serde(flatten)]
        counts: Figures,
        grown: u64,
        growing: u64,
        #[serde(skip_serializing_if = "none")]
        alive: &'a [u64],
    },
    Row {
        pid: Option<i32>,
        #[serde(flatten)]
        key: Subject<'a>,
        #[serde(flatten)]
        counts: Figures,
        #[serde(skip_serializing_if = "none")]
        alive: &'a [u64],
    },
    Before {
        pid: Option<i32>,
        #[serde(rename = "type")]
        kind: &'a str,
        live: u64,
        bytes: u64,
    },
    Total {
        pid: Option<i32>,
        #[serde(flatten)]
        counts: Figures,
        rest: Option<Cut<Figures>>,
        before: Held,
        hidden: Figures,
    },
    Growth {
        pid: Option<i32>,
        #[serde(flatten)]
        key: Subject<'a>,
        before: bool,
        #[serde(flatten)]
        change: Change,
        now_live: u64,
        now_bytes: u64,
        #[serde(skip_serializing_if = "none")]
        alive: &'a [u64],
    },
    GrowthTotal {
        pid: Option<i32>,
        #[serde(flatten)]
        change: Change,
        rest: Option<Cut<Change>>,
        hidden: Change,
    },
    Own {
        pid: Option<i32>,
        #[serde(rename = "type")]
        kind: &'a str,
        live: u64,
        bytes: u64,
    },
    Resident {
        pid: Option<i32>,
        bytes: u64,
        parts: BTreeMap<&'static str, u64>,
    },
    Loss {
        pid: Option<i32>,
        loss: &'a str,
    },
}

fn none<T>(list: &&[T]) -> bool {
    list.is_empty()
}

/// The fields that say what a row is about. They depend on the grouping.
#[derive(Serialize)]
#[serde(untagged)]
enum Subject<'a> {
    Line {
        path: Option<&'a str>,
        line: u32,
        #[serde(rename = "type")]
        kind: &'a str,
    },
    Method {
        path: Option<&'a str>,
        method: &'a str,
    },
    File {
        path: Option<&'a str>,
    },
    Gem {
        gem: &'a str,
    },
    Type {
        #[serde(rename = "type")]
        kind: &'a str,
    },
    Stack {
        stack: Vec<Call<'a>>,
        #[serde(rename = "type")]
        kind: &'a str,
    },
}

#[derive(Serialize)]
struct Call<'a> {
    path: &'a str,
    line: u32,
    method: &'a str,
}

#[derive(Serialize)]
struct Figures {
    born: u64,
    live: u64,
    dead: u64,
    bytes: u64,
    allocated: u64,
}

#[derive(Serialize)]
struct Change {
    born: i64,
    live: i64,
    bytes: i64,
    allocated: i64,
}

/// Objects whose births nobody counted.
#[derive(Serialize)]
struct Held {
    live: u64,
    bytes: u64,
}

/// The rows that were cut off: how many, and their sum.
#[derive(Serialize)]
struct Cut<F> {
    rows: usize,
    #[serde(flatten)]
    figures: F,
}

impl From<Counts> for Figures {
    fn from(counts: Counts) -> Self {
        let Counts {
            born,
            live,
            dead,
            bytes,
            allocated,
            ..
        } = counts;
        Self {
            born,
            live,
            dead,
            bytes,
            allocated,
        }
    }
}

impl From<Delta> for Change {
    fn from(delta: Delta) -> Self {
        let Delta {
            born,
            live,
            bytes,
            allocated,
        } = delta;
        Self {
            born,
            live,
            bytes,
            allocated,
        }
    }
}

impl<'a> From<&'a Arc<Frame>> for Call<'a> {
    fn from(frame: &'a Arc<Frame>) -> Self {
        Self {
            path: &frame.path,
            line: frame.line,
            method: &frame.method,
        }
    }
}

impl<'a> From<&'a Key> for Subject<'a> {
    fn from(key: &'a Key) -> Self {
        match key {
            Key::Line { path, line, kind } => Self::Line {
                path: path.as_deref(),
                line: *line,
                kind,
            },
            Key::Method { path, method } => Self::Method {
                path: path.as_deref(),
                method,
            },
            Key::File { path } => Self::File {
                path: path.as_deref(),
            },
            Key::Gem { name } => Self::Gem { gem: name },
            Key::Type { kind } => Self::Type { kind },
            Key::Stack { frames, kind } => Self::Stack {
                stack: frames.iter().map(Call::from).collect(),
                kind,
            },
        }
    }
}

/// Returns the process of a census; `None` (`null`) if it is of several guests added up.
fn pid(census: &Census) -> Option<i32> {
    (census.pid != MERGED_PID).then_some(census.pid)
}

fn guest<'a>(census: &'a Census, by: &'static str, interval: Option<f64>) -> Record<'a> {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let of = |language| (census.language == language).then_some(census.version.as_str());
    Record::Guest {
        schema: SCHEMA,
        pid: pid(census),
        command: &census.command,
        ruby: of("Ruby"),
        python: of("Python"),
        seconds: census.seconds,
        interval,
        by,
        gc_pause_us: census.gc_pause.map(micros),
        walk_pause_us: micros(census.walk_pause),
        looks: census.looks,
        paused_us: micros(census.paused),
        garbage_included: census.garbage_included,
        intervals: &census.intervals,
    }
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
                Verdict::Leaks(_) => "leak",
                Verdict::None { .. } => "none",
                Verdict::TooEarly => "too_early",
                Verdict::Garbage | Verdict::CollectorOff => "garbage",
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
                key: Subject::from(&leak.key),
                before: leak.before,
                grows: match leak.growing {
                    Growing::InNumber => "number",
                    Growing::InSize => "size",
                },
                grown: leak.counts.grown,
                growing: leak.counts.growing,
                counts: leak.counts.into(),
                alive: alive(&leak.counts, census),
            },
        )?;
    }
    Ok(())
}

fn losses(out: &mut dyn io::Write, census: &Census) -> io::Result<()> {
    for loss in &census.losses {
        record(
            out,
            &Record::Loss {
                pid: pid(census),
                loss: &loss.text,
            },
        )?;
    }
    Ok(())
}
