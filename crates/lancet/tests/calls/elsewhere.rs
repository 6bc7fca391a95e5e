//! A guest in another PID namespace: its threads and children are told by the ids that they have with lancet, as strace tells them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Guest, TempDir, Watch, children, fixtures, installed, is_root, lancet, skip};
use crate::watch::{hooked, left};

const UNSHARED: [&str; 5] = ["-m", "-p", "-f", "--mount-proc", "--kill-child"];

/// Python in a namespace of its own, its id with us, and lancet that writes records of what is asked for into a file.
fn opened(out: &Path, arguments: &[&str]) -> Option<(Guest, i32, Watch)> {
    if !is_root() || !installed("unshare") {
        skip("ids of another PID namespace", "it needs root and unshare");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(UNSHARED).arg("python3");
    command.arg(fixtures().join("python/calls/elsewhere.py"));
    let guest = Guest::ready(&mut command);
    let [python] = children(guest.pid)[..] else {
        panic!("not one child");
    };
    let mut command = lancet();
    command.args(arguments).args(["-f", "--json", "-o"]);
    command.arg(out).args(["-p", &python.to_string()]);
    Some((guest, python, hooked(command)))
}

/// Process and thread of each record with these fields.
fn speakers(told: &str, fields: [(&str, &str); 2], text: &str) -> Vec<[i64; 2]> {
    let mut rows = Vec::new();
    for line in told.lines().filter(|line| line.contains(text)) {
        let record: Value = serde_json::from_str(line).expect("an object");
        if fields.iter().all(|(field, value)| record[field] == *value) {
            rows.push(["pid", "tid"].map(|field| record[field].as_i64().expect("a number")));
        }
    }
    rows
}

/// Those of its threads but the main one, and its only child.
fn others(python: i32) -> (Vec<i64>, i64) {
    let tasks = std::fs::read_dir(format!("/proc/{python}/task")).expect("it is there");
    let names = tasks.map(|task| task.expect("one").file_name());
    let threads = names.filter_map(|name| name.to_str()?.parse().ok());
    let [child] = children(python)[..] else {
        panic!("not one child");
    };
    let main = i64::from(python);
    (threads.filter(|one| *one != main).collect(), child.into())
}

#[test]
fn threads_and_children_are_told_by_lancets_own_ids() {
    let folder = TempDir::new("elsewhere");
    for by in ["hooks", "ptrace"] {
        let out = folder.join(by);
        let asked = ["syscalls", "--by", by, "-e", "%file"];
        let Some((mut guest, python, watch)) = opened(&out, &asked) else {
            return;
        };
        guest.tell("go");
        guest.expect("made");
        let (threads, child) = others(python);
        guest.tell("end");
        // What it calls itself.
        guest.expect("answer 1");
        left(watch, by);
        let told = std::fs::read_to_string(&out).expect("what was told");
        let of = |name, path| speakers(&told, [("record", "syscall"), ("name", name)], path);
        let python = i64::from(python);
        assert_eq!(of("newfstatat", "/of-main"), [[python; 2]], "{by}: {told}");
        let thread = [[python, threads[0]]];
        assert_eq!(of("newfstatat", "/of-thread"), thread, "{by}: {told}");
        assert_eq!(of("chdir", "/of-child"), [[child; 2]], "{by}: {told}");
        guest.ends_with_nothing(by);
    }
}

/// A child of vfork speaks in its parent's ring until it runs another program.
#[test]
fn children_of_vfork_are_told_by_lancets_own_ids() {
    let folder = TempDir::new("elsewhere-vfork");
    let out = folder.join("out");
    let asked = ["calls", "-x", "vfork", "-x", "execve", "-x", "waitpid"];
    let Some((mut guest, python, watch)) = opened(&out, &asked) else {
        return;
    };
    guest.tell("go");
    guest.expect("made");
    let (_, child) = others(python);
    guest.tell("end");
    guest.expect("answer 1");
    left(watch, "vfork");
    let told = std::fs::read_to_string(&out).expect("what was told");
    let of = |name| speakers(&told, [("record", "call"), ("function", name)], "");
    assert!(of("execve").contains(&[child; 2]), "{child}: {told}");
    let python = i64::from(python);
    assert!(of("waitpid").contains(&[python; 2]), "{python}: {told}");
    guest.ends_with_nothing("vfork");
}
