//! What a control group keeps for its processes and what it caps beside processor and memory; and a scheduler from outside of the
//! kernel. Used by `rules`.

use super::group::{Worst, value};
use super::rule::{NOTHING, Risk, Rule};
use crate::groups::{self, Group, Version};
use crate::guest::Guest;
use crate::machine::Machine;
use crate::tree::{Cannot, Tree};
use crate::verdict::{Outcome, Verdict};

pub(super) const SHARES: Rule = Rule {
    id: "T56",
    title: "shares of the control group",
    of_2009: false,
    reads: "with -p memory.low, memory.min, memory.events (low), io.max, io.pressure, cpu.max, cpu.max.burst, cpu.stat of its control \
            groups (version 2)",
    why: "memory.low and memory.min keep memory for a group while others want it; what a group outside does not keep, an inner one \
          cannot. io.max caps the bytes and requests of a disk in a second: who meets it waits, and the disk looks idle. A quota \
          without cpu.max.burst stops a server that was idle a moment before, although it used little on average.",
    source: "Documentation/admin-guide/cgroup-v2.rst; Documentation/scheduler/sched-bwc.rst (cpu.max.burst since 5.14, 2021)",
    dated: "stands in 2026",
    change: "in the unit MemoryLow=, IOReadBandwidthMax= and its kin; echo MICROSECONDS > cpu.max.burst, at most the quota",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("Documentation/admin-guide/cgroup-v2.rst", "memory.low"),
        ("Documentation/admin-guide/cgroup-v2.rst", "io.max"),
        ("Documentation/admin-guide/cgroup-v2.rst", "cpu.max.burst"),
    ],
    check: shares,
};

fn shares(machine: &Machine) -> Result<Outcome, Cannot> {
    let guest = machine.one_process()?;
    let mut worst = Worst::default();
    let (mut there, mut missing, mut unread) = (Vec::new(), Vec::new(), None);
    for (controller, file, nothing, look) in LOOKS {
        let mut second = false;
        for group in of_version_2(&machine.tree, guest, controller)? {
            match look(&machine.tree, &group.folder, &mut worst) {
                Ok(()) => second = true,
                Err(cannot) if cannot.is_missing() => {}
                Err(cannot) => unread = unread.or(Some(cannot)),
            }
        }
        match second {
            true => there.push(nothing),
            false => missing.push(file),
        }
    }
    let missing = match missing.is_empty() {
        true => String::new(),
        false => format!("; its groups have no {}", missing.join(", ")),
    };
    let outcome = worst.or(Outcome::good(format!("{}{missing}", there.join(", "))));
    match unread {
        // What is good elsewhere says nothing of a file that could not be read.
        Some(cannot) if outcome.verdict == Verdict::Good => Err(cannot),
        None if there.is_empty() => Err(Cannot::Elsewhere(
            "its control groups have none of these files: they are of version 1, or the first group of all",
        )),
        _ => Ok(outcome),
    }
}

/// Looks at a group of a controller. [Missing](Cannot::Missing) if it has none of the files: the first group of all, and where the
/// controller is in a hierarchy of version 1 or not in use here.
type Look = fn(&Tree, &str, &mut Worst) -> Result<(), Cannot>;
/// Each controller with the file that shows that it is there, and what is said where nothing is found.
const LOOKS: [(&str, &str, &str, Look); 3] = [
    ("memory", "memory.low", "nothing kept", kept),
    ("io", "io.max", "no disk capped", capped),
    ("cpu", "cpu.max", "no quota that a burst would help", bursts),
];

/// Returns what a file holds; `None` if it is not there.
fn if_there<T>(read: Result<T, Cannot>) -> Result<Option<T>, Cannot> {
    match read {
        Err(cannot) if cannot.is_missing() => Ok(None),
        read => read.map(Some),
    }
}

fn of_version_2(tree: &Tree, guest: &Guest, controller: &str) -> Result<Vec<Group>, Cannot> {
    let mut groups = groups::of(tree, guest, controller)?;
    groups.retain(|group| group.version == Version::Second);
    Ok(groups)
}

fn kept(tree: &Tree, folder: &str, worst: &mut Worst) -> Result<(), Cannot> {
    let bytes = |name: &str| {
        let path = format!("{folder}/{name}");
        match tree.word(&path)?.as_str() {
            "max" => Ok(u64::MAX),
            word => word.parse().map_err(|_| Cannot::odd(&path, word)),
        }
    };
    let low: u64 = bytes("memory.low")?;
    let least = if_there(bytes("memory.min"))?.unwrap_or(0);
    if low == 0 && least == 0 {
        return Ok(());
    }
    let events = if_there(tree.read(&format!("{folder}/memory.events")))?.unwrap_or_default();
    let taken = value(&events, "low").unwrap_or(0);
    let mib = |bytes: u64| match bytes {
        u64::MAX => "all memory".to_owned(),
        bytes => format!("{} MiB", bytes >> 20),
    };
    worst.saw(format!("{folder}/memory.low"), mib(low));
    worst.saw(format!("{folder}/memory.min"), mib(least));
    let most = mib(low.max(least));
    worst.saw(format!("{folder}/memory.events low"), taken.to_string());
    worst.take(match taken {
        0 => Outcome::good(format!("{most} kept for the group")),
        taken => Outcome::consider(format!(
            "of the {most} kept for the group some were taken {taken} times: more is kept than there is"
        )),
    });
    Ok(())
}

