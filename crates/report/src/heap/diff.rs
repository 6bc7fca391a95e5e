//! `lancet heap --diff`: what is new between two snapshots, and who holds it. Used by `lancet::commands::heap::run`.

use std::io::{self, Write};

use answer::heap::Record;
use heap::Snapshot;
use heap::answers::Answers;
use heap::answers::diff::{Change, Diff};

use super::format::{Format, Options};
use super::table::List;
use super::words::{self, say};
use super::{json, table};
use crate::columns::Tone;
use crate::figures::{change, grouped, size};
use crate::json::line as record;

/// Said where births are unknown.
const WEAK: &str = "not all births between the two snapshots were seen, so an address that was used again by an object of the same type counts as the old object";

/// Writes what is new in the later snapshot, whose answers these are.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(
    out: &mut dyn Write,
    answers: &Answers,
    diff: &Diff,
    format: &Format,
    options: &Options,
) -> io::Result<()> {
    if format.writes.is_records() {
        json::head(out, answers)?;
        return records(out, answers, diff, options);
    }
    table::head(out, answers, options)?;
    let style = &options.style;
    let sums = words::changed(diff);
    say(out, &sums, Tone::Plain, style)?;
    if !diff.by_birth {
        say(out, &format!("note: {WEAK}"), Tone::Warning, style)?;
    }
    table::holders(out, answers, &diff.holders, options)?;
    types(out, answers, &diff.types, options)?;
    table::groups(out, "new, made at", &diff.sites, options, |site| {
        let snapshot = answers.analysis.snapshot();
        site.map_or("(line unknown)".into(), |site| words::site(snapshot, site))
    })
}

fn types(
    out: &mut dyn Write,
    answers: &Answers,
    types: &[Change],
    options: &Options,
) -> io::Result<()> {
    let list = List {
        heads: &["objects", "change", "new", "new bytes", "new retain"],
        title: "type",
        rows: ("type", "types"),
    };
    list.write(out, types, options, |one| {
        let grown = one.now.objects as i64 - one.before.objects as i64;
        let cells = vec![
            grouped(one.now.objects),
            change(grown),
            grouped(one.new.objects),
            size(one.new.bytes),
            size(one.retained),
        ];
        let name = words::text(answers.analysis.snapshot(), one.name);
        (cells, name)
    })
}

fn records(
    out: &mut dyn Write,
    answers: &Answers,
    diff: &Diff,
    options: &Options,
) -> io::Result<()> {
    let snapshot: &Snapshot = answers.analysis.snapshot();
    record(
        out,
        &Record::Diff {
            by_birth: diff.by_birth,
            new_objects: diff.new.objects,
            new_bytes: diff.new.bytes,
            gone_objects: diff.gone.objects,
            gone_bytes: diff.gone.bytes,
        },
    )?;
    json::holders(out, answers, &diff.holders, options)?;
    for one in diff.types.iter().take(options.top) {
        record(
            out,
            &Record::Change {
                name: words::text(snapshot, one.name),
                objects_before: one.before.objects,
                bytes_before: one.before.bytes,
                objects: one.now.objects,
                bytes: one.now.bytes,
                new_objects: one.new.objects,
                new_bytes: one.new.bytes,
                retained: one.retained,
            },
        )?;
    }
    json::rest(out, "change", diff.types.len(), options)?;
    for one in diff.sites.iter().take(options.top) {
        record(
            out,
            &Record::NewAt {
                site: one.key.map(|site| json::place(snapshot, site)),
                objects: one.objects,
                bytes: one.bytes,
                retained: one.retained,
            },
        )?;
    }
    json::rest(out, "new_at", diff.sites.len(), options)
}
