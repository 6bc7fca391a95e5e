//! Stacks with hardly any room: a hook needs so many bytes of its caller's stack and not one more, and what it does it
//! does elsewhere. Below each stack of the fixture lies a page that nobody may touch.

use std::process::Command;

use crate::machine::built;
use crate::support::{Guest, LIMIT, Snapshot, TempDir, lancet, run};
use crate::watch::{calls, counted, hooked, left, left_with_losses, text_holds};

/// What docs/safety.md says a hook needs; and where floating-point arguments are asked for at the return; and a probe
/// around a system call.
const NEED: u64 = 200;
const WITH_FLOATS: u64 = NEED + 64;
const PROBE: u64 = 128 + 200;

const ROUNDS: u64 = 2_000;
const CONF: &str = "double s_floats(double, double);\nlong s_work(long);\n";
const FUNCTIONS: [&str; 4] = ["malloc", "s_work", "s_floats", "s_many"];
const HOOKS: [&str; 4] = ["-x", "malloc", "-x", "s_*"];

fn start(kind: &str, need: u64) -> Option<Guest> {
    let path = built("small_stacks.c", &["-fno-builtin", "-Wl,-z,now"])?;
    let mut command = Command::new(path);
    command.args([kind, &need.to_string()]);
    let guest = Guest::start(kind, command);
    guest.expect("ready");
    Some(guest)
}

/// The three figures of its answer to so many rounds: the sum of all results, calls of `s_work`, jumps.
fn answer(guest: &mut Guest, rounds: u64) -> [u64; 3] {
    guest.tell(&rounds.to_string());
    let figures = guest.find("answer ");
    let figures = figures
        .split(' ')
        .map(|figure| figure.parse().expect("a figure"));
    figures
        .collect::<Vec<_>>()
        .try_into()
        .expect("three figures")
}

#[test]
fn every_call_on_a_small_stack_is_counted() {
    for kind in ["context", "signal", "threads"] {
        let Some(mut guest) = start(kind, NEED) else {
            return;
        };
        let before = Snapshot::take(guest.pid);
        let [sum, began, _] = answer(&mut guest, ROUNDS);
        let watch = hooked(calls(guest.pid, &[&["-c", "-L"], &HOOKS[..]].concat()));
        let [hooked_sum, all, _] = answer(&mut guest, ROUNDS);
        let output = left(watch, kind);
        let same = if kind == "threads" { sum } else { 2 * sum };
        assert_eq!((hooked_sum, all), (same, 2 * began), "{kind}");
        for function in FUNCTIONS {
            let calls = counted(&output.stdout, function);
            // The C library calls malloc too.
            let as_many = match function {
                "malloc" => calls >= began,
                _ => calls == began,
            };
            assert!(
                as_many,
                "{kind}: {calls} of {began} calls of {function}: {}",
                output.stdout
            );
        }
        text_holds(&before, guest.pid, kind, &output);
        guest.ends_with_nothing(kind);
    }
}

/// With a backtrace, and into a file.
#[test]
fn every_call_on_a_small_stack_is_told() {
    let folder = TempDir::new("small-told");
    let file = folder.join("calls").display().to_string();
    for kind in ["context", "signal"] {
        for more in [&["-w", "8"][..], &["--record", &file]] {
            let Some(mut guest) = start(kind, NEED) else {
                return;
            };
            let what = [&HOOKS[..], &["--max-wait", "30s"], more].concat();
            let watch = hooked(calls(guest.pid, &what));
            let [sum, began, _] = answer(&mut guest, ROUNDS);
            let output = left(watch, kind);
            assert_eq!((sum, began), (115 * ROUNDS, ROUNDS), "{kind} {more:?}");
            if more[0] == "-w" {
                let told = output.stdout.matches("s_work(").count() as u64;
                assert_eq!(told, began, "{kind}");
                let caller = if kind == "context" {
                    "coroutine"
                } else {
                    "handler"
                };
                assert!(output.stdout.contains(caller), "{kind}: {}", output.stdout);
            } else {
                let replayed = run(lancet().args(["calls", "-c", &file]), LIMIT);
                let calls = counted(&replayed.stdout, "s_work");
                assert_eq!(calls, began, "{kind}: {}", replayed.stdout);
            }
            guest.ends_with_nothing(kind);
        }
    }
}

