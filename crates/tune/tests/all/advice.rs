//! What rules say and do not say, each on the files of a machine: where they once gave wrong or harmful advice, and where they
//! speak and where they are silent.

mod counters;
mod defaults;
mod groups;
mod runtimes;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use tune::machine::{Machine, Options};
use tune::rules::{Finding, Rule};
use tune::verdict::{Goal, Verdict};

/// The files of a machine.
struct Root(PathBuf);

impl Root {
    fn new(files: &[(&str, &str)]) -> Root {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("advice-{number}"));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        Root(root)
    }

    fn finding(&self, rule: &str, pid: Option<i32>, goal: Option<Goal>) -> Finding {
        let options = Options {
            root: Some(self.0.clone()),
            pid,
            goal,
            ..Options::default()
        };
        let machine = Machine::open(&options).expect("a machine");
        Rule::find(rule).expect("a rule").check(&machine)
    }
}

/// What a rule says about a machine, and what it would write.
fn advice(rule: &str, files: &[(&str, &str)], goal: Option<Goal>) -> (Verdict, Vec<String>) {
    let root = Root::new(files);
    let outcome = root.finding(rule, None, goal).outcome;
    let changes = outcome.changes.iter();
    let changes = changes.map(|change| format!("{}={}", change.setting, change.value));
    (outcome.verdict, changes.collect())
}

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

#[test]
fn swap_in_memory_wants_more_swappiness_not_less() {
    let of = |swaps: &str, value: &str, zswap: &str, goal| {
        let swaps = format!("Filename Type Size Used Priority\n{swaps}\n");
        advice(
            "T27",
            &[
                ("proc/swaps", &swaps),
                ("proc/sys/vm/swappiness", value),
                ("sys/module/zswap/parameters/enabled", zswap),
            ],
            goal,
        )
    };
    let to = |value: u32| vec![format!("{SWAPPINESS}={value}")];
    let (zram, disk) = ("/dev/zram0 partition 8 0 100", "/dev/sda2 partition 8 0 -2");
    assert_eq!(of(zram, "150", "N", None), (Verdict::Good, vec![]));
    assert_eq!(
        of(zram, "10", "N", Some(Goal::Latency)),
        (Verdict::Consider, to(150))
    );
    assert_eq!(
        of(disk, "180", "Y", Some(Goal::Throughput)),
        (Verdict::Good, vec![])
    );
    assert_eq!(of(disk, "100", "N", None), (Verdict::Consider, to(60)));
    assert_eq!(
        of(disk, "60", "N", Some(Goal::Latency)),
        (Verdict::Consider, to(10))
    );
    assert_eq!(of(disk, "60", "N", None), (Verdict::Good, vec![]));
}

#[test]
fn the_syn_queue_is_the_listeners_backlog_unless_cookies_are_off() {
    let of = |cookies: &str| {
        advice(
            "T22",
            &[
                ("proc/sys/net/ipv4/tcp_max_syn_backlog", "128"),
                ("proc/sys/net/ipv4/tcp_syncookies", cookies),
                (
                    "proc/net/netstat",
                    "TcpExt: TCPReqQFullDrop TCPReqQFullDoCookies\nTcpExt: 0 0\n",
                ),
            ],
            None,
        )
    };
    assert_eq!(of("1").0, Verdict::Good);
    let (verdict, changes) = of("0");
    assert_eq!(verdict, Verdict::Consider);
    assert_eq!(changes, ["/proc/sys/net/ipv4/tcp_syncookies=1"]);
}

/// The files of a process with 60 descriptors of 64, whose one thread is in this system call.
fn process(call: &str) -> Root {
    let limits = "Limit Soft Hard Units\nMax open files            64                   1048576              files\n";
    let stat = format!("7 (server) S 1 7 7 {}", "0 ".repeat(48));
    let mut files = vec![
        (
            "proc/7/status".to_owned(),
            "Name:\tserver\nState:\tS\n".to_owned(),
        ),
        ("proc/7/stat".to_owned(), stat.clone()),
        ("proc/7/comm".to_owned(), "server\n".to_owned()),
        ("proc/7/maps".to_owned(), String::new()),
        ("proc/7/limits".to_owned(), limits.to_owned()),
        ("proc/7/task/7/stat".to_owned(), stat),
        ("proc/7/task/7/syscall".to_owned(), call.to_owned()),
    ];
    files.extend((0..60).map(|fd| (format!("proc/7/fd/{fd}"), String::new())));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    Root::new(&files)
}

