//! Every call is counted, and every call is told: nothing twice, nothing lost, nothing of another.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use crate::machine::{program, start};
use crate::support::{LIMIT, Snapshot, TempDir, chosen, lancet, run, until};
use crate::watch::{calls, hooked, left, text_holds};

const THREADS: usize = 4;
const EACH: u64 = 250_000;

#[test]
fn a_million_calls_of_four_threads_are_counted() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let mut guest = start(&path, "many");
    let before = Snapshot::take(guest.pid);
    let watch = hooked(calls(guest.pid, &["-c", "-x", "h_numbered"]));
    guest.tell(&EACH.to_string());
    guest.find("answer ");
    let output = left(watch, "count");
    let row = output
        .stdout
        .lines()
        .find(|line| line.ends_with(" h_numbered"))
        .unwrap_or_else(|| panic!("no row: {}", output.stdout));
    let count = row.split_whitespace().rev().nth(1);
    assert_eq!(count, Some("1000000"), "{row}");
    text_holds(&before, guest.pid, "count", &output);
    guest.ends_with_nothing("count");
}

/// Hundreds of threads that begin at once, of none of which a hook knows anything yet.
#[test]
fn calls_of_threads_that_begin_at_once_are_counted() {
    let Some(path) = program("begins.c") else {
        return;
    };
    let folder = TempDir::new("begins");
    let out = folder.join("table");
    let mut command = lancet();
    command.args([
        "syscalls",
        "-c",
        "-U",
        "calls,name",
        "-e",
        "trace=getppid",
        "-o",
    ]);
    command.arg(&out).arg("--").arg(&path).arg("400");
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let table = std::fs::read_to_string(&out).expect("a table");
    let row = table.lines().find(|line| line.contains(" getppid"));
    assert_eq!(row.map(str::trim_start), Some("8400 getppid"), "{table}");
}

/// The heartbeat of a command is never taken for that of the one before, which the agent heard last too long ago.
#[test]
fn a_guest_that_is_opened_again_after_a_silence_is_heard() {
    let Some(perl) = chosen("perl", "exact").into_iter().next() else {
        return;
    };
    let mut guest = perl.start("asked", &[]);
    for round in 0..4 {
        if round > 0 {
            // The agent gives up a command that is silent for five seconds; here nobody beats.
            std::thread::sleep(Duration::from_millis(5500));
        }
        let watch = hooked(calls(guest.pid, &["-c", "-x", "Perl_looks_like_number"]));
        guest.tell("7");
        guest.expect("end");
        let output = left(watch, "again");
        let mut rows = output.stdout.lines();
        let total = rows.find(|row| row.ends_with(" total"));
        let calls = total.and_then(|row| row.split_whitespace().rev().nth(1));
        let calls: u64 = calls.and_then(|calls| calls.parse().ok()).unwrap_or(0);
        assert!(calls > 0, "round {round}: {output:?}");
    }
    guest.ends_with_nothing("again");
}

/// Each thread's calls come in its own order, each with its arguments and its result.
#[test]
fn a_million_calls_are_told_each_once_and_in_order() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let folder = TempDir::new("exact");
    let (conf, out) = (folder.join("exact.conf"), folder.join("out"));
    std::fs::write(&conf, "long h_numbered(int, long, double);\n").expect("a .conf");
    let mut guest = start(&path, "many");
    let (conf, out) = (conf.display().to_string(), out.display().to_string());
    let what = [
        "-x",
        "h_numbered",
        "-F",
        &conf,
        "-o",
        &out,
        "--max-wait",
        "30s",
    ];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell(&EACH.to_string());
    guest.find("answer ");
    left(watch, "told");
    guest.ends_with_nothing("told");
    let text = std::fs::read_to_string(&out).expect("what was told");
    check_numbered(&text, EACH);
}

/// The mapping of a stack that has grown begins elsewhere; what was called before still returns.
#[test]
fn a_call_returns_though_its_stack_has_grown() {
    let Some(path) = program("grows.cpp") else {
        return;
    };
    let folder = TempDir::new("grows");
    let out = folder.join("out");
    let mut guest = start(&path, "grows");
    let out_name = out.display().to_string();
    let watch = hooked(calls(guest.pid, &["-x", "h_*", "-o", &out_name]));
    let told = || std::fs::read_to_string(&out).unwrap_or_default();
    guest.tell("call");
    until(LIMIT, "the call", || {
        told().contains("h_outer(").then_some(())
    });
    guest.tell("go on");
    assert_eq!(guest.find("answer "), "10");
    left(watch, "grows");
    guest.ends_with_nothing("grows");
    let told = told();
    let is_back = |line: &str| line.starts_with("<... h_outer resumed>") && line.ends_with(" = 10");
    assert!(told.lines().any(is_back), "{told}");
}

