//! What the control group of a process takes from it: processor time, memory, threads; and what is short on the whole
//! machine. Used by `rules` and `shares`.
//!
//! A limit of any group around the process counts ([`groups`]), and the versions of control groups have other files for
//! the same:
//!
//! | what | version 2 | version 1 |
//! |---|---|---|
//! | quota of processor time | `cpu.max` | `cpu.cfs_quota_us` (-1: none), `cpu.cfs_period_us` |
//! | what it took | `cpu.stat`: `throttled_usec` | `cpu.stat`: `throttled_time`, in nanoseconds |
//! | limit of memory | `memory.max`, `memory.high` | `memory.limit_in_bytes` (over 2^62: none) |
//! | how often it was met | `memory.events` | `memory.failcnt`, `oom_kill` in `memory.oom_control` |
//!
//! Where the groups are not to be seen nothing is known of their limits, and that is said.

use super::rule::{NOTHING, Risk, Rule};
use crate::groups::{self, Group, Version};
use crate::machine::Machine;
use crate::tree::{Cannot, Tree};
use crate::verdict::{Outcome, several};

/// The worst of what several groups or files say, the first of those that are as bad, with all that was read.
#[derive(Default)]
pub(super) struct Worst {
    outcome: Option<Outcome>,
    seen: Vec<(String, String)>,
}

impl Worst {
    pub fn saw(&mut self, from: String, value: String) {
        self.seen.push((from, value));
    }

    pub fn take(&mut self, outcome: Outcome) {
        let known = self.outcome.as_ref();
        if known.is_none_or(|known| outcome.verdict < known.verdict) {
            self.outcome = Some(outcome);
        }
    }

    /// Returns it; `none` where nothing was taken.
    pub fn or(self, none: Outcome) -> Outcome {
        let seen = self.seen.into_iter();
        seen.fold(self.outcome.unwrap_or(none), |outcome, (from, value)| {
            outcome.saw(from, value)
        })
    }
}

/// Returns the number behind a key in a file of lines `key number`.
pub(super) fn value(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?
        .trim()
        .parse()
        .ok()
}

pub(super) const CPU: Rule = Rule {
    id: "T38",
    title: "processor quota",
    of_2009: false,
    reads: "with -p cpu.max (version 1: cpu.cfs_quota_us) and cpu.stat (nr_periods, nr_throttled, throttled_usec) of its control groups; task",
    why: "With a quota of 2 CPUs in each 100 ms, eight threads that run at once use it up in 25 ms and stand still for the \
          other 75, whatever the load of the machine. Latency then has steps of the period. Fewer workers and threads than \
          the quota has CPUs, or a larger quota, end it; the garbage collector's and the JIT's threads count too.",
    source: "Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst",
    dated: "stands in 2026; up to 5.3 a quota also expired that was not used up (commit de53fd7aedb1)",
    change: "in the unit CPUQuota=, in the pod resources.limits.cpu; or fewer workers and threads",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/sched/core.c", "nr_throttled"),
        ("Documentation/scheduler/sched-bwc.rst", "nr_throttled"),
        ("kernel/sched/fair.c", "throttle_cfs_rq"),
    ],
    check: cpu,
};

fn cpu(machine: &Machine) -> Result<Outcome, Cannot> {
    let guest = machine.one_process()?;
    let tree = &machine.tree;
    let mut worst = Worst::default();
    for group in groups::of(tree, guest, "cpu")? {
        let Some(Quota {
            file,
            text,
            cpus,
            in_a_second,
        }) = quota(tree, &group)
        else {
            continue;
        };
        let group = group.folder;
        let stat = tree.read(&format!("{group}/cpu.stat")).unwrap_or_default();
        let number = |key: &str| value(&stat, key).unwrap_or(0);
        let (periods, throttled) = (number("nr_periods"), number("nr_throttled"));
        let seconds = number(in_a_second.0) as f64 / in_a_second.1;
        worst.saw(file, text);
        let counts =
            format!("nr_throttled {throttled} of {periods} periods, {seconds:.1} s in all");
        worst.saw(format!("{group}/cpu.stat"), counts);
        // In one period of a hundred a request in a hundred may meet it; in one of twenty the 95th percentile does.
        let per_cent = throttled.saturating_mul(100) / periods.max(1);
        let says = format!(
            "stopped in {per_cent}% of the periods: {cpus:.1} CPUs for {}",
            several(guest.threads.len(), "thread")
        );
        let outcome = match per_cent {
            5.. => Outcome::bad(says),
            1.. => Outcome::consider(says),
            0 => Outcome::good("a quota, seldom or never used up"),
        };
        worst.take(outcome);
    }
    Ok(worst.or(Outcome::good("no quota")))
}

