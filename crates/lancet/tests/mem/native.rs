//! `mem --native`: births, deaths and bytes by function, against a ledger that the program keeps itself (`fixtures/c/blocks.cpp`).

mod family;
mod scripts;
mod totals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::killed::spin;
use crate::support::{
    Guest, LIMIT, Random, Snapshot, TempDir, Watch, fixtures, installed, lancet, mem, refused,
    rounds, run, skip,
};

/// Born, living, and bytes of the living, by function.
type Ledger = BTreeMap<String, [i64; 3]>;

/// The program, built with these flags; `None` = there is no compiler for it.
fn built(folder: &TempDir, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    if !installed(compiler) {
        skip("native", format!("no {compiler}"));
        return None;
    }
    let path = folder.join("blocks");
    let mut command = Command::new(compiler);
    command.args(["-O1", "-pthread", "-o"]).arg(&path);
    command.arg(fixtures().join("c/blocks.cpp")).args(flags);
    let output = command.output().expect("a compiler");
    assert!(output.status.success(), "{output:?}");
    Some(path)
}

fn guest(program: &PathBuf, arguments: &[&str]) -> Guest {
    let guest = Guest::start("blocks", Command::new(program).args(arguments));
    guest.expect("ready");
    guest
}

/// The program with another allocator in the place of the C library's; `None` = that is not installed.
fn guest_with(program: &PathBuf, allocator: &str) -> Option<Guest> {
    let path = PathBuf::from("/usr/lib/x86_64-linux-gnu").join(allocator);
    if !path.exists() {
        skip("native", format!("no {allocator}"));
        return None;
    }
    let mut command = Command::new(program);
    let guest = Guest::start("blocks", command.env("LD_PRELOAD", path));
    guest.expect("ready");
    Some(guest)
}

fn native(pid: i32) -> Command {
    let mut command = mem(pid);
    command.arg("--native");
    command
}

/// Starts what follows, with its report in this file.
fn started(report: &Path, options: &[&str]) -> Command {
    let mut command = lancet();
    command
        .args(["mem", "--native", "--json", "-o"])
        .arg(report);
    command.args(options).arg("--");
    command
}

/// Has the program do one round; its ledger.
fn round(guest: &mut Guest) -> Ledger {
    round_of(guest, "round")
}

fn round_of(guest: &mut Guest, what: &str) -> Ledger {
    guest.tell(what);
    let mut ledger = Ledger::new();
    loop {
        let line = guest.line().expect("a line of its ledger");
        if line == "done" {
            return ledger;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().expect("a number");
        ledger.insert(words[0].to_owned(), [number(1), number(2), number(3)]);
    }
}

/// The rows of the last look.
fn rows(report: &str) -> Ledger {
    let mut rows = Ledger::new();
    for line in report.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        match record["record"].as_str() {
            Some("process") => rows.clear(),
            Some("row") => {
                let function = record["place"]["function"].as_str().unwrap_or("?");
                let number = |key: &str| record[key].as_i64().expect("a number");
                let counts = ["born", "live", "bytes"].map(number);
                rows.insert(function.to_owned(), counts);
            }
            Some("loss") => panic!("{line}"),
            _ => {}
        }
    }
    rows
}

/// What is in `after` and was not in `before`.
fn since(before: &Ledger, after: &Ledger) -> Ledger {
    let since = after.iter().map(|(name, counts)| {
        let earlier = before.get(name).copied().unwrap_or_default();
        let change = [0, 1, 2].map(|at| counts[at] - earlier[at]);
        (name.clone(), change)
    });
    since.collect()
}

/// Functions of an allocator: no block is theirs, because each counts for its caller.
const OF_ALLOCATORS: [&str; 7] = [
    "operator new",
    "malloc",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
];

/// The functions of the ledger have these figures, and no block is counted for its caller and for the allocator too.
fn equal(report: &str, ledger: &Ledger, what: &str) {
    let rows = rows(report);
    let twice = rows.keys().find(|name| {
        let name = name.trim_start_matches('_').trim_start_matches("libc_");
        OF_ALLOCATORS.iter().any(|known| name.starts_with(known))
    });
    assert_eq!(twice, None, "{what}: {rows:?}");
    for (name, counts) in ledger {
        let found = rows.get(name).copied().unwrap_or_default();
        assert_eq!(
            found, *counts,
            "{what}: {name} (born, live, bytes): {rows:?}"
        );
    }
}

/// Watches the program for some rounds.
fn watched(guest: &mut Guest, rounds: u32, what: &str) {
    let before = round(guest);
    let watch = Watch::open(native(guest.pid));
    let mut after = Ledger::new();
    (0..rounds).for_each(|_| after = round(guest));
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
    equal(&output.stdout, &since(&before, &after), what);
}

