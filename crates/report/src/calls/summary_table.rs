//! The table of `-c` for people: how often and how long, by function and script line. Used by `formats`.

use super::format::{Counted, sum};
use crate::figures::size;
use crate::text::printable;
use calls::summary::{Order, Row};
use std::io::{self, Write};

/// The columns of every table, but for the first, and the rule below them.
const HEAD: &str = "   seconds     mean      p50      p95      p99      max      calls";
const RULE: &str = "------ ---------- -------- -------- -------- -------- -------- ----------";

/// How wide the columns before the calls are.
const WIDTHS: [usize; 7] = [6, 10, 8, 8, 8, 8, 8];
/// What stands for a time that is not known, which is not 0.
const NO_TIME: &str = "-";

/// Columns behind the others, each shown where some row has a figure in it and as wide as its head: head, figure, text.
type More = (&'static str, fn(&Row) -> u64, fn(&Row) -> String);

const MORE: [More; 3] = [
    (
        "% failed",
        |row| row.failed,
        |row| format!("{:.2}", row.failed as f64 * 100.0 / row.calls.max(1) as f64),
    ),
    ("    rows", |row| row.rows, |row| row.rows.to_string()),
    ("     bytes", |row| row.bytes, |row| size(row.bytes)),
];

/// Writes the table for people.
pub(super) fn print(out: &mut dyn Write, counted: &Counted<'_>) -> io::Result<()> {
    let Counted { rows, unit, .. } = *counted;
    if let Some(still_open) = counted.still_open {
        super::still_open::print(out, still_open)?;
    }
    if let Some(not_freed) = counted.not_freed {
        super::not_freed::print(out, not_freed)?;
    }
    if rows.is_empty() {
        // A table without a row would leave open whether something was wrong.
        let lasted = counted.lasted.as_nanos() as f64;
        let time = match counted.lasted.is_zero() {
            true => String::new(),
            false => format!(" in {}", duration(lasted)),
        };
        return writeln!(out, "no call was counted{time}");
    }
    let all = sum(rows.iter().map(|(_, row)| row.total));
    let lasted = counted.lasted.as_nanos() as f64;
    let of_wall = |total: u64| total as f64 * unit * 100.0 / lasted.max(1.0);
    let by_wall = counted.order == Some(Order::Wall);
    let more: Vec<&More> = MORE
        .iter()
        .filter(|(_, figure, _)| rows.iter().any(|(_, row)| figure(row) != 0))
        .collect();
    let heads: String = more.iter().map(|(head, ..)| format!(" {head}")).collect();
    let widths: Vec<usize> = more.iter().map(|(head, ..)| head.len()).collect();
    let rules: String = widths
        .iter()
        .map(|width| format!(" {:->width$}", ""))
        .collect();
    let rule = format!("{RULE}{rules} --------------------");
    let first = if by_wall { "% wall" } else { "% time" };
    writeln!(out, "{first} {HEAD}{heads} function")?;
    writeln!(out, "{rule}")?;
    for ((function, site), row) in rows {
        let share = match by_wall {
            true => of_wall(row.total),
            false => row.total as f64 * 100.0 / all.max(1) as f64,
        };
        for (text, width) in times(row, share, unit).iter().zip(WIDTHS) {
            write!(out, "{text:>width$} ")?;
        }
        write!(out, "{:>10}", row.calls)?;
        for (head, figure, text) in &more {
            let text = if figure(row) == 0 {
                String::new()
            } else {
                text(row)
            };
            write!(out, " {text:>0$}", head.len())?;
        }
        write!(out, " {}", printable(function))?;
        if !site.text().is_empty() {
            write!(out, " ← {}", printable(site.text()))?;
        }
        writeln!(out, "{}", left(row.left))?;
    }
    let calls = sum(rows.iter().map(|(_, row)| row.calls));
    let all_left = sum(rows.iter().map(|(_, row)| row.left));
    writeln!(out, "{rule}")?;
    let seconds = all as f64 * unit / 1e9;
    let share = if by_wall { of_wall(all) } else { 100.0 };
    writeln!(
        out,
        "{share:6.2} {seconds:10.6} {:44} {calls:>10}{} total{}",
        "",
        " ".repeat(widths.iter().map(|width| width + 1).sum()),
        left(all_left)
    )
}

/// The columns of a row before its calls.
fn times(row: &Row, share: f64, unit: f64) -> [String; 7] {
    if !row.is_timed() {
        return std::array::from_fn(|_| NO_TIME.into());
    }
    let time = |ticks: u64| duration(ticks as f64 * unit);
    [
        format!("{share:.2}"),
        format!("{:.6}", row.total as f64 * unit / 1e9),
        time(row.mean()),
        time(row.quantile(50)),
        time(row.quantile(95)),
        time(row.quantile(99)),
        time(row.longest),
    ]
}

/// The note on calls that have no time.
fn left(calls: u64) -> String {
    match calls {
        0 => String::new(),
        calls => format!(" ({calls} left without a return)"),
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
    fn a_time_that_is_not_known_is_not_0() {
        let row = |longest: u64| Row {
            calls: 3,
            total: 2 * longest,
            longest,
            ..Row::default()
        };
        assert!(times(&row(0), 0.0, 1.0).iter().all(|text| text == NO_TIME));
        assert_eq!(
            times(&row(50), 12.0, 1.0)[..3],
            ["12.00", "0.000000", "33 ns"]
        );
    }

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
}