#[test]
fn a_program_that_uses_select_is_not_given_descriptors_that_break_it() {
    let of = |call: &str| process(call).finding("T29", Some(7), None).outcome;
    let polls = of("7 0x7ffc00 0x7d 0xffffffff 0x0 0x0 0x0 0x7ffc00 0x7f00");
    assert_eq!(
        (polls.verdict, polls.changes.len()),
        (Verdict::Bad, 1),
        "{polls:?}"
    );
    // Four times 64 can still be named in a set; what could not is not proposed.
    let selects = of("23 0x3f 0x7ffc00 0x0 0x0 0x0 0x0 0x7ffc00 0x7f00");
    assert_eq!(selects.verdict, Verdict::Bad);
    assert!(selects.says.contains("select"), "{selects:?}");
    assert!(
        selects.changes.iter().all(|change| change.value == "256"),
        "{selects:?}"
    );
}

#[test]
fn perf_is_not_opened_to_everybody() {
    let of = |level: &str| {
        let files = [
            ("proc/sys/kernel/perf_event_paranoid", level),
            ("boot/config-1", ""),
        ];
        advice("T12", &files, None)
    };
    assert_eq!(of("4"), (Verdict::Consider, vec![]));
    assert_eq!(of("2").1, Vec::<String>::new());
    assert_eq!(
        Rule::find("T12").map(|rule| format!("{:?}", rule.risk)),
        Some("High".to_owned())
    );
}

#[test]
fn a_longer_table_of_connections_gets_more_buckets() {
    let (verdict, changes) = advice(
        "T25",
        &[
            ("proc/sys/net/netfilter/nf_conntrack_count", "250000"),
            ("proc/sys/net/netfilter/nf_conntrack_max", "262144"),
            ("proc/sys/net/netfilter/nf_conntrack_buckets", "65536"),
        ],
        None,
    );
    assert_eq!(verdict, Verdict::Consider);
    assert_eq!(
        changes,
        [
            "/proc/sys/net/netfilter/nf_conntrack_buckets=131072",
            "/proc/sys/net/netfilter/nf_conntrack_max=524288",
        ]
    );
}

#[test]
fn ports_that_are_kept_back_are_not_counted() {
    let says = |reserved: &str| {
        let root = Root::new(&[
            ("proc/sys/net/ipv4/ip_local_port_range", "32768 33767"),
            ("proc/sys/net/ipv4/ip_local_reserved_ports", reserved),
            (
                "proc/net/sockstat",
                "TCP: inuse 5 orphan 0 tw 300 alloc 9 mem 1\n",
            ),
        ]);
        root.finding("T23", None, None).outcome
    };
    assert_eq!(says("\n").verdict, Verdict::Good);
    // 300 of 1,000 are few, of 500 many; what is outside of the range counts nothing.
    assert_eq!(says("80,33000-33499,60000\n").verdict, Verdict::CannotTell);
}

#[test]
fn the_first_state_that_sleeps_is_never_too_deep() {
    let of = |c1: &str, c2: &str| {
        let cpu = "sys/devices/system/cpu";
        let state = |number: u32, latency: &str| {
            (
                format!("{cpu}/cpu0/cpuidle/state{number}/latency"),
                latency.to_owned(),
            )
        };
        let files = [
            (
                format!("{cpu}/cpuidle/current_driver"),
                "acpi_idle\n".to_owned(),
            ),
            state(0, "0"),
            state(1, c1),
            state(2, c2),
        ];
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        advice("T32", &files, Some(Goal::Latency)).0
    };
    assert_eq!(of("10", "10"), Verdict::Good);
    assert_eq!(of("2", "133"), Verdict::Consider);
}

/// What rules say of the kernel stands in its source: each file holds the word. The tree is that of Debian's
/// linux-source-6.12; nothing of it is in this repository.
#[test]
fn what_rules_say_of_the_kernel_stands_in_its_source() {
    let Some(tree) = std::env::var_os("LANCET_LINUX").map(PathBuf::from) else {
        eprintln!(
            "test: SKIPPED what_rules_say_of_the_kernel: LANCET_LINUX names no source of Linux"
        );
        return;
    };
    for rule in tune::rules::RULES {
        for (file, word) in rule.checked {
            let text = fs::read(tree.join(file)).unwrap_or_else(|error| {
                panic!("{}: {file}: {error}", rule.id);
            });
            let text = String::from_utf8_lossy(&text);
            assert!(text.contains(word), "{}: {file} has no {word:?}", rule.id);
        }
    }
}

