//! Two hundred odd settings, and counters of failures that were read once.

use std::fs;
use std::path::Path;

use tune::machine::{Machine, Options};
use tune::rules::{Finding, RULES, audit};
use tune::verdict::Verdict;

use super::{Root, advice};

/// The tables of keys as the rule reads them.
const TABLES: [&str; 2] = [
    include_str!("../../../src/rules/defaults/network.table"),
    include_str!("../../../src/rules/defaults/machine.table"),
];

/// Returns a path for each name of the tables, which number of its value is meant, and a value that is far from the default.
fn odd() -> Vec<(String, usize, String)> {
    let lines = TABLES.iter().flat_map(|table| table.lines());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut fields = line.split('\t');
            let (name, _, near) = (fields.next(), fields.next(), fields.next());
            let (name, near) = (name.expect("a name"), near.expect("a range"));
            let (name, part) = match name.split_once('[') {
                Some((name, part)) => (name, part.trim_end_matches(']').parse().expect("a part")),
                None => (name, 0),
            };
            let path = match name.strip_prefix('/') {
                Some(path) => path.replace("-*kB", "-64kB").replace('*', "vda"),
                None => format!("proc/sys/{}", name.replace('.', "/")),
            };
            let value = match near.split_once("..") {
                None => "always".to_owned(),
                // The share of the memory of 1 GiB.
                Some(_) if near.contains("/1000*") => "9000000000".to_owned(),
                Some((_, "")) => "3".to_owned(),
                Some((_, most)) => (most.parse::<i64>().expect("a number") + 1).to_string(),
            };
            (path, part, value)
        })
        .collect()
}

fn all_of(root: &Root) -> Vec<Finding> {
    let options = Options {
        root: Some(root.0.clone()),
        ..Options::default()
    };
    audit(&Machine::open(&options).expect("a machine"), RULES)
}

fn finding<'f>(all: &'f [Finding], id: &str) -> &'f Finding {
    let found = all.iter().find(|finding| finding.id == id);
    found.expect("each rule answers")
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

#[test]
fn each_of_200_odd_settings_is_found_or_listed_as_not_looked_at() {
    let root = Root::new(&[("proc/meminfo", "MemTotal: 1048576 kB\n")]);
    let settings = odd();
    assert!(settings.len() > 180, "{}", settings.len());
    let mut values: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for (path, part, value) in &settings {
        let words = values.entry(path).or_default();
        words.resize(words.len().max(part + 1), "0");
        words[*part] = value;
    }
    for (path, words) in &values {
        put(&root.0, path, &(words.join("\t") + "\n"));
    }
    put(&root.0, "sys/block/vda/device/vendor", "x");
    // Keys of which no check knows anything.
    let unknown: Vec<String> = (0..30)
        .map(|number| {
            format!(
                "proc/sys/{}/odd_{number}",
                ["vm", "net/ipv4", "kernel"][number % 3]
            )
        })
        .collect();
    for path in &unknown {
        put(&root.0, path, "77\n");
    }
    let all = all_of(&root);
    let far = &finding(&all, "T55").outcome;
    assert_eq!(far.verdict, Verdict::Consider, "{far:?}");
    let seen = |path: &str| {
        far.evidence
            .iter()
            .any(|one| one.from == format!("/{path}"))
    };
    let lists = |path: &str| {
        let (folder, name) = path.rsplit_once('/').expect("a folder");
        let from = format!("not looked at in /{folder}");
        far.evidence
            .iter()
            .any(|one| one.from == from && one.value.split(' ').any(|known| known == name))
    };
    for path in values.keys() {
        assert!(seen(path) && !lists(path), "{path} is not found");
    }
    for path in &unknown {
        assert!(lists(path) && !seen(path), "{path} is not listed");
    }
    // Two numbers of one file are one write.
    let rmem = far
        .changes
        .iter()
        .filter(|change| change.setting.to_string().ends_with("tcp_rmem"));
    let rmem: Vec<&str> = rmem.map(|change| change.value.as_str()).collect();
    assert_eq!(rmem, ["0 131072 6291456"]);
}

