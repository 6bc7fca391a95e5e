//! What protection against the CPU's own faults costs. Reported, never changed. Used by `rules`.

use super::rule::{NOTHING, Risk, Rule};
use crate::machine::Machine;
use crate::tree::Cannot;
use crate::verdict::Outcome;

pub(super) const MITIGATIONS: Rule = Rule {
    id: "T34",
    title: "CPU mitigations",
    of_2009: false,
    reads: "/sys/devices/system/cpu/vulnerabilities/*, mitigations= in /proc/cmdline",
    why: "They make each entry into the kernel dearer, so a program that makes many system calls pays most: count them \
          with `lancet calls -S -c -p PID` first. Turning them off opens every process to every other.",
    source: "Documentation/admin-guide/hw-vuln/",
    dated: "2018 and later; stands today",
    change: "none from here: it is a decision about security, and takes a reboot",
    undo: NOTHING,
    risk: Risk::High,
    reboot: true,
    counts: false,
    checked: &[
        (
            "Documentation/admin-guide/hw-vuln/spectre.rst",
            "/sys/devices/system/cpu/vulnerabilities/",
        ),
        ("arch/x86/kernel/cpu/bugs.c", "cpu_show_common"),
    ],
    check: mitigations,
};

fn mitigations(machine: &Machine) -> Result<Outcome, Cannot> {
    const BASE: &str = "/sys/devices/system/cpu/vulnerabilities";
    let names = machine.tree.list(BASE)?;
    let cmdline = machine.tree.word("/proc/cmdline").unwrap_or_default();
    let choice = cmdline
        .split_whitespace()
        .find(|word| word.starts_with("mitigations="));
    let states: Vec<(String, String)> = names
        .iter()
        .filter_map(|name| {
            Some((
                name.clone(),
                machine.tree.word(&format!("{BASE}/{name}")).ok()?,
            ))
        })
        .collect();
    let of = |start: &str| {
        states
            .iter()
            .filter(|(_, state)| state.starts_with(start))
            .count()
    };
    let (open, closed) = (of("Vulnerable"), of("Mitigation"));
    let outcome = match (choice, open) {
        (Some("mitigations=off"), _) => {
            Outcome::consider(format!("turned off: {open} vulnerabilities are open"))
        }
        (_, 0) => Outcome::good(format!(
            "none open; {closed} mitigated, at the cost of each system call"
        )),
        (_, open) => Outcome::consider(format!(
            "{open} vulnerabilities of the CPU open, {closed} mitigated"
        )),
    };
    let outcome = outcome.saw("/proc/cmdline", choice.unwrap_or("no mitigations="));
    let affected = states
        .into_iter()
        .filter(|(_, state)| !state.starts_with("Not affected"));
    Ok(affected.fold(outcome, |outcome, (name, state)| {
        outcome.saw(format!("{BASE}/{name}"), state)
    }))
}
