//! The table, and at which lines many processes are made.

use super::super::columns::{Columns, Of};
use super::{Figures, Row, Summary, Who};
use crate::text::{printable, with_short_path};
use calls::consumer::SourceEnd;
use std::time::Duration;

/// Rates of a shorter time would say little.
const SHORTEST: Duration = Duration::from_millis(100);
/// Names of glibc's `fork`, without the underscores before them.
const FORKS: [&str; 4] = ["fork", "Fork", "libc_fork", "arch_fork"];
/// So many processes a second are told of.
const MANY: f64 = 10.0;

impl Summary {
    /// Appends the rows and their sum.
    pub(super) fn table(
        &self,
        rows: &[&Row],
        all: &Figures,
        watched: Option<Duration>,
        text: &mut String,
    ) {
        let watched = watched.filter(|watched| !self.strace && *watched >= SHORTEST);
        // What is no terminal is read by programs, which know the columns of strace.
        let columns = match watched.and(self.width) {
            Some(_) => self.columns.with_rate(),
            None => self.columns.clone(),
        };
        let of = Of {
            all: all.time,
            watched,
            strace: self.strace,
        };
        let room = self.width.zip(columns.before_name());
        let room = room.map(|(width, before)| width.saturating_sub(before));
        columns.head(text);
        for row in rows {
            let name = room.map(|room| with_short_path(&row.name, room));
            let name = name.as_deref().unwrap_or(&row.name);
            columns.row(&row.figures, of, name, text);
        }
        columns.rule(text);
        columns.row(all, of, "total", text);
    }

    /// Says at which lines many processes are made: who looks for what a process does all the time finds it there.
    pub(super) fn made(&self, rows: &[&Row], end: &SourceEnd) -> String {
        // Who has chosen columns has them read by a program.
        let usual = !self.strace && self.columns == Columns::default();
        let watched = end.watched.filter(|watched| usual && *watched >= SHORTEST);
        let Some(watched) = watched else {
            return String::new();
        };
        let mut told = String::new();
        for row in rows.iter().filter(|row| row.who.makes_processes()) {
            let made = row.figures.returned.saturating_sub(row.figures.errors);
            let rate = made as f64 / watched.as_secs_f64();
            if rate < MANY {
                continue;
            }
            let line = row.who.line.as_ref();
            let at = line.map_or(String::new(), |line| format!(", at {line}"));
            told += &printable(&format!("{rate:.0} processes a second{at}"));
            told.push('\n');
        }
        told
    }
}

impl Who {
    /// Whether each call makes a process, as far as that is known: `clone` makes threads, too, unless the code that asks is glibc's `fork`.
    fn makes_processes(&self) -> bool {
        let asks = self.functions.first();
        match &*self.system_call {
            "fork" | "vfork" => true,
            "clone" | "clone3" => {
                asks.is_some_and(|name| FORKS.contains(&name.trim_start_matches('_')))
            }
            _ => false,
        }
    }
}
