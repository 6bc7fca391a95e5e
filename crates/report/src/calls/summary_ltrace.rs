//! The table as ltrace 0.7.91 prints it (`summary.c` there): by function, in microseconds. Used by `formats`.

use super::format::{Counted, sum};
use crate::text::printable;
use calls::summary::Row;
use std::io::{self, Write};

const RULE: &str = "------ ----------- ----------- --------- --------------------";

/// Prints the rows and their sum.
pub(super) fn print(out: &mut dyn Write, counted: &Counted<'_>) -> io::Result<()> {
    let Counted { rows, unit, .. } = *counted;
    let micros = |row: &Row| (row.total as f64 * unit / 1e3) as u64;
    let all = sum(rows.iter().map(|(_, row)| micros(row)));
    let calls = sum(rows.iter().map(|(_, row)| row.calls));
    writeln!(
        out,
        "% time     seconds  usecs/call     calls      function"
    )?;
    writeln!(out, "{RULE}")?;
    for ((name, _), row) in rows {
        let took = micros(row);
        // Hundredths of a percent, rounded.
        let share = (100_000 * u128::from(took) / u128::from(all.max(1)) + 5) / 10;
        writeln!(
            out,
            "{:3}.{:02} {:4}.{:06} {:11} {:9} {}",
            share / 100,
            share % 100,
            took / 1_000_000,
            took % 1_000_000,
            took / row.calls.max(1),
            row.calls,
            printable(name),
        )?;
    }
    writeln!(out, "{RULE}")?;
    writeln!(
        out,
        "100.00 {:4}.{:06}             {calls:9} total",
        all / 1_000_000,
        all % 1_000_000,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Processes;
    use crate::forms::stacks::FOLDED;
    use calls::consumer::SourceEnd;
    use calls::site::Site;

    /// As a process can have written them.
    #[test]
    fn figures_that_fit_no_sum_are_borne() {
        let row = Row {
            calls: u64::MAX,
            left: u64::MAX,
            total: u64::MAX,
            ..Row::default()
        };
        let key = ("f".to_owned(), Site::default());
        let counted = Counted {
            processes: &Processes::default(),
            rows: &[(&key, &row), (&key, &row)],
            order: None,
            are_noted: false,
            began: None,
            lasted: Default::default(),
            unit: 1000.0,
            still_open: None,
            not_freed: None,
            end: &SourceEnd::default(),
            stacks: &FOLDED,
        };
        let mut out = Vec::new();
        print(&mut out, &counted).expect("a Vec takes it");
        super::super::summary_table::print(&mut out, &counted).expect("a Vec takes it");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains(&format!("{} total", u64::MAX)), "{text}");
    }

    #[test]
    fn the_table_is_that_of_ltrace() {
        let row = |calls, total| Row {
            calls,
            total,
            ..Row::default()
        };
        let key = |name: &str| (name.to_owned(), Site::default());
        let keys = ["sleep", "puts"].map(key);
        let rows = [row(2, 1_500_250), row(10, 499_750)];
        let rows: Vec<_> = keys.iter().zip(&rows).collect();
        let mut out = Vec::new();
        let counted = Counted {
            processes: &Processes::default(),
            rows: &rows,
            order: None,
            are_noted: false,
            began: None,
            lasted: Default::default(),
            unit: 1000.0,
            still_open: None,
            not_freed: None,
            end: &SourceEnd::default(),
            stacks: &FOLDED,
        };
        print(&mut out, &counted).expect("a Vec takes it");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "\
% time     seconds  usecs/call     calls      function
------ ----------- ----------- --------- --------------------
 75.01    1.500250      750125         2 sleep
 24.99    0.499750       49975        10 puts
------ ----------- ----------- --------- --------------------
100.00    2.000000                    12 total
"
        );
    }
}
