//! Every check on this machine, held against what the files and other programs say.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tune::rules::RULES;

use crate::harness::{Checks, checks, for_everybody, seen, text, tune, verdict};
use crate::support::tool;

/// The whole audit may take so much, without the interval of the counters.
const LIMIT: Duration = Duration::from_millis(150);

fn live() -> Checks {
    checks(&tune(&["--sample", "100ms", "--json"]))
}

fn file(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_check_runs_and_rests_on_something() {
    let found = live();
    assert_eq!(found.len(), RULES.len());
    for (id, check) in &found {
        assert!(!check["says"].as_str().unwrap().is_empty(), "{id}");
        let (verdict, evidence) = (
            check["verdict"].as_str().unwrap(),
            check["evidence"].as_array().unwrap(),
        );
        let speaks_for_itself = matches!(verdict, "not_applicable" | "cannot_tell");
        assert!(
            speaks_for_itself || !evidence.is_empty(),
            "{id} is {verdict} without evidence"
        );
    }
}

#[test]
fn the_files_say_the_same() {
    // From before: other tests make packets drop.
    let drops = fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let found = live();
    let mut compared = 0;
    for (id, path) in [
        (
            "T14",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        (
            "T14",
            "/sys/devices/system/clocksource/clocksource0/available_clocksource",
        ),
        ("T20", "/proc/sys/net/ipv4/tcp_congestion_control"),
        ("T21", "/proc/sys/net/core/somaxconn"),
        ("T24", "/proc/sys/net/ipv4/tcp_rmem"),
        ("T24", "/proc/sys/net/ipv4/tcp_wmem"),
        ("T26", "/sys/kernel/mm/transparent_hugepage/enabled"),
        ("T28", "/proc/sys/vm/overcommit_memory"),
        ("T36", "/proc/sys/kernel/core_pattern"),
    ] {
        if fs::metadata(path).is_ok() && verdict(&found, id) != "cannot_tell" {
            assert_eq!(seen(&found, id, path), file(path), "{id}");
            compared += 1;
        }
    }
    assert!(compared >= 6, "only {compared} files were there to compare");
    if let Ok(timers) = fs::read_to_string("/proc/timer_list") {
        let stops = timers
            .lines()
            .filter(|line| line.trim().starts_with(".nohz "))
            .count();
        assert_eq!(seen(&found, "T01", ".nohz").split(' ').count(), stops);
        // Two looks 100 ms apart, each at a whole tick.
        let measured = seen(&found, "T02", "jiffies")
            .trim_end_matches(" Hz")
            .parse::<f64>()
            .unwrap();
        let stated = found["T02"]["says"].as_str().unwrap();
        let stated: f64 = stated.split(' ').next().unwrap().parse().unwrap();
        assert!(
            (measured - stated).abs() <= stated / 5.0,
            "{measured} for {stated} Hz"
        );
    }
    for line in drops.lines() {
        let dropped = line.split(' ').nth(1).unwrap();
        if dropped != "00000000" {
            assert_ne!(seen(&found, "T19", "column 2"), "0 since boot");
        }
    }
}

/// Whoever holds the device open with 0 in it keeps the CPUs awake; that is seen, and over when it is closed.
#[test]
fn held_sleep_states_are_seen() {
    use std::io::Write;
    let explained = || checks(&tune(&["--no-sample", "--json", "--explain", "T32"]));
    let Ok(mut held) = fs::OpenOptions::new()
        .write(true)
        .open("/dev/cpu_dma_latency")
    else {
        println!("SKIPPED held_sleep_states_are_seen: needs root and /dev/cpu_dma_latency");
        return;
    };
    held.write_all(&0i32.to_ne_bytes()).unwrap();
    assert_eq!(seen(&explained(), "T32", "cpu_dma_latency"), "held at 0 µs");
    drop(held);
    assert_ne!(seen(&explained(), "T32", "cpu_dma_latency"), "held at 0 µs");
}

#[test]
fn ethtool_says_the_same() {
    if Command::new("ethtool").arg("--version").output().is_err() {
        println!("SKIPPED ethtool_says_the_same: needs ethtool (package ethtool)");
        return;
    }
    let found = live();
    let device = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|name| fs::metadata(format!("/sys/class/net/{name}/device")).is_ok());
    let Some(device) = device else {
        println!("SKIPPED ethtool_says_the_same: there is no network card");
        return;
    };
    let asked = |flag: &str| {
        text(
            &Command::new("ethtool")
                .args([flag, &device])
                .output()
                .unwrap(),
        )
    };
    let features = asked("-k");
    for (id, ours, theirs) in [
        ("T04", "tx-scatter-gather", "tx-scatter-gather"),
        ("T04", "tx-tcp-segmentation", "tx-tcp-segmentation"),
        (
            "T04",
            "tx-generic-segmentation",
            "generic-segmentation-offload",
        ),
        ("T15", "rx-gro", "generic-receive-offload"),
        ("T15", "rx-lro", "large-receive-offload"),
    ] {
        let line = features
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{theirs}: ")));
        assert_eq!(
            Some(seen(&found, id, &format!("{device} {ours}"))),
            line,
            "{ours}"
        );
    }
    let number = |text: &str, at: usize, name: &str| -> Option<String> {
        let part = text.split("Current hardware settings:").nth(at)?;
        let line = part.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    let rings = asked("-g");
    if let (Some(most), Some(now)) = (number(&rings, 0, "RX:"), number(&rings, 1, "RX:")) {
        assert_eq!(
            seen(&found, "T16", "ETHTOOL_GRINGPARAM"),
            format!("rx {now} of {most}")
        );
    }
    let channels = asked("-l");
    if let (Some(most), Some(now)) = (
        number(&channels, 0, "Combined:"),
        number(&channels, 1, "Combined:"),
    ) && now != "n/a"
    {
        let ours = seen(&found, "T17", "ETHTOOL_GCHANNELS");
        assert_eq!(ours, format!("combined {now}, max-combined {most}"));
    }
    let coalesce = asked("-c");
    if let Some(usecs) = coalesce
        .lines()
        .find_map(|line| line.strip_prefix("rx-usecs:"))
        && usecs.trim() != "n/a"
    {
        assert_eq!(seen(&found, "T09", "rx-usecs"), usecs.trim());
    }
}

/// What a run took: of the clock, and of CPUs.
fn cost(args: &[&str]) -> (Duration, Duration) {
    let begin = Instant::now();
    let mut command = Command::new(tool());
    let mut child = command
        .arg("tune")
        .args(args)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut status = 0;
    // SAFETY: `rusage` is plain integers, for which all zeros is a value; both live across the call, which reaps our child.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        let pid = child.id() as i32;
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut used), pid);
        used
    };
    // It has been reaped above.
    let _ = child.wait();
    assert_eq!(status, 0);
    let time = |time: libc::timeval| {
        let micros = time.tv_sec * 1_000_000 + time.tv_usec;
        Duration::from_micros(micros.unsigned_abs())
    };
    (begin.elapsed(), time(used.ru_utime) + time(used.ru_stime))
}

