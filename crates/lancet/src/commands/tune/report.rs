//! The answer, written down: a table for people, lines of JSON for programs.

use std::io::{self, Write};

use export::table::Style;
use export::text::printable;
use serde::Serialize;
use tune::machine::Machine;
use tune::rules::{Finding, Risk, Rule, count};
use tune::verdict::{Change, Outcome, Verdict};

use crate::cli::TuneArgs;
use crate::ui::sink::Sink;

/// The colour of a verdict's heading and ids.
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

fn painted(text: &str, code: &str, style: &Style) -> String {
    match style.color {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// Cut at the end, with a mark, so that a line stays a line.
fn fitting(text: &str, room: Option<usize>) -> String {
    match room {
        Some(room) if text.chars().count() > room => {
            let kept: String = text.chars().take(room.saturating_sub(1)).collect();
            format!("{kept}…")
        }
        _ => text.to_owned(),
    }
}

/// Everything, the worst first.
pub fn table(
    sink: &mut Sink,
    args: &TuneArgs,
    machine: &Machine,
    findings: &[Finding],
) -> anyhow::Result<()> {
    if args.json {
        return json(sink, machine, findings);
    }
    let (out, style) = (&mut sink.out, &sink.style);
    writeln!(out, "{}", painted(&subject(machine), "1", style))?;
    let widest = findings
        .iter()
        .map(|finding| finding.title.chars().count())
        .max();
    let widest = widest.unwrap_or(0);
    // "  T01  2009  title  "
    let room = style
        .width
        .map(|width| width.saturating_sub(widest + 15).max(24));
    for verdict in Verdict::ALL {
        let group: Vec<&Finding> = findings
            .iter()
            .filter(|finding| finding.outcome.verdict == verdict)
            .collect();
        if group.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", painted(verdict.words(), color(verdict), style))?;
        for finding in group {
            let says = printable(&finding.outcome.says);
            writeln!(
                out,
                "  {}  {}  {:widest$}  {}",
                painted(finding.id, color(verdict), style),
                painted(if of_2009(finding) { "2009" } else { "    " }, "2", style),
                finding.title,
                fitting(&says, room)
            )?;
            if args.verbose {
                evidence(out, machine, &finding.outcome, style)?;
            }
        }
    }
    foot(out, args, findings, style)?;
    out.flush()?;
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

fn evidence(
    out: &mut dyn Write,
    machine: &Machine,
    outcome: &Outcome,
    style: &Style,
) -> io::Result<()> {
    for seen in &outcome.evidence {
        let line = format!("             {}: {}", seen.from, seen.value);
        writeln!(out, "{}", painted(&printable(&line), "2", style))?;
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

/// What can be done from here, and the counts, last.
fn foot(
    out: &mut dyn Write,
    args: &TuneArgs,
    findings: &[Finding],
    style: &Style,
) -> io::Result<()> {
    let ids: Vec<&str> = findings
        .iter()
        .filter(|finding| !finding.outcome.changes.is_empty())
        .map(|finding| finding.id)
        .collect();
    writeln!(out)?;
    if !ids.is_empty() {
        let again = args.again();
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
            painted(
                &format!("{count} {}", verdict.words()),
                color(verdict),
                style,
            )
        })
        .collect();
    writeln!(out, "{} checks: {}", findings.len(), counts.join(", "))
}

/// A line for each verdict that is another than before.
pub fn changes(
    sink: &mut Sink,
    args: &TuneArgs,
    machine: &Machine,
    before: &[Finding],
    now: &[Finding],
) -> anyhow::Result<()> {
    for (old, new) in before.iter().zip(now) {
        if old.outcome.verdict == new.outcome.verdict {
            continue;
        }
        if args.json {
            line(sink, &Check::new(machine, new))?;
            continue;
        }
        let verdict = new.outcome.verdict;
        writeln!(
            sink.out,
            "{}  {}: {} → {}: {}",
            painted(new.id, color(verdict), &sink.style),
            new.title,
            old.outcome.verdict.words(),
            painted(verdict.words(), color(verdict), &sink.style),
            printable(&new.outcome.says)
        )?;
    }
    sink.out.flush()?;
    Ok(())
}

/// One check in full.
pub fn explain(
    sink: &mut Sink,
    args: &TuneArgs,
    machine: &Machine,
    rule: &Rule,
    finding: &Finding,
) -> anyhow::Result<()> {
    if args.json {
        return json(sink, machine, std::slice::from_ref(finding));
    }
    let (out, style) = (&mut sink.out, &sink.style);
    let outcome = &finding.outcome;
    let list = if rule.of_2009 {
        ", of the list of 2009"
    } else {
        ""
    };
    let risk = match rule.risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    };
    let boot = if rule.reboot { ", takes a reboot" } else { "" };
    writeln!(
        out,
        "{}",
        painted(&format!("{}  {}{list}", rule.id, rule.title), "1", style)
    )?;
    writeln!(
        out,
        "{}: {}\n",
        painted(outcome.verdict.words(), color(outcome.verdict), style),
        printable(&outcome.says)
    )?;
    for (name, text) in [
        ("why", rule.why),
        ("source", rule.source),
        ("dated", rule.dated),
        ("reads", rule.reads),
        ("change", rule.change),
        ("undo", rule.undo),
        ("risk", &format!("{risk}{boot}")),
    ] {
        for (at, row) in folded(text, 78).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            writeln!(
                out,
                "  {}  {row}",
                painted(&format!("{name:6}"), "2", style)
            )?;
        }
    }
    writeln!(out)?;
    evidence(out, machine, outcome, style)?;
    out.flush()?;
    Ok(())
}

fn folded(text: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split_whitespace() {
        let last = rows.last_mut().expect("there is always a row");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            rows.push(word.to_owned());
        }
    }
    rows
}

/// A finding as a program reads it.
#[derive(Serialize)]
struct Check<'a> {
    record: &'static str,
    #[serde(flatten)]
    finding: &'a Finding,
    commands: Vec<String>,
    of_2009: bool,
    why: &'static str,
    source: &'static str,
    dated: &'static str,
    undo: &'static str,
    risk: Risk,
    reboot: bool,
}

