//! Whatever a tree holds: no panic, an answer of every check, and reading changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tune::machine::{Machine, Options};
use tune::rules::{RULES, audit};
use tune::verdict::Goal;

/// Files that the rules read, of every format there is.
const FILES: [&str; 49] = [
    "proc/timer_list",
    "proc/cmdline",
    "proc/config.gz",
    "proc/cpuinfo",
    "proc/interrupts",
    "proc/loadavg",
    "proc/swaps",
    "proc/42/comm",
    "proc/42/status",
    "proc/42/stat",
    "proc/42/task/42/stat",
    "proc/42/task/42/syscall",
    "proc/42/limits",
    "proc/42/maps",
    "proc/42/environ",
    "proc/42/smaps_rollup",
    "proc/net/softnet_stat",
    "proc/net/netstat",
    "proc/net/sockstat",
    "proc/irq/7/smp_affinity_list",
    "proc/irq/7/effective_affinity_list",
    "proc/irq/default_smp_affinity",
    "proc/sys/fs/file-nr",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/net/core/somaxconn",
    "proc/sys/net/core/busy_poll",
    "proc/sys/net/core/busy_read",
    "proc/sys/net/ipv4/ip_local_port_range",
    "proc/sys/net/ipv4/tcp_rmem",
    "proc/sys/net/ipv4/tcp_wmem",
    "proc/sys/net/ipv4/tcp_max_syn_backlog",
    "proc/sys/net/netfilter/nf_conntrack_count",
    "proc/sys/net/netfilter/nf_conntrack_max",
    "proc/sys/vm/swappiness",
    "sys/class/net/eth0/flags",
    "sys/class/net/eth0/queues/rx-0/rps_cpus",
    "sys/class/net/eth0/device/msi_irqs/7",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
    "sys/devices/system/node/online",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/devices/system/cpu/cpuidle/current_driver",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/latency",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "var/log/dmesg",
    "etc/modprobe.d/10.conf",
    "etc/sysctl.d/10.conf",
];

/// Words that parsers stumble over.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("99999999999999999999999".to_owned()),
        Just("0-4294967295".to_owned()),
        Just("ffffffff,ffffffff".to_owned()),
        Just("[always] madvise".to_owned()),
        Just("x = ".to_owned()),
        Just("TcpExt:".to_owned()),
        Just("now at".to_owned()),
        Just("Cpus_allowed_list: 0-1".to_owned()),
        Just("7f0000000000-7f0000001000 rw-p 0 0 0".to_owned()),
        Just("fffffffffffff000-0 ---p 0 0 0".to_owned()),
        Just("vendor_id : GenuineIntel".to_owned()),
        Just("(a)) S".to_owned()),
        Just("7:".to_owned()),
        Just("\0".to_owned()),
        "\\PC{0,8}",
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec((word(), "[ \t\n]"), 0..24)
            .prop_map(|words| words.into_iter().map(|(word, gap)| word + &gap).collect::<String>().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}

fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("lancet-hostile-{}", std::process::id()))
}

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_gets_its_answers(
        files in prop::collection::vec((prop::sample::select(&FILES[..]), content()), 0..30),
        goal in prop_oneof![Just(None), Just(Some(Goal::Latency)), Just(Some(Goal::Throughput))],
        about_a_process in any::<bool>(),
    ) {
        let root = scratch();
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        for (path, bytes) in &files {
            put(&root, path, bytes);
        }
        let options = Options {
            root: Some(root.clone()),
            pid: about_a_process.then_some(42),
            goal,
            ..Options::default()
        };
        // A process that is not there is a refusal.
        if let Ok(machine) = Machine::open(&options) {
            let findings = audit(&machine, RULES);
            prop_assert_eq!(findings.len(), RULES.len());
            for finding in &findings {
                prop_assert!(!finding.outcome.says.is_empty());
                for change in &finding.outcome.changes {
                    prop_assert!(!change.setting.command(&change.value).is_empty());
                }
            }
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn any_journal_is_read_or_refused(bytes in content()) {
        let path = scratch().with_extension("journal");
        fs::write(&path, &bytes).unwrap();
        let _ = tune::journal::read(&path);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn any_cpu_list_is_bounded(text in "[0-9,-]{0,20}") {
        if let Some(cpus) = tune::cpus::list(&text) {
            prop_assert!(cpus.len() <= 8192);
            prop_assert_eq!(tune::cpus::list(&tune::cpus::to_list(&cpus)), Some(cpus));
        }
    }
}
