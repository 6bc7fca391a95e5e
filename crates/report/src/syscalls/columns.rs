//! The columns of the table (`-U`) and its order (`-S`), by strace's names for them. Used by `summary`, and by
//! `lancet::commands::syscalls::args`.

use std::cmp::Reverse;
use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

/// What was counted in one row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Calls that were counted.
    pub calls: u64,
    /// How many of these calls have returned: those that have a time.
    pub returned: u64,
    /// How many of these calls failed.
    pub errors: u64,
    /// The time between call and return of all.
    pub time: Duration,
    /// That of the shortest; `None` = none has returned.
    pub shortest: Option<Duration>,
    /// The time between call and return of the longest.
    pub longest: Duration,
}

impl Figures {
    /// Adds those of another row.
    pub fn add(&mut self, other: &Figures) {
        self.calls = self.calls.saturating_add(other.calls);
        self.returned = self.returned.saturating_add(other.returned);
        self.errors = self.errors.saturating_add(other.errors);
        self.time = self.time.saturating_add(other.time);
        self.shortest = match (self.shortest, other.shortest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.longest = self.longest.max(other.longest);
    }

    /// Adds a call that returned.
    pub fn returned(&mut self, took: Duration, failed: bool) {
        self.add(&Figures {
            calls: 1,
            returned: 1,
            errors: failed.into(),
            time: took,
            shortest: Some(took),
            longest: took,
        });
    }

    /// The mean time of the calls that have returned.
    fn mean(&self) -> Duration {
        let nanos = self.time.as_nanos() / u128::from(self.returned.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A column of the table; times are in seconds unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The share of the time of all rows.
    Share,
    /// The time of all calls of the row.
    Total,
    /// The time between call and return of the shortest call.
    Shortest,
    /// The time between call and return of the longest call.
    Longest,
    /// The mean time between call and return, in microseconds.
    Mean,
    /// The same as [`Column::Total`], by the name and with the head that strace has for it since 7.1; and so the next three. Its other times are
    /// those of the processor; ours all are those between call and return.
    WallTotal,
    /// As [`Column::Shortest`].
    WallShortest,
    /// As [`Column::Longest`].
    WallLongest,
    /// As [`Column::Mean`].
    WallMean,
    /// How many calls were counted.
    Calls,
    /// How many were made in a second of the time that was watched.
    Rate,
    /// How many of these calls failed; empty if none has.
    Errors,
    /// The system call, and who makes it.
    Name,
}

impl Column {
    /// The columns that strace shows unless told otherwise.
    const USUAL: [Column; 6] = [
        Column::Share,
        Column::Total,
        Column::Mean,
        Column::Calls,
        Column::Errors,
        Column::Name,
    ];

    fn named(name: &str) -> Option<Column> {
        Some(match name {
            "time-percent" | "time_percent" | "time" => Column::Share,
            "total-time" | "time-total" | "total_time" | "time_total" => Column::Total,
            "min-time" | "time-min" | "min_time" | "time_min" | "shortest" => Column::Shortest,
            "max-time" | "time-max" | "max_time" | "time_max" | "longest" => Column::Longest,
            "avg-time" | "time-avg" | "avg_time" | "time_avg" => Column::Mean,
            "wall-total" | "wall_total" | "total-wall" | "total_wall" => Column::WallTotal,
            "wall-min" | "wall_min" | "min-wall" | "min_wall" => Column::WallShortest,
            "wall-max" | "wall_max" | "max-wall" | "max_wall" => Column::WallLongest,
            "wall-avg" | "wall_avg" | "avg-wall" | "avg_wall" => Column::WallMean,
            "calls" | "count" => Column::Calls,
            "rate" | "calls-per-second" => Column::Rate,
            "errors" | "error" => Column::Errors,
            "name" | "syscall" | "syscall-name" | "syscall_name" => Column::Name,
            _ => return None,
        })
    }

    /// The column with the same figures.
    const fn plain(self) -> Column {
        match self {
            Column::WallTotal => Column::Total,
            Column::WallShortest => Column::Shortest,
            Column::WallLongest => Column::Longest,
            Column::WallMean => Column::Mean,
            column => column,
        }
    }

    const fn is_of_times(self) -> bool {
        !matches!(
            self,
            Column::Calls | Column::Rate | Column::Errors | Column::Name
        )
    }

    /// Returns what stands above the column, and its width in characters; that of the name is its least width.
    const fn head(self) -> (&'static str, usize) {
        match self {
            Column::Share => ("% time", 6),
            Column::Total => ("seconds", 11),
            Column::Shortest => ("shortest", 8),
            Column::Longest => ("longest", 8),
            Column::Mean => ("usecs/call", 11),
            Column::WallTotal => ("wall-total", 11),
            Column::WallShortest => ("wall-min", 8),
            Column::WallLongest => ("wall-max", 8),
            Column::WallMean => ("wall-avg", 11),
            Column::Calls => ("calls", 9),
            Column::Rate => ("calls/s", 9),
            Column::Errors => ("errors", 9),
            Column::Name => ("syscall", 16),
        }
    }

    fn cell(self, figures: &Figures, of: Of, name: &str) -> String {
        let time = |time: Duration| super::seconds(time, 6);
        let all = of.all;
        match self.plain() {
            Column::Share if all.is_zero() => "0.00".into(),
            Column::Share => {
                format!(
                    "{:.2}",
                    100.0 * figures.time.as_secs_f64() / all.as_secs_f64()
                )
            }
            Column::Total => time(figures.time),
            Column::Shortest => time(figures.shortest.unwrap_or_default()),
            Column::Longest => time(figures.longest),
            Column::Mean => match figures.mean() {
                // strace shows whole microseconds.
                mean if !of.strace && mean < Duration::from_micros(1) && !mean.is_zero() => {
                    format!("{:.3}", mean.as_nanos() as f64 / 1e3)
                }
                mean => mean.as_micros().to_string(),
            },
            Column::Calls => figures.calls.to_string(),
            Column::Rate => match of.watched {
                Some(watched) => match figures.calls as f64 / watched.as_secs_f64() {
                    rate if rate < 9.95 => format!("{rate:.1}"),
                    rate => format!("{rate:.0}"),
                },
                None => "-".into(),
            },
            Column::Errors if figures.errors == 0 => String::new(),
            Column::Errors => figures.errors.to_string(),
            // The others are what `plain` has taken them for.
            Column::Name
            | Column::WallTotal
            | Column::WallShortest
            | Column::WallLongest
            | Column::WallMean => name.into(),
        }
    }
}

/// What the figures of a row are a part of, and how they look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Of {
    /// The time of all rows.
    pub(super) all: Duration,
    /// How long calls were watched; `None`: that is not known, or too short for a rate.
    pub(super) watched: Option<Duration>,
    /// As strace shows it.
    pub(super) strace: bool,
}

/// The columns that are shown, each once, the name among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Default for Columns {
    fn default() -> Self {
        Columns(Column::USUAL.into())
    }
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns = Vec::new();
        for name in text.split(',') {
            let column = Column::named(name).ok_or_else(|| {
                format!(
                    "there is no column {name}: time-percent, total-time, min-time, max-time, avg-time, wall-total, wall-min, wall-max, wall-avg, calls, rate, errors, name"
                )
            })?;
            if columns.contains(&column) {
                return Err(format!("{name} is there twice"));
            }
            columns.push(column);
        }
        // Rows without their names would say nothing.
        if !columns.contains(&Column::Name) {
            columns.push(Column::Name);
        }
        Ok(Columns(columns))
    }
}

