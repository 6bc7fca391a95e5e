//! `lancet syscalls -f`: programs whose calls BPF programs see, while their tracer sees what becomes of them. What is told is what the tracer
//! alone would tell, to the last struct, and nothing is lost, however fast a program makes calls.

use std::os::unix::process::CommandExt;
use std::process::Command;

use regex::Regex;

use crate::bpf::refused;
use crate::support::{LIMIT, Output, TempDir, installed, lancet, run, skip, until};

/// So many programs that the BPF programs are loaded among them.
const PROGRAMS: &str =
    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; done";

/// What is said if the kernel sees calls.
const BY_KERNEL: &str = "then by BPF programs";

fn may(test: &str) -> bool {
    match refused() {
        None => true,
        Some(reason) => {
            skip(test, reason);
            false
        }
    }
}

fn told(options: &[&str], script: &str, folder: &TempDir) -> (String, Output) {
    let out = folder.join("out");
    let mut command: Command = lancet();
    command.args(["syscalls", "-f"]).args(options).arg("-o");
    command.arg(&out).args(["--", "/bin/sh", "-c", script]);
    let output = run(command.current_dir(folder.join("")), LIMIT * 2);
    let text = std::fs::read_to_string(&out).expect("lines");
    (text, output)
}

/// The lines without ids, addresses and times, each call in one piece, in the order of the alphabet: when which process runs is the
/// kernel's to decide.
fn whole(text: &str) -> Vec<String> {
    let cut = Regex::new(r"^(.*) <unfinished \.\.\.>$").expect("a literal");
    let resumed = Regex::new(r"^<\.\.\. \w+ resumed>(.*)$").expect("a literal");
    let varies = Regex::new(r"0x[0-9a-f]{5,}|si_[us]time=\d+( /\* [0-9.]+ s \*/)?|\d{3,}|\s+")
        .expect("a literal");
    let mut open: Vec<(&str, String)> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').expect("an id");
        if let Some(found) = cut.captures(rest) {
            open.push((thread, found[1].to_owned()));
            continue;
        }
        let at = open.iter().position(|(of, _)| *of == thread);
        let line = match (resumed.captures(rest), at) {
            (Some(found), Some(at)) => open.remove(at).1 + &found[1],
            _ => rest.to_owned(),
        };
        lines.push(varies.replace_all(&line, "#").into_owned());
    }
    lines.extend(open.into_iter().map(|(_, line)| line));
    // What is random, processor time, and where the signal of a child's end comes in between.
    let random = [
        "getrusage(",
        "times(",
        "getrandom(",
        "getpeername(",
        "timerfd_settime(",
        "rt_sigreturn(",
    ];
    lines.retain(|line| !random.iter().any(|one| line.contains(one)));
    lines.sort();
    lines
}

/// Every call of the fixture that is held against strace, ends, signals, and who runs another program in its place: the same lines as by
/// ptrace alone, and the same end.
#[test]
fn lines_are_those_of_a_tracer() {
    let Some(calls) = crate::machine::program("syscalls.c").filter(|_| may("lines by BPF")) else {
        return;
    };
    let folder = TempDir::new("by-kernel");
    for (last, code, shows) in [
        (calls.display().to_string(), 0, "revents=POLL"),
        (
            "cat /etc/passwd | wc -l; (exit 3); ls -l / > /dev/null; exit 7".into(),
            7,
            "st_mode=S_IFDIR",
        ),
        (
            "exec /bin/sh -c 'kill -USR1 $$'".into(),
            128 + libc::SIGUSR1,
            "killed by SIGUSR1",
        ),
        (
            "trap 'exit 9' TERM; kill -TERM $$; sleep 100".into(),
            9,
            "--- SIGTERM {si_signo=SIGTERM",
        ),
    ] {
        let script = format!("{PROGRAMS}; {last}");
        let (ours, output) = told(&[], &script, &folder);
        assert!(output.stderr.contains(BY_KERNEL), "{}", output.stderr);
        assert!(ours.contains(shows), "{last}: {ours}");
        let (theirs, by_ptrace) = told(&["--by", "ptrace"], &script, &folder);
        assert_eq!(
            [output.code(), by_ptrace.code()],
            [code; 2],
            "{last}: {}",
            output.stderr
        );
        let (ours, theirs) = (whole(&ours), whole(&theirs));
        let only = |one: &[String], other: &[String]| {
            let mut other = other.to_vec();
            let mut only = one.to_vec();
            only.retain(|line| match other.iter().position(|known| known == line) {
                Some(at) => {
                    other.remove(at);
                    false
                }
                None => true,
            });
            only
        };
        let differ = [only(&ours, &theirs), only(&theirs, &ours)];
        assert!(differ.iter().all(Vec::is_empty), "{last}: {differ:#?}");
        assert!(ours.len() > 700, "{}", ours.len());
    }
}

