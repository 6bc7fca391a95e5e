//! The descriptors that are still open, before the table of `-c`: a verdict first, then a row for each system call and line.
//! Used by `not_freed`, `summary_json` and `summary_table`.
//!
//! ```text
//! leak: 35 of 35 that were opened are still open, some from each quarter of the time: openat@SYS ← /srv/app.rb:12 in 'read'
//! still open: 37 of 52 descriptors opened in 60.1 s; 14 were open before, and 2 of those are closed now; the process may have 1,024
//!
//!     open   opened     oldest what
//!       35       35     59.2 s openat@SYS ← /srv/app.rb:12 in 'read': /srv/cache/7
//! ```

use super::json::site;
use crate::figures::{grouped, plural, span};
use crate::text::printable;
use answer::calls::Record;
use answer::time::nanos;
use calls::descriptors::{LEAST_WATCH, PARTS, StillOpen};
use std::io::{self, Write};
use std::time::Duration;

/// So many leaks are named; the others are the first rows.
const NAMED: usize = 3;

/// Writes them for people.
pub(super) fn print(out: &mut dyn Write, all: &StillOpen) -> io::Result<()> {
    for line in verdict(all) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{}", summary(all))?;
    if !all.rows.is_empty() {
        writeln!(out, "\n    open   opened     oldest what")?;
    }
    for row in &all.rows {
        let example = match row.example.as_str() {
            "" => String::new(),
            what => format!(": {}", printable(what)),
        };
        writeln!(
            out,
            "{:>8} {:>8} {:>10} {}{example}",
            grouped(row.open),
            grouped(row.opened),
            span(row.oldest.as_secs_f64()),
            place(&row.call, row.site.text())
        )?;
    }
    writeln!(out)
}

/// `openat@SYS ← /srv/app.rb:12 in 'read'`
pub(super) fn place(call: &str, line: &str) -> String {
    let line = match line {
        "" => String::new(),
        line => format!(" ← {}", printable(line)),
    };
    format!("{}{line}", printable(call))
}

fn verdict(all: &StillOpen) -> Vec<String> {
    const { assert!(PARTS == 4, "the words below say quarter") };
    if all.watched < LEAST_WATCH {
        return vec![too_early(LEAST_WATCH)];
    }
    let leaks = all.rows.iter().filter(|row| row.leaks).map(|row| {
        format!(
            "leak: {} of {} that were opened are still open, some from each quarter of the time: {}",
            grouped(row.open),
            grouped(row.opened),
            place(&row.call, row.site.text())
        )
    });
    verdicts(
        leaks.collect(),
        "no leak: of no line something from each quarter of the time is still open",
    )
}

/// What is said in the place of a verdict before it was watched for `least`.
pub(super) fn too_early(least: Duration) -> String {
    let seconds = least.as_secs();
    format!("no verdict on leaks yet: that takes {seconds} s of watching")
}

/// The sentences on the leaks of which there are [`NAMED`] at most, or that there is `none`.
pub(super) fn verdicts(mut leaks: Vec<String>, none: &str) -> Vec<String> {
    let more = leaks.len().saturating_sub(NAMED) as u64;
    leaks.truncate(NAMED);
    if leaks.is_empty() {
        leaks.push(none.into());
    }
    if more != 0 {
        let rows = plural(more, "row", "rows");
        leaks.push(format!(
            "      and {} more {rows}, which come next below",
            grouped(more)
        ));
    }
    leaks
}

fn summary(all: &StillOpen) -> String {
    let mut text = format!(
        "still open: {} of {} descriptors opened in {}",
        grouped(all.open),
        grouped(all.opened),
        span(all.watched.as_secs_f64())
    );
    if all.before != 0 {
        let were = plural(all.before, "was", "were");
        text += &format!("; {} {were} open before", grouped(all.before));
    }
    if all.before_closed != 0 {
        let are = plural(all.before_closed, "is", "are");
        text += &format!(
            ", and {} of those {are} closed now",
            grouped(all.before_closed)
        );
    }
    for (count, what) in [
        (
            all.closed_unseen,
            "closed by no call that was seen (exec, io_uring)",
        ),
        (all.came_unseen, "came by no call that was seen (io_uring)"),
    ] {
        if count != 0 {
            text += &format!("; {} {what}", grouped(count));
        }
    }
    if let Some(limit) = all.limit {
        text += &format!("; a process may have {} (ulimit -n)", grouped(limit));
    }
    text
}

/// Writes them for programs.
pub(super) fn print_json(out: &mut dyn Write, all: &StillOpen) -> io::Result<()> {
    for text in verdict(all) {
        crate::json::line(out, &Record::Verdict { text })?;
    }
    let record = Record::Descriptors {
        opened: all.opened,
        open: all.open,
        before: all.before,
        before_closed: all.before_closed,
        closed_unseen: all.closed_unseen,
        came_unseen: all.came_unseen,
        watched_ns: nanos(all.watched),
        limit: all.limit,
    };
    crate::json::line(out, &record)?;
    for row in &all.rows {
        let record = Record::StillOpen {
            function: &row.call,
            site: site(&row.site),
            opened: row.opened,
            open: row.open,
            oldest_ns: nanos(row.oldest),
            leaks: row.leaks,
            example: (!row.example.is_empty()).then_some(&row.example),
        };
        crate::json::line(out, &record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use calls::descriptors::Row;
    use calls::site::Site;
    use std::time::Duration;

    #[test]
    fn the_verdict_comes_first() {
        let row = Row {
            call: "openat@SYS".into(),
            site: Site::of_frames(vec!["/srv/app.rb:12 in 'read'".into()], None),
            opened: 35,
            open: 35,
            oldest: Duration::from_millis(59_200),
            leaks: true,
            example: "/srv/cache/7".into(),
        };
        let all = StillOpen {
            rows: vec![row],
            opened: 52,
            open: 35,
            before: 14,
            before_closed: 2,
            watched: Duration::from_secs(60),
            limit: Some(1024),
            ..StillOpen::default()
        };
        let mut out = Vec::new();
        print(&mut out, &all).expect("a Vec takes it");
        let expected = "\
leak: 35 of 35 that were opened are still open, some from each quarter of the time: openat@SYS ← /srv/app.rb:12 in 'read'
still open: 35 of 52 descriptors opened in 1 min 00 s; 14 were open before, and 2 of those are closed now; a process may have 1,024 (ulimit -n)

    open   opened     oldest what
      35       35     59.2 s openat@SYS ← /srv/app.rb:12 in 'read': /srv/cache/7

";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