/// Arguments that are asked for when the call has returned are those of the call.
#[test]
fn floating_point_arguments_outlive_the_call_on_a_small_stack() {
    let folder = TempDir::new("small-floats");
    let conf = folder.join("small.conf");
    std::fs::write(&conf, CONF).expect("a .conf");
    let conf = conf.display().to_string();
    for kind in ["context", "signal"] {
        let Some(mut guest) = start(kind, WITH_FLOATS) else {
            return;
        };
        let what = [
            "-F",
            &conf,
            "-x",
            "s_floats",
            "--where",
            "ret > 4",
            "--max-wait",
            "30s",
        ];
        let watch = hooked(calls(guest.pid, &what));
        let [sum, ..] = answer(&mut guest, ROUNDS);
        let output = left(watch, kind);
        assert_eq!(sum, 115 * ROUNDS, "{kind}");
        let lines = output.stdout.matches("s_floats(2.000000, 0.500000)");
        assert_eq!(lines.count() as u64, ROUNDS, "{kind}: {}", output.stdout);
        guest.ends_with_nothing(kind);
    }
}

/// Probes around the system calls of handlers and coroutines.
#[test]
fn system_calls_on_a_small_stack_are_counted() {
    for kind in ["context", "signal"] {
        let Some(mut guest) = start(kind, PROBE) else {
            return;
        };
        let watch = hooked(calls(guest.pid, &["-c", "-S", "-x", "s_*"]));
        let [sum, ..] = answer(&mut guest, ROUNDS);
        let output = left(watch, kind);
        assert_eq!(sum, 115 * ROUNDS, "{kind}");
        assert_eq!(counted(&output.stdout, "s_work"), ROUNDS, "{kind}");
        guest.ends_with_nothing(kind);
    }
}

/// Handlers interrupt a coroutine on its small stack at any instant, also within a hook; they run on an alternate stack
/// that is as small, call hooked functions, and every third jumps away.
#[test]
fn handlers_interrupt_small_stacks_and_jump_away() {
    for more in [&["-c"][..], &["--max-wait", "30s"]] {
        let Some(mut guest) = start("both", NEED) else {
            return;
        };
        let watch = hooked(calls(guest.pid, &[&HOOKS[..], more].concat()));
        let rounds = if more[0] == "-c" { 300_000 } else { 20_000 };
        let [left_over, began, jumps] = answer(&mut guest, rounds);
        let output = left_with_losses(watch, "both");
        assert_eq!(left_over, 0);
        if more[0] == "-c" {
            let calls = counted(&output.stdout, "s_work");
            // A jump may leave a call between its hook and its first instruction.
            let close = (began..=began + jumps).contains(&calls);
            assert!(
                close,
                "{calls} of {began}, {jumps} jumps: {}",
                output.stdout
            );
            assert!(jumps > 0, "no handler has jumped");
        }
        guest.ends_with_nothing("both");
    }
}

/// The only thread waits on a coroutine's stack, which is a part of a block of the heap: nothing below it is written to.
#[test]
fn an_attach_leaves_what_lies_below_a_coroutine_alone() {
    let Some(mut guest) = start("heap", 0) else {
        return;
    };
    guest.settle('S');
    let watch = hooked(calls(guest.pid, &["-c", "-x", "malloc"]));
    assert_eq!(guest.answer_to(""), "answer whole");
    left(watch, "heap");
    assert_eq!(guest.answer_to(""), "answer whole");
    guest.ends_with_nothing("heap");
}