impl Columns {
    /// Whether one of them shows a time.
    pub fn ask_times(&self) -> bool {
        self.0.iter().any(|column| column.is_of_times())
    }

    /// The order of the rows unless the user has named one: as strace has it, or by calls where no time is shown.
    pub fn order(&self) -> Order {
        if self.ask_times() {
            Order::default()
        } else {
            Order::By(Column::Calls)
        }
    }

    /// Returns these, or if they are strace's usual ones those and the rate of calls.
    pub(super) fn with_rate(&self) -> Columns {
        let mut columns = self.clone();
        if columns == Columns::default() {
            let calls = columns.0.iter().position(|one| *one == Column::Calls);
            columns.0.insert(calls.map_or(0, |at| at + 1), Column::Rate);
        }
        columns
    }

    /// How many characters stand before the name, if that is the last column.
    pub(super) fn before_name(&self) -> Option<usize> {
        let (last, others) = self.0.split_last()?;
        let widths = others.iter().map(|column| column.head().1 + 1);
        (*last == Column::Name).then(|| widths.sum())
    }

    /// Appends the two lines above the rows.
    pub(super) fn head(&self, out: &mut String) {
        let heads = self.0.iter().map(|column| column.head().0.to_owned());
        self.line(heads, out);
        self.rule(out);
    }