/// All ways to take a block and to give it back: sizes of 0, blocks that are moved or refused, from other threads, from a handler, in a child that
/// is not followed, beside exceptions.
#[test]
fn births_and_deaths_are_those_of_the_programs_own_ledger() {
    let folder = TempDir::new("native");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut guest = guest(&program, &[]);
    // The C library handles a signal more since the first thread.
    round(&mut guest);
    let before = Snapshot::take(guest.pid);
    watched(&mut guest, 3, "at rest");
    before.holds(guest.pid, "after the first");
    // What was there at the second attach has no birth, and its death is none of a row.
    watched(&mut guest, 1, "again");
    before.holds(guest.pid, "after the second");
    guest.tell("");
    guest.ends_with("answer 42");
}

/// Allocators that are loaded before the C library: they have the C++ operators themselves.
#[test]
fn blocks_of_other_allocators_are_counted_alike() {
    let folder = TempDir::new("native-others");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    for allocator in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let Some(mut guest) = guest_with(&program, allocator) else {
            continue;
        };
        round(&mut guest);
        watched(&mut guest, 2, allocator);
        guest.tell("");
        guest.ends_with("answer 42");
    }
}

/// The C library is in the program, with its symbols; in one without there is nothing to hook.
#[test]
fn a_static_program_is_counted_by_its_symbols() {
    let folder = TempDir::new("native-static");
    let Some(program) = built(&folder, "g++", &["-static"]) else {
        return;
    };
    let mut static_guest = guest(&program, &[]);
    let before = round(&mut static_guest);
    let watch = Watch::open(native(static_guest.pid));
    let after = round(&mut static_guest);
    let output = watch.interrupt();
    equal(&output.stdout, &since(&before, &after), "static");
    static_guest.tell("");
    static_guest.ends_with("answer 42");
    let Some(program) = built(&folder, "g++", &["-static", "-s"]) else {
        return;
    };
    let stripped = guest(&program, &[]);
    let text = format!(
        "lancet: process {} cannot be opened: no allocator is found in it: no program or library of it has malloc, calloc, realloc and free by name (a static program without symbols, or one that calls the kernel alone)",
        stripped.pid
    );
    refused(native(stripped.pid), &text);
    stripped.ends_with("answer 42");
}

