//! Every counter of failures, each rising alone between two looks: it is the one that fails, and its number is said. Those that can rise in a
//! network namespace without harm to the machine are provoked there, too (`lancet/tests/tune/failing.rs`, `growing.rs`).

use std::time::Duration;

use super::Root;
use tune::machine::{Machine, Options};
use tune::rules::RULES;
use tune::verdict::Verdict;

/// The rule, its file, what stands there (`N` = the counter), and what is said when it has risen by 7.
const COUNTERS: [(&str, &str, &str, &str); 16] = [
    (
        "T50",
        "proc/net/snmp",
        "Udp: InDatagrams RcvbufErrors\nUdp: 900000 N\n",
        "7 datagrams thrown away in 1.0 s",
    ),
    (
        "T50",
        "proc/net/snmp",
        "Udp: InDatagrams SndbufErrors\nUdp: 900000 N\n",
        "7 datagrams not sent in 1.0 s",
    ),
    (
        "T50",
        "proc/net/snmp",
        "Udp: InDatagrams MemErrors\nUdp: 900000 N\n",
        "UDP has no more memory",
    ),
    (
        "T50",
        "proc/net/snmp6",
        "Udp6InDatagrams 900000\nUdp6RcvbufErrors N\n",
        "7 datagrams thrown away in 1.0 s",
    ),
    (
        "T51",
        "proc/net/netstat",
        "TcpExt: TCPMemoryPressures\nTcpExt: N\n",
        "TCP was short of memory 7 times in 1.0 s",
    ),
    (
        "T51",
        "proc/net/netstat",
        "TcpExt: TCPAbortOnMemory\nTcpExt: N\n",
        "TCP was short of memory 7 times in 1.0 s",
    ),
    (
        "T51",
        "proc/net/netstat",
        "TcpExt: RcvPruned\nTcpExt: N\n",
        "7 segments that had arrived thrown away",
    ),
    (
        "T51",
        "proc/net/netstat",
        "TcpExt: OfoPruned\nTcpExt: N\n",
        "7 segments that had arrived thrown away",
    ),
    (
        "T51",
        "proc/net/netstat",
        "TcpExt: TCPRcvQDrop\nTcpExt: N\n",
        "7 segments that had arrived thrown away",
    ),
    (
        "T51",
        "proc/net/netstat",
        "TcpExt: TCPBacklogDrop\nTcpExt: N\n",
        "7 segments that had arrived thrown away",
    ),
    (
        "T21",
        "proc/net/netstat",
        "TcpExt: ListenOverflows\nTcpExt: N\n",
        "7 connections dropped in 1.0 s",
    ),
    (
        "T21",
        "proc/net/netstat",
        "TcpExt: ListenDrops\nTcpExt: N\n",
        "7 handshakes dropped in 1.0 s",
    ),
    (
        "T22",
        "proc/net/netstat",
        "TcpExt: TCPReqQFullDrop\nTcpExt: N\n",
        "full 7 times in 1.0 s",
    ),
    (
        "T22",
        "proc/net/netstat",
        "TcpExt: TCPReqQFullDoCookies\nTcpExt: N\n",
        "full 7 times in 1.0 s",
    ),
    (
        "T52",
        "proc/net/stat/arp_cache",
        "entries table_fulls\n10 N\n",
        "7 neighbours refused in 1.0 s",
    ),
    (
        "T53",
        "proc/vmstat",
        "pgfault 7\noom_kill N\n",
        "7 processes were killed in 1.0 s",
    ),
];

/// Per CPU, hexadecimal: column 2 drops, column 3 ends with work left.
const SOFTNET: [(&str, &str, bool); 2] = [
    ("00000009 N 00000000\n", "7 packets dropped in 1.0 s", true),
    (
        "00000009 00000000 N\n",
        "7 rounds in 1.0 s ended with work left",
        false,
    ),
];

/// What stands beside the counter: a machine on which all is well.
const WELL: [(&str, &str); 9] = [
    ("proc/net/snmp", "Udp: InDatagrams\nUdp: 900000\n"),
    ("proc/net/netstat", "TcpExt: ListenOverflows\nTcpExt: 0\n"),
    (
        "proc/net/sockstat",
        "TCP: inuse 5 orphan 0 tw 0 alloc 9 mem 2\n",
    ),
    ("proc/net/softnet_stat", "00000009 00000000 00000000\n"),
    ("proc/net/stat/ndisc_cache", "entries table_fulls\n10 00\n"),
    ("proc/sys/net/core/somaxconn", "4096\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"),
    ("proc/sys/net/ipv4/tcp_syncookies", "1\n"),
    ("var/log/dmesg", ""),
];

/// A machine whose file has this at the first look, and that at the second.
fn machine(file: &str, before: &str, after: &str) -> Machine {
    let look = |text: &str| {
        let others = WELL.iter().copied().filter(|(path, _)| *path != file);
        let root = Root::new(&others.chain([(file, text)]).collect::<Vec<_>>());
        let options = Options {
            root: Some(root.0.clone()),
            ..Options::default()
        };
        Machine::open(&options).expect("a machine")
    };
    let (mut first, second) = (look(before), look(after));
    first.samples.second = Some((second.samples.first, Duration::from_secs(1)));
    first
}

/// The rules of which something fails, and what they say.
fn failing(machine: &Machine) -> Vec<(&'static str, Verdict, String)> {
    let all = RULES.iter().map(|rule| rule.check(machine));
    let fails = all.filter(|finding| finding.outcome.fails);
    let told = fails.map(|finding| (finding.id, finding.outcome.verdict, finding.outcome.says));
    told.collect()
}

#[test]
fn each_counter_of_failures_that_rises_is_the_one_that_fails() {
    let of = |text: &str, number: &str| text.replace('N', number);
    let hexadecimal = ["000000ff", "00000106"];
    for (id, file, text, says) in COUNTERS {
        let [before, after] = match file.ends_with("_cache") {
            true => hexadecimal,
            false => ["255", "262"],
        };
        let put = |number: &str| {
            let (head, tail) = text.rsplit_once('N').expect("a counter");
            format!("{head}{number}{tail}")
        };
        let found = failing(&machine(file, &put(before), &put(after)));
        let [(fails, Verdict::Bad, said)] = &found[..] else {
            panic!("{text}: {found:?}");
        };
        assert!(*fails == id && said.contains(says), "{text}: {found:?}");
        // One that has risen before, when is not known, does not fail now.
        assert_eq!(
            failing(&machine(file, &put(before), &put(before))),
            [],
            "{text}"
        );
    }
    for (text, says, fails) in SOFTNET {
        let machine = machine(
            "proc/net/softnet_stat",
            &of(text, hexadecimal[0]),
            &of(text, hexadecimal[1]),
        );
        let rule = RULES.iter().find(|rule| rule.id == "T19").expect("a rule");
        let outcome = rule.check(&machine).outcome;
        assert!(outcome.says.contains(says), "{outcome:?}");
        // A budget that ran out costs time; nothing is lost by it.
        let verdict = if fails {
            Verdict::Bad
        } else {
            Verdict::Consider
        };
        assert_eq!((outcome.verdict, outcome.fails), (verdict, fails), "{text}");
    }
}
