//! Memory: huge pages, swap, overcommit. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::guest::Allocator;
use crate::machine::Machine;
use crate::setting::{Setting, chosen};
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome, Verdict};

pub(super) const THP: Rule = Rule {
    id: "T26",
    title: "transparent huge pages",
    of_2009: false,
    reads: "/sys/kernel/mm/transparent_hugepage/enabled; with -p AnonHugePages in smaps_rollup, THP_enabled in status",
    why: "With `always`, an allocator that touches 4 KiB gets 2 MiB, and what it gives back in small pieces stays \
          resident. 100 Ruby threads with jemalloc 3.6 held 181 MB with always, 12 MB with never. A fork-snapshotting \
          Redis copies 2 MiB for each byte written.",
    source: "jemalloc#1674; Redis' startup warning; Documentation/admin-guide/mm/transhuge.rst",
    dated: "2019; stands today",
    change: "echo madvise > enabled; pages that are huge already stay so until the process restarts",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("mm/huge_memory.c", "transparent_hugepage_flags"),
        ("Documentation/admin-guide/mm/transhuge.rst", "madvise"),
    ],
    check: thp,
};

fn thp(machine: &Machine) -> Result<Outcome, Cannot> {
    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let tree = &machine.tree;
    let text = match tree.read(ENABLED) {
        Ok(text) => text,
        Err(missing) if missing.is_missing() && tree.exists("/sys/kernel/mm") => {
            return Ok(Outcome::not_applicable("the kernel has none").saw(ENABLED, "not there"));
        }
        Err(other) => return Err(other),
    };
    let value = chosen(&text).to_owned();
    let suffers = machine.guest.as_ref().and_then(|guest| {
        let other = matches!(guest.allocator(tree), Ok(Allocator::Other(_)));
        let frees = guest.language(tree, |language| language.frees_small_pieces);
        let named = guest.comm.starts_with("redis") || frees.is_some();
        (named || other).then_some(guest.comm.as_str())
    });
    // The program can turn huge pages off for itself (prctl(2), PR_SET_THP_DISABLE), as Ruby does.
    let refuses = machine
        .guest
        .as_ref()
        .filter(|guest| guest.status("THP_enabled") == Some("0"));
    let outcome = match (value.as_str(), suffers) {
        ("always", _) if refuses.is_some() => {
            Outcome::good("always, but not for this process: it has turned them off for itself")
        }
        ("always", Some(comm)) => Outcome::bad(format!("always: {comm} holds memory it gave back")),
        ("always", None) => {
            Outcome::consider("always: bad for Ruby, jemalloc and Redis, good for few")
        }
        ("madvise", _) => Outcome::good("madvise: those that ask get them"),
        ("never", _) => Outcome::good("never"),
        (other, _) => return Err(Cannot::odd(ENABLED, other)),
    };
    let outcome = match outcome.verdict {
        Verdict::Bad | Verdict::Consider => outcome
            .change(Setting::file(ENABLED), "madvise")
            .then("pages that are huge already stay so until their process ends"),
        _ => outcome,
    };
    let outcome = outcome.saw(ENABLED, text);
    let Some(guest) = &machine.guest else {
        return Ok(outcome);
    };
    let rollup = guest.file("smaps_rollup");
    let huge = tree.read(&rollup).map(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("AnonHugePages:"));
        line.map_or("no such line".into(), |line| line.trim().to_owned())
    });
    let huge = huge.unwrap_or_else(|cannot| cannot.to_string());
    let own = guest.status("THP_enabled").unwrap_or("no such line");
    Ok(outcome
        .saw(format!("{rollup} AnonHugePages"), huge)
        .saw(guest.file("status THP_enabled"), own))
}

pub(super) const DEFRAG: Rule = Rule {
    id: "T42",
    title: "huge pages at any price",
    of_2009: false,
    reads: "/sys/kernel/mm/transparent_hugepage/enabled, defrag",
    why: "With defrag `always` a page fault stops to move other pages until a huge one is free, milliseconds at a time, in \
          every program for which huge pages are enabled. `madvise`, the default, does so only for programs that ask.",
    source: "Documentation/admin-guide/mm/transhuge.rst (since 4.11)",
    dated: "stands in 2026; the default has been madvise since 4.6 (2016)",
    change: "echo madvise > defrag",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("Documentation/admin-guide/mm/transhuge.rst", "defrag"),
        (
            "mm/huge_memory.c",
            "TRANSPARENT_HUGEPAGE_DEFRAG_REQ_MADV_FLAG",
        ),
    ],
    check: defrag,
};

fn defrag(machine: &Machine) -> Result<Outcome, Cannot> {
    const BASE: &str = "/sys/kernel/mm/transparent_hugepage";
    let (enabled, defrag) = (format!("{BASE}/enabled"), format!("{BASE}/defrag"));
    let tree = &machine.tree;
    let text = match tree.read(&defrag) {
        Ok(text) => text,
        Err(missing) if missing.is_missing() && tree.exists("/sys/kernel/mm") => {
            return Ok(
                Outcome::not_applicable("the kernel has no huge pages").saw(&defrag, "not there")
            );
        }
        Err(other) => return Err(other),
    };
    let used = tree.read(&enabled)?;
    let outcome = match (chosen(&text), chosen(&used)) {
        (_, "never") => Outcome::good("huge pages are off"),
        ("always", _) => Outcome::consider("always: a page fault waits until a huge page is made")
            .change(Setting::file(&defrag), "madvise"),
        (value, _) => Outcome::good(value),
    };
    Ok(outcome.saw(&defrag, text).saw(&enabled, used))
}

