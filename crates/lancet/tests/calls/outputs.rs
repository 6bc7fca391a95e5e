//! What is written where it cannot be written: one line and exit code 1 of every command, and the guest as it was.

use std::path::Path;
use std::process::Command;

use crate::support::{Guest, LIMIT, Output, Snapshot, TempDir, lancet, run};

/// A Perl that makes some system calls and `getppid` again and again, and says first that it does.
fn busy() -> Guest {
    let mut perl = Command::new("perl");
    let script =
        "$| = 1; print qq(ready\\n); while (1) { getppid; select undef, undef, undef, 0.001 }";
    let guest = Guest::start("busy", perl.args(["-e", script]));
    guest.expect("ready");
    guest
}

/// Has a shell do something before it becomes this program, or where `script` says so behind it.
fn from_shell(script: &str, program: &Command) -> Command {
    let mut shell = Command::new("bash");
    shell
        .args(["-c", script, "bash"])
        .arg(program.get_program());
    shell.args(program.get_args());
    shell
}

/// The command line parted by spaces, of this process and into this file.
fn of(line: &str, pid: i32, file: &Path) -> Command {
    let mut command = lancet();
    for word in line.split(' ') {
        match word {
            "PID" => command.arg(pid.to_string()),
            "FILE" => command.arg(file),
            word => command.arg(word),
        };
    }
    command
}

/// It ended with exit code 1, and its last line says so.
#[track_caller]
fn cannot(output: &Output, what: &str, why: &str) {
    assert_eq!(output.code(), 1, "{what}: {output:?}");
    let last = output.stderr.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("lancet: cannot write "),
        "{what}: {output:?}"
    );
    assert!(last.contains(why), "{what}: {output:?}");
}

/// The signal that the kernel sends with it ends a program that has said nothing about it.
#[test]
fn a_limit_for_the_size_of_files() {
    let folder = TempDir::new("file-size");
    let guest = busy();
    let before = Snapshot::take(guest.pid);
    for line in [
        "calls -x *@libc* --record FILE --for 50s -p PID",
        "calls -x getppid -o FILE --for 50s -p PID",
        "syscalls -o FILE --for 50s -p PID",
        "syscalls -ff -o FILE --for 50s -p PID",
        "heap --rss -o FILE -p PID",
        "stack --json -o FILE -p PID",
    ] {
        let file = folder.join("file");
        let command = from_shell("ulimit -f 1; exec \"$@\"", &of(line, guest.pid, &file));
        let output = run(&mut { command }, LIMIT);
        cannot(&output, line, "File too large (os error 27)");
        before.text_holds(guest.pid, line);
    }
}

/// A program has what the shell has given to it, although lancet itself outlives the signal.
#[test]
fn a_started_program_keeps_what_it_does_with_the_signal() {
    let mut grep = Command::new("grep");
    grep.args(["SigIgn", "/proc/self/status"]);
    for shell in ["exec \"$@\"", "trap '' XFSZ; exec \"$@\""] {
        let alone = run(&mut from_shell(shell, &grep), LIMIT);
        let mut with_us = lancet();
        with_us.args(["syscalls", "-c", "-o", "/dev/null", "--"]);
        with_us.arg(grep.get_program()).args(grep.get_args());
        let with_us = run(&mut from_shell(shell, &with_us), LIMIT);
        assert_eq!(
            (with_us.code(), with_us.stdout),
            (0, alone.stdout),
            "{shell}"
        );
    }
}
