//! A limit of lancet's own address space: one line and exit code 1, before it opens a process or while it works, and no hook is left.

use std::process::Command;

use crate::support::{Guest, LIMIT, Snapshot, installed, lancet, run, say, skip, soak};
use crate::watch::{calls, text_holds};

/// A Ruby that has a heap of some size, and calls many functions, with pauses between them.
fn large() -> Guest {
    let mut ruby = Command::new("ruby");
    let script = "all = Array.new(600_000) { |n| [n.to_s] }; $stdout.sync = true; puts :ready; loop { 50.times { [3, 1].sort }; sleep 0.001 }";
    let guest = Guest::start("large", ruby.args(["-e", script]));
    guest.expect("ready");
    guest
}

/// `lancet` with so many MiB of address space (`-v`), or of memory that it can write (`-d`).
fn limited(words: &[&str], pid: i32, (which, limit): (&str, u64)) -> Command {
    let mut shell = Command::new("bash");
    let script = format!("ulimit {which} {}; exec \"$@\"", limit << 10);
    shell
        .args(["-c", &script, "bash"])
        .arg(lancet().get_program());
    shell.args(words).args(["-p", &pid.to_string()]);
    shell
}

const COMMANDS: [&[&str]; 7] = [
    &["stack"],
    &["mem", "--for", "100ms"],
    &["heap", "--rss"],
    &["heap"],
    &["syscalls", "-o", "/dev/null", "--for", "100ms"],
    &["calls", "-x", "*", "-o", "/dev/null", "--for", "100ms"],
    &[
        "calls",
        "-c",
        "-x",
        "*",
        "-o",
        "/dev/null",
        "--for",
        "100ms",
    ],
];

#[test]
fn too_little_is_refused_before_a_process_is_opened() {
    let guest = large();
    let before = Snapshot::take(guest.pid);
    for (number, words) in COMMANDS.into_iter().enumerate() {
        let limit = [("-v", 100), ("-d", 60)][number % 2];
        let output = run(&mut limited(words, guest.pid, limit), LIMIT);
        assert_eq!(output.code(), 1, "{words:?}: {output:?}");
        let line = "lancet: the address space of lancet is limited (ulimit -v, -d): ";
        let lines = output.stderr.lines().count();
        assert!(output.stderr.starts_with(line) && lines == 1, "{output:?}");
    }
    before.holds(guest.pid, "refused");
}

/// Whatever it is doing when memory ends.
#[test]
fn what_ends_while_it_works_leaves_the_process() {
    let guest = large();
    let before = Snapshot::take(guest.pid);
    let mut ended = 0;
    for words in COMMANDS {
        for limit in (130..=330).step_by(if soak() { 40 } else { 80 }) {
            let output = run(&mut limited(words, guest.pid, ("-v", limit)), LIMIT);
            let code = output.code();
            assert!([0, 1, 4].contains(&code), "{limit}, {words:?}: {output:?}");
            if code == 1 {
                ended += 1;
                let last = output.stderr.lines().last().unwrap_or_default();
                let why = "(ulimit -v, -d)";
                assert!(last.contains(why), "{limit}, {words:?}: {output:?}");
            }
            let what = format!("{words:?}, {limit}: {}", output.stderr);
            text_holds(&before, guest.pid, &what, &output);
        }
    }
    say(format_args!("memory came to its end {ended} times"));
}

/// A process whose own limit leaves little address space: whatever is missing, the limit is what is named, with no advice that does not
/// help.
#[test]
fn a_limit_of_the_process_is_named() {
    if !installed("prlimit") {
        return skip("limit", "no prlimit");
    }
    let script = "$| = 1; print qq(ready\\n); my $n = <STDIN>; while (1) { getppid }";
    let mut named = Vec::new();
    for left in [8 << 10, 5 << 10, 3 << 10, 2 << 10] {
        let mut command = Command::new("perl");
        let mut guest = Guest::start("limit", command.args(["-e", script]));
        guest.expect("ready");
        let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid));
        let status = status.expect("it lives");
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let size: u64 = size
            .and_then(|size| size.split_whitespace().next()?.parse().ok())
            .expect("KiB");
        let limit = format!("--as={}", (size + left) << 10);
        let mut sets = Command::new("prlimit");
        let pid = guest.pid.to_string();
        assert_eq!(run(sets.args(["--pid", &pid, &limit]), LIMIT).code(), 0);
        guest.tell("");
        let what = ["-c", "-x", "getppid", "--for", "300ms"];
        let output = run(&mut calls(guest.pid, &what), LIMIT);
        let said = &output.stderr;
        assert!([0, 1, 4].contains(&output.code()), "{left}: {output:?}");
        if output.code() != 0 {
            assert!(said.contains("(RLIMIT_AS, "), "{left}: {said}");
            named.push(left);
        }
        for untrue in ["name fewer functions", "no free addresses within"] {
            assert!(!said.contains(untrue), "{left}: {said}");
        }
    }
    say(format_args!("named with {named:?} KiB left"));
    assert!(named.len() > 1, "{named:?}");
}