/// A program that makes calls faster than they are told waits, and not one is lost; counted they are no fewer.
#[test]
fn no_call_is_lost_however_fast_they_are() {
    const EACH: usize = 60_000;
    if !may("many calls by BPF") || !installed("dd") {
        return;
    }
    let folder = TempDir::new("by-kernel-fast");
    let copy = format!("dd if=/dev/zero of=/dev/null bs=1 count={EACH} 2> /dev/null");
    let script = format!("{PROGRAMS}; {copy} & {copy} & wait; {copy}; exit 4");
    let (lines, output) = told(&["-e", "trace=write"], &script, &folder);
    assert_eq!(output.code(), 4, "{}", output.stderr);
    let written = Regex::new(r#"(?m)write\(1, "\\0", 1\) += 1$"#).expect("a literal");
    let cut = Regex::new(r"(?m)write resumed>\) += 1$").expect("a literal");
    let seen = written.find_iter(&lines).count() + cut.find_iter(&lines).count();
    assert_eq!(seen, 3 * EACH, "{}", output.stderr);
    assert!(!output.stderr.contains("lost"), "{}", output.stderr);
    assert!(!lines.contains("SI_KERNEL"), "a signal of lancet's own");
    let (table, output) = told(
        &["-c", "-U", "calls,name", "-e", "trace=write"],
        &script,
        &folder,
    );
    assert_eq!(output.code(), 4, "{}", output.stderr);
    let row = table
        .lines()
        .find(|line| line.trim_end().ends_with(" write"));
    let calls = row.and_then(|row| row.split_whitespace().next()?.parse().ok());
    // Each dd has three of its own to say what it has done.
    assert_eq!(calls, Some(3 * (EACH + 3)), "{table}");
}

/// What is read of a process while it makes a call is for its tracer, and scripts are for hooks.
#[test]
fn who_asks_for_more_has_a_tracer_or_hooks() {
    if !may("what is not by BPF") {
        return;
    }
    let folder = TempDir::new("by-kernel-not");
    for options in [&["-y"][..], &["-Y"], &["-P", "/etc/passwd"]] {
        let (_, output) = told(options, PROGRAMS, &folder);
        assert_eq!(output.code(), 0, "{options:?}: {}", output.stderr);
        assert!(
            !output.stderr.contains(BY_KERNEL),
            "{options:?}: {}",
            output.stderr
        );
    }
    if !installed("/usr/bin/python3") {
        return skip("scripts beside BPF", "no python3");
    }
    let script = folder.join("p.py");
    std::fs::write(&script, "import os\nos.chdir('/usr')\n").expect("written");
    let words = format!("{PROGRAMS}; /usr/bin/python3 {}; cd /", script.display());
    let (lines, output) = told(&["-e", "trace=chdir"], &words, &folder);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert_eq!(lines.matches("p.py:2").count(), 1, "{lines}");
    assert_eq!(lines.matches("chdir(").count(), 2, "{lines}");
}

/// Whoever kills lancet, or has it leave, at any point of its output leaves a tree of programs that do their work to the end.
#[test]
fn a_lancet_that_is_killed_leaves_programs_that_go_on() {
    if !may("a death beside BPF") || !installed("dd") {
        return;
    }
    let folder = TempDir::new("by-kernel-killed");
    let (out, result) = (folder.join("out"), folder.join("result"));
    let script = format!(
        "{PROGRAMS}; dd if=/dev/zero of=/dev/null bs=1 count=60000 2> /dev/null; /bin/true; echo $i > {}",
        result.display()
    );
    for (round, signal) in [libc::SIGKILL, libc::SIGINT, libc::SIGKILL, libc::SIGKILL]
        .into_iter()
        .enumerate()
    {
        let _ = (std::fs::remove_file(&out), std::fs::remove_file(&result));
        let mut command = lancet();
        command.args(["syscalls", "-f", "-o"]).arg(&out);
        command.args(["--", "/bin/sh", "-c", &script]);
        command.process_group(0).stderr(std::process::Stdio::null());
        let mut child = command.spawn().expect("lancet");
        let written = || std::fs::metadata(&out).map_or(0, |of| of.len());
        until(LIMIT, "some of its output", || {
            (written() > 60_000 * round as u64 || result.exists()).then_some(())
        });
        // SAFETY: our own child, which we have not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        child.wait().expect("its end");
        let done = until(LIMIT, "the end of the programs", || {
            let text = std::fs::read_to_string(&result).ok()?;
            text.ends_with('\n').then_some(text)
        });
        assert_eq!(done, "20\n", "round {round}");
    }
}
