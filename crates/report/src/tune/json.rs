//! The audit for programs: a `check` for each finding, then a `summary`; see `docs/tune.md`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use tune::machine::Machine;
use tune::rules::{Finding, KERNEL, Risk, Rule, count};
use tune::verdict::Change;

use crate::json::line;

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
    /// Files of the kernel's source, of the version that `kernel` names.
    checked: Vec<&'static str>,
    kernel: &'static str,
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
            checked: rule.checked.iter().map(|(file, _)| *file).collect(),
            kernel: KERNEL,
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
    counts: BTreeMap<&'static str, usize>,
}

/// Writes an audit.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, machine: &Machine, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        line(out, &Check::new(machine, finding))?;
    }
    let counts = count(findings)
        .into_iter()
        .map(|(verdict, count)| (verdict.words(), count));
    line(
        out,
        &Summary {
            record: "summary",
            checks: findings.len(),
            counts: counts.collect(),
        },
    )
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
            line(out, &Check::new(machine, new))?;
        }
    }
    Ok(())
}
