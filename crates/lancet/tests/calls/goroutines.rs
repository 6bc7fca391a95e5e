//! Go: its code is not hooked, so that its calls are seen by ptrace, and counted by BPF where that is allowed; all of them, of every thread, and it does not mind.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Guest, LIMIT, Random, Snapshot, TempDir, fixtures, installed, lancet, run, skip, soak,
};

const ROUNDS: usize = 300;

fn program(folder: &TempDir) -> Option<PathBuf> {
    if !installed("go") {
        skip("syscalls of Go", "go is not installed");
        return None;
    }
    let path = folder.join("goroutines");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&path);
    go.arg(fixtures().join("go/goroutines.go"));
    let output = go.env("CGO_ENABLED", "0").output().expect("go runs");
    assert!(output.status.success(), "{output:?}");
    Some(path)
}

/// How often each call stands in the table of `-c`.
fn counted(mut tracer: Command, out: &Path, words: &[&str], name: &str) -> (u64, String) {
    tracer.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(out);
    let output = run(tracer.arg("--").args(words), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains("answer 0 true"), "{output:?}");
    let table = std::fs::read_to_string(out).expect("a table");
    let mut rows = table
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.last() == Some(&name));
    let calls = row.and_then(|row| row[0].parse().ok());
    (
        calls.unwrap_or_else(|| panic!("{name}: {table}")),
        output.stderr,
    )
}

#[test]
fn calls_of_goroutines_are_counted() {
    let folder = TempDir::new("goroutines");
    let Some(path) = program(&folder) else {
        return;
    };
    if !installed("strace") {
        return skip("syscalls of Go beside strace", "no strace");
    }
    let (path, rounds) = (path.display().to_string(), ROUNDS.to_string());
    let words = [path.as_str(), &rounds];
    let out = folder.join("out");
    let mut ours = lancet();
    ours.args(["syscalls", "--strace", "--hooks"]);
    let (ours, said) = counted(ours, &out, &words, "newfstatat");
    let table = std::fs::read_to_string(&out).expect("a table");
    let (theirs, _) = counted(Command::new("strace"), &out, &words, "newfstatat");
    assert_eq!((ours, theirs), (8 * ROUNDS as u64, 8 * ROUNDS as u64));
    // By which goroutines are preempted, and what hooks would not see.
    for name in ["tgkill", "rt_sigreturn", "clone"] {
        assert!(table.contains(name), "{name}: {table}");
    }
    assert!(said.contains("Go's stacks have no room for it"), "{said}");
    let ways = ["seen by BPF programs", "seen by ptrace"];
    assert!(ways.iter().any(|way| said.contains(way)), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!said.contains("not seen:"), "all is seen: {said}");
}

#[test]
fn goroutines_are_opened_and_left_again_and_again() {
    let folder = TempDir::new("goroutines-left");
    let Some(path) = program(&folder) else {
        return;
    };
    let mut guest = Guest::start("goroutines", Command::new(path));
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let mut random = Random::new("goroutines");
    for round in 0..if soak() { 1000 } else { 40 } {
        let mut command = lancet();
        command.args(["syscalls", "-p", &guest.pid.to_string()]);
        command.args([&["-c"][..], &["-f", "-o", "/dev/null"]][round % 2]);
        command.args(["--for", &format!("{}ms", random.below(20) + 1)]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "round {round}: {output:?}");
    }
    before.text_holds(guest.pid, "goroutines");
    guest.tell("");
    guest.ends_with("answer 0 true");
}
