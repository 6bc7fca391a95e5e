//! Doors into a VM that are shut, or that somebody else uses at the same time (`vm::Door`); and what the user's text finds behind them.

use crate::programs::{done, library, tried};
use crate::support::{Guest, Interpreter, LIMIT, TempDir, chosen, lancet, run, soak, until};

/// The module of the guest that is its program.
const TARGET: &str = "python:pending.total";

/// The guest `pending` of an interpreter.
fn pending(python: &Interpreter, what: &str, argument: &str) -> Guest {
    let source = include_str!("../../../../fixtures/c/pending.c");
    let library = library("pending", source, &["-pthread"]);
    let mut command = python.command();
    command.arg(python.fixture("pending"));
    Guest::ready(command.arg(what).arg(library).arg(argument))
}

/// A file in `folder` by which `total` is 2.
fn fix(folder: &TempDir) -> String {
    let path = folder.join("fix.py");
    std::fs::write(&path, "def total(): return 2\n").expect("a file");
    format!("{TARGET}={}", path.display())
}

/// The main thread stands within `Py_AddPendingCall`, with the lock of its queue: to call that function there would wait for the thread
/// itself, for ever.
#[test]
fn a_lock_that_the_stopped_thread_holds() {
    for python in chosen("python", "held") {
        let folder = TempDir::new(&format!("held-{}", python.version));
        let go = folder.join("go");
        let mut guest = pending(&python, "held", &go.display().to_string());
        let request = fix(&folder);
        let output = tried(guest.pid, &[&request]);
        assert_eq!(output.code(), 1, "{python}: {output:?}");
        let why = "somebody held the lock of its queue of pending calls";
        assert!(output.stderr.contains(why), "{python}: {output:?}");
        // It says nothing of what it has not looked at.
        assert!(!output.stderr.contains("put back"), "{python}: {output:?}");
        std::fs::write(&go, "").expect("a file");
        assert_eq!(guest.answer_to("total"), "1", "{python}");
        done(guest.pid, &[&request]);
        assert_eq!(guest.answer_to("total"), "2", "{python}");
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("total"), "1", "{python}");
        let (lines, status) = guest.end();
        assert_eq!(lines, ["wrong 0"], "{python}");
        assert!(status.success(), "{python}: {status}");
    }
}

/// Other threads take the lock all the time, and fill the queue.
#[test]
fn a_lock_that_others_take_all_the_time() {
    let turns = if soak() { 200 } else { 4 };
    for python in chosen("python", "contended") {
        let folder = TempDir::new(&format!("contended-{}", python.version));
        let mut guest = pending(&python, "many", "2");
        let request = fix(&folder);
        for turn in 0..turns {
            let what = format!("{python}, turn {turn}");
            // Nobody promises that the door is open within ten seconds: then nothing is done, and that is said.
            let output = tried(guest.pid, &[&request]);
            let is_done = output.code() == 0;
            let why = "did not answer within";
            assert!(is_done || output.stderr.contains(why), "{what}: {output:?}");
            let wanted = if is_done { "2" } else { "1" };
            assert_eq!(guest.answer_to("total"), wanted, "{what}");
            if is_done {
                // It may have to be asked again.
                until(LIMIT, "taken back", || {
                    (tried(guest.pid, &["--undo"]).code() == 0).then_some(())
                });
            }
            assert_eq!(guest.answer_to("total"), "1", "{what}");
            let heap = folder.join(&format!("heap-{turn}"));
            let mut command = lancet();
            command.args(["heap", "-p", &guest.pid.to_string(), "-o"]);
            let output = run(command.arg(&heap), LIMIT);
            let is_done = [0, 4].contains(&output.code());
            assert!(is_done || output.stderr.contains(why), "{what}: {output:?}");
            assert_eq!(guest.answer_to("total"), "1", "{what}");
        }
        let (lines, status) = guest.end();
        assert_eq!(lines, ["wrong 0"], "{python}");
        assert!(status.success(), "{python}: {status}");
    }
}
