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
            "calls" | "count" => Column::Calls,
            "rate" | "calls-per-second" => Column::Rate,
            "errors" | "error" => Column::Errors,
            "name" | "syscall" | "syscall-name" | "syscall_name" => Column::Name,
            _ => return None,
        })
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
            Column::Calls => ("calls", 9),
            Column::Rate => ("calls/s", 9),
            Column::Errors => ("errors", 9),
            Column::Name => ("syscall", 16),
        }
    }

    fn cell(self, figures: &Figures, of: Of, name: &str) -> String {
        let time = |time: Duration| super::seconds(time, 6);
        let all = of.all;
        match self {
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
            Column::Name => name.into(),
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
                    "there is no column {name}: time-percent, total-time, min-time, max-time, avg-time, calls, rate, errors, name"
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
                "the orders are time, min-time, max-time, avg-time, calls, errors, name, nothing"
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
            let first = match column {
                Column::Share | Column::Total => figures.time.as_nanos(),
                Column::Shortest => figures.shortest.unwrap_or_default().as_nanos(),
                Column::Longest => figures.longest.as_nanos(),
                Column::Mean => figures.mean().as_nanos(),
                Column::Calls => figures.calls.into(),
                Column::Errors => figures.errors.into(),
                Column::Rate => figures.calls.into(),
                Column::Name => 0,
            };
            let by_name = column == Column::Name;
            let calls = if by_name { 0 } else { figures.calls };
            (Reverse(first), Reverse(calls), name)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten threads in `pselect6`, of which one has returned after a second.
    #[test]
    fn the_mean_is_that_of_calls_that_have_returned() {
        let mut figures = Figures {
            calls: 9,
            ..Figures::default()
        };
        figures.returned(Duration::from_secs(1), false);
        assert_eq!((figures.calls, figures.returned), (10, 1));
        assert_eq!(figures.mean(), Duration::from_secs(1));
        let mut all = Figures::default();
        all.add(&figures);
        all.add(&figures);
        assert_eq!(all.mean(), Duration::from_secs(1));
    }

    #[test]
    fn columns_are_strace_s() {
        let all: Columns = "name,time-percent,total-time,min-time,max-time,avg-time,calls,errors"
            .parse()
            .expect("they are known");
        let mut text = String::new();
        all.head(&mut text);
        let micros = Duration::from_micros;
        let mut figures = Figures::default();
        figures.returned(micros(292), false);
        figures.returned(micros(8), true);
        let of = Of {
            all: micros(1000),
            strace: true,
            ..Of::default()
        };
        all.row(&figures, of, "execve", &mut text);
        assert_eq!(
            text,
            "\
syscall          % time     seconds shortest  longest  usecs/call     calls    errors
---------------- ------ ----------- -------- -------- ----------- --------- ---------
execve            30.00    0.000300 0.000008 0.000292         150         2         1
"
        );
        assert_eq!(
            "calls,calls".parse::<Columns>(),
            Err("calls is there twice".into())
        );
        assert!("nosuch".parse::<Columns>().is_err());
        let named: Columns = "calls".parse().expect("one");
        assert_eq!(named.0, [Column::Calls, Column::Name]);
    }

    #[test]
    fn our_own_table_has_rates_and_parts_of_microseconds() {
        let columns = Columns::default().with_rate();
        assert_eq!(columns.before_name(), Some(7 + 12 + 12 + 10 + 10 + 10));
        let figures = Figures {
            calls: 2345,
            returned: 2345,
            time: Duration::from_micros(1291),
            ..Figures::default()
        };
        let of = Of {
            all: Duration::from_millis(2),
            watched: Some(Duration::from_secs(3)),
            strace: false,
        };
        let mut text = String::new();
        columns.head(&mut text);
        columns.row(&figures, of, "getpid", &mut text);
        assert_eq!(
            text,
            "\
% time     seconds  usecs/call     calls   calls/s    errors syscall
------ ----------- ----------- --------- --------- --------- ----------------
 64.55    0.001291       0.550      2345       782           getpid
"
        );
        // Who has chosen columns has those.
        let chosen: Columns = "calls,name".parse().expect("columns");
        assert_eq!(chosen.with_rate(), chosen);
    }

    #[test]
    fn without_a_column_of_times_rows_stand_by_their_number() {
        let columns = |text: &str| text.parse::<Columns>().expect("columns");
        assert!(Columns::default().ask_times());
        assert_eq!(Columns::default().order(), Order::By(Column::Total));
        for text in ["calls,errors,name", "name", "errors"] {
            assert!(!columns(text).ask_times(), "{text}");
            assert_eq!(columns(text).order(), Order::By(Column::Calls), "{text}");
        }
        for text in [
            "calls,avg-time",
            "time,name",
            "min-time",
            "max-time",
            "total-time",
        ] {
            assert!(columns(text).ask_times(), "{text}");
        }
        let by = |text: &str| text.parse::<Order>().expect("an order");
        assert!(by("time").asks_times() && by("max-time").asks_times());
        assert!(!by("calls").asks_times() && !by("nothing").asks_times());
    }
}
