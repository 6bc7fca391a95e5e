//! Machines that no test has: their verdicts.

use std::fs;
use std::os::unix::fs::symlink;

use crate::harness::{Checks, Scratch, checks, fixture_path, seen, text, tune, verdict};

fn audit(root: &str, more: &[&str]) -> Checks {
    let args: Vec<&str> = ["--json", "--root", root]
        .iter()
        .chain(more)
        .copied()
        .collect();
    checks(&tune(&args))
}

fn of_fixture(name: &str, more: &[&str]) -> Checks {
    audit(fixture_path(name).to_str().unwrap(), more)
}

fn assert_verdicts(checks: &Checks, expected: &[(&str, &str)]) {
    for (id, expected) in expected {
        assert_eq!(
            verdict(checks, id),
            *expected,
            "{id}: {}",
            checks[*id]["says"]
        );
    }
}

#[test]
fn rhel6_with_net_dma() {
    let found = of_fixture("rhel6", &[]);
    assert_verdicts(
        &found,
        &[
            ("T01", "good"),
            ("T02", "good"),
            ("T03", "good"),
            ("T05", "harmful"),
            ("T06", "good"),
            ("T12", "obsolete"),
            ("T14", "good"),
            ("T21", "consider"),
            ("T23", "harmful"),
        ],
    );
    assert_eq!(seen(&found, "T05", "tcp_dma_copybreak"), "4096");
    let root = fixture_path("rhel6");
    let output = tune(&["--root", root.to_str().unwrap(), "--fail-on", "harmful"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let output = tune(&["--root", root.to_str().unwrap()]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "without --fail-on nothing fails"
    );
}

#[test]
fn the_kernel_of_2009() {
    assert_verdicts(
        &of_fixture("kernel-2009", &[]),
        &[
            ("T01", "bad"),
            ("T02", "consider"),
            ("T03", "bad"),
            // Known and left out is not the same as unknown.
            ("T05", "good"),
            ("T06", "consider"),
            ("T07", "bad"),
            ("T12", "good"),
            ("T13", "good"),
            ("T14", "bad"),
        ],
    );
}

#[test]
fn the_modes_of_e1000e() {
    for (fixture, goal, expected) in [
        ("e1000e-1", "latency", "good"),
        ("e1000e-1", "throughput", "consider"),
        ("e1000e-3", "latency", "consider"),
        ("e1000e-3", "throughput", "good"),
    ] {
        let found = of_fixture(fixture, &["--goal", goal]);
        assert_verdicts(&found, &[("T09", expected)]);
    }
    assert_verdicts(&of_fixture("e1000e-1", &[]), &[("T09", "good")]);
    let found = of_fixture("e1000e-3", &[]);
    assert_verdicts(
        &found,
        &[
            ("T05", "obsolete"),
            ("T09", "good"),
            ("T12", "consider"),
            ("T35", "obsolete"),
        ],
    );
    assert!(seen(&found, "T35", "99-tuning.conf:2").contains("tcp_tw_recycle"));
    assert!(seen(&found, "T35", "99-tuning.conf:4").contains("sched_min_granularity_ns"));
    assert_eq!(
        found["T35"]["evidence"].as_array().unwrap().len(),
        3,
        "the number of lines and two dead ones: somaxconn is alive, -vm.* is optional"
    );
}

#[test]
fn hpet_and_company() {
    let found = of_fixture("hpet", &[]);
    assert_verdicts(
        &found,
        &[
            ("T14", "bad"),
            ("T26", "consider"),
            ("T27", "consider"),
            ("T28", "bad"),
            ("T31", "bad"),
        ],
    );
    // tsc is not offered: nothing may be proposed.
    assert_eq!(found["T14"]["changes"].as_array().unwrap().len(), 0);
    assert_eq!(found["T31"]["changes"].as_array().unwrap().len(), 2);
    let scratch = Scratch::of("hpet");
    let clock = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    scratch.put(clock, "tsc hpet acpi_pm\n");
    let found = audit(scratch.arg(), &[]);
    assert_eq!(
        found["T14"]["commands"][0]
            .as_str()
            .unwrap()
            .split(' ')
            .nth(1),
        Some("tsc")
    );
}

#[test]
fn what_the_kernel_said_is_evidence() {
    let machine = Scratch::of("hpet");
    machine.put(
        "var/log/dmesg",
        "[    0.1] tsc: Detected 2100.000 MHz processor\n\
         [ 4711.0] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew is too large:\n",
    );
    let found = audit(machine.arg(), &[]);
    let said = seen(&found, "T14", "the kernel's log");
    assert!(
        said.starts_with("[ 4711.0]") && said.contains("as unstable because"),
        "{said}"
    );
    let found = of_fixture("hpet", &[]);
    assert!(seen(&found, "T14", "the kernel's log").ends_with("is not there"));
}

#[test]
fn sleep_states_are_for_the_goal() {
    let machine = Scratch::of("hpet");
    let cpu = "sys/devices/system/cpu";
    machine.put(&format!("{cpu}/cpuidle/current_driver"), "intel_idle\n");
    for (state, latency) in [("state0", "0"), ("state1", "2"), ("state2", "133")] {
        machine.put(&format!("{cpu}/cpu0/cpuidle/{state}/latency"), latency);
    }
    assert_verdicts(&audit(machine.arg(), &[]), &[("T32", "good")]);
    let found = audit(machine.arg(), &["--goal", "latency"]);
    assert_verdicts(&found, &[("T32", "consider")]);
    assert!(found["T32"]["says"].as_str().unwrap().contains("133 µs"));
    machine.put(&format!("{cpu}/cpu0/cpuidle/state2/disable"), "1\n");
    let found = audit(machine.arg(), &["--goal", "latency"]);
    assert_verdicts(&found, &[("T32", "good")]);
    assert_eq!(seen(&found, "T32", "highest latency"), "2 µs");
}

#[test]
fn how_a_process_waits() {
    let machine = Scratch::of("hpet");
    let says = |call: &str| {
        machine.put("proc/42/comm", "server\n");
        machine.put("proc/42/status", "Name:\tserver\n");
        for file in ["stat", "task/42/stat"] {
            machine.put(&format!("proc/42/{file}"), "42 (server) S 1 42 42 0 -1 0\n");
        }
        machine.put("proc/42/fd/0", "");
        machine.put("proc/42/task/42/syscall", call);
        audit(machine.arg(), &["-p", "42"])
    };
    let many = says("7 0x7ffc00 0x7d0 0xffffffff\n");
    assert_verdicts(&many, &[("T13", "consider")]);
    assert!(
        many["T13"]["says"]
            .as_str()
            .unwrap()
            .contains("2000 descriptors")
    );
    let few = says("7 0x7ffc00 0x3 0xffffffff\n");
    assert_verdicts(&few, &[("T13", "good")]);
    assert_eq!(seen(&few, "T13", "syscall"), "poll for 3");
}

#[test]
fn huge_pages_that_a_process_refused() {
    let machine = Scratch::of("hpet");
    let process = |refused: &str| {
        machine.put("proc/42/comm", "ruby\n");
        machine.put("proc/42/stat", "42 (ruby) S 1 42 42 0 -1 0\n");
        machine.put("proc/42/task/42/stat", "42 (ruby) S 1 42 42 0 -1 0\n");
        machine.put(
            "proc/42/status",
            &format!("Name:\truby\nTHP_enabled:\t{refused}\n"),
        );
        audit(machine.arg(), &["-p", "42"])
    };
    assert_verdicts(&process("1"), &[("T26", "bad")]);
    let found = process("0");
    assert_verdicts(&found, &[("T26", "good")]);
    assert_eq!(found["T26"]["changes"].as_array().unwrap().len(), 0);
}

#[test]
fn arm() {
    assert_verdicts(
        &of_fixture("arm", &[]),
        &[
            ("T01", "good"),
            ("T05", "obsolete"),
            ("T06", "not_applicable"),
            ("T12", "obsolete"),
            ("T14", "good"),
        ],
    );
}

#[test]
fn what_is_not_there_is_said_and_not_guessed() {
    let found = of_fixture("no-config", &[]);
    assert_verdicts(
        &found,
        &[
            ("T01", "cannot_tell"),
            ("T02", "cannot_tell"),
            ("T03", "cannot_tell"),
            ("T13", "cannot_tell"),
        ],
    );
    // The version alone is enough for what went with a version.
    assert_verdicts(&found, &[("T05", "obsolete")]);

    let found = of_fixture("container", &[]);
    for id in [
        "T04", "T07", "T09", "T10", "T14", "T16", "T17", "T18", "T26", "T31", "T32", "T33", "T34",
    ] {
        assert_verdicts(&found, &[(id, "cannot_tell")]);
        let says = found[id]["says"].as_str().unwrap();
        assert!(says.contains("is not there"), "{id}: {says}");
    }
}

/// Twelve cards of 64 queues, 2 nodes of 32 CPUs. The interrupts of card 0 are all on CPU 0, those of card 1 all on the
/// other node, the rest are placed well.
fn twelve_cards() -> Scratch {
    const QUEUES: usize = 64;
    let scratch = Scratch::of("no-config");
    scratch.put("sys/devices/system/cpu/online", "0-63\n");
    scratch.put("sys/devices/system/node/online", "0-1\n");
    scratch.put("sys/devices/system/node/node0/cpulist", "0-31\n");
    scratch.put("sys/devices/system/node/node1/cpulist", "32-63\n");
    scratch.put("proc/irq/default_smp_affinity", "ffffffff,ffffffff\n");
    let mut interrupts = String::from("     CPU0\n");
    for card in 0..12 {
        let node = card % 2;
        let device = format!("sys/devices/pci0000:00/0000:00:{card:02x}.0");
        scratch.put(&format!("{device}/numa_node"), &format!("{node}\n"));
        let base = format!("sys/class/net/eth{card}");
        scratch.put(&format!("{base}/flags"), "0x1003\n");
        symlink(
            format!("../../../devices/pci0000:00/0000:00:{card:02x}.0"),
            scratch.0.join(&base).join("device"),
        )
        .unwrap();
        for queue in 0..QUEUES {
            let number = 100 + card * QUEUES + queue;
            let cpu = match card {
                0 => 0,
                1 => queue % 32,
                _ => node * 32 + queue % 32,
            };
            scratch.put(&format!("{device}/msi_irqs/{number}"), "msix\n");
            scratch.put(
                &format!("proc/irq/{number}/smp_affinity_list"),
                &format!("{cpu}\n"),
            );
            interrupts.push_str(&format!(
                " {number}:  7  PCI-MSIX  {queue}-edge  eth{card}-TxRx-{queue}\n"
            ));
        }
    }
    scratch.put("proc/interrupts", &interrupts);
    scratch
}

#[test]
fn twelve_cards_of_64_queues() {
    let machine = twelve_cards();
    let before = audit(machine.arg(), &[]);
    assert_verdicts(&before, &[("T10", "bad")]);
    assert!(
        before["T10"]["says"]
            .as_str()
            .unwrap()
            .starts_with("eth0: all 64 interrupts on CPU 0")
    );
    assert_eq!(
        seen(&before, "T10", "eth1"),
        "bad: 64 of 64 interrupts served off its NUMA node 1"
    );
    // Only what is wrong is changed: the interrupts of two cards.
    assert_eq!(before["T10"]["changes"].as_array().unwrap().len(), 128);

    let irq = machine.files("proc/irq");
    let output = tune(&["--root", machine.arg(), "--apply", "T10"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_verdicts(&audit(machine.arg(), &[]), &[("T10", "good")]);
    let read = |number: u32| {
        let path = machine
            .0
            .join(format!("proc/irq/{number}/smp_affinity_list"));
        fs::read_to_string(path).unwrap().trim().to_owned()
    };
    assert_eq!((&*read(100), &*read(131), &*read(132)), ("0", "31", "0"));
    assert_eq!(read(164), "32", "card 1 is on node 1");
    let output = tune(&["--root", machine.arg(), "--undo"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(machine.files("proc/irq"), irq);
}
