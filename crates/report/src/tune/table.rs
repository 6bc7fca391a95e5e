//! The audit for people: a table, the worst first and of these what fails now, on a terminal last, where the eye is; or a line for each verdict that changed.
//! Used by `lancet::commands::tune::run`.

use std::io::{self, Write};

use tune::machine::Machine;
use tune::rules::{Finding, Rule, count};
use tune::verdict::Verdict;

use super::{color, evidence, of_verdict};
use crate::Style;
use crate::text::printable;

/// What is shown beside the rows.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Show the evidence and the exact change under each line.
    pub verbose: bool,
    /// The beginning of a command line that looks at the same machine, for the hints below the table.
    pub again: &'a str,
    /// How the table may look.
    pub style: Style,
}

/// Writes everything, the worst first; on a terminal last, next to the prompt.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(
    out: &mut dyn Write,
    machine: &Machine,
    findings: &[Finding],
    options: &Options<'_>,
) -> io::Result<()> {
    let style = &options.style;
    writeln!(out, "{}", style.painted(&subject(machine), "1"))?;
    let widest = findings
        .iter()
        .map(|finding| finding.title.chars().count())
        .max();
    let widest = widest.unwrap_or(0);
    // "  T01  2009  title  "
    let room = style
        .width
        .map(|width| width.saturating_sub(widest + 15).max(24));
    let mut verdicts = Verdict::ALL;
    if style.width.is_some() {
        verdicts.reverse();
    }
    for verdict in verdicts {
        let mut group = of_verdict(findings, verdict);
        if style.width.is_some() {
            // Nearest to the prompt.
            group.sort_by_key(|finding| finding.outcome.fails);
        }
        if group.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", style.painted(verdict.words(), color(verdict)))?;
        for finding in group {
            let says = printable(&finding.outcome.says);
            writeln!(
                out,
                "  {}  {}  {:widest$}  {}",
                style.painted(finding.id, color(verdict)),
                style.painted(if of_2009(finding) { "2009" } else { "    " }, "2"),
                finding.title,
                fitting(&says, room)
            )?;
            if options.verbose {
                evidence(out, machine, &finding.outcome, style)?;
            }
        }
    }
    foot(out, options, findings)
}

/// Writes a line for each verdict that is another than before. The findings stand in the same order.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write_changes(
    out: &mut dyn Write,
    before: &[Finding],
    now: &[Finding],
    style: &Style,
) -> io::Result<()> {
    for (old, new) in before.iter().zip(now) {
        if old.outcome.verdict == new.outcome.verdict {
            continue;
        }
        let verdict = new.outcome.verdict;
        writeln!(
            out,
            "{}  {}: {} → {}: {}",
            style.painted(new.id, color(verdict)),
            new.title,
            old.outcome.verdict.words(),
            style.painted(verdict.words(), color(verdict)),
            printable(&new.outcome.says)
        )?;
    }
    Ok(())
}

fn of_2009(finding: &Finding) -> bool {
    Rule::find(finding.id).is_some_and(|rule| rule.of_2009)
}

/// `Linux 6.18.44, 2 CPUs, eth0; for ruby (PID 42); counters over 1.0 s`
fn subject(machine: &Machine) -> String {
    let devices: Vec<&str> = machine.nics.iter().map(|nic| nic.name.as_str()).collect();
    let devices = match devices.as_slice() {
        [] if machine.tree.network().is_err() => "its network is not known".to_owned(),
        [] => "no network device that is up".to_owned(),
        few if few.len() <= 4 => few.join(" "),
        many => format!("{} network devices", many.len()),
    };
    let cpus = match machine.topology.online.len() {
        0 => "CPUs unknown".to_owned(),
        1 => "1 CPU".to_owned(),
        more => format!("{more} CPUs"),
    };
    let mut text = format!("{}, {cpus}, {devices}", machine.kernel());
    if let Some(guest) = &machine.guest {
        text.push_str(&format!("; for {} (PID {})", guest.comm, guest.pid));
    }
    if let Some(network) = &machine.entered {
        text.push_str(&format!(" in its network {network}"));
    }
    if machine.samples.second.is_some() {
        text.push_str(&format!("; counters over {}", machine.samples.over()));
    }
    printable(&text).into_owned()
}

/// What can be done from here, and the counts, last.
fn foot(out: &mut dyn Write, options: &Options<'_>, findings: &[Finding]) -> io::Result<()> {
    let ids: Vec<&str> = findings
        .iter()
        .filter(|finding| !finding.outcome.changes.is_empty())
        .map(|finding| finding.id)
        .collect();
    writeln!(out)?;
    if !ids.is_empty() {
        let again = options.again;
        writeln!(out, "why and how: {again} --explain {}", ids[0])?;
        writeln!(
            out,
            "can be changed from here: {again} --apply {}",
            ids.join(" ")
        )?;
    }
    let counts: Vec<String> = count(findings)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| {
            let text = format!("{count} {}", verdict.words());
            options.style.painted(&text, color(verdict)).into_owned()
        })
        .collect();
    writeln!(out, "{} checks: {}", findings.len(), counts.join(", "))
}

/// Cuts a text at its end, with a mark, so that a line stays a line.
fn fitting(text: &str, room: Option<usize>) -> String {
    match room {
        Some(room) if text.chars().count() > room => {
            let kept: String = text.chars().take(room.saturating_sub(1)).collect();
            format!("{kept}…")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(fitting("abcdef", Some(4)), "abc…");
        assert_eq!(fitting("abcdef", None), "abcdef");
    }
}