impl<'a> Check<'a> {
    fn new(machine: &Machine, finding: &'a Finding) -> Self {
        let rule = Rule::find(finding.id).expect("a finding comes from a rule");
        let network = machine.network_of();
        let command = |change: &Change| change.setting.command_in(network, &change.value);
        Self {
            record: "check",
            finding,
            commands: finding.outcome.changes.iter().map(command).collect(),
            of_2009: rule.of_2009,
            why: rule.why,
            source: rule.source,
            dated: rule.dated,
            undo: rule.undo,
            risk: rule.risk,
            reboot: rule.reboot,
        }
    }
}

#[derive(Serialize)]
struct Summary {
    record: &'static str,
    checks: usize,
    #[serde(flatten)]
    counts: std::collections::BTreeMap<&'static str, usize>,
}

fn json(sink: &mut Sink, machine: &Machine, findings: &[Finding]) -> anyhow::Result<()> {
    for finding in findings {
        line(sink, &Check::new(machine, finding))?;
    }
    let counts = count(findings)
        .into_iter()
        .map(|(verdict, count)| (verdict.words(), count));
    line(
        sink,
        &Summary {
            record: "summary",
            checks: findings.len(),
            counts: counts.collect(),
        },
    )?;
    sink.out.flush()?;
    Ok(())
}

/// One JSON object.
pub fn line(sink: &mut Sink, value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(value)?;
    writeln!(sink.out, "{text}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{fitting, folded};

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(fitting("abcdef", Some(4)), "abc…");
        assert_eq!(fitting("abcdef", None), "abcdef");
        assert_eq!(folded("one two  three", 7), ["one two", "three"]);
    }
}