/// Those that are about a program or a daemon, not about the kernel.
const OF_NO_KERNEL: [&str; 4] = ["T30", "T47", "T48", "T49"];

#[test]
fn every_rule_about_the_kernel_says_where_it_was_checked() {
    for rule in tune::rules::RULES {
        let free = OF_NO_KERNEL.contains(&rule.id);
        assert_eq!(rule.checked.is_empty(), free, "{}", rule.id);
    }
}

#[test]
fn no_rule_names_a_command_that_is_not_there() {
    for rule in tune::rules::RULES {
        for text in [rule.why, rule.change, rule.undo] {
            for words in text.split("lancet ").skip(1) {
                let command = words
                    .split(|c: char| !c.is_ascii_lowercase())
                    .next()
                    .unwrap_or("");
                assert!(
                    ["mem", "calls", "stack", "tune"].contains(&command),
                    "{}: lancet {command}",
                    rule.id
                );
            }
        }
    }
}

#[test]
fn pressure_is_judged_by_what_is_waited_for() {
    let of = |what: &str, share: &str| {
        let text = format!(
            "some avg10=0.00 avg60={share} avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        );
        advice("T41", &[(&format!("proc/pressure/{what}"), &text)], None).0
    };
    assert_eq!(of("memory", "25.00"), Verdict::Bad);
    assert_eq!(of("memory", "6.00"), Verdict::Consider);
    assert_eq!(of("cpu", "25.00"), Verdict::Good);
    assert_eq!(of("io", "NaN"), Verdict::CannotTell);
    assert_eq!(
        advice("T41", &[("proc/loadavg", "")], None).0,
        Verdict::NotApplicable
    );
}

#[test]
fn huge_pages_at_any_price_and_slow_starts() {
    let of = |enabled: &str| {
        let base = "sys/kernel/mm/transparent_hugepage";
        let (enabled_file, defrag) = (format!("{base}/enabled"), format!("{base}/defrag"));
        let files = [
            (enabled_file.as_str(), enabled),
            (
                defrag.as_str(),
                "[always] defer defer+madvise madvise never\n",
            ),
        ];
        advice("T42", &files, None)
    };
    assert_eq!(of("[always] madvise never\n").0, Verdict::Consider);
    assert_eq!(of("always madvise [never]\n"), (Verdict::Good, vec![]));
    let of = |goal| {
        advice(
            "T43",
            &[("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n")],
            goal,
        )
        .0
    };
    assert_eq!(of(None), Verdict::Good);
    assert_eq!(of(Some(Goal::Latency)), Verdict::Consider);
}

/// nf_conntrack-sysctl.rst: each connection is in the table twice.
#[test]
fn a_chain_of_connections_has_each_of_them_twice() {
    let of = |max: &str| {
        let files = [
            ("proc/sys/net/netfilter/nf_conntrack_count", "10"),
            ("proc/sys/net/netfilter/nf_conntrack_max", max),
            ("proc/sys/net/netfilter/nf_conntrack_buckets", "1000"),
        ];
        let outcome = Root::new(&files).finding("T25", None, None).outcome;
        (outcome.verdict, outcome.says)
    };
    // The kernel's default before 5.15.
    assert_eq!(of("4000").0, Verdict::Good);
    let (verdict, says) = of("6000");
    assert_eq!(verdict, Verdict::Consider);
    assert!(says.contains("a chain of 12 entries"), "{says}");
}

#[test]
fn a_core_without_a_pattern_has_the_pid_for_a_name() {
    let of = |pattern: &str, uses_pid: &str| {
        let files = [
            ("proc/sys/kernel/core_pattern", pattern),
            ("proc/sys/kernel/core_uses_pid", uses_pid),
        ];
        let outcome = Root::new(&files).finding("T36", None, None).outcome;
        (outcome.verdict, outcome.says.contains("/dev/null.PID"))
    };
    assert_eq!(of("\n", "0\n"), (Verdict::Consider, false));
    assert_eq!(of("\n", "1\n"), (Verdict::Good, false));
    assert_eq!(of("/dev/null\n", "0\n"), (Verdict::Consider, false));
    assert_eq!(of("/dev/null\n", "1\n"), (Verdict::Consider, true));
    assert_eq!(of("|/bin/true\n", "1\n"), (Verdict::Consider, false));
    assert_eq!(of("core\n", "0\n"), (Verdict::Good, false));
}