fn capped(tree: &Tree, folder: &str, worst: &mut Worst) -> Result<(), Cannot> {
    let text = tree.read(&format!("{folder}/io.max"))?;
    // `8:0 rbps=1048576 wbps=max riops=max wiops=max`
    let is_cap = |word: &str| word.contains('=') && !word.ends_with("=max");
    let caps = |line: &&str| line.split_whitespace().any(is_cap);
    let Some(first) = text.lines().find(caps) else {
        return Ok(());
    };
    // Without CONFIG_PSI the file is not there, and with psi=0 it cannot be read.
    let pressure = tree
        .read(&format!("{folder}/io.pressure"))
        .unwrap_or_default();
    let waits = pressure.lines().find_map(|line| {
        let mut words = line.strip_prefix("full ")?.split_whitespace();
        let share = words.find_map(|word| word.strip_prefix("avg60="))?;
        share.parse::<f64>().ok().filter(|share| share.is_finite())
    });
    worst.saw(format!("{folder}/io.max"), first.to_owned());
    let share = waits.map_or("not known".into(), |share| {
        format!("{share}% of the last minute")
    });
    worst.saw(format!("{folder}/io.pressure full"), share);
    // The bounds of T41 for disks.
    worst.take(match waits {
        Some(share) if share >= 60.0 => {
            Outcome::bad(format!("everybody waits {share}% of the time at io.max"))
        }
        Some(share) if share >= 20.0 => {
            Outcome::consider(format!("everybody waits {share}% of the time at io.max"))
        }
        Some(_) => Outcome::good("disks are capped, and little is waited for them"),
        None => Outcome::good("disks are capped; how much is waited for them is not known"),
    });
    Ok(())
}

fn bursts(tree: &Tree, folder: &str, worst: &mut Worst) -> Result<(), Cannot> {
    let quota = tree.word(&format!("{folder}/cpu.max"))?;
    let has_quota = quota.starts_with(|c: char| c.is_ascii_digit());
    let burst = if_there(tree.number::<u64>(&format!("{folder}/cpu.max.burst")))?;
    let Some(burst) = burst else {
        return Ok(());
    };
    if !has_quota {
        return Ok(());
    }
    let stat = if_there(tree.read(&format!("{folder}/cpu.stat")))?.unwrap_or_default();
    let number = |key: &str| value(&stat, key).unwrap_or(0);
    let (periods, throttled) = (number("nr_periods"), number("nr_throttled"));
    let used = number("usage_usec");
    worst.saw(format!("{folder}/cpu.max.burst"), format!("{burst} µs"));
    worst.saw(
        format!("{folder}/cpu.stat nr_bursts"),
        number("nr_bursts").to_string(),
    );
    let mut words = quota.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(quota)), Some(Ok(_))) = (words.next(), words.next()) else {
        return Ok(());
    };
    // Below half of the quota on average, and stopped all the same: that is what a burst is for.
    let stopped = throttled.saturating_mul(100) >= periods.max(1);
    let idle = used < periods.saturating_mul(quota) / 2;
    if burst == 0 && stopped && idle {
        worst.take(Outcome::consider(
            "stopped by the quota, less than half of which is used on average, and no cpu.max.burst",
        ));
    }
    Ok(())
}

pub(super) const FOREIGN: Rule = Rule {
    id: "T57",
    title: "scheduler from BPF (sched_ext)",
    of_2009: false,
    reads: "/sys/kernel/sched_ext: state, root/ops, enable_seq, nr_rejected; the kernel's log for `sched_ext:`",
    why: "A scheduler loaded as BPF program replaces the kernel's own for all threads, or for those that ask. Then shares, nice and \
          what is written of latency elsewhere mean what that program makes of them. One that fails is thrown out by the kernel, \
          and only the log says so.",
    source: "Documentation/scheduler/sched-ext.rst (since 6.12, 2024)",
    dated: "stands in 2026",
    change: "stop the program that loaded it; its service is often called scx",
    undo: NOTHING,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        (
            "Documentation/scheduler/sched-ext.rst",
            "/sys/kernel/sched_ext/state",
        ),
        ("kernel/sched/ext.c", "nr_rejected"),
    ],
    check: foreign,
};

fn foreign(machine: &Machine) -> Result<Outcome, Cannot> {
    const BASE: &str = "/sys/kernel/sched_ext";
    let tree = &machine.tree;
    let file = |name: &str| format!("{BASE}/{name}");
    let state = match tree.word(&file("state")) {
        Ok(state) => state,
        Err(missing) if missing.is_missing() && tree.exists("/sys/kernel") => {
            let says = "the kernel has none: before 6.12, or built without it";
            return Ok(Outcome::not_applicable(says).saw(file("state"), "not there"));
        }
        Err(other) => return Err(other),
    };
    let loaded: u64 = tree.number(&file("enable_seq")).unwrap_or(0);
    let name = tree.word(&file("root/ops")).unwrap_or_default();
    let outcome = match (state.as_str(), loaded) {
        ("disabled", 0) => Outcome::good("none was loaded since boot"),
        ("disabled", loaded) => Outcome::consider(format!(
            "none now, and {loaded} times one was loaded: the log says why it left"
        )),
        (state, _) => {
            let name = if name.is_empty() { "one" } else { &name };
            Outcome::consider(format!(
                "{name} is {state}: the kernel's own does not decide"
            ))
        }
    };
    let rejected = tree
        .word(&file("nr_rejected"))
        .unwrap_or_else(|cannot| cannot.to_string());
    let outcome = outcome
        .saw(file("state"), state)
        .saw(file("root/ops"), name)
        .saw(file("enable_seq"), loaded)
        .saw(file("nr_rejected"), rejected);
    Ok(machine.logged(outcome, &["sched_ext:"]))
}
