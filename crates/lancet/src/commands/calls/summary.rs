//! `-c`: how often and how long, by function and script line.

mod json;
mod ltrace;

use super::groups::{Groups, Ticket};
use super::sink::{End, Sink};
use super::source::Count;
use super::stacks::Stacks;
use super::told::{Told, What};
use crate::cli::CallsArgs;
use frames::names::readable;
use process::functions::Function;
use process::lanes::Line;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use wire::calls::{BUCKETS, bucket, bucket_start};

/// One row: cycles where the guest counted, nanoseconds where calls were told.
#[derive(Clone, Debug)]
struct Row {
    calls: u64,
    total: u64,
    longest: u64,
    buckets: Vec<u64>,
}

impl Default for Row {
    fn default() -> Self {
        Row {
            calls: 0,
            total: 0,
            longest: 0,
            buckets: vec![0; BUCKETS],
        }
    }
}

/// What a row is of: the function's name and what a preset says its calls are of, the line.
type Key = (String, String);

/// A call that has not returned.
#[derive(Clone)]
struct Open {
    function: Arc<Function>,
    line: Option<Arc<Line>>,
    began: Duration,
    ticket: Ticket,
}

/// Rows by function and line.
pub struct Summary {
    groups: Groups<Key>,
    out: Box<dyn Write>,
    rows: HashMap<Key, Row>,
    stacks: Stacks<Open>,
    /// Nanoseconds of what rows count.
    unit: f64,
    demangle: bool,
    /// The table as ltrace prints it.
    ltrace: bool,
    json: bool,
}

impl Summary {
    /// No row yet.
    pub fn new(args: &CallsArgs, out: Box<dyn Write>) -> Self {
        Summary {
            groups: Groups::new(&args.presets, args.strings()),
            demangle: args.demangle,
            ltrace: args.ltrace,
            json: args.json,
            out,
            rows: HashMap::new(),
            stacks: Stacks::default(),
            unit: 1.0,
        }
    }

    fn key(&self, function: &Function, line: Option<&Line>) -> Key {
        let name = match self.demangle {
            true => readable(&function.shown()),
            false => function.shown().into_owned(),
        };
        (name, line.map(Line::to_string).unwrap_or_default())
    }

    /// Adds what a guest counted itself.
    fn add(&mut self, count: &Count) {
        let [calls, total, longest, _] = count.counted.figures;
        let key = self.key(&count.function, count.line.as_deref());
        let row = self.rows.entry(key).or_default();
        row.calls += calls;
        row.total += total;
        row.longest = row.longest.max(longest);
        for (sum, more) in row.buckets.iter_mut().zip(&count.counted.buckets) {
            *sum += u64::from(*more);
        }
        self.unit = count.period;
    }

    /// The same, with what its calls are of.
    fn key_of(&self, open: &Open) -> Key {
        let (mut name, line) = self.key(&open.function, open.line.as_deref());
        if let Some(group) = &open.ticket.group {
            name = format!("{name} {group}");
        }
        (name, line)
    }

    /// Adds a call that was told.
    fn returned(&mut self, key: Key, took: Duration) {
        let took = took.as_nanos() as u64;
        let row = self.rows.entry(key).or_default();
        row.calls += 1;
        row.total += took;
        row.longest = row.longest.max(took);
        row.buckets[bucket(took)] += 1;
    }

    /// Prints the rows, most time first.
    fn print(&mut self) -> io::Result<()> {
        let (out, period) = (&mut self.out, self.unit);
        let all: u64 = self.rows.values().map(|row| row.total).sum();
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(name, row)| (std::cmp::Reverse(row.total), (*name).clone()));
        writeln!(
            out,
            "% time    seconds     mean      p50      p95      p99      max      calls function"
        )?;
        writeln!(
            out,
            "------ ---------- -------- -------- -------- -------- -------- ---------- --------------------"
        )?;
        let time = |ticks: u64| duration(ticks as f64 * period);
        for ((function, line), row) in rows {
            let share = row.total as f64 * 100.0 / all.max(1) as f64;
            write!(
                out,
                "{share:6.2} {:10.6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {function}",
                row.total as f64 * period / 1e9,
                time(row.total / row.calls.max(1)),
                time(row.quantile(50)),
                time(row.quantile(95)),
                time(row.quantile(99)),
                time(row.longest),
                row.calls,
            )?;
            match line.is_empty() {
                true => writeln!(out)?,
                false => writeln!(out, " ← {line}")?,
            }
        }
        let calls: u64 = self.rows.values().map(|row| row.calls).sum();
        writeln!(
            out,
            "------ ---------- -------- -------- -------- -------- -------- ---------- --------------------"
        )?;
        writeln!(
            out,
            "100.00 {:10.6} {:44} {calls:>10} total",
            all as f64 * period / 1e9,
            "",
        )
    }
}

