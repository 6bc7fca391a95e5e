//! veth and tap in a network namespace: audit, apply, audit, undo, audit. The kernel's own answers, asked through other
//! programs, confirm what is said.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Network, checks, may_make_networks, seen, text, tune, verdict};

/// Checks whose changes can be made in such a network.
pub const CHANGEABLE: [&str; 7] = ["T04", "T09", "T15", "T17", "T18", "T20", "T21"];

fn apply(network: &Network, goal: &str, ids: &[&str]) {
    let args: Vec<&str> = ["--goal", goal, "--apply"]
        .iter()
        .chain(ids)
        .copied()
        .collect();
    let output = network.tune(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

fn undo(network: &Network) {
    let output = network.tune(&["--undo"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("as before"), "{}", text(&output));
}

#[test]
fn there_and_back() {
    if !may_make_networks("there_and_back") {
        return;
    }
    let network = Network::new();
    network.detune();
    let first = network.state("throughput");
    let before = checks(&network.tune(&["--json", "--goal", "throughput"]));
    for id in CHANGEABLE {
        let verdict = verdict(&before, id);
        assert!(
            matches!(verdict, "bad" | "consider"),
            "{id} is {verdict} to begin with"
        );
        assert_ne!(before[id]["changes"].as_array().unwrap().len(), 0, "{id}");
    }
    assert_eq!(seen(&before, "T04", "va tx-scatter-gather"), "off");

    apply(&network, "throughput", &CHANGEABLE);
    let after = checks(&network.tune(&["--json", "--goal", "throughput"]));
    for id in CHANGEABLE {
        assert_eq!(
            after[id]["changes"].as_array().unwrap().len(),
            0,
            "{id}: {}",
            after[id]
        );
    }
    for name in [
        "tx-scatter-gather",
        "tx-tcp-segmentation",
        "tx-generic-segmentation",
    ] {
        assert_eq!(seen(&after, "T04", &format!("va {name}")), "on");
    }
    confirm(&network, true);

    undo(&network);
    assert_eq!(network.state("throughput"), first);
    confirm(&network, false);
}

/// What others say: cat, tc, and ethtool where it is installed.
fn confirm(network: &Network, tuned: bool) {
    let says = |program: &str, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        text(&network.run(program, &words))
    };
    let pick = |on, off| if tuned { on } else { off };
    assert_eq!(
        says("cat", "/proc/sys/net/core/somaxconn").trim(),
        pick("4096", "128")
    );
    let qdisc = says("tc", "qdisc show dev tap0");
    assert_eq!(
        qdisc.contains("pfifo ") && qdisc.contains("limit 77p"),
        !tuned,
        "{qdisc}"
    );
    let rps = says("cat", "/sys/class/net/tap0/queues/rx-0/rps_cpus");
    assert_eq!(
        rps.trim().trim_start_matches(['0', ',']).is_empty(),
        !tuned,
        "{rps}"
    );
    if Command::new("ethtool").arg("--version").output().is_err() {
        println!("SKIPPED there_and_back, the part that asks ethtool: it is not installed");
        return;
    }
    let features = says("ethtool", "-k va");
    for name in [
        "tx-tcp-segmentation",
        "generic-segmentation-offload",
        "generic-receive-offload",
    ] {
        assert!(
            features.contains(&format!("{name}: {}", pick("on", "off"))),
            "{features}"
        );
    }
    let frames = says("ethtool", "-c tap0");
    let frames = frames.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        frames.contains(pick("rx-frames: 32", "rx-frames: 0")),
        "{frames}"
    );
    let channels = says("ethtool", "-l va");
    let current = channels.split("Current").nth(1).unwrap().to_owned();
    let queues = current
        .lines()
        .find_map(|line| line.strip_prefix("RX:"))
        .unwrap();
    assert_eq!(queues.trim() == "4", !tuned, "{channels}");
}

#[test]
fn polling_in_threads() {
    if !may_make_networks("polling_in_threads") {
        return;
    }
    let network = Network::new();
    let first = network.state("latency");
    // A veth polls only with GRO, and only then can it be threaded.
    apply(&network, "latency", &["T15"]);
    apply(&network, "latency", &["T07"]);
    let threaded = text(&network.run("cat", &["/sys/class/net/va/threaded"]));
    assert_eq!(threaded.trim(), "1");
    let after = checks(&network.tune(&["--json", "--goal", "latency"]));
    assert_eq!(verdict(&after, "T07"), "good");
    undo(&network);
    undo(&network);
    assert_eq!(network.state("latency"), first);
}

#[test]
fn a_process_in_another_network() {
    if !may_make_networks("a_process_in_another_network") {
        return;
    }
    let network = Network::new();
    network.inside(|tree| tree.write("/proc/sys/net/core/somaxconn", "77").unwrap());
    let mut guest = network.command("sleep").arg("60").spawn().unwrap();
    let pid = guest.id();
    let comm = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let begin = Instant::now();
    while comm().trim() != "sleep" && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = pid.to_string();
    let outside = checks(&tune(&["--no-sample", "--json"]));
    let inside = checks(&tune(&["--no-sample", "--json", "-p", &pid]));
    let apply = [
        "--no-sample",
        "--journals",
        network.journals.arg(),
        "-p",
        &pid,
        "--apply",
        "T21",
    ];
    let applied = tune(&apply);
    // Without -p this is another network, whose somaxconn the journal does not mean.
    let elsewhere = tune(&["--journals", network.journals.arg(), "--undo"]);
    let undone = tune(&["--journals", network.journals.arg(), "-p", &pid, "--undo"]);
    guest.kill().unwrap();
    guest.wait().unwrap();

    assert_eq!(seen(&inside, "T21", "somaxconn"), "77");
    assert_ne!(seen(&outside, "T21", "somaxconn"), "77");
    assert!(
        inside["T04"]["evidence"].to_string().contains(" va "),
        "{}",
        inside["T04"]
    );
    assert!(!outside["T04"]["evidence"].to_string().contains(" va "));
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied));
    let said = text(&applied);
    assert!(said.contains("T21  then: restart the service"), "{said}");
    let undo = format!(
        "to take it back: lancet tune -p {pid} --journals {}",
        network.journals.arg()
    );
    assert!(said.contains(&undo), "{said}");
    assert_eq!(elsewhere.status.code(), Some(1), "{}", text(&elsewhere));
    assert!(text(&elsewhere).contains("-p PID"), "{}", text(&elsewhere));
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    assert_eq!(
        text(&network.run("cat", &["/proc/sys/net/core/somaxconn"])).trim(),
        "77"
    );
}

#[test]
fn a_device_that_went_or_came_again_is_left_alone() {
    if !may_make_networks("a_device_that_went_or_came_again_is_left_alone") {
        return;
    }
    let network = Network::new();
    apply(&network, "throughput", &["T09", "T15"]);
    let ip = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        assert!(network.run("ip", &words).status.success(), "ip {words:?}");
    };
    // Another tap of the same name, and with the same wish from somebody else.
    ip("link del tap0");
    ip("tuntap add tap0 mode tap");
    ip("link set tap0 up");
    apply(&network, "throughput", &["T09"]);
    let journal = network
        .journals
        .files("")
        .into_keys()
        .find(|path| path.extension().is_some_and(|ending| ending == "journal"));
    ip("link del va");
    let output = network.tune(&["--undo", journal.unwrap().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(
        text(&output).matches("left alone: another device").count(),
        3,
        "{}",
        text(&output)
    );
    let now = checks(&network.tune(&["--json"]));
    assert_eq!(seen(&now, "T09", "tap0 rx-frames"), "32");
}
