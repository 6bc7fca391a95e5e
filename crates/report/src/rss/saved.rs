//! The ledger that a heap snapshot has kept: its rows as they are shown, and its sentences. Used by
//! `lancet::commands::heap::ledger`.

use std::io::{self, Write};

use answer::process::Process;
use answer::rss::Record;
use heap::About;
use rss::Bytes;

use super::{Options, table};
use crate::columns::{Tone, written};
use crate::heap::allocated;
use crate::json::line;
use crate::text::printable;

/// Writes the ledger of a snapshot, which has one.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn saved(out: &mut dyn Write, about: &About, options: &Options) -> io::Result<()> {
    let rows = about.memory.rows.iter().map(|row| {
        let bytes = Bytes {
            rss: row.rss,
            pss: row.pss,
            swap: row.swap,
        };
        (bytes, row.text.clone())
    });
    let rows: Vec<(Bytes, String)> = rows.collect();
    let mut total = Bytes::default();
    for (bytes, _) in &rows {
        total.add(*bytes);
    }
    if options.json {
        return records(out, about, &rows, total);
    }
    let style = &options.style;
    let command = about.command_line.join(" ");
    table::head(out, about.pid, &command, total, style)?;
    writeln!(out)?;
    for finding in &about.memory.findings {
        written(out, &printable(finding), Tone::Warning, style)?;
    }
    if !about.memory.findings.is_empty() {
        writeln!(out)?;
    }
    table::rows(out, rows, total, style)?;
    allocated::table(out, about, options.top, style)
}

fn records(
    out: &mut dyn Write,
    about: &About,
    rows: &[(Bytes, String)],
    total: Bytes,
) -> io::Result<()> {
    let language = crate::heap::json::language(about);
    let process = Process::new(about.pid, &*about.command_line).with(language);
    line(out, &Record::Process(process))?;
    line(
        out,
        &Record::Ledger {
            pid: about.pid,
            taken_at_ns: about.taken_at,
            rss: total.rss,
            pss: total.pss,
            swap: total.swap,
            hugetlb: None,
        },
    )?;
    for finding in &about.memory.findings {
        let text = finding.clone();
        line(out, &Record::Finding { what: None, text })?;
    }
    for (bytes, text) in rows {
        line(
            out,
            &Record::Row {
                kind: None,
                of: None,
                name: text.clone(),
                rss: bytes.rss,
                pss: bytes.pss,
                swap: bytes.swap,
            },
        )?;
    }
    for one in allocated::rows(about) {
        line(out, &Record::Allocated(one))?;
    }
    Ok(())
}
