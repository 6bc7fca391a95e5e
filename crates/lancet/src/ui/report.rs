//! Report after report: which of the formats, of which guests, and whether against the report
//! before.
//!
//! | | first look | with `--every`, from the second look on |
//! |---|---|---|
//! | table, json | who holds | what grew; a guest not seen before: who holds |
//! | folded | who holds | what grew |
//! | memprof | who holds | who holds, after an empty line |
//!
//! Of several guests come first all of them merged, then each. The formats that have no place to
//! name a guest, memprof and folded, have the merged one only.

use std::io::Write;

use analysis::{Census, Growth, Report, View, merge};
use export::folded::Weight;
use export::{folded, json, memprof, table};

use super::sink::Sink;
use crate::cli::{Format, MemArgs};

/// More guests than this are not shown one by one in a table.
const MOST_TABLES: usize = 16;

/// Writes the reports of one run.
pub struct Reporter {
    sink: Sink,
    format: Format,
    view: View,
    weight: Weight,
    fail_on: Option<u64>,
    growing: bool,
    /// The last look, when growth is asked for.
    previous: Vec<Census>,
    written: usize,
}

impl Reporter {
    /// As the command line says.
    pub fn new(args: &MemArgs, sink: Sink) -> Self {
        Self {
            sink,
            format: args.format(),
            view: args.view(),
            weight: args.weight(),
            fail_on: args.fail_on,
            growing: args.interval().is_some(),
            previous: Vec::new(),
            written: 0,
        }
    }

    /// Takes a look as the one the first growth is counted from, and writes nothing.
    pub fn start(&mut self, censuses: Vec<Census>) {
        self.previous = censuses;
    }

    /// Writes the report of a look at every guest. The answer is whether `--fail-on` was exceeded.
    pub fn report(&mut self, censuses: Vec<Census>) -> anyhow::Result<bool> {
        if self.written > 0 && self.format != Format::Json && self.format != Format::Folded {
            writeln!(self.sink.out)?;
        }
        self.written += 1;
        let mut exceeded = false;
        if let Some((older, newer)) = self.merged(&censuses) {
            exceeded |= self.one(older.as_ref(), &newer)?;
        }
        let each = match self.format {
            Format::Json => true,
            Format::Table => censuses.len() <= MOST_TABLES,
            Format::Memprof | Format::Folded => censuses.len() == 1,
        };
        if !each && self.format == Format::Table {
            writeln!(
                self.sink.out,
                "\n{} processes are more than anybody reads one by one: --format json has each",
                censuses.len()
            )?;
        }
        for (at, census) in censuses.iter().enumerate().filter(|_| each) {
            if self.format == Format::Table && (at > 0 || censuses.len() > 1) {
                writeln!(self.sink.out)?;
            }
            let older = self
                .previous
                .iter()
                .find(|older| older.pid == census.pid)
                .cloned();
            exceeded |= self.one(older.as_ref(), census)?;
        }
        self.sink.out.flush()?;
        if self.growing {
            self.previous = censuses;
        }
        Ok(exceeded)
    }

    /// All guests as one, now and before. Growth is over the guests that were there both times:
    /// a worker that came or went did not grow or shrink.
    fn merged(&self, censuses: &[Census]) -> Option<(Option<Census>, Census)> {
        if censuses.len() < 2 {
            return None;
        }
        let common = |these: &[Census], those: &[Census]| -> Vec<Census> {
            let there = |census: &&Census| those.iter().any(|other| other.pid == census.pid);
            these.iter().filter(there).cloned().collect()
        };
        let stayed = common(censuses, &self.previous);
        match stayed.len() {
            0 => merge(censuses).map(|all| (None, all)),
            // The sum of one is shown as the one itself.
            1 => None,
            _ => merge(&stayed).map(|newer| (merge(&common(&self.previous, censuses)), newer)),
        }
    }

    fn one(&mut self, older: Option<&Census>, newer: &Census) -> anyhow::Result<bool> {
        let out = &mut *self.sink.out;
        let style = &self.sink.style;
        let report = Report::new(newer, &self.view);
        let growth = older
            .map(|older| Growth::new(older, newer, &self.view))
            .transpose()?;
        match (self.format, &growth) {
            (Format::Table, None) => table::write(out, newer, &report, style)?,
            (Format::Table, Some(growth)) => table::write_growth(out, newer, growth, style)?,
            (Format::Json, None) => json::write(out, newer, &report)?,
            (Format::Json, Some(growth)) => json::write_growth(out, newer, growth)?,
            (Format::Folded, None) => folded::write(out, &report, self.weight)?,
            (Format::Folded, Some(growth)) => folded::write_growth(out, growth, self.weight)?,
            (Format::Memprof, _) => memprof::write(out, &report)?,
        }
        let largest = match growth {
            Some(growth) => u64::try_from(growth.largest).unwrap_or(0),
            // The limit is of growth then, and of a first look there is none.
            None if self.growing => 0,
            None => report.largest,
        };
        Ok(self.fail_on.is_some_and(|limit| largest > limit))
    }
}

#[cfg(test)]
mod tests;
