//! Rubies that leave frames by fiber switch, exception, throw and break while every function they go through is hooked:
//! they answer as without us, end as without us, and their text is as before.
//!
//! These are the scripts that uprobes, uftrace and Frida were seen to crash.

use std::time::{Duration, Instant};

use crate::support::{Guest, Interpreter, Random, Snapshot, Watch, rounds, rubies, say};
use crate::watch::{calls, hooked, left, text_holds};

/// Scripts, with rounds for some hundred thousand calls of hooked functions. What takes time is printing them.
const SCRIPTS: [(&str, u32); 4] = [("fib", 6), ("fib2", 2), ("exc", 4), ("raise", 4)];
/// So many times more where few functions are hooked.
const MORE: u32 = 8;

/// What is hooked.
const EVERYTHING: &[&str] = &["-x", "*@libruby*"];
const ITERATORS: &[&str] = &[
    "-x",
    "rb_yield",
    "-x",
    "rb_vm_exec",
    "-x",
    "rb_ensure",
    "-x",
    "rb_raise",
    "-x",
    "rb_block_call",
    "-x",
    "rb_protect",
    "-x",
    "rb_iterate",
    "-x",
    "rb_rescue2",
    "-x",
    "rb_catch_obj",
];

fn start(ruby: &Interpreter, script: &str) -> Guest {
    let guest = Guest::script(ruby, &format!("calls/{script}.rb"), &[]);
    guest.expect("ready");
    guest
}

/// Its answer and its exit code without us.
fn truth(ruby: &Interpreter, script: &str, rounds: u32) -> (String, Option<i32>) {
    let mut guest = start(ruby, script);
    guest.tell(&rounds.to_string());
    let answer = guest.find("answer ");
    (answer, ended(guest))
}

fn ended(mut guest: Guest) -> Option<i32> {
    guest.tell("");
    let complaints = guest.complaints();
    let (lines, status) = guest.end();
    assert!(lines.is_empty(), "it says nothing more: {lines:?}");
    assert_eq!(complaints, "", "nothing is complained of");
    status.code()
}

fn open(guest: &Guest, what: &[&str]) -> Watch {
    // Nothing may be lost, however busy the machine.
    let mut arguments = vec!["-o", "/dev/null", "--max-wait", "30s"];
    arguments.extend(what);
    hooked(calls(guest.pid, &arguments))
}

/// Hooked from its first round to its last.
fn whole(ruby: &Interpreter, script: &str, rounds: u32, what: &[&str]) -> (String, Option<i32>) {
    let mut guest = start(ruby, script);
    let before = Snapshot::take(guest.pid);
    let watch = open(&guest, what);
    guest.tell(&rounds.to_string());
    let answer = guest.find("answer ");
    let output = left(watch, script);
    text_holds(&before, guest.pid, script, &output);
    (answer, ended(guest))
}

/// Hooked and left again and again while it runs, at any instant.
fn often(
    ruby: &Interpreter,
    script: &str,
    rounds: u32,
    what: &[&str],
    random: &mut Random,
) -> (String, Option<i32>) {
    let mut guest = start(ruby, script);
    let before = Snapshot::take(guest.pid);
    guest.tell(&rounds.to_string());
    let mut attach = || {
        let watch = open(&guest, what);
        std::thread::sleep(Duration::from_millis(random.below(60)));
        left(watch, script)
    };
    attach();
    attach();
    let output = attach();
    let answer = guest.find("answer ");
    text_holds(&before, guest.pid, script, &output);
    (answer, ended(guest))
}

#[test]
fn rubies_that_leave_frames_in_any_order_answer_as_without_us() {
    // Each way of each plan once, at least.
    let runs = rounds::<usize>(4, 100).max(4);
    for ruby in rubies("nasty") {
        let mut random = Random::new("nasty");
        let began = Instant::now();
        for (script, rounds) in SCRIPTS {
            let plans = [(EVERYTHING, rounds), (ITERATORS, rounds * MORE)];
            let truths = plans.map(|(_, rounds)| truth(&ruby, script, rounds));
            for run in 0..runs {
                let (what, rounds) = plans[run % 2];
                let truth = &truths[run % 2];
                let seen = match run % 4 {
                    0 | 1 => whole(&ruby, script, rounds, what),
                    _ => often(&ruby, script, rounds, what, &mut random),
                };
                assert_eq!(&seen, truth, "{ruby} {script}, run {run}");
            }
        }
        say(format_args!(
            "{ruby}: {} runs of {} scripts, {:.1?}",
            runs * SCRIPTS.len(),
            SCRIPTS.len(),
            began.elapsed()
        ));
    }
}

/// Nearly everything is taken out again while it runs (`--budget 1`), with frames of what is taken out on stacks and in parked
/// fibers: they return through their hooks.
#[test]
fn functions_that_are_taken_out_while_they_run_return() {
    for ruby in rubies("nasty") {
        let mut taken_out = false;
        for (script, rounds) in SCRIPTS {
            // Long enough for two looks at what hooks cost, each of 250 ms, on a fast machine too.
            let rounds = rounds * MORE * 4;
            let truth = truth(&ruby, script, rounds);
            let mut guest = start(&ruby, script);
            let before = Snapshot::take(guest.pid);
            let arguments = [&["-c", "--budget", "1", "-o", "/dev/null"], EVERYTHING].concat();
            let watch = hooked(calls(guest.pid, &arguments));
            guest.tell(&rounds.to_string());
            let answer = guest.find("answer ");
            let output = watch.interrupt();
            let said = output.stderr.contains("hooks took ");
            assert_eq!(output.code(), if said { 4 } else { 0 }, "{}", output.stderr);
            taken_out |= said;
            text_holds(&before, guest.pid, script, &output);
            assert_eq!((answer, ended(guest)), truth, "{ruby} {script}");
        }
        assert!(taken_out, "{ruby}: none of them ran for long enough");
    }
}