pub(super) const SWAP: Rule = Rule {
    id: "T27",
    title: "swappiness and zswap",
    of_2009: false,
    reads: "/proc/swaps, vm.swappiness, /sys/module/zswap/parameters/enabled",
    why: "How readily anonymous memory goes to swap in favour of the page cache: the cost of reading a page from swap \
          against that of reading it from its file, 100 if both are alike. A heap that a collector walks whole comes back \
          from a disk page by page. From zram or zswap, which are memory, it comes back sooner than a file does: there more \
          than 100 is right, and little wastes them. Without swap it means nothing.",
    source: "Documentation/admin-guide/sysctl/vm.rst, swappiness (since 5.8: 0 to 200); tuned throughput-performance (10), \
             virtual-guest (30)",
    dated: "stands in 2026 for swap on disks; for zram and zswap the other way round since 5.8 (2020). Gregg's 0 of 2017 is \
            labelled \"best before 2018\" by its author",
    change: "swap on disks: sysctl vm.swappiness=60, with a goal 10; on zram or zswap: 150",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("Documentation/admin-guide/sysctl/vm.rst", "swappiness"),
        ("mm/vmscan.c", "vm_swappiness = 60"),
        ("kernel/sysctl.c", "SYSCTL_TWO_HUNDRED"),
    ],
    check: swap,
};

fn swap(machine: &Machine) -> Result<Outcome, Cannot> {
    const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
    const ZSWAP: &str = "/sys/module/zswap/parameters/enabled";
    let text = machine.tree.read("/proc/swaps")?;
    let devices: Vec<&str> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let swaps = devices.len();
    if swaps == 0 {
        return Ok(Outcome::not_applicable("no swap").saw("/proc/swaps", "none"));
    }
    let value: u32 = machine.tree.number(SWAPPINESS)?;
    let zswap = machine
        .tree
        .word(ZSWAP)
        .unwrap_or_else(|cannot| cannot.to_string());
    let in_memory = zswap == "Y" || devices.iter().all(|name| name.starts_with("/dev/zram"));
    let outcome = match (value, machine.goal) {
        (0..=59, _) if in_memory => Outcome::consider(format!(
            "{value}, and swap is compressed memory, cheaper than reading files again"
        ))
        .change(Setting::file(SWAPPINESS), 150),
        (value, _) if in_memory => {
            Outcome::good(format!("swappiness {value}, swap is compressed memory"))
        }
        (61.., None) => Outcome::consider(format!("{value}: above the default of 60"))
            .change(Setting::file(SWAPPINESS), 60),
        (31.., Some(_)) => {
            Outcome::consider(format!("{value}; tuned's profiles have 10, in guests 30"))
                .change(Setting::file(SWAPPINESS), 10)
        }
        _ => Outcome::good(format!("swappiness {value}")),
    };
    Ok(outcome
        .saw("/proc/swaps", devices.join(", "))
        .saw(SWAPPINESS, value)
        .saw(ZSWAP, zswap))
}

pub(super) const OVERCOMMIT: Rule = Rule {
    id: "T28",
    title: "overcommit",
    of_2009: false,
    reads: "vm.overcommit_memory; /proc/*/comm for Redis",
    why: "A process that forks to write a snapshot asks for its size again and touches little of it. With 0 the kernel \
          may refuse that fork; with 2 it will. For everything else 0 is right.",
    source: "Redis' startup warning; ansible-role-redis#29; Documentation/mm/overcommit-accounting.rst",
    dated: "stands in 2026",
    change: "with Redis: sysctl vm.overcommit_memory=1",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("mm/util.c", "OVERCOMMIT_GUESS"),
        (
            "Documentation/mm/overcommit-accounting.rst",
            "Obvious overcommits",
        ),
    ],
    check: overcommit,
};

fn overcommit(machine: &Machine) -> Result<Outcome, Cannot> {
    const KEY: &str = "/proc/sys/vm/overcommit_memory";
    let value: u32 = machine.tree.number(KEY)?;
    let redis = match &machine.guest {
        Some(guest) => guest.comm.starts_with("redis-server"),
        None => machine
            .process_named(&["redis-server", "redis", "valkey-server"])
            .is_some(),
    };
    let outcome = match (value, redis) {
        (1, true) => Outcome::good("1, as Redis asks"),
        (_, true) => Outcome::bad(format!("{value}, and Redis forks to write snapshots"))
            .change(Setting::file(KEY), 1),
        (2, false) if machine.goal == Some(Goal::Latency) || machine.goal.is_none() => {
            Outcome::consider("2: a large process may not be able to fork")
        }
        (2, false) => Outcome::consider("2: memory that is asked for and not used counts"),
        (1, false) => Outcome::good("1: nothing that is asked for is refused"),
        (0, false) => Outcome::good("0, the default: only what is obviously too much is refused"),
        (value, false) => return Err(Cannot::odd(KEY, &value.to_string())),
    };
    Ok(outcome
        .saw(KEY, value)
        .saw("redis", if redis { "runs" } else { "none seen" }))
}
