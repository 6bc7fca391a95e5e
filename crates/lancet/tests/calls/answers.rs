//! What `lancet syscalls` says where its answer is short: nothing came of what was asked for, something is in the way, or a program asks.

use std::process::Command;

use serde_json::Value;

use crate::machine::program;
use crate::support::{Guest, LIMIT, Output, lancet, run, until};
use crate::watch::{hooked, left};

fn syscalls(options: &[&str]) -> Command {
    let mut command = lancet();
    command.arg("syscalls").args(options);
    command
}

fn records(text: &str) -> Vec<Value> {
    let parsed =
        |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parsed).collect()
}

/// What it says that is not of hooks.
fn said(output: &Output) -> Vec<&str> {
    let of_hooks = ["hooked", "not seen", "calls are shown without the line"];
    let lines = output.stderr.lines();
    let other = lines.filter(|line| !of_hooks.iter().any(|words| line.contains(words)));
    other.collect()
}

/// Mistyped, a line and an injection look like an answer that nothing was called.
#[test]
fn what_came_from_no_line_is_said() {
    let words = |options: &[&str]| {
        let mut command = syscalls(options);
        command.args(["-e", "trace=chdir", "-o", "/dev/null", "--"]);
        command.args(["sh", "-c", "cd /; cd /tmp 2>/dev/null; :"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        said(&output).join("\n")
    };
    let no_line = "lancet: --at app.rb:12: no call came from this line";
    for counts in [&["--at", "app.rb:12"][..], &["--at", "app.rb:12", "-c"]] {
        assert_eq!(words(counts), no_line, "{counts:?}");
    }
    assert_eq!(
        words(&["--inject", "chdir:EIO@app.rb:12"]),
        "lancet: nothing was injected into chdir: none was called from app.rb:12"
    );
    assert_eq!(
        words(&["--inject", "chdir:EIO:when=3"]),
        "lancet: nothing was injected into chdir"
    );
    assert_eq!(words(&["--inject", "chdir:EIO:when=2"]), "");
}

/// A signal is an injection too, also where it ends the program in the call.
#[test]
fn what_a_signal_was_sent_to_was_injected_into() {
    let words = |caught: &str, when: &str| {
        let mut command = syscalls(&[]);
        command.args(["-e", "trace=getppid", "-o", "/dev/null", "--inject"]);
        command.arg(format!("getppid:signal=USR1{when}"));
        command.args(["--", "perl", "-e"]);
        command.arg(format!("{caught}; getppid for 1 .. 3"));
        said(&run(&mut command, LIMIT)).join("\n")
    };
    let nothing = "nothing was injected";
    for when in ["", ":when=2"] {
        for caught in ["$SIG{USR1} = sub {}", "$SIG{USR1} = 'DEFAULT'"] {
            let said = words(caught, when);
            assert!(!said.contains(nothing), "{caught} {when}: {said}");
        }
    }
    let said = words("$SIG{USR1} = sub {}", ":when=4");
    assert!(said.contains(nothing), "{said}");
}

/// Who made a call and what it is handed is found out behind the injection, which would reach calls that are not shown.
#[test]
fn an_injection_without_the_bounds_of_its_filter_is_refused() {
    for (flag, of) in [("-P", "/etc/hostname"), ("--in", "main")] {
        for strace in [&[][..], &["--strace"]] {
            let mut command = syscalls(&[flag, of]);
            command.args(strace).args(["-e", "trace=openat"]);
            command.args(["-e", "inject=openat:error=ENOSPC", "cat", "/etc/hosts"]);
            let output = run(&mut command, LIMIT);
            assert_eq!(output.code(), 2, "{flag} {strace:?}: {output:?}");
            assert_eq!(output.stdout, "", "{flag} {strace:?}: nothing was run");
            let why = format!("{flag} leaves calls out that would be injected into all the same");
            assert!(
                output.stderr.contains(&why),
                "{flag} {strace:?}: {output:?}"
            );
        }
    }
}

/// Of a process in which another lancet has hooked every place the second one says so in one line, and counts all the same.
#[test]
fn a_second_one_says_in_one_line_why_it_does_not_hook() {
    let guest = Guest::start("cat", Command::new("cat"));
    let pid = guest.pid.to_string();
    let first = hooked(syscalls(&["-c", "-p", &pid]));
    let output = run(&mut syscalls(&["-c", "-p", &pid, "--for", "100ms"]), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    let [line] = lines[..] else {
        panic!("{output:?}");
    };
    let why = "cannot be hooked (none of the ";
    assert!(
        line.contains(why) && line.contains("because another lancet (process "),
        "{line}"
    );
    left(first, "the first");
}

/// The table, what is waited for and what is left open, for programs.
#[test]
fn tables_are_told_to_programs() {
    let mut command = syscalls(&[
        "-c",
        "--json",
        "-e",
        "trace=chdir",
        "-o",
        "/dev/stdout",
        "--",
    ]);
    let output = run(command.args(["sh", "-c", "cd /; cd /nowhere || :"]), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let rows = records(&output.stdout);
    let kinds = |rows: &[Value]| -> Vec<String> {
        let kinds = rows.iter().filter_map(|row| row["record"].as_str());
        kinds.map(str::to_owned).collect()
    };
    let figures = |row: &Value| (row["calls"].as_u64(), row["errors"].as_u64());
    assert_eq!(
        kinds(&rows),
        ["process", "count", "sum", "losses"],
        "{rows:?}"
    );
    let command_line = serde_json::json!(["sh", "-c", "cd /; cd /nowhere || :"]);
    assert_eq!(rows[0]["command"], command_line);
    assert_eq!(rows[1]["name"], "chdir");
    for row in &rows[1..3] {
        assert_eq!(figures(row), (Some(2), Some(1)), "{rows:?}");
    }
    let mut command = syscalls(&["--leaks", "--json", "-o", "/dev/stdout", "--"]);
    let output = run(command.args(["sh", "-c", "exec 7</dev/null"]), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let kinds = kinds(&records(&output.stdout));
    assert_eq!(
        kinds[..3],
        ["process", "verdict", "descriptors"],
        "{output:?}"
    );
}

/// A thread in an uninterruptible wait cannot be stopped. It is told with its call, and with `-k` of `--leaks` the functions that have
/// opened what is left open stand where a script's line would.
#[test]
fn who_cannot_be_stopped_is_told() {
    let Some(path) = program("held.c") else {
        return;
    };
    let mut guest = Guest::ready(&mut Command::new(path));
    let pid = guest.pid.to_string();
    until(LIMIT, "it waits in vfork", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") D ").then_some(())
    });
    for command in [&["syscalls", "--blocked"][..], &["stack"]] {
        let output = run(lancet().args(command).args(["-p", &pid]), LIMIT);
        assert!(output.stdout.contains("vfork"), "{command:?}: {output:?}");
        assert!(!output.stderr.contains("does not stop"), "{output:?}");
    }
    let output = run(&mut syscalls(&["--blocked", "--json", "-p", &pid]), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let thread = &records(&output.stdout)[1];
    assert_eq!(thread["state"]["call"], "vfork", "{thread}");
    guest.tell("w");
    assert_eq!(guest.find("answer "), "w");
    let watch = hooked(syscalls(&["--leaks", "-k", "-p", &pid]));
    guest.tell("");
    assert_eq!(guest.find("answer "), "kept");
    let output = left(watch, "leaks by frames");
    let row = output.stdout.lines().find(|row| row.contains("openat@SYS"));
    assert!(
        row.is_some_and(|row| row.contains(" ← keeps ← main ← ")),
        "{output:?}"
    );
    guest.tell("");
    guest.ends_with_nothing("a thread that was held");
}