/// A quota of processor time.
struct Quota {
    file: String,
    text: String,
    cpus: f64,
    /// The key of the time for which the quota has stopped somebody, and how much of it is a second.
    in_a_second: (&'static str, f64),
}

/// Returns the quota of a group; `None` = it has none.
fn quota(tree: &Tree, group: &Group) -> Option<Quota> {
    let folder = &group.folder;
    let (file, text, in_a_second) = match group.version {
        Version::Second => {
            let file = format!("{folder}/cpu.max");
            let text = tree.word(&file).ok()?;
            (file, text, ("throttled_usec", 1e6))
        }
        Version::First => {
            let file = format!("{folder}/cpu.cfs_quota_us");
            let period = tree.word(&format!("{folder}/cpu.cfs_period_us")).ok()?;
            let text = format!("{} {period}", tree.word(&file).ok()?);
            (file, text, ("throttled_time", 1e9))
        }
    };
    let mut words = text.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(quota)), Some(Ok(period @ 1..))) = (words.next(), words.next()) else {
        return None;
    };
    Some(Quota {
        cpus: quota as f64 / period as f64,
        file,
        text,
        in_a_second,
    })
}

pub(super) const MEMORY: Rule = Rule {
    id: "T39",
    title: "memory limit",
    of_2009: false,
    reads: "with -p memory.max, memory.high, memory.current, memory.events (high, max, oom_kill) of its control groups (version 1: \
            memory.limit_in_bytes, memory.usage_in_bytes, memory.failcnt, memory.oom_control)",
    why: "Above memory.high each allocation is made to wait while the kernel takes pages away: the process gets slower \
          and slower, and no log says so. At memory.max pages of files are thrown out first, then somebody is killed. \
          The events are counted since the group was made.",
    source: "Documentation/admin-guide/cgroup-v2.rst, memory interface files",
    dated: "stands in 2026",
    change: "in the unit MemoryHigh=, MemoryMax=, in the pod resources.limits.memory; or find what grows: lancet mem -p PID",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("mm/memcontrol.c", "mem_cgroup_handle_over_high"),
        ("Documentation/admin-guide/cgroup-v2.rst", "memory.high"),
    ],
    check: memory,
};

fn memory(machine: &Machine) -> Result<Outcome, Cannot> {
    let guest = machine.one_process()?;
    let tree = &machine.tree;
    let mut worst = Worst::default();
    for group in groups::of(tree, guest, "memory")? {
        let Some(Charge {
            most,
            high,
            now,
            events,
            files,
        }) = charge(tree, &group)
        else {
            continue;
        };
        let group = group.folder;
        let count = |key: &str| value(&events, key).unwrap_or(0);
        let mib = |bytes: Option<u64>| match bytes {
            Some(bytes) => format!("{} MiB", bytes >> 20),
            None => "no limit".to_owned(),
        };
        let outcome = if count("oom_kill") > 0 {
            Outcome::bad(format!(
                "{} killed at the limit of {} since the group was made",
                match count("oom_kill") {
                    1 => "a process was".to_owned(),
                    more => format!("{more} processes were"),
                },
                mib(most)
            ))
        } else if high.is_some_and(|high| now > high) {
            Outcome::bad(format!(
                "{} MiB, above memory.high of {}: slowed down",
                now >> 20,
                mib(high)
            ))
        } else if count("max") > 0 {
            Outcome::consider(format!(
                "at the limit of {} {} times",
                mib(most),
                count("max")
            ))
        } else if count("high") > 0 {
            Outcome::consider(format!(
                "slowed down {} times at memory.high",
                count("high")
            ))
        } else {
            Outcome::good(format!("{} MiB of {}", now >> 20, mib(most.or(high))))
        };
        let [limit, above, met] = files;
        worst.saw(format!("{group}/{limit}"), mib(most));
        if !above.is_empty() {
            worst.saw(format!("{group}/{above}"), mib(high));
        }
        worst.saw(format!("{group}/{met}"), events);
        worst.take(outcome);
    }
    Ok(worst.or(Outcome::good("no limit")))
}

