//! The remedy `ucontext`: signal masks and floating-point control are kept in every state, and switches are fast.

use std::path::PathBuf;
use std::process::Command;

use crate::programs::{compiled_from, done, tried};
use crate::support::{Guest, Snapshot, is_release, say};

fn program() -> PathBuf {
    compiled_from("contexts", "c/contexts.c", &["-pthread", "-lm"])
}

fn guest() -> Guest {
    Guest::ready(&mut Command::new(program()))
}

fn nanoseconds(guest: &mut Guest, what: &str) -> f64 {
    let mut answers = (0..3).map(|_| guest.answer_to(what).parse::<f64>().expect("nanoseconds"));
    let first = answers.next().expect("three");
    answers.fold(first, f64::min)
}

/// From more than 200 ns to 12 at most, and back: the figures of a busy machine are all larger, so the ratio counts too.
#[test]
fn switches_are_fast_and_slow_again_when_it_is_undone() {
    let mut guest = guest();
    let before = Snapshot::take(guest.pid);
    let (bare, differ) = (
        nanoseconds(&mut guest, "switches"),
        nanoseconds(&mut guest, "differ"),
    );
    let said = done(guest.pid, &["--wait", "10s", "--remedy", "ucontext"]);
    assert!(
        said.contains("swapcontext of remedy ucontext=strict"),
        "{said}"
    );
    let (strict, strict_differ) = (
        nanoseconds(&mut guest, "switches"),
        nanoseconds(&mut guest, "differ"),
    );
    // One of its patches, and so all.
    done(guest.pid, &["--undo", "3"]);
    before.text_holds(guest.pid, "undone");
    let undone = nanoseconds(&mut guest, "switches");
    done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=lite"]);
    let lite = nanoseconds(&mut guest, "switches");
    done(guest.pid, &["--undo"]);
    before.text_holds(guest.pid, "undone again");
    say(format_args!(
        "a switch: {bare} ns bare, {strict} strict, {lite} lite, {undone} undone; masks that differ: {differ} ns bare, {strict_differ} strict"
    ));
    assert!(
        strict * 10.0 < bare && lite * 10.0 < bare,
        "{strict}, {lite}"
    );
    assert!(undone * 2.0 > bare, "{undone}");
    assert!(strict_differ < differ, "{strict_differ}");
    if is_release() {
        assert!(
            strict <= 12.0 || strict * 18.0 <= bare,
            "{strict} of {bare}"
        );
    }
    guest.ends_with("answer 0");
}

/// A signal that is blocked stays blocked and is delivered where it is not: masks that are equal, that differ, that are changed between, by handlers, by leaving them, by
/// switching within them. The kernel is asked past glibc. It is applied and undone while all that goes on.
#[test]
fn masks_are_kept_in_every_state() {
    let mut guest = guest();
    assert_eq!(guest.answer_to("masks"), "right", "before");
    for turn in 0..5 {
        done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=strict"]);
        assert_eq!(guest.answer_to("masks"), "right", "turn {turn}");
        assert_eq!(guest.answer_to("floats"), "right", "turn {turn}");
        assert_eq!(guest.answer_to("contexts"), "0", "turn {turn}");
        // Under way when it is undone, and when it is applied again.
        guest.tell("masks");
        done(guest.pid, &["--undo"]);
        guest.expect("right");
        guest.tell("contexts");
        done(guest.pid, &["--wait", "10s", "--remedy", "ucontext"]);
        guest.expect("0");
        guest.tell("masks");
        done(guest.pid, &["--undo"]);
        guest.expect("right");
    }
    // The test can fail: without masks it does.
    done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=lite"]);
    assert!(guest.answer_to("masks").contains("another mask"));
    assert_eq!(guest.answer_to("floats"), "right");
    guest.ends_with("answer 0");
}

#[test]
fn what_may_switch_within_signals_is_refused() {
    let guest = Guest::ready(Command::new(program()).arg("timer"));
    let before = Snapshot::take(guest.pid);
    let output = tried(guest.pid, &["--remedy", "ucontext"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("it catches SIGALRM"), "{output:?}");
    before.holds(guest.pid, "refused");
    let guest = Guest::ready(Command::new(program()).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"));
    let output = tried(guest.pid, &["--remedy", "ucontext"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("no restartable sequences"),
        "{output:?}"
    );
    let output = tried(guest.pid, &["--remedy", "ucontext=quick"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("ucontext=lite"), "{output:?}");
}