impl Sink for Summary {
    fn take(&mut self, told: Told) -> io::Result<()> {
        match told.what {
            What::Opened(_) => {}
            What::Call(call) => {
                let mut around = self.stacks.around(told.at);
                let inner = around.any(|open| open.ticket.grouped);
                drop(around);
                let open = Open {
                    ticket: self.groups.enter(told.at, &call, inner),
                    function: call.function,
                    line: call.line,
                    began: told.at.time,
                };
                self.stacks.enter(told.at, open);
            }
            What::Return(back) => {
                if let Some((open, ..)) = self.stacks.leave(told.at) {
                    let key = self.key_of(&open);
                    let (ticket, began) = (open.ticket, open.began);
                    for (key, took) in self.groups.leave(told.at, ticket, &back, key, began) {
                        self.returned(key, took);
                    }
                }
            }
            What::Forked(child) => self.stacks.fork(told.at.pid, child),
            What::Ended(_) => {
                // Those that ended it, or that led to another program.
                for open in self.stacks.drain(Some(told.at.pid)) {
                    let key = self.key_of(&open);
                    self.returned(key, told.at.time.saturating_sub(open.began));
                }
            }
            What::Signal(_) => {}
        }
        Ok(())
    }

    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        for count in &end.counted {
            self.add(count);
        }
        if self.json {
            json::print(&mut self.out, &self.rows, self.unit)?;
            super::json::losses(&mut self.out, &end)?;
        } else if self.ltrace {
            ltrace::print(&mut self.out, &self.rows, self.unit)?;
        } else {
            self.print()?;
        }
        self.out.flush()
    }
}

impl Row {
    /// What `percent` of the calls stayed below: the upper bound of the bucket, which is at most a quarter
    /// above the lower one.
    fn quantile(&self, percent: u64) -> u64 {
        let rank = (self.calls * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bucket_start((bucket + 1).min(BUCKETS - 1)).min(self.longest);
            }
        }
        self.longest
    }
}

/// Three digits and a unit.
fn duration(nanos: f64) -> String {
    match nanos {
        n if n < 999.5 => format!("{n:.0} ns"),
        n if n < 999_500.0 => format!("{:.3} µs", Digits(n / 1e3)),
        n if n < 999_500_000.0 => format!("{:.3} ms", Digits(n / 1e6)),
        n => format!("{:.3} s", Digits(n / 1e9)),
    }
}

/// A number between 1 and 1000 with three digits.
struct Digits(f64);

impl std::fmt::Display for Digits {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            n if n < 9.995 => write!(out, "{n:.2}"),
            n if n < 99.95 => write!(out, "{n:.1}"),
            n => write!(out, "{n:.0}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let shown: Vec<String> = [0.4, 27.0, 999.6, 1234.0, 45_678.0, 2_000_000.0, 3.21e9]
            .map(duration)
            .to_vec();
        assert_eq!(
            shown,
            [
                "0 ns", "27 ns", "1.00 µs", "1.23 µs", "45.7 µs", "2.00 ms", "3.21 s"
            ]
        );
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let mut row = Row {
            calls: 100,
            total: 0,
            longest: 5000,
            buckets: vec![0; BUCKETS],
        };
        row.buckets[wire::calls::bucket(100)] = 95;
        row.buckets[wire::calls::bucket(5000)] = 5;
        assert!((100..=128).contains(&row.quantile(50)));
        assert!((100..=128).contains(&row.quantile(95)));
        assert_eq!(row.quantile(99), 5000);
    }
}