    /// Appends a line between the rows and what is around them.
    pub(super) fn rule(&self, out: &mut String) {
        let rules = self.0.iter().map(|column| "-".repeat(column.head().1));
        self.line(rules, out);
    }

    /// Appends a row.
    pub(super) fn row(&self, figures: &Figures, of: Of, name: &str, out: &mut String) {
        let cells = self.0.iter().map(|column| column.cell(figures, of, name));
        self.line(cells, out);
    }

    fn line(&self, cells: impl Iterator<Item = String>, out: &mut String) {
        for (at, (column, cell)) in self.0.iter().zip(cells).enumerate() {
            let width = column.head().1;
            let is_last = at + 1 == self.0.len();
            // Writing to a string does not fail.
            let _ = match (column, is_last) {
                (Column::Name, true) => write!(out, "{cell}"),
                (Column::Name, false) => write!(out, "{cell:<width$} "),
                (_, true) => write!(out, "{cell:>width$}"),
                (_, false) => write!(out, "{cell:>width$} "),
            };
        }
        out.push('\n');
    }
}

/// Which rows come first (`-S`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The greatest figure of this column first; names in the order of the alphabet.
    By(Column),
    /// In the order in which they were first seen.
    Nothing,
}

impl Default for Order {
    fn default() -> Self {
        Order::By(Column::Total)
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, Column::named(text)) {
            ("nothing" | "none", _) => Ok(Order::Nothing),
            (_, Some(column)) => Ok(Order::By(column)),
            _ => Err(
                "the orders are time, min-time, max-time, avg-time, wall-total, wall-min, wall-max, wall-avg, calls, rate, errors, name, nothing"
                    .into(),
            ),
        }
    }
}

impl Order {
    /// Whether it is by a time.
    pub fn asks_times(self) -> bool {
        matches!(self, Order::By(column) if column.is_of_times())
    }

    /// Sorts rows of figures and names.
    pub(super) fn sort<T>(self, rows: &mut [T], of: impl Fn(&T) -> (Figures, String)) {
        let Order::By(column) = self else {
            return;
        };
        rows.sort_by_cached_key(|row| {
            let (figures, name) = of(row);
            let first = match column.plain() {
                Column::Share | Column::Total => figures.time.as_nanos(),
                Column::Shortest => figures.shortest.unwrap_or_default().as_nanos(),
                Column::Longest => figures.longest.as_nanos(),
                Column::Mean => figures.mean().as_nanos(),
                Column::Calls => figures.calls.into(),
                Column::Errors => figures.errors.into(),
                Column::Rate => figures.calls.into(),
                Column::Name
                | Column::WallTotal
                | Column::WallShortest
                | Column::WallLongest
                | Column::WallMean => 0,
            };
            let by_name = column == Column::Name;
            let calls = if by_name { 0 } else { figures.calls };
            (Reverse(first), Reverse(calls), name)
        });
    }
}

#[cfg(test)]
mod tests;
