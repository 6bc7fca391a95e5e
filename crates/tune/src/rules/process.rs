//! The guest itself: its descriptors, what it watches, and its allocator. Used by `rules`.

use super::events::{SELECT_CAN, uses_select};
use super::rule::{NOTHING, Risk, Rule, WRITE_BACK};
use crate::guest::{Allocator, Guest};
use crate::machine::Machine;
use crate::setting::Setting;
use crate::tree::{Cannot, Tree};
use crate::verdict::{Outcome, several};

pub(super) const DESCRIPTORS: Rule = Rule {
    id: "T29",
    title: "descriptor limit",
    of_2009: false,
    reads: "with -p /proc/PID/limits and fd; otherwise /proc/sys/fs/file-nr",
    why: "At the limit accept() fails with EMFILE, and most servers then spin or drop connections. A program that waits in \
          select(2) must not be given more than 1,024: FD_SET writes behind its set for a descriptor above that (T13). \
          For such a program nothing is proposed.",
    source: "getrlimit(2), accept(2), select(2); the bounds of 70 and 90%: node_exporter's node-mixin, NodeFileDescriptorLimit",
    dated: "stands in 2026",
    change: "prlimit --pid PID --nofile=HARD: now; LimitNOFILE= in the unit for good",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("fs/file.c", "EMFILE"),
        ("include/uapi/linux/posix_types.h", "__FD_SETSIZE\t1024"),
    ],
    check: descriptors,
};

fn descriptors(machine: &Machine) -> Result<Outcome, Cannot> {
    let Some(guest) = &machine.guest else {
        return whole_machine(machine);
    };
    let tree = &machine.tree;
    let (soft, hard) = guest.descriptor_limits(tree)?;
    let open = guest.descriptors(tree)?;
    let count = open.count as u64;
    let over = |percent: u64| count.saturating_mul(100) > soft.saturating_mul(percent);
    let selects = over(70) && uses_select(machine, guest);
    let says = if selects {
        format!("{count} open of {soft}, and it waits in select, which breaks above {SELECT_CAN}")
    } else {
        format!("{count} open of {soft}")
    };
    let outcome = match (over(90), over(70)) {
        (true, _) => Outcome::bad(says),
        (false, true) => Outcome::consider(says),
        (false, false) => Outcome::good(says),
    };
    let wanted = hard.min(soft.saturating_mul(4));
    let outcome = if over(70) && hard > soft && !(selects && wanted > SELECT_CAN as u64) {
        outcome.change(
            Setting::Descriptors {
                pid: guest.pid,
                started: guest.started,
            },
            wanted,
        )
    } else {
        outcome
    };
    Ok(outcome
        .saw(
            guest.file("fd"),
            format!("{count} open, {} of them sockets", open.sockets.len()),
        )
        .saw(guest.file("limits"), format!("soft {soft}, hard {hard}")))
}

fn whole_machine(machine: &Machine) -> Result<Outcome, Cannot> {
    const FILE: &str = "/proc/sys/fs/file-nr";
    let text = machine.tree.read(FILE)?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[open, _, most] = numbers.as_slice() else {
        return Err(Cannot::odd(FILE, &text));
    };
    let over = |percent: u64| open.saturating_mul(100) > most.saturating_mul(percent);
    let used = format!("{open} files open of {most} on the whole machine");
    let outcome = match (over(90), over(70)) {
        (true, _) => Outcome::bad(used),
        (false, true) => Outcome::consider(used),
        (false, false) => Outcome::good(format!(
            "{open} files open on the whole machine; -p PID shows a process"
        )),
    };
    Ok(outcome.saw(FILE, text))
}

pub(super) const WATCHES: Rule = Rule {
    id: "T44",
    title: "inotify watches",
    of_2009: false,
    reads: "fs.inotify.max_user_watches, max_user_instances; with -p the watches and instances in /proc/PID/fdinfo",
    why: "A program that watches its files for changes (a code reloader, a log shipper) takes a watch for each, of a number that all \
          processes of its user share. Without one inotify_add_watch fails with ENOSPC, which reads as if the disk were full; \
          inotify_init fails with EMFILE.",
    source: "inotify(7), fs/notify/inotify/inotify_user.c; the bounds are those of T29",
    dated: "watches 8,192 until 5.11 (2021), since then 1% of the memory and at most 1,048,576; instances 128: stands in 2026",
    change: "sysctl fs.inotify.max_user_watches, max_user_instances, doubled",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        (
            "fs/notify/inotify/inotify_user.c",
            "watches_max = clamp(watches_max, 8192UL, 1048576UL)",
        ),
        (
            "fs/notify/inotify/inotify_user.c",
            "UCOUNT_INOTIFY_INSTANCES] = 128",
        ),
        ("fs/notify/fdinfo.c", "inotify wd:"),
    ],
    check: watches,
};

