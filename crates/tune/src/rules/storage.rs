//! Disks: how much is kept unwritten, and in which order requests are made. Used by `rules`.

use super::rule::{NOTHING, Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::setting::{Setting, chosen};
use crate::tree::{Cannot, Tree};
use crate::verdict::{Goal, Outcome, Verdict};

pub(super) const DIRTY: Rule = Rule {
    id: "T45",
    title: "unwritten pages",
    of_2009: false,
    reads: "vm.dirty_ratio, dirty_bytes, dirty_background_ratio, dirty_background_bytes; Dirty, Writeback, MemAvailable in \
            /proc/meminfo",
    why: "What is written to files stays in memory until the kernel writes it out. Half-way between the background limit and the \
          limit every writer is slowed down, and at the limit made to write itself. As ratios (10 and 20% of the memory) \
          they are many gigabytes on a large machine: a program that calls fsync may then wait for all of it.",
    source: "Documentation/admin-guide/sysctl/vm.rst; balance_dirty_pages and dirty_freerun_ceiling in mm/page-writeback.c; the \
             gigabyte for the latency goal is ours: what a disk of 200 MB/s writes in five seconds",
    dated: "ratios of 10 and 20% since 2.6.22 (2007); stands in 2026",
    change: "sysctl vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824",
    undo: NOTHING,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("mm/page-writeback.c", "vm_dirty_ratio = 20"),
        ("mm/page-writeback.c", "dirty_freerun_ceiling"),
        (
            "Documentation/admin-guide/sysctl/vm.rst",
            "dirty_background_ratio",
        ),
    ],
    check: dirty,
};

/// The bytes that a limit allows: `NAME_bytes`, or where that is 0 `NAME_ratio` per cent of `memory`.
fn allowed(tree: &Tree, name: &str, memory: u64) -> Result<u64, Cannot> {
    let number = |unit: &str| tree.number::<u64>(&format!("/proc/sys/vm/{name}_{unit}"));
    match number("bytes")? {
        0 => Ok(memory.saturating_mul(number("ratio")?) / 100),
        bytes => Ok(bytes),
    }
}

fn dirty(machine: &Machine) -> Result<Outcome, Cannot> {
    const MEMINFO: &str = "/proc/meminfo";
    let tree = &machine.tree;
    let text = tree.read(MEMINFO)?;
    let bytes = |key: &str| -> Result<u64, Cannot> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let number = number.and_then(|number| number.checked_mul(1024));
        number.ok_or_else(|| Cannot::odd(MEMINFO, key))
    };
    let memory = bytes("MemAvailable")?;
    let unwritten = bytes("Dirty")?.saturating_add(bytes("Writeback")?);
    let limit = allowed(tree, "dirty", memory)?;
    let background = allowed(tree, "dirty_background", memory)?;
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let slowed = limit / 2 + background / 2;
    let says = format!(
        "{} unwritten, slowed down from {}",
        mib(unwritten),
        mib(slowed)
    );
    let outcome = if unwritten > slowed {
        Outcome::bad(format!("writers are slowed down: {says}"))
    } else if machine.goal == Some(Goal::Latency) && limit > 1 << 30 {
        Outcome::consider(format!(
            "an fsync may wait for {} to be written",
            mib(limit)
        ))
    } else {
        Outcome::good(says)
    };
    Ok(outcome
        .saw("the limit (vm.dirty_ratio, vm.dirty_bytes)", mib(limit))
        .saw(
            "from which it is written (vm.dirty_background_*)",
            mib(background),
        )
        .saw(
            MEMINFO,
            format!("{} unwritten of {} available", mib(unwritten), mib(memory)),
        ))
}

pub(super) const SCHEDULER: Rule = Rule {
    id: "T46",
    title: "order of disk requests",
    of_2009: false,
    reads: "/sys/block/*/queue/scheduler, rotational, of disks with a device behind them",
    why: "A disk that turns wants its requests sorted (mq-deadline); one that does not needs no order, and BFQ takes 1.9 µs of \
          processor for each request where mq-deadline takes 0.7. The kernel gives a disk with one queue mq-deadline, one \
          with more none. A virtual disk says that it turns, whatever is behind it.",
    source: "Documentation/block/bfq-iosched.rst; elevator_get_default in block/elevator.c",
    dated: "since 5.0 (2019), when the schedulers of a single queue went; stands in 2026",
    change: "echo mq-deadline > /sys/block/DEVICE/queue/scheduler",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("block/elevator.c", "elevator_get_default"),
        ("Documentation/block/bfq-iosched.rst", "1.9 us"),
        ("Documentation/ABI/stable/sysfs-block", "/queue/scheduler"),
    ],
    check: scheduler,
};

fn scheduler(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    let mut worst: Option<Outcome> = None;
    let mut seen = Vec::new();
    for disk in tree.list("/sys/block")? {
        let base = format!("/sys/block/{disk}");
        let Ok(text) = tree.read(&format!("{base}/queue/scheduler")) else {
            continue;
        };
        if !tree.exists(&format!("{base}/device")) {
            continue;
        }
        let turns = tree.word(&format!("{base}/queue/rotational"))? == "1";
        let is_virtual = disk.starts_with("vd") || disk.starts_with("xvd");
        let path = format!("{base}/queue/scheduler");
        let offers = |name: &str| text.split_whitespace().any(|word| word == name);
        let outcome = match (chosen(&text), turns && !is_virtual) {
            ("bfq", false) => Outcome::consider(format!(
                "{disk}: bfq, which sorts at a price; this disk need not be sorted for"
            )),
            ("none", true) => Outcome::consider(format!("{disk}: none, and it turns")),
            (name, _) => Outcome::good(format!("{disk}: {name}")),
        };
        let outcome = match outcome.verdict {
            Verdict::Consider if offers("mq-deadline") => {
                outcome.change(Setting::file(&path), "mq-deadline")
            }
            _ => outcome,
        };
        seen.push((path, text));
        worst = Some(match worst {
            Some(mut known) if known.verdict <= outcome.verdict => {
                known.changes.extend(outcome.changes);
                known
            }
            _ => outcome,
        });
    }
    let outcome = worst.unwrap_or(Outcome::not_applicable("no disk with a queue"));
    Ok(seen
        .into_iter()
        .fold(outcome, |outcome, (path, text)| outcome.saw(path, text)))
}