#[test]
fn a_machine_as_the_kernel_makes_it_has_nothing_far() {
    let files = [
        ("proc/meminfo", "MemTotal: 24683656 kB\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n"),
        ("proc/sys/net/ipv4/tcp_mem", "287898\t383866\t575796\n"),
        ("proc/sys/net/ipv4/udp_mem", "575799\t767732\t1151598\n"),
        ("proc/sys/vm/min_free_kbytes", "67584\n"),
        ("proc/sys/net/ipv4/tcp_keepalive_time", "7200\n"),
        ("sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
    ];
    assert_eq!(advice("T55", &files, None), (Verdict::Good, vec![]));
}

#[test]
fn features_of_tcp_that_are_switched_off() {
    let of = |scaling: &str, abort: &str| {
        advice(
            "T54",
            &[
                ("proc/sys/net/ipv4/tcp_window_scaling", scaling),
                ("proc/sys/net/ipv4/tcp_abort_on_overflow", abort),
                ("proc/sys/net/ipv4/tcp_sack", "1\n"),
            ],
            None,
        )
    };
    assert_eq!(of("1\n", "0\n"), (Verdict::Good, vec![]));
    let (verdict, changes) = of("0\n", "1\n");
    assert_eq!(verdict, Verdict::Bad);
    assert_eq!(
        changes,
        [
            "/proc/sys/net/ipv4/tcp_window_scaling=1",
            "/proc/sys/net/ipv4/tcp_abort_on_overflow=0"
        ]
    );
    assert_eq!(of("1\n", "1\n").0, Verdict::Consider);
}

#[test]
fn the_table_of_neighbours_is_nearly_or_was_full() {
    let of = |entries: &str, full: &str| {
        let text = format!("entries  allocs   table_fulls\n{entries} 000003fa {full}\n");
        advice(
            "T52",
            &[
                ("proc/net/stat/arp_cache", &text),
                ("proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n"),
                ("proc/sys/net/ipv4/neigh/default/gc_thresh2", "512\n"),
                ("proc/sys/net/ipv4/neigh/default/gc_thresh1", "128\n"),
            ],
            None,
        )
    };
    assert_eq!(of("00000010", "00000000"), (Verdict::Good, vec![]));
    // 900 of 1,024.
    let (verdict, changes) = of("00000384", "00000000");
    assert_eq!((verdict, changes.len()), (Verdict::Consider, 3));
    assert_eq!(
        changes[0],
        "/proc/sys/net/ipv4/neigh/default/gc_thresh3=4096"
    );
    assert_eq!(of("00000010", "00000007").0, Verdict::Consider);
    // The counters of another network namespace's view are not there, and nothing is claimed.
    let other = advice("T52", &[("proc/net/stat/rt_cache", "")], None);
    assert_eq!(other.0, Verdict::CannotTell);
}

#[test]
fn one_look_at_counters_of_failures() {
    let snmp = |received: u32, lost: u32| {
        let text =
            format!("Udp: InDatagrams RcvbufErrors SndbufErrors\nUdp: {received} {lost} 0\n");
        advice("T50", &[("proc/net/snmp", &text)], None).0
    };
    assert_eq!(snmp(100, 0), Verdict::Good);
    assert_eq!(snmp(10_000, 3), Verdict::CannotTell);
    assert_eq!(snmp(3, 64_797), Verdict::Consider);
    let killed = |count: u32| {
        let text = format!("pgfault 7\noom_kill {count}\n");
        let files = [("proc/vmstat", text.as_str()), ("var/log/dmesg", "")];
        advice("T53", &files, None).0
    };
    assert_eq!(killed(0), Verdict::Good);
    assert_eq!(killed(22), Verdict::Consider);
    let pages = |used: u32| {
        let stat = format!("TCP: inuse 5 orphan 0 tw 0 alloc 9 mem {used}\n");
        advice(
            "T51",
            &[
                (
                    "proc/net/netstat",
                    "TcpExt: TCPMemoryPressures\nTcpExt: 0\n",
                ),
                ("proc/net/sockstat", &stat),
                ("proc/sys/net/ipv4/tcp_mem", "100\t200\t300\n"),
            ],
            None,
        )
    };
    assert_eq!(pages(200), (Verdict::Good, vec![]));
    let (verdict, changes) = pages(201);
    assert_eq!(verdict, Verdict::Bad);
    assert_eq!(changes, ["/proc/sys/net/ipv4/tcp_mem=200 400 600"]);
}

#[test]
fn a_flood_of_another_network_is_not_ours() {
    // Below --root there is one network; its log is about it.
    let root = Root::new(&[
        ("proc/sys/net/ipv4/tcp_max_syn_backlog", "128"),
        ("proc/net/netstat", "TcpExt: TCPReqQFullDrop\nTcpExt: 0\n"),
        (
            "var/log/dmesg",
            "[ 1.0] TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:443. Sending cookies.\n",
        ),
    ]);
    let outcome = root.finding("T22", None, None).outcome;
    let said = |words: &str| outcome.evidence.iter().any(|one| one.value.contains(words));
    assert!(said("port 0.0.0.0:443"), "{outcome:?}");
}
