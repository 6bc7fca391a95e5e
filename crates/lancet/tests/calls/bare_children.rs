//! `lancet syscalls -f` on children that no function of the C library makes: they are followed from the system call that makes them.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Guest, LIMIT, Snapshot, TempDir, fixtures, installed, lancet, run, skip};
use crate::watch::{hooked, left};

/// What the children of the fixture ask for in all.
const ASKED: &str = "4800";

fn built(folder: &TempDir, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    if !installed(compiler) {
        skip("bare children", format!("no {compiler}"));
        return None;
    }
    let path = folder.join(compiler);
    let source = fixtures().join("c/bare_children.c");
    let mut command = Command::new(compiler);
    command.args(options).arg("-pthread").arg("-o").arg(&path);
    let output = command.arg(source).output().expect("a compiler");
    assert!(output.status.success(), "{compiler}: {output:?}");
    Some(path)
}

/// The options with which calls of getppid are counted in children, too.
const COUNTED: [&str; 9] = [
    "syscalls",
    "--hooks",
    "-f",
    "-c",
    "-U",
    "calls,name",
    "-e",
    "trace=getppid",
    "--max-wait=60s",
];

/// How often getppid was called, by a table.
fn counted(table: &str) -> Option<&str> {
    let row = table.lines().find(|line| line.ends_with("getppid"))?;
    row.split_whitespace().next()
}

#[test]
fn children_of_bare_system_calls_are_counted_from_their_first_call() {
    let folder = TempDir::new("bare-children");
    let compilers: [(&str, &[&str]); 2] = [("gcc", &["-O1"]), ("musl-gcc", &["-O1", "-s"])];
    for (compiler, options) in compilers {
        let Some(path) = built(&folder, compiler, options) else {
            continue;
        };
        let mut guest = Guest::ready(&mut Command::new(&path));
        let before = Snapshot::take(guest.pid);
        let mut command = lancet();
        command.args(COUNTED).args(["-p", &guest.pid.to_string()]);
        let watch = hooked(command);
        guest.tell("");
        guest.expect(&format!("answer {ASKED}"));
        let output = watch.interrupt();
        assert_eq!(
            counted(&output.stdout),
            Some(ASKED),
            "{compiler}: {output:?}"
        );
        assert_eq!(output.code(), 0, "{compiler}: {}", output.stderr);
        before.text_holds(guest.pid, "bare children");
        guest.tell("");
        assert!(guest.ends_well(), "{compiler}");
    }
}

/// The same of a program that lancet starts; and without `-f` the children run as if nothing was there.
#[test]
fn a_started_program_and_one_whose_children_are_left_alone_end_well() {
    let folder = TempDir::new("bare-children-started");
    let Some(path) = built(&folder, "gcc", &["-O1"]) else {
        return;
    };
    let script = format!("printf '\\n\\n' | {}", path.display());
    let mut command = lancet();
    command.args(COUNTED).args(["--", "sh", "-c", &script]);
    let output = run(&mut command, LIMIT);
    assert!(
        output.stdout.contains(&format!("answer {ASKED}")),
        "{output:?}"
    );
    assert_eq!(output.code(), 0, "{output:?}");
    // The shell asks once for itself, and once in the child that becomes the program.
    let all: u64 = counted(&output.stderr)
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    let own: u64 = ASKED.parse().expect("a number");
    assert!((own..own + 3).contains(&all), "{output:?}");
    let mut guest = Guest::ready(&mut Command::new(&path));
    let mut command = lancet();
    command.args(["syscalls", "--hooks", "-c", "-p", &guest.pid.to_string()]);
    let watch = hooked(command);
    guest.tell("");
    guest.expect(&format!("answer {ASKED}"));
    left(watch, "children that are left alone");
    guest.tell("");
    assert!(guest.ends_well());
}

/// Functions are counted in such children as well, though no system call is asked for.
#[test]
fn functions_are_counted_in_children_of_bare_system_calls() {
    let folder = TempDir::new("bare-children-functions");
    let Some(path) = built(&folder, "gcc", &["-O1", "-fno-inline"]) else {
        return;
    };
    let mut guest = Guest::ready(&mut Command::new(&path));
    let before = Snapshot::take(guest.pid);
    let mut command = lancet();
    command.args(["calls", "--budget", "100", "-f", "-c", "-x", "rounds@MAIN"]);
    command.args(["--max-wait", "60s", "-p", &guest.pid.to_string()]);
    let watch = hooked(command);
    guest.tell("");
    guest.expect(&format!("answer {ASKED}"));
    let output = watch.interrupt();
    // Each of them asks 50 times.
    let row = output.stdout.lines().find(|line| line.contains("rounds"));
    let calls = row.map(|row| row.split_whitespace().any(|word| word == "96"));
    assert_eq!(calls, Some(true), "{output:?}");
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(!output.stderr.contains("system calls at"), "{output:?}");
    before.text_holds(guest.pid, "bare children, functions");
    guest.tell("");
    assert!(guest.ends_well());
}
