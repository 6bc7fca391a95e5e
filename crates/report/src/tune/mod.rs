//! The answers of `lancet tune`. Used by `lancet::commands::tune::args`.
//!
//! | module | what it writes |
//! |---|---|
//! | [`table`], [`json`] | an audit, and what changed since the one before |
//! | [`explain`] | one check in full |
//! | [`changes`] | what was changed, would be changed, or was taken back |
//! | [`events`] | processes as they come and go |

pub mod changes;
pub mod events;
pub mod explain;
pub mod json;
pub mod table;

use std::io::{self, Write};

use tune::machine::Machine;
use tune::rules::Finding;
use tune::verdict::{Change, Outcome, Verdict};

use crate::Style;
use crate::Writes;
use crate::text::printable;

/// How an audit and events are written, in the order in which help lists them.
pub static FORMATS: &[&Writes] = &[&TABLE, &Writes::Tables];

static TABLE: Writes = Writes::text("table", "Lines, for people; the worst first");

/// Returns the colour of a verdict's heading and ids, for [`Style::painted`].
fn color(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Harmful => "1;31",
        Verdict::Bad => "31",
        Verdict::Consider => "33",
        Verdict::Obsolete => "35",
        Verdict::CannotTell => "36",
        Verdict::Good => "32",
        Verdict::NotApplicable => "2",
    }
}

/// Returns the findings of a verdict: what fails now before what is only set.
fn of_verdict(findings: &[Finding], verdict: Verdict) -> Vec<&Finding> {
    let all = findings.iter();
    let mut all: Vec<&Finding> = all
        .filter(|finding| finding.outcome.verdict == verdict)
        .collect();
    all.sort_by_key(|finding| !finding.outcome.fails);
    all
}

/// Returns all findings, those of the worst verdict first.
fn worst_first(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    let verdicts = Verdict::ALL.into_iter();
    verdicts.flat_map(|verdict| of_verdict(findings, verdict))
}

/// Writes what an outcome rests on, and how to change it.
fn evidence(
    out: &mut dyn Write,
    machine: &Machine,
    outcome: &Outcome,
    style: &Style,
) -> io::Result<()> {
    for seen in &outcome.evidence {
        let line = format!("             {}: {}", seen.from, seen.value);
        writeln!(out, "{}", style.painted(&printable(&line), "2"))?;
    }
    for Change { setting, value } in &outcome.changes {
        let command = setting.command_in(machine.network_of(), value);
        let line = format!("             change: {command}");
        writeln!(out, "{}", printable(&line))?;
    }
    if let Some(then) = outcome.then {
        writeln!(out, "             then: {then}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_what_fails_before_what_is_set() {
        let finding = |id, verdict, fails| {
            let mut outcome = Outcome::new(verdict, "");
            outcome.fails = fails;
            Finding {
                id,
                title: "",
                outcome,
            }
        };
        let all = [
            finding("T01", Verdict::Good, false),
            finding("T02", Verdict::Bad, false),
            finding("T03", Verdict::Bad, true),
            finding("T04", Verdict::Harmful, false),
        ];
        let ids: Vec<&str> = worst_first(&all).map(|finding| finding.id).collect();
        assert_eq!(ids, ["T04", "T03", "T02", "T01"]);
    }
}
