//! A thread that takes from itself what hooks need: the time stamp counter, system calls. Hooks that went on would end it, so lancet
//! leaves the process before; also where that was done before lancet came, and nobody can see it from outside.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine::{program, start};
use crate::support::{Guest, LIMIT, Snapshot, TempDir, Watch, lancet, run, soak};
use crate::watch::{calls, hooked, left};

const WAYS: [&[&str]; 4] = [
    &[
        "calls",
        "-x",
        "strtol",
        "--max-wait",
        "30s",
        "-o",
        "/dev/null",
    ],
    &["calls", "-c", "-x", "strtol", "-x", "locked_within"],
    &["syscalls", "--max-wait", "30s", "-o", "/dev/null"],
    &["syscalls", "-f", "-c", "-U", "calls,errors,name"],
];

/// Each of the fixture's modes that lock it, and what is said.
const MODES: [(&str, &str); 6] = [
    ("dispatch", "has a handler of its own for system calls"),
    ("tsc", "forbids itself the time stamp counter"),
    ("strict", "forbids itself the time stamp counter"),
    ("filter", "sets a seccomp filter that does not allow mmap"),
    ("seccomp", "sets a seccomp filter that does not allow mmap"),
    ("vfork", "sets a seccomp filter"),
];

/// The guest as it was before, the guest, and lancet at work on it.
fn opened(mode: &str, way: &[&str]) -> Option<(Snapshot, Guest, Watch)> {
    let guest = start(&program("locked.c")?, mode);
    let before = Snapshot::take(guest.pid);
    let command = match way {
        ["calls", rest @ ..] => calls(guest.pid, rest),
        _ => {
            let mut command = lancet();
            command.args(way).args(["-p", &guest.pid.to_string()]);
            command
        }
    };
    let watch = hooked(command);
    Some((before, guest, watch))
}

/// Has a guest of this mode go on while it is watched in this way, until lancet has left it by itself: what lancet said. The guest computes what it
/// computes alone, and is as it was. `None`: there is no compiler.
fn left_by_itself(mode: &str, way: &[&str]) -> Option<String> {
    let what = format!("{mode} {way:?}");
    let (before, mut guest, watch) = opened(mode, way)?;
    guest.tell("go");
    guest.expect("answer 22000");
    let output = watch.end();
    assert_eq!(output.code(), 4, "{what}: {}", output.stderr);
    before.text_holds(guest.pid, &what);
    guest.ends_with_nothing(&what);
    Some(output.stderr)
}

#[test]
fn a_thread_that_locks_itself_is_left_before() {
    for (at, (mode, says)) in MODES.into_iter().enumerate() {
        // Each mode and each way is there, not each with each.
        let ways = WAYS.into_iter().skip(if soak() { 0 } else { at % 2 });
        for way in ways.step_by(if soak() { 1 } else { 2 }) {
            let Some(said) = left_by_itself(mode, way) else {
                return;
            };
            assert!(said.contains(says), "{mode} {way:?}: {said}");
        }
    }
}

/// It is left at the first call that is hooked, whichever thread makes it, and whether it has that from the one that made it.
#[test]
fn a_thread_that_was_locked_before() {
    let says = "forbids itself the time stamp counter";
    for (at, mode) in ["earlier", "inherited"].into_iter().enumerate() {
        let ways = WAYS.into_iter().skip(if soak() { 0 } else { at });
        for way in ways.step_by(if soak() { 1 } else { 2 }) {
            let Some(said) = left_by_itself(mode, way) else {
                return;
            };
            assert_eq!(said.matches(says).count(), 1, "{mode} {way:?}: {said}");
        }
    }
}

/// A filter that allows what hooks do is no reason to leave, nor is a call that only asks whether there are filters.
#[test]
fn what_does_no_harm() {
    for (mode, way) in ["harmless", "probes"]
        .into_iter()
        .flat_map(|mode| WAYS.map(|way| (mode, way)))
    {
        let Some((_, mut guest, watch)) = opened(mode, way) else {
            return;
        };
        guest.tell("go");
        guest.expect("answer 22000");
        let output = left(watch, mode);
        let says = ["seccomp", "forbids"].map(|word| output.stderr.contains(word));
        assert_eq!(says, [false; 2], "{mode} {way:?}: {}", output.stderr);
        guest.ends_with_nothing(mode);
    }
}

/// Where a filter forbids nothing but the system call that copies what arguments lead to, hooks do without it, whether the filter was there
/// before or is set meanwhile: texts are addresses, and the loss says how many.
#[test]
fn a_filter_that_forbids_copies_alone() {
    for mode in ["copies", "uncopied"] {
        let folder = TempDir::new("copies");
        let out = folder.join("out").display().to_string();
        let way = ["calls", "-x", "strtol", "--max-wait", "30s", "-o", &out];
        let Some((before, mut guest, watch)) = opened(mode, &way) else {
            return;
        };
        guest.tell("go");
        guest.expect("answer 22000");
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{mode}: {}", output.stderr);
        let loss =
            " pieces of memory that arguments lead to were not read, because a seccomp filter";
        assert_eq!(
            output.stderr.matches(loss).count(),
            1,
            "{mode}: {}",
            output.stderr
        );
        let shown = std::fs::read_to_string(&out).expect("what was shown");
        let [texts, addresses] =
            ["strtol(\"1\"", "strtol(0x"].map(|call| shown.matches(call).count());
        // Those before the filter was set have their texts.
        let expected = if mode == "copies" { 1000 } else { 0 };
        assert_eq!([texts, texts + addresses], [expected, 22000], "{mode}");
        before.text_holds(guest.pid, mode);
        guest.ends_with_nothing(mode);
    }
}

/// A thread whose system calls go to a handler of the program's own makes none for us, and runs no hooks, which make some.
#[test]
fn a_process_that_has_a_handler_for_system_calls() {
    let Some(program) = program("locked.c") else {
        return;
    };
    for (mode, whose) in [
        ("dispatched", "its main thread"),
        ("before", "one of its threads"),
    ] {
        let mut guest = start(&program, mode);
        let before = Snapshot::take(guest.pid);
        let output = run(&mut calls(guest.pid, &["-x", "strtol"]), LIMIT);
        assert_eq!(output.code(), 1, "{mode}: {}", output.stderr);
        let says = format!("system calls of {whose} go to a handler of its own");
        assert!(output.stderr.contains(&says), "{mode}: {}", output.stderr);
        before.text_holds(guest.pid, mode);
        guest.tell("go");
        guest.expect("answer 22000");
        guest.ends_with_nothing(mode);
    }
}

/// Where nobody answers, the thread closes its hooks itself; a lancet that comes back leaves.
#[test]
fn a_lancet_that_is_stopped_or_killed() {
    let cases = [
        (Signal::SIGSTOP, "tsc", WAYS[0]),
        (Signal::SIGKILL, "tsc", WAYS[2]),
        (Signal::SIGSTOP, "earlier", WAYS[2]),
        (Signal::SIGKILL, "inherited", WAYS[0]),
    ];
    for (signal, mode, way) in cases {
        let what = format!("{signal} {mode} {way:?}");
        let Some((_, mut guest, watch)) = opened(mode, way) else {
            return;
        };
        kill(Pid::from_raw(watch.pid()), signal).expect("lancet lives");
        guest.tell("go");
        guest.expect("answer 22000");
        if signal == Signal::SIGSTOP {
            watch.ask(Signal::SIGCONT);
            let output = watch.end();
            let says = "forbids itself the time stamp counter";
            assert!(output.stderr.contains(says), "{what}: {}", output.stderr);
        }
        guest.ends_with_nothing(&what);
    }
}