#[test]
fn the_whole_audit_is_quick() {
    let own = std::process::id().to_string();
    for args in [&["--no-sample"][..], &["--no-sample", "-p", &own]] {
        let mut all: Vec<(Duration, Duration)> = (0..5).map(|_| cost(args)).collect();
        all.sort_by_key(|(_, cpu)| *cpu);
        println!("the whole audit {args:?}, clock and CPU: {all:?}");
        // Others work on this machine too, so what it takes is counted, not what it waits for a CPU.
        assert!(all[0].1 <= LIMIT, "{all:?}");
        // But it must not sleep either.
        let quickest = all.iter().map(|(clock, _)| *clock).min().unwrap();
        assert!(quickest <= 20 * LIMIT, "{all:?}");
    }
}

#[test]
fn without_rights_it_says_what_it_needs() {
    if !nix::unistd::geteuid().is_root() {
        println!(
            "SKIPPED without_rights_it_says_what_it_needs: needs root to become somebody else"
        );
        return;
    }
    let (_scratch, copy) = for_everybody();
    let mut guest = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = guest.id().to_string();
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new(&copy);
        command
            .arg("tune")
            .args(args)
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap()
    };
    let alone = as_nobody(&["--no-sample", "--json"]);
    let about = as_nobody(&["--no-sample", "--json", "-p", &pid]);
    let apply = as_nobody(&[
        "--no-sample",
        "--apply",
        "vm.swappiness=61",
        "--journals",
        "/tmp/lancet-nobody",
    ]);
    let _ = fs::remove_dir_all("/tmp/lancet-nobody");
    guest.kill().unwrap();
    guest.wait().unwrap();

    let alone = checks(&alone);
    assert_eq!(alone.len(), RULES.len());
    // The running state is for root; what the kernel was built with is for everybody.
    assert_eq!(
        seen(&alone, "T01", "not the running state"),
        "/proc/timer_list needs root"
    );
    let about = checks(&about);
    // Whether it is in this network cannot be seen, so nothing is said of any.
    for id in ["T04", "T20", "T21", "T23"] {
        assert_eq!(verdict(&about, id), "cannot_tell", "{id}");
        let says = about[id]["says"].as_str().unwrap();
        assert!(
            says.ends_with("needs CAP_SYS_ADMIN and CAP_SYS_PTRACE"),
            "{id}: {says}"
        );
    }
    assert_ne!(verdict(&about, "T28"), "cannot_tell");
    for id in ["T13", "T29", "T30"] {
        assert_eq!(verdict(&about, id), "cannot_tell", "{id}");
        let says = about[id]["says"].as_str().unwrap();
        assert!(
            says.ends_with("needs root or the user it runs as"),
            "{id}: {says}"
        );
    }
    assert_eq!(apply.status.code(), Some(1));
    assert!(
        text(&apply).contains("/proc/sys/vm/swappiness needs root"),
        "{}",
        text(&apply)
    );
}

