//! What is allocated and not freed, before the table of `-c`: a verdict first, then a row for each function and line.
//! Used by `summary_json` and `summary_table`.
//!
//! ```text
//! leak: 97 of 4,850 allocations are not freed, 473.6 KiB, some from each quarter of the time: malloc ← /srv/app.py:9 in 'encode'
//! not freed: 112 of 19,400 allocations in 14.0 s, 480.1 KiB; 31 were freed that lancet did not follow
//!
//!    not freed      bytes allocated     oldest what
//!           97  473.6 KiB     4,850     13.8 s malloc ← /srv/app.py:9 in 'encode'
//! ```

use super::json::site;
use super::still_open::{place, too_early, verdicts};
use crate::figures::{grouped, plural, size, span};
use answer::calls::Record;
use answer::time::nanos;
use calls::allocations::{LEAST_WATCH, NotFreed, PARTS, Row};
use std::io::{self, Write};

/// So many rows are shown to people; the rest is summed up.
const SHOWN: usize = 20;

/// Writes them for people.
pub(super) fn print(out: &mut dyn Write, all: &NotFreed) -> io::Result<()> {
    for line in verdict(all) {
        writeln!(out, "{line}")?;
    }
    if !all.unknown.is_empty() {
        return writeln!(out);
    }
    writeln!(out, "{}", summary(all))?;
    if !all.rows.is_empty() {
        writeln!(out, "\nnot freed      bytes  allocated     oldest what")?;
    }
    let line = |kept, bytes, allocated, oldest: String, what: String| {
        format!(
            "{:>9} {:>10} {:>10} {oldest:>10} {what}",
            grouped(kept),
            size(bytes),
            grouped(allocated)
        )
    };
    let (shown, rest) = all.rows.split_at(all.rows.len().min(SHOWN));
    for row in shown {
        let oldest = span(row.oldest.as_secs_f64());
        let what = place(&row.call, row.site.text());
        let text = line(row.kept, row.bytes, row.allocated, oldest, what);
        writeln!(out, "{text}")?;
    }
    if !rest.is_empty() {
        let sum = |of: fn(&Row) -> u64| rest.iter().map(of).fold(0, u64::saturating_add);
        let count = rest.len() as u64;
        let what = format!("… {} more {}", grouped(count), plural(count, "row", "rows"));
        let (kept, bytes) = (sum(|row| row.kept), sum(|row| row.bytes));
        let text = line(kept, bytes, sum(|row| row.allocated), "-".into(), what);
        writeln!(out, "{text}")?;
    }
    writeln!(out)
}

fn verdict(all: &NotFreed) -> Vec<String> {
    const { assert!(PARTS == 4, "the words below say quarter") };
    if !all.unknown.is_empty() {
        let are = plural(all.unknown.len() as u64, "was", "were");
        return vec![format!(
            "not known what is freed: {} {are} not watched, or not to the end; a line on standard error says why",
            all.unknown.join(", ")
        )];
    }
    if all.untold != 0 {
        return vec![
            "no verdict on leaks: there are more allocations than lancet follows".to_owned(),
        ];
    }
    if all.recorded {
        return vec![
            "no verdict on leaks: a recording does not say whether all that frees was watched, and to the end; \
             lancet calls -c --preset alloc -p PID does"
                .to_owned(),
        ];
    }
    let has_leaks = all.rows.iter().any(|row| row.leaks);
    if all.lost != 0 && !has_leaks {
        return vec![format!("no verdict on leaks: {}", lost(all))];
    }
    if all.watched < LEAST_WATCH {
        return vec![too_early(LEAST_WATCH)];
    }
    let leaks = all.rows.iter().filter(|row| row.leaks).map(|row| {
        format!(
            "leak: {} of {} allocations are not freed, {}, some from each quarter of the time: {}",
            grouped(row.kept),
            grouped(row.allocated),
            size(row.bytes),
            place(&row.call, row.site.text())
        )
    });
    let mut said = verdicts(
        leaks.collect(),
        "no leak: no line leaves about as much in each quarter of the time",
    );
    if all.lost != 0 {
        said.push(format!("      no verdict on other lines: {}", lost(all)));
    }
    said
}

/// Why there is no verdict where calls were lost.
fn lost(all: &NotFreed) -> String {
    let calls = plural(all.lost, "call was", "calls were");
    format!(
        "{} {calls} lost, and what one of them has freed looks as if it was not",
        grouped(all.lost)
    )
}

