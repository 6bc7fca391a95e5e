//! The audit for programs: a `check` for each finding, the worst first, then a `summary`; [`answer::tune`]. Used by
//! `lancet::commands::tune::run`.

use std::io::{self, Write};

use answer::tune::{Check, Evidence, Record};
use tune::machine::Machine;
use tune::rules::{Finding, KERNEL, Risk, Rule, count};
use tune::setting::Setting;

use super::worst_first;
use crate::json::line;

/// A setting as a program reads it.
fn setting(setting: &Setting) -> answer::tune::Setting<'_> {
    let none = answer::tune::Setting {
        interface: "file",
        path: None,
        device: None,
        name: None,
        pid: None,
    };
    let of_device = |interface, device, name| answer::tune::Setting {
        interface,
        device: Some(device),
        name,
        ..none
    };
    match setting {
        Setting::File { path } => answer::tune::Setting {
            path: Some(path),
            ..none
        },
        Setting::Feature { device, name } => of_device("feature", device, Some(name)),
        Setting::Coalesce { device, field } => of_device("coalesce", device, Some(field)),
        Setting::Ring { device, field } => of_device("ring", device, Some(field)),
        Setting::Channels { device, field } => of_device("channels", device, Some(field)),
        Setting::Qdisc { device } => of_device("qdisc", device, None),
        Setting::Descriptors { pid, .. } => answer::tune::Setting {
            interface: "descriptors",
            pid: Some(*pid),
            ..none
        },
        Setting::Affinity { pid, .. } => answer::tune::Setting {
            interface: "affinity",
            pid: Some(*pid),
            ..none
        },
    }
}

/// A finding as a program reads it.
fn check<'a>(machine: &Machine, finding: &'a Finding) -> Record<'a> {
    let rule = Rule::find(finding.id).expect("a finding comes from a rule");
    let network = machine.network_of();
    let outcome = &finding.outcome;
    let command =
        |change: &tune::verdict::Change| change.setting.command_in(network, &change.value);
    let evidence = outcome.evidence.iter().map(|one| Evidence {
        from: &one.from,
        value: &one.value,
    });
    let changes = outcome.changes.iter().map(|change| answer::tune::Write {
        setting: setting(&change.setting),
        value: &change.value,
    });
    Record::Check(Box::new(Check {
        id: finding.id,
        title: finding.title,
        verdict: outcome.verdict.name(),
        says: &outcome.says,
        evidence: evidence.collect(),
        changes: changes.collect(),
        commands: outcome.changes.iter().map(command).collect(),
        then: outcome.then,
        fails: outcome.fails,
        of_2009: rule.of_2009,
        why: rule.why,
        source: rule.source,
        dated: rule.dated,
        checked: rule.checked.iter().map(|(file, _)| *file).collect(),
        kernel: KERNEL,
        undo: rule.undo,
        risk: match rule.risk {
            Risk::Low => "low",
            Risk::Medium => "medium",
            Risk::High => "high",
        },
        reboot: rule.reboot,
    }))
}

/// Writes an audit.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, machine: &Machine, findings: &[Finding]) -> io::Result<()> {
    for finding in worst_first(findings) {
        line(out, &check(machine, finding))?;
    }
    let counts = count(findings)
        .into_iter()
        .map(|(verdict, count)| (verdict.name(), count));
    let summary: Record = Record::Summary {
        checks: findings.len(),
        verdicts: counts.collect(),
    };
    line(out, &summary)
}

/// Writes the findings whose verdict is another than before. They stand in the same order.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write_changes(
    out: &mut dyn Write,
    machine: &Machine,
    before: &[Finding],
    now: &[Finding],
) -> io::Result<()> {
    for (old, new) in before.iter().zip(now) {
        if old.outcome.verdict != new.outcome.verdict {
            line(out, &check(machine, new))?;
        }
    }
    Ok(())
}
