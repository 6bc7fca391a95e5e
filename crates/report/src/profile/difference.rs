//! Of which functions the share of the samples has changed since an earlier profile: a table and JSON. Used by
//! `lancet::commands::profile::run`.
//!
//! ```text
//! total (/srv/app/cart.rb:31) has a larger share: 52.4 % of the time in which threads ran, and 20.1 % before
//!
//! old: process 4242 (ruby app.rb): 4,780 looks in 50.0 s: 1.0 threads ran, 0.0 waited for a processor and 4.0 slept, on average
//! new: process 4901 (ruby app.rb): 4,920 looks in 50.0 s: 1.0 threads ran, 0.0 waited for a processor and 4.0 slept, on average
//!
//!     own            total
//!    old    new     old    new  function
//!  10.1%  42.0%   20.1%  52.4%  total (/srv/app/cart.rb:31)
//! ```

use std::io::{self, Write};

use answer::profile::{Record, Run};
use frames::profile::difference::{Change, Difference};
use frames::profile::{Kind, Profile};

use super::format::Head;
use super::json::place;
use super::words::{all, called, summary};
use crate::figures::{grouped, plural};
use crate::json::line;
use crate::text::printable;

/// Writes the functions whose share has changed by more than chance explains, at most `rows` of them; the heads are those of the old profile
/// and of the new one.
///
/// # Errors
/// Those of `out`.
pub fn write_table(
    out: &mut dyn Write,
    difference: &Difference,
    [old, new]: [&Head; 2],
) -> io::Result<()> {
    writeln!(out, "{}\n", verdict(difference))?;
    let [one, many] = difference.new.by().words();
    let profiles = [("old", old, difference.old), ("new", new, difference.new)];
    for (when, head, profile) in profiles {
        let who = printable(&head.about.who);
        writeln!(out, "{when}: {who}: {}", summary(profile, head))?;
    }
    let (changed, rest): (Vec<_>, Vec<_>) = difference
        .changes
        .iter()
        .partition(|change| is_changed(difference, change));
    if !changed.is_empty() {
        writeln!(out, "\n{:>8} {:>16}", "own", "total")?;
        writeln!(
            out,
            "{:>7} {:>6} {:>7} {:>6}  {one}",
            "old", "new", "old", "new"
        )?;
    }
    for change in changed.iter().take(new.rows) {
        let (own, total) = (
            difference.shares(change.own),
            difference.shares(change.total),
        );
        let name = called(&change.function, change.line);
        writeln!(
            out,
            "{:>6.1}% {:>5.1}% {:>6.1}% {:>5.1}%  {name}",
            own.0, own.1, total.0, total.1
        )?;
    }
    let more = changed.len().saturating_sub(new.rows) as u64;
    if more != 0 {
        let (have, what) = (plural(more, "has", "have"), plural(more, one, many));
        writeln!(out, "{:33}{} more {what} {have} changed", "", grouped(more))?;
    }
    if !rest.is_empty() {
        let count = rest.len() as u64;
        let what = plural(count, one, many);
        writeln!(
            out,
            "\n{} {what} beside, of which the shares differ by no more than chance explains",
            grouped(count)
        )?;
    }
    Ok(())
}

fn is_changed(difference: &Difference, change: &Change) -> bool {
    [change.own, change.total]
        .into_iter()
        .any(|pair| difference.is_change(pair))
}

fn verdict(difference: &Difference) -> String {
    for (when, profile) in [("old", difference.old), ("new", difference.new)] {
        if profile.samples == 0 {
            return format!(
                "no thread ran in any look of the {when} profile: there is nothing to compare"
            );
        }
    }
    if let Some(risen) = difference.risen() {
        let (old, new) = difference.shares(risen.total);
        return format!(
            "{} has a larger share: {new:.1} % of {}, and {old:.1} % before",
            called(&risen.function, risen.line),
            all(difference.new.mode())
        );
    }
    let changed = difference
        .changes
        .iter()
        .any(|change| is_changed(difference, change));
    let [one, _] = difference.new.by().words();
    match changed {
        true => format!(
            "no {one} has a larger share by more than chance explains, and some have a smaller one"
        ),
        false => format!("no {one} has a larger or smaller share by more than chance explains"),
    }
}

fn run<'a>(head: &Head<'a>, profile: &Profile) -> Run<'a> {
    Run {
        who: &head.about.who,
        by: profile.by().words()[0],
        looks: profile.rounds,
        samples: profile.samples,
    }
}

/// Writes all functions, for programs: one JSON object a line (docs/json.md).
///
/// # Errors
/// Those of `out`.
pub fn write_json(
    out: &mut dyn Write,
    difference: &Difference,
    [old, new]: [&Head; 2],
) -> io::Result<()> {
    let text = verdict(difference);
    line(out, &Record::Verdict { text })?;
    line(
        out,
        &Record::ProfileDifference {
            old: run(old, difference.old),
            new: run(new, difference.new),
        },
    )?;
    for change in &difference.changes {
        line(
            out,
            &Record::FunctionDifference {
                place: place(difference.new.by(), &change.function, 0),
                native: change.function.kind == Kind::Native,
                own: [change.own.old, change.own.new],
                total: [change.total.old, change.total.new],
                own_changed: difference.is_change(change.own),
                total_changed: difference.is_change(change.total),
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use frames::profile::saved::About;

    use super::super::words::tests::frame;
    use super::*;

    fn profile(slow: u64, other: u64) -> Profile {
        let mut profile = Profile::default();
        profile.rounds = slow + other;
        for (name, line, count) in [("slow", 9, slow), ("other", 7, other)] {
            for _ in 0..count {
                profile.add(vec![frame("<main>", 1), frame(name, line)]);
            }
        }
        profile
    }

    fn table(old: &Profile, new: &Profile) -> String {
        let about = About {
            who: "process 4242".to_owned(),
            looks: "10 looks in 0.1 s".to_owned(),
            ..About::default()
        };
        let head = Head {
            about: &about,
            title: &about.looks,
            rows: 20,
            by_total: false,
            function: None,
            stacks: &crate::forms::stacks::FOLDED,
        };
        let mut out = Vec::new();
        write_table(&mut out, &Difference::of(old, new), [&head, &head]).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_takes_more_comes_first() {
        assert_eq!(
            table(&profile(200, 800), &profile(500, 500)),
            "slow (/srv/app/cart.rb:9) has a larger share: 50.0 % of the time in which threads ran, and 20.0 % before\n\n\
             old: process 4242: 10 looks in 0.1 s: 1.0 threads ran, 0.0 waited for a processor and 0.0 slept, on average\n\
             new: process 4242: 10 looks in 0.1 s: 1.0 threads ran, 0.0 waited for a processor and 0.0 slept, on average\n\n     \
             own            total\n    \
             old    new     old    new  function\n  \
             20.0%  50.0%   20.0%  50.0%  slow (/srv/app/cart.rb:9)\n  \
             80.0%  50.0%   80.0%  50.0%  other (/srv/app/cart.rb:7)\n\n\
             1 function beside, of which the shares differ by no more than chance explains\n"
        );
    }

    #[test]
    fn nothing_is_said_of_chance_and_of_nothing() {
        let same = table(&profile(200, 800), &profile(210, 790));
        assert!(
            same.starts_with(
                "no function has a larger or smaller share by more than chance explains\n"
            ),
            "{same}"
        );
        let none = table(&profile(0, 0), &profile(1, 1));
        assert!(
            none.starts_with("no thread ran in any look of the old profile"),
            "{none}"
        );
    }
}
