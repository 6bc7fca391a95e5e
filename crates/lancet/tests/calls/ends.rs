//! A guest that ends takes nothing along: what it called before is read, and what it counted, whatever way it ends.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::machine::program;
use crate::support::{Guest, TempDir, fixtures, rubies, skip};
use crate::watch::{calls, counted, hooked};

const ROUNDS: u64 = 3000;
/// Nothing may be lost, however busy the machine.
const PATIENT: &[&str] = &["--max-wait", "30s"];

/// The ways, with what the process ends with; `None` = by a signal.
const WAYS: [(&str, Option<i32>); 8] = [
    ("return", Some(7)),
    ("exit", Some(7)),
    ("_exit", Some(7)),
    ("quick_exit", Some(7)),
    ("threads", Some(7)),
    ("abort", None),
    ("kill", None),
    ("segv", None),
];

fn start(mode: &str) -> Option<Guest> {
    let path = program("family.cpp")?;
    let mut command = Command::new(path);
    command.args([mode, &ROUNDS.to_string(), "wait"]);
    let guest = Guest::start(mode, command);
    guest.expect("ready");
    Some(guest)
}

#[test]
fn what_was_called_is_told_to_the_last_call() {
    for (mode, code) in WAYS {
        let Some(mut guest) = start(mode) else {
            return;
        };
        let folder = TempDir::new("ends");
        let out = folder.join("out");
        let mut what = vec!["-x", "h_round", "-o", out.to_str().expect("plain")];
        what.extend(PATIENT);
        let watch = hooked(calls(guest.pid, &what));
        guest.tell("");
        let (_, status) = guest.end();
        assert_eq!(status.code(), code, "{mode}");
        let output = watch.end();
        assert_eq!(output.code(), 0, "{mode}: {}", output.stderr);
        let text = std::fs::read_to_string(&out).expect("what was told");
        let told = text.lines().filter(|line| line.contains("h_round("));
        assert_eq!(told.count() as u64, ROUNDS, "{mode}: {}", output.stderr);
        if let Some(code) = code {
            let last = format!("+++ exited (status {code}) +++");
            assert!(text.ends_with(&(last + "\n")), "{mode}: {text}");
        }
    }
}

#[test]
fn what_was_counted_is_read() {
    for (mode, code) in WAYS {
        let Some(mut guest) = start(mode) else {
            return;
        };
        let mut what = vec!["-c", "-x", "h_round"];
        what.extend(PATIENT);
        let watch = hooked(calls(guest.pid, &what));
        guest.tell("");
        let (_, status) = guest.end();
        assert_eq!(status.code(), code, "{mode}");
        let output = watch.end();
        assert_eq!(output.code(), 0, "{mode}: {}", output.stderr);
        let count = counted(&output.stdout, "h_round");
        assert_eq!(count, ROUNDS, "{mode}: {}", output.stdout);
    }
}

/// A script's exit code is what it is without us, and its last lines are seen.
#[test]
fn a_script_that_exits_is_read_to_its_end() {
    for ruby in rubies("calls ends") {
        for way in ["exit 5", "exit! 5", "abort", "raise 'x'"] {
            let script = format!(
                "$stdout.sync = true; puts 'ready'; gets; 500.times {{ |i| $stdout.write(\"line #{{i}}\\n\") }}; {way}"
            );
            let run = |watched: bool| {
                let mut command = ruby.command();
                command.args(["-e", &script]);
                let mut guest = Guest::start(way, command);
                guest.expect("ready");
                let mut what = vec!["-x", "write"];
                what.extend(PATIENT);
                let watch = watched.then(|| hooked(calls(guest.pid, &what)));
                guest.tell("");
                let (lines, status) = guest.end();
                (lines.len(), status.code(), watch.map(|watch| watch.end()))
            };
            let (lines, code, _) = run(false);
            let (lines_watched, code_watched, output) = run(true);
            assert_eq!((lines, code), (lines_watched, code_watched), "{ruby} {way}");
            let output = output.expect("it was watched");
            let told = output.stdout.matches("write(1, \"line ").count();
            assert_eq!(told, 500, "{ruby} {way}: {}", output.stderr);
        }
    }
}

/// A program that a signal ends is said to have ended by it; and if that is a fault while one of its threads is in a hook, that is said, too.
#[test]
fn a_program_that_a_signal_ends() {
    let Some(program) = program("vanishing.c") else {
        return;
    };
    let conf = fixtures().join("c/vanishing.conf").display().to_string();
    let texts = ["-x", "van_text", "-F", &conf];
    let reads = ["syscalls", "-e", "trace=read", "-o", "/dev/null"];
    // A process whose core is written ends later than its memory.
    let folder = TempDir::new("core");
    for (mode, way, by, code, core) in [
        ("", &texts[..], Signal::SIGSEGV, 0, "0"),
        ("", &texts, Signal::SIGSEGV, 0, "$(ulimit -H -c)"),
        // Its first thread waits in a call that is recorded, and is in no hook; other threads make other calls.
        ("", &reads, Signal::SIGSEGV, 0, "0"),
        ("held", &texts, Signal::SIGTERM, 0, "0"),
        ("held", &texts, Signal::SIGSEGV, 4, "0"),
        ("held", &texts, Signal::SIGSEGV, 4, "$(ulimit -H -c)"),
    ] {
        let mut command = Command::new("sh");
        let limited = format!("ulimit -S -c {core}; exec \"$0\" \"$1\"");
        command.args(["-c", &limited]).arg(&program).arg(mode);
        command.current_dir(folder.join(""));
        let mut guest = Guest::start(mode, command);
        if guest.line().as_deref() != Some("ready") {
            skip("calls ends", "userfaultfd is not allowed");
            continue;
        }
        let watch = hooked(calls(guest.pid, way));
        if mode == "held" {
            guest.tell("go");
            guest.expect("held");
        } else {
            guest.settle_in_read();
        }
        let pid = guest.pid;
        guest.signal(by);
        let (_, status) = guest.end();
        assert_eq!(status.signal(), Some(by as i32));
        let output = watch.end();
        let what = format!("{mode} {by}: {}", output.stderr);
        assert_eq!(output.code(), code, "{what}");
        let says = format!("lancet: process {pid} was ended by {by}");
        assert_eq!(output.stderr.matches(&says).count(), 1, "{what}");
        let hook = "a thread of it was in a hook of lancet's then";
        assert_eq!(output.stderr.contains(hook), code == 4, "{what}");
    }
}