fn summary(all: &NotFreed) -> String {
    let mut text = format!(
        "not freed: {} of {} allocations in {}, {}",
        grouped(all.kept),
        grouped(all.allocated),
        span(all.watched.as_secs_f64()),
        size(all.bytes)
    );
    for (count, what) in [
        (all.foreign, "freed that lancet did not follow"),
        (
            all.ended,
            "there when their process ended, which frees them",
        ),
        (all.untold, "not followed: there are more than lancet keeps"),
    ] {
        if count != 0 {
            let were = plural(count, "was", "were");
            text += &format!("; {} {were} {what}", grouped(count));
        }
    }
    text
}

/// Writes them for programs.
pub(super) fn print_json(out: &mut dyn Write, all: &NotFreed) -> io::Result<()> {
    for text in verdict(all) {
        crate::json::line(out, &Record::Verdict { text })?;
    }
    let record = Record::Allocations {
        allocated: all.allocated,
        kept: all.kept,
        bytes: all.bytes,
        foreign: all.foreign,
        ended: all.ended,
        untold: all.untold,
        lost: all.lost,
        recorded: all.recorded,
        given_up: &all.unknown,
        watched_ns: nanos(all.watched),
    };
    crate::json::line(out, &record)?;
    for row in &all.rows {
        let record = Record::NotFreed {
            function: &row.call,
            site: site(&row.site),
            allocated: row.allocated,
            kept: row.kept,
            bytes: row.bytes,
            oldest_ns: nanos(row.oldest),
            leaks: row.leaks,
        };
        crate::json::line(out, &record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use calls::site::Site;
    use std::time::Duration;

    fn shown(all: &NotFreed) -> String {
        let mut out = Vec::new();
        print(&mut out, all).expect("a Vec takes it");
        String::from_utf8(out).expect("text")
    }

    fn leaking() -> NotFreed {
        let row = Row {
            call: "malloc".into(),
            site: Site::of_frames(vec!["/srv/app.py:9 in 'encode'".into()], None),
            allocated: 4850,
            kept: 97,
            bytes: 485_000,
            oldest: Duration::from_millis(13_800),
            leaks: true,
        };
        NotFreed {
            rows: vec![row],
            allocated: 19_400,
            kept: 97,
            bytes: 485_000,
            foreign: 31,
            watched: Duration::from_secs(14),
            ..NotFreed::default()
        }
    }

    #[test]
    fn the_verdict_comes_first() {
        let expected = "\
leak: 97 of 4,850 allocations are not freed, 473.6 KiB, some from each quarter of the time: malloc ← /srv/app.py:9 in 'encode'
not freed: 97 of 19,400 allocations in 14.0 s, 473.6 KiB; 31 were freed that lancet did not follow

not freed      bytes  allocated     oldest what
       97  473.6 KiB      4,850     13.8 s malloc ← /srv/app.py:9 in 'encode'

";
        assert_eq!(shown(&leaking()), expected);
    }

    /// A recording does not say whether `free` was watched.
    #[test]
    fn of_a_recording_nobody_is_accused() {
        let mut all = leaking();
        (all.recorded, all.rows[0].leaks) = (true, false);
        let text = shown(&all);
        assert!(
            text.starts_with("no verdict on leaks: a recording does not say "),
            "{text}"
        );
        assert!(text.contains("\nnot freed: 97 of 19,400 "), "{text}");
    }

    /// A line that leaks whichever calls were lost is named all the same.
    #[test]
    fn what_was_lost_is_said_behind_the_leak() {
        let all = NotFreed {
            lost: 3,
            ..leaking()
        };
        let text = shown(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("leak: 97 of 4,850 allocations "),
            "{text}"
        );
        assert_eq!(
            lines[1],
            "      no verdict on other lines: 3 calls were lost, and what one of them has freed looks as if it was not"
        );
    }

    /// A `free` that was not seen looks like a leak, so there is no verdict.
    #[test]
    fn without_all_calls_nobody_is_accused() {
        let mut lost = NotFreed {
            lost: 3,
            ..leaking()
        };
        lost.rows[0].leaks = false;
        let given_up = NotFreed {
            unknown: vec!["free".into()],
            ..leaking()
        };
        for (all, said) in [
            (lost, "no verdict on leaks: 3 calls were lost, "),
            (given_up, "not known what is freed: free was not watched, "),
        ] {
            let text = shown(&all);
            assert!(text.starts_with(said) && !text.contains("leak: "), "{text}");
            assert_ne!(text.contains("not freed: 97"), text.contains("not known"));
        }
    }
}
