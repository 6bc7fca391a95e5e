//! Rules (of `RULES` in `mod.rs`) on whether this machine can be looked into: profilers, tracers, core dumps. Used by
//! `rules`.

use super::rule::{NOTHING, Risk, Rule, WRITE_BACK};
use crate::kconfig::Built;
use crate::machine::Machine;
use crate::tree::Cannot;
use crate::verdict::Outcome;

pub(super) const OPROFILE: Rule = Rule {
    id: "T12",
    title: "oprofile",
    of_2009: true,
    reads: "CONFIG_OPROFILE, CONFIG_PERF_EVENTS, /proc/sys/kernel/perf_event_paranoid",
    why: "oprofile's driver is gone; perf does its work, on the same counters. perf_event_paranoid says who may: 2 is \
          one's own processes, above 2 nobody but root (a distribution's patch, because of holes in perf_event_open). Lowering it \
          lets every user of the machine reach that call, so nothing is proposed: let one program profile instead.",
    source: "driver removed in 5.12; Documentation/admin-guide/sysctl/kernel.rst, Documentation/admin-guide/perf-security.rst \
             (since 5.8)",
    dated: "2009; obsolete since perf (2.6.31), gone since 5.12 (2021)",
    change: "above 2: profile as root, or give perf alone the right: setcap cap_perfmon,cap_sys_ptrace=ep, since 5.8",
    undo: NOTHING,
    risk: Risk::High,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/events/core.c", "sysctl_perf_event_paranoid"),
        (
            "Documentation/admin-guide/sysctl/kernel.rst",
            "perf_event_paranoid",
        ),
    ],
    check: oprofile,
};

fn oprofile(machine: &Machine) -> Result<Outcome, Cannot> {
    const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
    let paranoid = machine.tree.number::<i64>(PARANOID);
    let driver = machine.built("OPROFILE");
    let perf = machine.built("PERF_EVENTS");
    let outcome = match (&paranoid, &driver) {
        (Ok(3..), _) => {
            Outcome::consider("perf has taken oprofile's place, and only root may use it here")
        }
        (Ok(_), Ok((Built::In | Built::Module, _))) => {
            Outcome::obsolete("oprofile is still built; perf does its work")
        }
        (Ok(_), _) => Outcome::obsolete("perf does its work, and may be used"),
        // A kernel of 2009: perf came with 2.6.31.
        (Err(_), Ok((built, _)))
            if built.is_there() && machine.kernel_is_at_least(2, 6) == Some(true) =>
        {
            if perf.as_ref().is_ok_and(|(perf, _)| perf.is_there()) {
                Outcome::obsolete("perf does its work")
            } else {
                Outcome::good("oprofile is built, and this kernel has no perf yet")
            }
        }
        (Err(_), Ok(_)) if perf.as_ref().is_ok_and(|(perf, _)| perf.is_there()) => {
            Outcome::obsolete("perf is built in and does its work")
        }
        (Err(cannot), _) => return Err(cannot.clone()),
    };
    let words = |built: &Result<(Built, String), Cannot>| match built {
        Ok((built, _)) => built.words().to_owned(),
        Err(cannot) => cannot.to_string(),
    };
    let paranoid = paranoid.map_or_else(|cannot| cannot.to_string(), |level| level.to_string());
    Ok(outcome
        .saw("CONFIG_OPROFILE", words(&driver))
        .saw("CONFIG_PERF_EVENTS", words(&perf))
        .saw(PARANOID, paranoid))
}

pub(super) const DEBUGGING: Rule = Rule {
    id: "T36",
    title: "debuggability",
    of_2009: false,
    reads: "/proc/sys/kernel/yama/ptrace_scope, core_pattern, core_uses_pid; with -p the core limit in /proc/PID/limits",
    why: "What lancet's other commands need when something is wrong: ptrace_scope 0 lets a user open his own processes, \
          1 only children, 2 only root, 3 nobody until the next boot. Without a core limit a crash leaves nothing.",
    source: "Documentation/admin-guide/LSM/Yama.rst, core(5)",
    dated: "Yama since 3.4 (2012); stands today",
    change: "sysctl kernel.yama.ptrace_scope=0 while you look; it lowers the wall between processes of one user",
    undo: WRITE_BACK,
    risk: Risk::High,
    reboot: false,
    counts: false,
    checked: &[
        ("security/yama/yama_lsm.c", "YAMA_SCOPE_RELATIONAL"),
        ("fs/coredump.c", "core_pattern"),
        ("fs/coredump.c", "core_uses_pid"),
    ],
    check: debugging,
};

/// Returns why cores of this pattern are lost, if they are: core(5) writes none for an empty one. With `core_uses_pid` a dot and the
/// id of the process follow a pattern that is no program's, so that neither it nor `/dev/null` is the name of the file. What
/// another program does with them is not known.
fn why_lost(pattern: &str, uses_pid: bool) -> Option<&'static str> {
    const THROWN_AWAY: &str = "a crash leaves no core: core_pattern throws it away";
    let program = pattern
        .strip_prefix('|')
        .map(|rest| rest.split_whitespace().next().unwrap_or_default());
    match (program, pattern) {
        (None, "") if uses_pid => None,
        (None, "/dev/null") if uses_pid => {
            Some("a crash leaves a core, /dev/null.PID, only if the process is root's")
        }
        (None, "" | "/dev/null") => Some(THROWN_AWAY),
        (None, _) => None,
        (Some(program), _) => {
            matches!(program.rsplit('/').next(), Some("true" | "false" | "")).then_some(THROWN_AWAY)
        }
    }
}

fn debugging(machine: &Machine) -> Result<Outcome, Cannot> {
    const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
    const PATTERN: &str = "/proc/sys/kernel/core_pattern";
    const USES_PID: &str = "/proc/sys/kernel/core_uses_pid";
    let scope = match machine.tree.number::<u32>(SCOPE) {
        Ok(scope) => Some(scope),
        Err(missing) if missing.is_missing() => None,
        Err(other) => return Err(other),
    };
    let pattern = machine.tree.word(PATTERN)?;
    let uses_pid = match machine.tree.number::<u32>(USES_PID) {
        Ok(number) => Some(number),
        Err(missing) if missing.is_missing() => None,
        Err(other) => return Err(other),
    };
    let lost = why_lost(&pattern, uses_pid.is_some_and(|number| number != 0));
    let outcome = match (scope, lost) {
        (Some(3..), _) => Outcome::consider("nobody can open a process until the next boot"),
        (_, Some(why)) => Outcome::consider(why),
        (None, None) => Outcome::good("no Yama: one's own processes can be opened"),
        (Some(0), None) => Outcome::good("one's own processes can be opened"),
        (Some(1), None) => Outcome::good("root can open processes, others only their children"),
        (Some(2), None) => Outcome::good("only root can open processes"),
    };
    let scope = scope.map_or("no such file".into(), |scope| scope.to_string());
    let uses_pid = uses_pid.map_or("no such file".into(), |number| number.to_string());
    let outcome = outcome
        .saw(SCOPE, scope)
        .saw(PATTERN, pattern)
        .saw(USES_PID, uses_pid);
    let Some(guest) = &machine.guest else {
        return Ok(outcome);
    };
    let limits = machine.tree.read(&guest.file("limits"))?;
    let core = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"));
    let core = core
        .unwrap_or_default()
        .split_whitespace()
        .next()
        .unwrap_or("?");
    Ok(outcome.saw(guest.file("limits core"), core))
}
