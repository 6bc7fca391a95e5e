//! The table for people, and what is said before it.

use super::super::columns::{Columns, Of};
use super::{Figures, Row, Summary, Who};
use crate::text::{printable, with_short_path};
use calls::consumer::SourceEnd;
use std::time::Duration;

/// Rates of a shorter time would say little.
const SHORTEST: Duration = Duration::from_millis(100);
/// So many processes a second are told of before the table.
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
        let columns = match watched {
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

    /// Says at which lines many processes are made, and what the last ones of them ran: who looks for what a process does all the time finds it
    /// there.
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
            let ran: Vec<&str> = end.ran.iter().map(String::as_str).collect();
            let ran = match ran.is_empty() {
                true => String::new(),
                false => format!(", {}", ran.join(" or ")),
            };
            let line = row.who.line.as_ref();
            let at = line.map_or(String::new(), |line| format!(", at {line}"));
            told += &printable(&format!("{rate:.0} processes a second{ran}{at}"));
            told.push('\n');
        }
        if !told.is_empty() {
            told.push('\n');
        }
        told
    }
}

impl Who {
    /// Whether each call makes a process, and no thread: `clone` does both, and who calls it tells which.
    fn makes_processes(&self) -> bool {
        let makes = |name: &String| {
            name.contains("fork") || name.contains("Fork") || name.contains("spawn")
        };
        match &*self.system_call {
            "fork" | "vfork" => true,
            "clone" | "clone3" => self.functions.iter().any(makes),
            _ => false,
        }
    }
}
