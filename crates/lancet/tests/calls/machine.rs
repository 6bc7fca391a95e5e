//! What machine code does to whoever stands in its calls: a C++ program computes what it computes without us.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{
    Guest, Output, Snapshot, TempDir, Watch, fixtures, installed, join, skip, soak,
};
use crate::watch::{calls, hooked, left, left_with_losses, text_holds};

/// A program of `fixtures/c`, compiled once.
pub fn program(source: &str) -> Option<PathBuf> {
    built(source, &[])
}

/// The same with more for the compiler.
pub fn built(source: &str, more: &[&str]) -> Option<PathBuf> {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    join();
    if !installed("g++") {
        skip(source, "no g++");
        return None;
    }
    let folder = FOLDER.get_or_init(|| TempDir::new("calls"));
    let number = std::thread::current().id();
    let language = if source.ends_with(".c") { "c" } else { "c++" };
    let name = format!("{source}-{number:?}{}", more.concat());
    let path = folder.join(&name.replace(['(', ')'], ""));
    let mut compiler = Command::new("g++");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&path);
    compiler.args(["-x", language]);
    let avx = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" avx "));
    if avx {
        compiler.arg("-mavx");
    }
    compiler.arg(fixtures().join("c").join(source)).arg("-ldl");
    compiler.args(more);
    let output = compiler.output().expect("g++ runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(path)
}

/// A program of `fixtures/c` in one of its modes.
pub fn start(path: &PathBuf, mode: &str) -> Guest {
    let mut command = Command::new(path);
    command.arg(mode);
    let guest = Guest::start(mode, command);
    guest.expect("ready");
    guest
}

/// The same in all its modes: without us, hooked, counted; left in the middle and opened again.
fn holds(mode: &str, rounds: u64, what: &[&str]) {
    let leave = match mode {
        "signal_jumps" => left_with_losses,
        _ => left,
    };
    let ways = [&["-T"][..], &["-c"]].map(|show| {
        let mut arguments = vec!["-o", "/dev/null", "--max-wait", "30s"];
        arguments.extend(show);
        arguments.extend(what);
        arguments
    });
    computes_the_same("calls.cpp", mode, rounds, &ways, leave);
}

/// A fixture's mode gives the same answer bare, hooked in each of these ways, and opened and left while it works.
pub fn computes_the_same(
    fixture: &str,
    mode: &str,
    rounds: u64,
    ways: &[Vec<&str>],
    leave: fn(Watch, &str) -> Output,
) {
    let Some(path) = program(fixture) else {
        return;
    };
    let rounds = (rounds * if soak() { 10 } else { 1 }).to_string();
    let mut guest = start(&path, mode);
    guest.tell(&rounds);
    let truth = guest.find("answer ");
    for arguments in ways {
        let mut guest = start(&path, mode);
        let before = Snapshot::take(guest.pid);
        let watch = hooked(calls(guest.pid, arguments));
        guest.tell(&rounds);
        let answer = guest.find("answer ");
        assert_eq!(answer, truth, "{mode}, hooked, {arguments:?}");
        let output = leave(watch, mode);
        text_holds(&before, guest.pid, mode, &output);
        guest.ends_with_nothing(mode);

        let mut guest = start(&path, mode);
        guest.tell(&rounds);
        for _ in 0..3 {
            let watch = hooked(calls(guest.pid, arguments));
            leave(watch, mode);
        }
        let answer = guest.find("answer ");
        assert_eq!(answer, truth, "{mode}, hooked and left, {arguments:?}");
        guest.ends_with_nothing(mode);
    }
}

/// Hooks on the fixture's own functions.
const OWN: &[&str] = &["-x", "h_*"];

#[test]
fn exceptions_pass_through_hooked_functions() {
    let all = &["-x", "h_*", "-x", "__cxa_*", "-x", "malloc", "-x", "free"];
    holds("exceptions", 20_000, all);
}

#[test]
fn longjmp_leaves_hooked_functions() {
    holds(
        "jumps",
        60_000,
        &["-x", "h_*", "-x", "*longjmp*", "-x", "*setjmp*"],
    );
}

#[test]
fn contexts_are_switched_in_hooked_functions() {
    holds("ucontexts", 800, &["-x", "h_*", "-x", "*context"]);
}

#[test]
fn handlers_call_hooked_functions() {
    holds("signals", 300_000, OWN);
}

#[test]
fn handlers_leave_hooked_functions_by_longjmp() {
    holds("signal_jumps", 60_000, OWN);
}

#[test]
fn children_compute_as_if_nothing_were_hooked() {
    holds(
        "forks",
        300,
        &["-x", "h_*", "-x", "fork", "-x", "write", "-x", "_exit"],
    );
}

#[test]
fn children_of_vfork_run_other_programs() {
    holds(
        "vforks",
        200,
        &["-x", "h_*", "-x", "vfork", "-x", "exec*", "-x", "waitpid"],
    );
}

#[test]
fn threads_come_and_go_and_are_cancelled() {
    holds(
        "threads",
        300,
        &["-x", "h_*", "-x", "pthread_*", "-x", "read"],
    );
}

/// Its only thread is the one that works for us while the hook is set.
#[test]
fn a_thread_within_the_first_instructions_is_moved() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let mut guest = start(&path, "slow");
    let before = Snapshot::take(guest.pid);
    let rounds: u64 = 100_000_000;
    guest.tell(&rounds.to_string());
    for attach in 0..25 {
        let watch = hooked(calls(guest.pid, &["-c", "-x", "h_slow", "-o", "/dev/null"]));
        let output = left(watch, "slow");
        assert!(
            output.stderr.contains(" 1 of 1 functions hooked"),
            "attach {attach}: {}",
            output.stderr
        );
        text_holds(&before, guest.pid, "slow", &output);
    }
    assert_ne!(guest.state(), None, "it still runs: {}", guest.complaints());
}

#[test]
fn arguments_and_results_arrive_whatever_their_kind() {
    holds("abi", 6_000, OWN);
}