/// Under load of two threads that do nothing else, and killed in the middle: the next attach counts from its own beginning, and the memory of
/// what was counted is given back.
#[test]
fn many_attaches_and_kills_leave_nothing_behind() {
    let folder = TempDir::new("native-cycles");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut guest = guest(&program, &["threads"]);
    let before = Snapshot::take(guest.pid);
    watched(&mut guest, 1, "the first");
    let resident = guest.resident();
    let mut random = Random::new("native");
    for _ in 0..rounds(10, 300) {
        let mut command = native(guest.pid);
        command.args(["--for", "5ms"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        let watch = Watch::start(native(guest.pid));
        spin(random.below(40_000));
        watch.kill();
    }
    watched(&mut guest, 1, "the last");
    let grown = guest.resident().saturating_sub(resident);
    assert!(grown < 4 << 20, "{grown} bytes more are in use");
    before.text_holds(guest.pid, "after all");
    guest.tell("");
    guest.ends_with("answer 42");
}

/// Each new thread takes a ring over, which has no room to say of some thousand of them who they are.
#[test]
fn threads_that_come_and_go_are_all_counted() {
    let folder = TempDir::new("native-short");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut guest = guest(&program, &[]);
    let before = round(&mut guest);
    let watch = Watch::open(native(guest.pid));
    let after = round_of(&mut guest, "short");
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    equal(&output.stdout, &since(&before, &after), "short threads");
    guest.tell("");
    guest.ends_with("answer 42");
}

/// A child has the parent's rings, some of which it shares with it, and is opened itself; then the parent's agent is used again.
#[test]
fn a_child_of_a_traced_parent_has_its_own_counts() {
    let folder = TempDir::new("native-child");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut guest = guest(&program, &[]);
    round(&mut guest);
    let mut calls = lancet();
    calls.args(["calls", "-p", &guest.pid.to_string(), "-x", "malloc"]);
    let mut calls = Watch::start(calls);
    calls.until("lancet: process ");
    // The parent's threads have rings, in memory that the child shares.
    round(&mut guest);
    guest.tell("child");
    let child: i32 = guest.find("child ").parse().expect("a process id");
    let before = round(&mut guest);
    let watch = Watch::open(native(child));
    let after = round(&mut guest);
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    equal(&output.stdout, &since(&before, &after), "the child");
    calls.interrupt();
    // The parent waits for the child, and its words are its own.
    let output = run(native(guest.pid).args(["--for", "20ms"]), LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let after = round(&mut guest);
    assert!(!after.is_empty());
    guest.tell("");
    guest.ends_with("answer 42");
}

/// What is noted of blocks would be locked too, or take addresses that the program needs itself.
#[test]
fn a_program_without_room_for_what_is_noted_is_refused() {
    let folder = TempDir::new("native-room");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -v 100000; exec \"$0\""])
        .arg(&program);
    let mut guest = Guest::start("blocks", &mut limited);
    guest.expect("ready");
    let text = format!(
        "lancet: process {} cannot be opened: its limit of address space (RLIMIT_AS, RLIMIT_DATA, or overcommit_memory=2) leaves too little for what is noted of its blocks",
        guest.pid
    );
    refused(native(guest.pid), &text);
    guest.tell("");
    guest.ends_with("answer 42");
}

/// A program that ends while it is watched is looked at once more before.
#[test]
fn what_a_program_holds_at_its_end_is_reported() {
    let folder = TempDir::new("native-end");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut guest = guest(&program, &[]);
    let watch = Watch::open(native(guest.pid));
    let ledger = round(&mut guest);
    guest.tell("");
    guest.ends_with("answer 42");
    let output = watch.end();
    let (reports, lost): (Vec<&str>, Vec<&str>) = output
        .stdout
        .lines()
        .partition(|line| !line.contains("\"record\":\"loss\""));
    assert!(
        lost.len() == 1 && lost[0].contains("has ended since"),
        "{lost:?}"
    );
    equal(&reports.join("\n"), &ledger, "at its end");
}

/// A program that is started is counted from its first own instruction on, and what it has not given back at its end is no loss.
#[test]
fn a_started_program_is_counted_to_its_end() {
    let folder = TempDir::new("native-started");
    for (number, flags) in [&[][..], &["-static"]].into_iter().enumerate() {
        let Some(program) = built(&folder, "g++", flags) else {
            return;
        };
        let report = folder.join(&format!("report-{number}"));
        let mut command = started(&report, &[]);
        command.arg(&program);
        let mut started = Guest::start("blocks", &mut command);
        started.expect("ready");
        let ledger = round(&mut started);
        started.tell("");
        started.ends_with("answer 42");
        let report = std::fs::read_to_string(&report).expect("a report");
        equal(&report, &ledger, "started");
    }
}

/// A script that ends in `exec`: the next program has a watch of its own.
#[test]
fn a_program_that_is_run_next_is_watched_anew() {
    let folder = TempDir::new("native-next");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let report = folder.join("report");
    let mut command = started(&report, &[]);
    command.args(["sh", "-c", "exec \"$0\""]).arg(&program);
    let mut guest = Guest::start("blocks", &mut command);
    guest.expect("ready");
    let ledger = round(&mut guest);
    guest.tell("");
    // What the shell held is told with a loss, because it runs another program since.
    let (lines, status) = guest.end();
    assert_eq!((&*lines[0], status.code()), ("answer 42", Some(4)));
    let report = std::fs::read_to_string(&report).expect("a report");
    let last = report.rfind("{\"record\":\"process\"").expect("records");
    equal(&report[last..], &ledger, "the next");
    let look = report[last..].lines().nth(1).unwrap_or_default();
    let look: Value = serde_json::from_str(look).expect("its look");
    let watched = look["watched_ns"].as_u64().expect("a number");
    assert!(watched > 1_000_000, "{look}");
}

/// The program's own exit code is handed on; one without an allocator of its own runs all the same, and it is said why nothing was counted.
#[test]
fn a_started_program_ends_as_it_would() {
    let mut command = lancet();
    command.args(["mem", "--native", "--", "sh", "-c", "exit 7"]);
    assert_eq!(run(&mut command, LIMIT).code(), 7);
    let folder = TempDir::new("native-none");
    let Some(program) = built(&folder, "g++", &["-static", "-s"]) else {
        return;
    };
    let mut command = lancet();
    command.args(["mem", "--native", "--"]).arg(&program);
    let output = run(command.stdin(std::process::Stdio::null()), LIMIT);
    assert_eq!(output.code(), 4, "{}", output.stderr);
    assert!(output.stdout.ends_with("answer 42\n"), "{}", output.stdout);
    assert!(
        output
            .stderr
            .contains("cannot be opened: no allocator is found in it"),
        "{}",
        output.stderr
    );
}