fn watches(machine: &Machine) -> Result<Outcome, Cannot> {
    const WATCHES: &str = "/proc/sys/fs/inotify/max_user_watches";
    const INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";
    let guest = machine.one_process()?;
    let tree = &machine.tree;
    let most = (tree.number::<u64>(WATCHES)?, tree.number::<u64>(INSTANCES)?);
    let instances = &guest.descriptors(tree)?.inotifies;
    let count = |number: &i32| {
        let text = tree.read(&guest.file(&format!("fdinfo/{number}")));
        let is_watch = |line: &&str| line.starts_with("inotify wd:");
        text.map_or(0, |text| text.lines().filter(is_watch).count() as u64)
    };
    let used = (
        instances.iter().map(count).sum::<u64>(),
        instances.len() as u64,
    );
    let share = |used: u64, most: u64| used.saturating_mul(100) / most.max(1);
    let (what, path, used_up, limit) = if share(used.0, most.0) >= share(used.1, most.1) {
        ("watches", WATCHES, used.0, most.0)
    } else {
        ("instances", INSTANCES, used.1, most.1)
    };
    let says = format!("{used_up} of its user's {limit} {what}");
    let outcome = match share(used_up, limit) {
        90.. => Outcome::bad(says).change(Setting::file(path), limit.saturating_mul(2)),
        70.. => Outcome::consider(says).change(Setting::file(path), limit.saturating_mul(2)),
        _ => Outcome::good(says),
    };
    Ok(outcome.saw(WATCHES, most.0).saw(INSTANCES, most.1).saw(
        guest.file("fdinfo"),
        format!("{} watches, {} instances", used.0, used.1),
    ))
}

pub(super) const ALLOCATOR: Rule = Rule {
    id: "T30",
    title: "allocator of the process",
    of_2009: false,
    reads: "with -p /proc/PID/maps (libraries, arenas), environ (MALLOC_ARENA_MAX), task",
    why: "glibc makes up to 8 arenas per CPU, one per thread that allocates. The threads of Ruby and Python take turns, so the \
          arenas buy nothing and each keeps its own free memory: the process grows to a multiple.",
    source: "heroku-buildpack-ruby#751, #752 (MALLOC_ARENA_MAX=2 by default); puma#1600; mallopt(3)",
    dated: "2018; stands today for threaded MRI and CPython on glibc",
    change: "restart with MALLOC_ARENA_MAX=2, or with jemalloc preloaded",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[],
    check: allocator,
};

/// Returns whether a process runs a Python without the GIL, by its name or by what is mapped: `python3.14t`, `libpython3.14t.so.1.0`.
fn is_free_threaded(guest: &Guest, tree: &Tree) -> bool {
    let is_build = |name: &str| {
        let version = name.split_once("python3.").map_or("", |(_, rest)| rest);
        let rest = version.trim_start_matches(|letter: char| letter.is_ascii_digit());
        rest.len() < version.len() && (rest == "t" || rest.starts_with("t."))
    };
    let maps = guest.maps(tree).unwrap_or_default();
    let mut mapped = maps
        .lines()
        .filter_map(|line| Some(line.rsplit_once('/')?.1));
    is_build(&guest.comm) || mapped.any(is_build)
}

fn allocator(machine: &Machine) -> Result<Outcome, Cannot> {
    const KEY: &str = "MALLOC_ARENA_MAX";
    let guest = machine.one_process()?;
    let tree = &machine.tree;
    let allocator = guest.allocator(tree)?;
    let arenas = guest.arenas(tree)?;
    let setting = guest.environment(tree, KEY)?;
    // Those whose threads take turns, as those of a Python without the GIL do not.
    let language = guest.language(tree, |language| language.takes_turns);
    let language = language.filter(|_| !is_free_threaded(guest, tree));
    let threads = guest.threads.len();
    let many = several(threads, "thread");
    let heaps = several(arenas + 1, "arena");
    let outcome = match (&allocator, &setting, language) {
        (Allocator::Other(file), ..) => Outcome::good(file.as_str()),
        (Allocator::Glibc, Some(value), _) => Outcome::good(format!("glibc with {KEY}={value}")),
        (Allocator::Glibc, None, Some(language)) if threads > 1 => Outcome::consider(format!(
            "{language} with {many} on glibc without {KEY}: {heaps}"
        )),
        (Allocator::Glibc, None, _) => Outcome::good(format!("glibc, {many}, {heaps}")),
        (Allocator::Unknown, ..) => {
            Outcome::cannot_tell("no C library that is known is mapped (static, or musl)")
        }
    };
    Ok(outcome
        .saw(
            guest.file("maps"),
            match &allocator {
                Allocator::Glibc => "glibc".to_owned(),
                Allocator::Other(file) => file.clone(),
                Allocator::Unknown => "unknown".to_owned(),
            },
        )
        .saw(guest.file("maps, arenas beside the first"), arenas)
        .saw(
            guest.file(&format!("environ {KEY}")),
            setting.unwrap_or("not set".into()),
        )
        .saw(guest.file("task"), many))
}
