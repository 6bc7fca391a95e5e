//! How fast the CPUs run, and how deep they sleep. Used by `rules`.

use std::fs::File;
use std::io::Read;

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::setting::Setting;
use crate::tree::{Cannot, Tree};
use crate::verdict::{Goal, Outcome};

pub(super) const GOVERNOR: Rule = Rule {
    id: "T31",
    title: "frequency governor",
    of_2009: false,
    reads: "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor, scaling_driver; /proc/loadavg",
    why: "powersave of most drivers stays at the lowest frequency, load or none. With intel_pstate and amd-pstate-epp \
          powersave follows the load and is the default.",
    source: "Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst; tuned throughput-performance (performance)",
    dated: "stands in 2026. In virtual machines the host decides",
    change: "echo performance > scaling_governor, per policy",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        (
            "Documentation/admin-guide/pm/cpufreq.rst",
            "scaling_governor",
        ),
        (
            "drivers/cpufreq/intel_pstate.c",
            "energy_performance_preference",
        ),
    ],
    check: governor,
};

fn governor(machine: &Machine) -> Result<Outcome, Cannot> {
    const BASE: &str = "/sys/devices/system/cpu/cpufreq";
    let tree = &machine.tree;
    tree.list("/sys/devices/system/cpu")?;
    let policies: Vec<String> = tree
        .list(BASE)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| name.starts_with("policy"))
        .collect();
    if policies.is_empty() {
        return Ok(Outcome::not_applicable(
            "no frequency is set from here (a virtual machine, or no driver)",
        )
        .saw(BASE, "no policy"));
    }
    let load = tree.word("/proc/loadavg").unwrap_or_default();
    let first = load
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    let loaded = first.is_some_and(|load| load > machine.topology.online.len() as f64 / 2.0);
    let mut slow = Vec::new();
    let mut seen = Vec::new();
    for policy in &policies {
        let file = format!("{BASE}/{policy}/scaling_governor");
        let governor = tree.word(&file)?;
        let driver = tree
            .word(&format!("{BASE}/{policy}/scaling_driver"))
            .unwrap_or_default();
        let follows = matches!(driver.as_str(), "intel_pstate" | "amd-pstate-epp");
        if governor == "powersave" && (!follows || machine.goal.is_some()) {
            slow.push((file.clone(), follows));
        }
        seen.push((file, format!("{governor}, driver {driver}")));
    }
    let outcome = match slow.first() {
        None => Outcome::good(
            seen.first()
                .map_or_else(String::new, |(_, text)| text.clone()),
        ),
        Some((_, true)) => {
            Outcome::consider("powersave follows the load; performance reacts sooner")
        }
        Some((_, false)) if loaded => Outcome::bad("powersave, and the CPUs are loaded"),
        Some((_, false)) => Outcome::consider("powersave: always the lowest frequency"),
    };
    let outcome = slow.iter().fold(outcome, |outcome, (file, _)| {
        outcome.change(Setting::file(file), "performance")
    });
    let outcome = seen
        .into_iter()
        .fold(outcome, |outcome, (file, text)| outcome.saw(file, text));
    Ok(outcome.saw("/proc/loadavg", load))
}

pub(super) const IDLE: Rule = Rule {
    id: "T32",
    title: "sleep states",
    of_2009: false,
    reads: "/sys/devices/system/cpu/cpuidle/current_driver; cpu0/cpuidle/state*/latency, disable; /dev/cpu_dma_latency (root)",
    why: "Waking from a deep state takes 100 µs and more. Holding /dev/cpu_dma_latency open with 0 in it keeps the CPUs \
          out of it; closing it is the undo. In virtual machines haltpoll polls before it halts.",
    source: "Documentation/admin-guide/pm/cpuidle.rst, Documentation/power/pm_qos_interface.rst; the bound: what C1 takes, else 3 µs, as \
             tuned latency-performance has it (force_latency=cstate.id_no_zero:1|3)",
    dated: "stands in 2026, for the latency goal alone",
    change: "latency goal: a service that holds /dev/cpu_dma_latency open",
    undo: "close the file: end that service",
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("Documentation/admin-guide/pm/cpuidle.rst", "latency"),
        ("kernel/power/qos.c", "cpu_dma_latency"),
    ],
    check: idle,
};

fn idle(machine: &Machine) -> Result<Outcome, Cannot> {
    const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
    const STATES: &str = "/sys/devices/system/cpu/cpu0/cpuidle";
    let tree = &machine.tree;
    tree.list("/sys/devices/system/cpu")?;
    let driver = match tree.word(DRIVER) {
        Ok(driver) => driver,
        Err(missing) if missing.is_missing() => "none".into(),
        Err(other) => return Err(other),
    };
    let states = tree.list(STATES).unwrap_or_default();
    let held = held(tree);
    let latency = |state: &String| {
        let number = |name: &str| tree.number::<u64>(&format!("{STATES}/{state}/{name}")).ok();
        number("latency").filter(|_| number("disable").unwrap_or(0) == 0)
    };
    // A program may keep the CPUs out of states that take longer to leave.
    let most = held.as_ref().copied().unwrap_or(u64::MAX);
    let entered = states.iter().filter_map(latency);
    let deepest = entered.filter(|micros| *micros <= most).max();
    // C1 is the first state that takes time to leave; staying above it means polling.
    let first = states.iter().filter_map(latency).find(|micros| *micros > 0);
    let outcome = match (driver.as_str(), deepest, machine.goal) {
        ("none", ..) => Outcome::not_applicable("no sleep states are managed here"),
        ("haltpoll", ..) => Outcome::good("haltpoll, made for virtual machines"),
        (_, Some(micros), Some(Goal::Latency)) if micros > first.unwrap_or(SOON) => {
            Outcome::consider(format!("waking from the deepest state takes {micros} µs"))
        }
        (_, Some(micros), _) => Outcome::good(format!(
            "{driver}; the deepest state takes {micros} µs to leave"
        )),
        (_, None, _) => Outcome::cannot_tell(format!("{driver} does not list its states")),
    };
    let deepest = deepest.map_or("no states".into(), |micros| format!("{micros} µs"));
    Ok(outcome
        .saw(DRIVER, driver)
        .saw(format!("{STATES}, highest latency in use"), deepest)
        .saw(
            LATENCY,
            match held {
                Ok(UNBOUNDED) => "not held down".into(),
                Ok(micros) => format!("held at {micros} µs"),
                Err(cannot) => cannot.to_string(),
            },
        ))
}

const LATENCY: &str = "/dev/cpu_dma_latency";
/// Microseconds: no sleep state takes longer to leave (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
const UNBOUNDED: u64 = 2_000_000_000;
/// Microseconds to wake up that tuned's profile for latency still allows where C1 does not say what it takes.
const SOON: u64 = 3;

/// Returns the number of microseconds to which a program holds the CPUs: the device gives 32 bits (kernel/power/qos.c).
fn held(tree: &Tree) -> Result<u64, Cannot> {
    if !tree.is_live() {
        return Err(Cannot::NeedsLive("what is held open"));
    }
    let failed = |error| Cannot::from_io(LATENCY, &error);
    let mut bytes = [0u8; 4];
    let mut device = File::open(LATENCY).map_err(failed)?;
    device.read_exact(&mut bytes).map_err(failed)?;
    let micros = i32::from_ne_bytes(bytes);
    u64::try_from(micros).map_err(|_| Cannot::odd(LATENCY, &micros.to_string()))
}
