//! What the control groups of a process take from it.

use super::{Root, advice};
use tune::verdict::Verdict;

/// The files of process 7 in the group `/web`, and these of the group itself.
fn in_a_group(files: &[(&str, &str)]) -> Root {
    in_groups("0::/web\n", &[], files)
}

/// The same with the lines of its `cgroup`, and more files.
fn in_groups(groups: &str, more: &[(&str, &str)], files: &[(&str, &str)]) -> Root {
    let stat = format!("7 (server) S 1 7 7 {}", "0 ".repeat(48));
    let mut all = vec![
        (
            "proc/7/status".to_owned(),
            "Name:\tserver\nState:\tS\n".to_owned(),
        ),
        ("proc/7/stat".to_owned(), stat.clone()),
        ("proc/7/comm".to_owned(), "server\n".to_owned()),
        (
            "proc/7/maps".to_owned(),
            "1000-2000 rw-p 00000000 00:00 0\n".repeat(100),
        ),
        ("proc/7/task/7/stat".to_owned(), stat),
        ("proc/7/cgroup".to_owned(), groups.to_owned()),
        (
            "proc/loadavg".to_owned(),
            "0.52 0.58 0.59 3/412 11206\n".to_owned(),
        ),
        (
            "proc/sys/kernel/threads-max".to_owned(),
            "100000\n".to_owned(),
        ),
        ("proc/sys/vm/max_map_count".to_owned(), "65530\n".to_owned()),
    ];
    let of_group =
        |(name, text): &(&str, &str)| (format!("sys/fs/cgroup/{name}"), (*text).to_owned());
    all.extend(files.iter().map(of_group));
    let as_given = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    all.extend(more.iter().map(as_given));
    let all: Vec<(&str, &str)> = all
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    Root::new(&all)
}

fn of_group(rule: &str, files: &[(&str, &str)]) -> (Verdict, String) {
    let outcome = in_a_group(files).finding(rule, Some(7), None).outcome;
    (outcome.verdict, outcome.says)
}

#[test]
fn a_quota_that_stops_the_process_is_found() {
    let of = |max: &str, throttled: u32| {
        let stat = format!(
            "usage_usec 9\nnr_periods 1000\nnr_throttled {throttled}\nthrottled_usec 2500000\n"
        );
        of_group("T38", &[("web/cpu.max", max), ("web/cpu.stat", &stat)])
    };
    assert_eq!(
        of("150000 100000\n", 120),
        (
            Verdict::Bad,
            "stopped in 12% of the periods: 1.5 CPUs for 1 thread".to_owned()
        )
    );
    assert_eq!(of("150000 100000\n", 12).0, Verdict::Consider);
    assert_eq!(of("150000 100000\n", 2).0, Verdict::Good);
    assert_eq!(
        of("max 100000\n", 0),
        (Verdict::Good, "no quota".to_owned())
    );
}

#[test]
fn a_limit_of_memory_that_was_met_is_found() {
    let of = |high: &str, current: &str, events: &str| {
        of_group(
            "T39",
            &[
                ("web/memory.max", "1073741824\n"),
                ("web/memory.high", high),
                ("web/memory.current", current),
                ("web/memory.events", events),
            ],
        )
    };
    let quiet = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n";
    assert_eq!(
        of("max\n", "524288000\n", quiet),
        (Verdict::Good, "500 MiB of 1024 MiB".to_owned())
    );
    assert_eq!(of("262144000\n", "524288000\n", quiet).0, Verdict::Bad);
    assert_eq!(
        of("max\n", "524288000\n", &quiet.replace("max 0", "max 9")).0,
        Verdict::Consider
    );
    let killed = of(
        "max\n",
        "524288000\n",
        &quiet.replace("oom_kill 0", "oom_kill 2"),
    );
    assert_eq!(
        killed,
        (
            Verdict::Bad,
            "2 processes were killed at the limit of 1024 MiB since the group was made".to_owned()
        )
    );
}

/// Version 1, as where systemd has both ("hybrid"): the controllers are in hierarchies of their own, and version 2 has none.
#[test]
fn limits_of_version_1_are_found() {
    const GROUPS: &str = "4:memory:/a/web\n3:cpu,cpuacct:/a/web\n1:name=systemd:/a\n0::/a\n";
    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let of = |rule: &str, groups: &str, files: &[(&str, &str)]| {
        let root = in_groups(groups, &[("proc/self/mountinfo", MOUNTS)], files);
        let outcome = root.finding(rule, Some(7), None).outcome;
        (outcome.verdict, outcome.says)
    };
    let cpu = |quota: &str| {
        let stat = "nr_periods 8\nnr_throttled 8\nthrottled_time 2500000000\n";
        let files = [
            ("cpu,cpuacct/a/web/cpu.cfs_quota_us", "-1\n"),
            ("cpu,cpuacct/a/cpu.cfs_quota_us", quota),
            ("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/a/cpu.stat", stat),
        ];
        of("T38", GROUPS, &files)
    };
    let stopped = "stopped in 100% of the periods: 0.5 CPUs for 1 thread";
    assert_eq!(cpu("50000\n"), (Verdict::Bad, stopped.to_owned()));
    assert_eq!(cpu("-1\n"), (Verdict::Good, "no quota".to_owned()));
    let memory = |limit: &str, killed: &str| {
        let files = [
            ("memory/web/memory.limit_in_bytes", limit),
            ("memory/web/memory.usage_in_bytes", "524288000\n"),
            ("memory/web/memory.failcnt", "0\n"),
            ("memory/web/memory.oom_control", killed),
        ];
        of("T39", GROUPS, &files)
    };
    let quiet = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
    assert_eq!(
        memory("1073741824\n", quiet),
        (Verdict::Good, "500 MiB of 1024 MiB".to_owned())
    );
    assert_eq!(
        memory("9223372036854771712\n", quiet),
        (Verdict::Good, "no limit".to_owned())
    );
    let killed = quiet.replace("oom_kill 0", "oom_kill 1");
    assert_eq!(memory("1073741824\n", &killed).0, Verdict::Bad);
    // Groups that are not to be seen may have any limit.
    for groups in ["3:cpu:/elsewhere\n", "3:cpu:/../b\n", "7:freezer:/\n"] {
        assert_eq!(of("T38", groups, &[]).0, Verdict::CannotTell, "{groups}");
    }
}