#[test]
fn colour_is_for_terminals() {
    let plain = text(&tune(&["--no-sample"]));
    assert!(!plain.contains('\x1b'), "{plain}");
    let last = plain.lines().last().unwrap();
    assert!(
        last.starts_with(&format!("{} checks: ", RULES.len())),
        "{last}"
    );
    let verdicts = [
        "harmful",
        "bad",
        "consider",
        "obsolete",
        "cannot tell",
        "good",
        "not applicable",
    ];
    let headings: Vec<&str> = plain
        .lines()
        .filter(|line| verdicts.contains(line))
        .collect();
    let mut sorted = headings.clone();
    sorted.sort_by_key(|heading| verdicts.iter().position(|verdict| verdict == heading));
    assert_eq!(headings, sorted, "the worst first");

    // script(1), of bsdutils, is on every Debian; it runs a command on a terminal of its own.
    let on_terminal = |setting: &str| {
        let line = format!(
            "stty cols 80; {setting} {} tune --no-sample",
            tool().display()
        );
        let mut script = Command::new("script");
        script
            .args(["-qec", &line, "/dev/null"])
            .env_remove("NO_COLOR")
            .env("TERM", "xterm");
        text(&script.output().unwrap())
    };
    let coloured = on_terminal("");
    assert!(coloured.contains("\x1b[32mgood\x1b[0m"), "{coloured}");
    assert!(!on_terminal("NO_COLOR=1").contains("\x1b["));
    for line in coloured.lines().filter(|line| line.contains("2009")) {
        let visible: String = line
            .split("\x1b[")
            .map(|part| part.split_once('m').map_or(part, |(_, rest)| rest))
            .collect();
        assert!(visible.trim_end().chars().count() <= 80, "{visible}");
    }
}

#[test]
fn a_check_explains_itself() {
    let said = text(&tune(&["--no-sample", "--explain", "t21"]));
    for word in [
        "T21",
        "why",
        "source",
        "dated",
        "5.4 (2019)",
        "change",
        "undo",
        "risk",
        "somaxconn",
    ] {
        assert!(said.contains(word), "{word} is missing: {said}");
    }
}