/// The memory of a group.
struct Charge {
    most: Option<u64>,
    high: Option<u64>,
    now: u64,
    /// Lines as of `memory.events`.
    events: String,
    /// The names of the files of the limit, of the limit above which it is slowed down, and of the events.
    files: [&'static str; 3],
}

/// Returns what limits the memory of a group, and how often that was met; `None` = nothing does.
fn charge(tree: &Tree, group: &Group) -> Option<Charge> {
    /// A limit of version 1 that is none is the largest number of pages.
    const NO_LIMIT: u64 = 1 << 62;
    let file = |name: &str| format!("{}/{name}", group.folder);
    let number = |name: &str| tree.number::<u64>(&file(name)).ok();
    let (files, most, high, now, events) = match group.version {
        Version::Second => {
            let (most, high) = (number("memory.max"), number("memory.high"));
            let events = tree.read(&file("memory.events")).ok()?;
            let files = ["memory.max", "memory.high", "memory.events"];
            (files, most, high, number("memory.current"), events)
        }
        Version::First => {
            let most = number("memory.limit_in_bytes").filter(|most| *most < NO_LIMIT);
            let met = number("memory.failcnt").unwrap_or(0);
            let oom = tree.read(&file("memory.oom_control")).unwrap_or_default();
            let events = format!("max {met}\n{oom}");
            let files = ["memory.limit_in_bytes", "", "memory.failcnt"];
            (files, most, None, number("memory.usage_in_bytes"), events)
        }
    };
    (most.is_some() || high.is_some()).then(|| Charge {
        most,
        high,
        now: now.unwrap_or(0),
        events,
        files,
    })
}

pub(super) const TASKS: Rule = Rule {
    id: "T40",
    title: "limits of threads and mappings",
    of_2009: false,
    reads: "with -p pids.max, pids.current of its control groups, the lines of maps; kernel.threads-max, kernel.pid_max, \
            vm.max_map_count",
    why: "At pids.max or threads-max a thread cannot be made (EAGAIN): `can't create Thread: Resource temporarily \
          unavailable`. At max_map_count mmap fails with ENOMEM, however much memory is free; each thread's and fiber's \
          stack takes two mappings, a big jemalloc heap thousands.",
    source: "Documentation/admin-guide/cgroup-v2.rst (pids), Documentation/admin-guide/sysctl/kernel.rst and vm.rst; \
             the bounds are those of T29",
    dated: "stands in 2026; max_map_count 65530 since 2.6",
    change: "in the unit TasksMax=; sysctl vm.max_map_count, kernel.threads-max",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/fork.c", "max_threads"),
        ("kernel/cgroup/pids.c", "pids_can_fork"),
        ("include/linux/mm.h", "DEFAULT_MAX_MAP_COUNT"),
        ("fs/proc/loadavg.c", "nr_threads"),
    ],
    check: tasks,
};