#[test]
fn the_fullest_of_several_limits_counts() {
    let of = |now: &str| {
        of_group(
            "T40",
            &[("web/pids.max", "100\n"), ("web/pids.current", now)],
        )
    };
    assert_eq!(of("95\n").0, Verdict::Bad);
    assert_eq!(
        of("75\n"),
        (
            Verdict::Consider,
            "75 of 100 (/sys/fs/cgroup/web/pids.max)".to_owned()
        )
    );
    assert_eq!(of("5\n").0, Verdict::Good);
}

#[test]
fn what_a_group_keeps_and_what_is_capped_is_found() {
    let kept = |taken: u32| {
        let events = format!("low {taken}\nhigh 0\n");
        let files = [
            ("web/memory.low", "104857600\n"),
            ("web/memory.min", "0\n"),
            ("web/memory.events", events.as_str()),
        ];
        of_group("T56", &files)
    };
    let says = "100 MiB kept for the group".to_owned();
    assert_eq!(kept(0), (Verdict::Good, says));
    let (verdict, says) = kept(5);
    assert_eq!(verdict, Verdict::Consider);
    assert!(says.contains("were taken 5 times"), "{says}");
    let capped = |share: &str| {
        let waits = format!("some avg10=0.00 avg60=0.00\nfull avg10=0.00 avg60={share} total=9\n");
        let max = "8:0 rbps=max wbps=1048576 riops=max wiops=max\n";
        of_group("T56", &[("web/io.max", max), ("web/io.pressure", &waits)]).0
    };
    assert_eq!(
        [capped("0.50"), capped("25.00"), capped("70.00")],
        [Verdict::Good, Verdict::Consider, Verdict::Bad]
    );
    let stopped = |used: u64, burst: &str| {
        let stat = format!("usage_usec {used}\nnr_periods 1000\nnr_throttled 50\n");
        let files = [
            ("web/cpu.max", "50000 100000\n"),
            ("web/cpu.max.burst", burst),
            ("web/cpu.stat", stat.as_str()),
        ];
        of_group("T56", &files).0
    };
    // Of 50 s in a thousand periods.
    assert_eq!(stopped(10_000_000, "0\n"), Verdict::Consider);
    assert_eq!(stopped(40_000_000, "0\n"), Verdict::Good);
    assert_eq!(stopped(10_000_000, "50000\n"), Verdict::Good);
}

/// An empty hierarchy of version 2 lies beside those of version 1: nothing was looked at.
#[test]
fn groups_that_have_none_of_the_files_are_not_called_good() {
    let (verdict, says) = of_group("T56", &[("web/cgroup.procs", "7\n")]);
    assert_eq!(verdict, Verdict::NotApplicable, "{says}");
    assert!(says.contains("none of these files"), "{says}");
    // A file of one controller says nothing of the others.
    let quota = ("web/cpu.max", "max 100000\n");
    let (verdict, says) = of_group("T56", &[quota]);
    assert_eq!(
        (verdict, says.as_str()),
        (
            Verdict::Good,
            "no quota that a burst would help; its groups have no memory.low, io.max"
        )
    );
    let low = ("web/memory.low", "max\n");
    let (_, says) = of_group("T56", &[quota, low]);
    assert_eq!(says, "all memory kept for the group");
    // Nor is one that cannot be read none: a folder is in its place, or another text.
    for unread in [("web/io.max/folder", ""), ("web/memory.low", "much\n")] {
        let (verdict, says) = of_group("T56", &[quota, unread]);
        assert_eq!(verdict, Verdict::CannotTell, "{says}");
    }
}

#[test]
fn a_scheduler_from_bpf_is_found() {
    let of = |files: &[(&str, &str)]| {
        let outcome = advice("T57", files, None);
        outcome.0
    };
    let state = |state: &'static str, loaded: &'static str| {
        of(&[
            ("sys/kernel/sched_ext/state", state),
            ("sys/kernel/sched_ext/enable_seq", loaded),
            ("sys/kernel/sched_ext/root/ops", "simple\n"),
        ])
    };
    assert_eq!(state("disabled\n", "0\n"), Verdict::Good);
    assert_eq!(state("disabled\n", "2\n"), Verdict::Consider);
    assert_eq!(state("enabled\n", "1\n"), Verdict::Consider);
    assert_eq!(of(&[("sys/kernel/mm/x", "")]), Verdict::NotApplicable);
}