/// These are the calls of `h_numbered` of the mode `many`, with the arguments and results they had.
pub fn check_numbered(text: &str, each: u64) {
    let mut next: HashMap<u64, u64> = HashMap::new();
    let mut results = 0;
    for line in text.lines() {
        if line.contains("h_numbered(") {
            let (_, arguments) = line.split_once("h_numbered(").expect("it is there");
            let numbers: Vec<&str> = arguments
                .split([',', ')', ' '])
                .filter(|word| !word.is_empty())
                .collect();
            let thread: u64 = numbers[0].parse().unwrap_or_else(|_| panic!("{line}"));
            let number: u64 = numbers[1].parse().unwrap_or_else(|_| panic!("{line}"));
            let half: f64 = numbers[2].parse().unwrap_or_else(|_| panic!("{line}"));
            let expected = next.entry(thread).or_default();
            assert_eq!(number, *expected, "thread {thread}: {line}");
            assert!((half - number as f64 / 2.0).abs() < 0.6, "{line}");
            *expected += 1;
            if let Some((_, result)) = line.rsplit_once(" = ") {
                assert_eq!(result.trim(), (number * 3 + thread).to_string(), "{line}");
            }
        }
        results += u64::from(line.contains(" = "));
    }
    assert_eq!(next.len(), THREADS, "threads");
    assert!(next.values().all(|count| *count == each), "{next:?}");
    assert_eq!(results, THREADS as u64 * each, "results");
}

/// Function, calls, failures and bytes of each row.
fn outcomes(table: &str) -> Vec<(String, u64, u64, u64)> {
    let rows = table
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|record| record["record"] == "row");
    let mut rows: Vec<_> = rows
        .map(|row| {
            let figure = |name: &str| row[name].as_u64().unwrap_or(u64::MAX);
            let name = row["function"].as_str().unwrap_or_default().to_owned();
            (name, figure("calls"), figure("failed"), figure("bytes"))
        })
        .collect();
    rows.sort();
    rows
}

/// What calls return is counted in the process as it is counted by us where each call is told.
#[test]
fn failures_and_bytes_are_counted() {
    let Some(path) = program("outcomes.c") else {
        return;
    };
    let folder = TempDir::new("outcomes");
    let file = folder.join("calls.lancet").display().to_string();
    let all = [
        ("calloc", 5, 0, 640),
        ("malloc", 20, 0, 20_000),
        ("open", 10, 7, 0),
        ("openat@SYS", 10, 7, 0),
        ("pread", 13, 1, 1200),
        ("pread64@SYS", 13, 1, 1200),
    ];
    let all = all.map(|(name, calls, failed, bytes)| (name.to_owned(), calls, failed, bytes));
    let names = [
        "malloc",
        "calloc",
        "open",
        "pread",
        "/^(openat|pread64)$/@SYS",
    ];
    let mut what = vec!["-c", "--json"];
    what.extend(names.iter().flat_map(|name| ["-x", *name]));
    let ways: [&[&str]; 4] = [
        &[],
        &["--sort", "failed"],
        // A call that is held until it has returned.
        &["--min-time", "1ns"],
        &["--record", &file],
    ];
    for more in ways {
        let mut guest = start(&path, "");
        let watch = hooked(calls(guest.pid, &[&what, more].concat()));
        guest.tell("go");
        guest.expect("done");
        let output = left(watch, "outcomes");
        let mut seen = outcomes(&output.stdout);
        // The shortest calls take less than a nanosecond by the counter, beside what is taken off for reading it.
        if more.contains(&"--min-time")
            && let Some(malloc) = seen.iter_mut().find(|row| row.0 == "malloc")
            && (15..20).contains(&malloc.1)
        {
            assert_eq!(malloc.3, malloc.1 * 1000, "{output:?}");
            (malloc.1, malloc.3) = (20, 20_000);
        }
        assert_eq!(seen, all, "{more:?}: {output:?}");
        guest.ends_with_nothing("outcomes");
    }
    let mut replay = lancet();
    replay.args(["calls", "-c", "--json", "--sort", "failed", &file]);
    let output = run(&mut replay, LIMIT);
    assert_eq!(outcomes(&output.stdout), all, "{output:?}");
}