fn tasks(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    let mut limits: Vec<(String, u64, u64)> = Vec::new();
    // `3/412` in loadavg: those that run, and all there are (proc(5)).
    let all = tree.word("/proc/loadavg")?;
    let all = all
        .split(['/', ' '])
        .nth(4)
        .and_then(|word| word.parse().ok());
    for name in ["threads-max", "pid_max"] {
        let path = format!("/proc/sys/kernel/{name}");
        if let (Some(all), Ok(most)) = (all, tree.number(&path)) {
            limits.push((path, all, most));
        }
    }
    if let Some(guest) = &machine.guest {
        let mappings = guest.maps(tree)?.lines().count() as u64;
        let path = "/proc/sys/vm/max_map_count".to_owned();
        let most = tree.number(&path)?;
        limits.push((path, mappings, most));
        // What the groups allow is one limit of several: the others are judged without it.
        for group in groups::of(tree, guest, "pids").unwrap_or_default() {
            let file = |name: &str| format!("{}/{name}", group.folder);
            let number = |name: &str| tree.number::<u64>(&file(name));
            if let (Ok(now), Ok(most)) = (number("pids.current"), number("pids.max")) {
                limits.push((file("pids.max"), now, most));
            }
        }
    }
    let share = |limit: &(String, u64, u64)| limit.1.saturating_mul(100) / limit.2.max(1);
    let Some(fullest) = limits.iter().max_by_key(|limit| share(limit)) else {
        return Err(Cannot::odd("/proc/loadavg", "no number of threads"));
    };
    let says = format!("{} of {} ({})", fullest.1, fullest.2, fullest.0);
    let outcome = match share(fullest) {
        90.. => Outcome::bad(says),
        70.. => Outcome::consider(says),
        _ => Outcome::good(says),
    };
    let limits = limits.into_iter();
    Ok(limits.fold(outcome, |outcome, (path, now, most)| {
        outcome.saw(path, format!("{now} of {most}"))
    }))
}

pub(super) const PRESSURE: Rule = Rule {
    id: "T41",
    title: "pressure",
    of_2009: false,
    reads: "/proc/pressure/cpu, memory, io: `some` over 60 s; with -p cpu.pressure, memory.pressure, io.pressure of its control group",
    why: "The share of time in which somebody waited for a processor, for memory to be freed, or for a disk. Memory pressure is \
          the earliest sign of too little memory; a load average counts waiters, and does not say what for.",
    source: "Documentation/accounting/psi.rst (since 4.20); the bounds: systemd-oomd kills at 60% of memory pressure over 30 s",
    dated: "since 4.20 (2018); stands in 2026",
    change: "less work, or more of what is short; for memory: lancet mem -p PID",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/sched/psi.c", "avg60"),
        ("Documentation/accounting/psi.rst", "some avg10"),
    ],
    check: pressure,
};

/// Per cent of the last 60 s in which somebody waited for memory, a disk, a processor: worth a thought, and bad. A
/// processor is waited for whenever two want it.
const BOUNDS: [(&str, f64, f64); 3] = [
    ("memory", 5.0, 20.0),
    ("io", 20.0, 60.0),
    ("cpu", 40.0, 80.0),
];

/// Pressure is accounted for in groups of version 2 only: no controller of version 1 has this name.
const NONE_OF_FIRST: &str = "pressure";

fn pressure(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    let group = machine.guest.as_ref().and_then(|guest| {
        groups::of(tree, guest, NONE_OF_FIRST)
            .ok()?
            .into_iter()
            .next()
    });
    let mut worst = Worst::default();
    for (what, much, too_much) in BOUNDS {
        let own = group
            .as_ref()
            .map(|group| format!("{}/{what}.pressure", group.folder));
        let files = own.into_iter().chain([format!("/proc/pressure/{what}")]);
        for file in files {
            let Ok(text) = tree.read(&file) else { continue };
            let Some(share) = some_over_a_minute(&text) else {
                return Err(Cannot::odd(&file, &text));
            };
            let says =
                format!("{share:.0}% of the last minute somebody waited for {what} ({file})");
            let outcome = match share {
                share if share >= too_much => Outcome::bad(says),
                share if share >= much => Outcome::consider(says),
                _ => Outcome::good("little: nobody waits long for processor, memory or disk"),
            };
            worst.saw(file, format!("{share:.2}% over 60 s"));
            worst.take(outcome);
        }
    }
    if worst.outcome.is_none() {
        tree.list("/proc")?;
    }
    let none = "the kernel keeps no account of it (psi=1)";
    Ok(worst.or(Outcome::not_applicable(none)))
}

/// Returns `avg60` of the line `some avg10=0.00 avg60=1.25 avg300=0.40 total=4711`.
fn some_over_a_minute(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let word = line
        .split(' ')
        .find_map(|word| word.strip_prefix("avg60="))?;
    word.parse().ok().filter(|share: &f64| share.is_finite())
}
