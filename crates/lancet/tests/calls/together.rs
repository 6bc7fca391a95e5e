//! Several commands that have one process open at once: each answers as if it were alone, they leave in any order or are
//! killed, and the process is as it was.

use std::time::{Duration, Instant};

use crate::machine::{program, start};
use crate::support::LIMIT;
use crate::support::{
    Guest, Interpreter, Output, Random, Report, Snapshot, Watch, born, lancet, mem, rubies, run,
    say, soak,
};
use crate::watch::{calls, counted, hooked, left, text_holds};

/// A command at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `calls -c` of one function.
    Calls(&'static str),
    Mem,
    /// `stack --gc --measure`.
    Measure,
}

use Kind::{Calls, Measure, Mem};

/// What the guest calls once for each thing that it is told to make.
const SETS: &str = "rb_hash_aset";
const PUSHES: &str = "rb_ary_push";

fn open(kind: Kind, pid: i32) -> Watch {
    match kind {
        Calls(function) => hooked(calls(pid, &["-c", "-x", function])),
        Mem => Watch::open(mem(pid)),
        Measure => {
            let mut command = lancet();
            let pid = pid.to_string();
            command.args([
                "stack",
                "--gc",
                "--measure=60s",
                "--collect",
                "1000000",
                "-p",
                &pid,
            ]);
            Watch::start(command)
        }
    }
}

/// It leaves, and has seen the guest make `made` things.
fn leaves(kind: Kind, watch: Watch, pid: i32, made: u64, what: &str) -> Output {
    if kind == Measure {
        return watch.interrupt();
    }
    let output = left(watch, what);
    let seen = match kind {
        Calls(function) => {
            let place = "/together.rb:";
            let rows = output.stdout.lines();
            let rows = rows.filter(|row| row.contains(place) || row.starts_with("% time"));
            let plain = rows.map(|row| row.split(" ← ").next().unwrap_or(row));
            let plain: Vec<&str> = plain.collect();
            counted(&plain.join("\n"), function)
        }
        _ => born(
            Report::parse(&output.stdout).of(pid),
            "together.rb:37:String",
        ),
    };
    assert_eq!(
        seen, made,
        "{what}: {kind:?}: {}{}",
        output.stderr, output.stdout
    );
    output
}

fn guest(ruby: &Interpreter) -> (Guest, Snapshot) {
    let guest = Guest::script(ruby, "live/together.rb", &[]);
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    (guest, before)
}

fn make(guest: &mut Guest, count: u64) {
    guest.tell(&count.to_string());
    guest.expect("made");
}

/// What is left of commands that were killed is lifted by the next.
fn lift(guest: &Guest, before: &Snapshot, what: &str) {
    let output = run(
        &mut calls(guest.pid, &["-c", "-x", PUSHES, "--for", "10ms"]),
        LIMIT,
    );
    assert!([0, 4].contains(&output.code()), "{what}: {output:?}");
    text_holds(before, guest.pid, what, &output);
}

/// How the first of two that are inside goes.
#[derive(Clone, Copy, Debug)]
enum Goes {
    Leaves,
    Killed,
}

fn two(ruby: &Interpreter, kinds: [Kind; 2], first: usize, goes: Goes) {
    let what = format!("{ruby}: {kinds:?}, {first} {goes:?}");
    let (mut guest, before) = guest(ruby);
    let mut both = kinds.map(|kind| Some(open(kind, guest.pid)));
    make(&mut guest, 1000);
    let one = both[first].take().expect("it is inside");
    match goes {
        Goes::Leaves => drop(leaves(kinds[first], one, guest.pid, 1000, &what)),
        Goes::Killed => one.kill(),
    }
    make(&mut guest, 500);
    let other = 1 - first;
    let watch = both[other].take().expect("it is inside");
    let output = leaves(kinds[other], watch, guest.pid, 1500, &what);
    match goes {
        Goes::Leaves => text_holds(&before, guest.pid, &what, &output),
        Goes::Killed => lift(&guest, &before, &what),
    }
    guest.ends_with("answer right");
}

fn every_way(kinds: [Kind; 2]) {
    for ruby in rubies("together") {
        for first in [0, 1] {
            for goes in [Goes::Leaves, Goes::Killed] {
                two(&ruby, kinds, first, goes);
            }
        }
    }
}

#[test]
fn mem_and_calls() {
    every_way([Mem, Calls(PUSHES)]);
}

#[test]
fn calls_and_mem() {
    every_way([Calls(PUSHES), Mem]);
}

#[test]
fn calls_of_two_functions() {
    every_way([Calls(SETS), Calls(PUSHES)]);
}

#[test]
fn calls_of_one_function() {
    every_way([Calls(PUSHES), Calls(PUSHES)]);
}

#[test]
fn mem_twice() {
    every_way([Mem, Mem]);
}

#[test]
fn measured_collections_and_mem() {
    every_way([Measure, Mem]);
}

/// Three on one function: the one in the middle leaves first, then the innermost, and a new one comes over what is left.
#[test]
fn the_middle_one_leaves_first() {
    for ruby in rubies("together") {
        let what = format!("{ruby}");
        let (mut guest, before) = guest(&ruby);
        let kind = Calls(PUSHES);
        let [inner, middle, outer] = [(); 3].map(|()| open(kind, guest.pid));
        make(&mut guest, 100);
        leaves(kind, middle, guest.pid, 100, &what);
        make(&mut guest, 100);
        leaves(kind, inner, guest.pid, 200, &what);
        make(&mut guest, 100);
        let fourth = open(kind, guest.pid);
        make(&mut guest, 100);
        leaves(kind, outer, guest.pid, 400, &what);
        make(&mut guest, 100);
        let output = leaves(kind, fourth, guest.pid, 200, &what);
        text_holds(&before, guest.pid, &what, &output);
        guest.ends_with("answer right");
    }
}

/// Commands come, leave and are killed at random instants of their attach, work and leave, up to four at a time.
#[test]
fn commands_come_and_go() {
    let steps = if soak() { 1000 } else { 20 };
    for ruby in rubies("together at random") {
        let mut random = Random::new("together at random");
        let (mut guest, before) = guest(&ruby);
        let mut inside: Vec<Watch> = Vec::new();
        let mut kills = 0;
        let mut longest = Duration::ZERO;
        for step in 0..steps {
            let what = format!("{ruby}, step {step}");
            if inside.len() < 4 && (inside.is_empty() || random.below(2) == 0) {
                let command = match random.below(4) {
                    0 => mem(guest.pid),
                    1 => calls(guest.pid, &["-o", "/dev/null", "-x", PUSHES]),
                    2 => calls(guest.pid, &["-c", "-S"]),
                    _ => calls(guest.pid, &["-c", "-x", "rb_ary_*", "-x", "free"]),
                };
                inside.push(Watch::start(command));
            } else {
                let one = inside.swap_remove(random.below(inside.len() as u64) as usize);
                if random.below(2) == 0 {
                    one.kill();
                    kills += 1;
                } else {
                    let output = one.interrupt();
                    // None: by Ctrl-C, before it could catch that. 4: what another command has hooked may be refused.
                    let good = [None, Some(0), Some(4)].contains(&output.status.code());
                    assert!(good, "{what}: {}: {}", output.status, output.stderr);
                }
            }
            std::thread::sleep(Duration::from_micros(random.below(400_000)));
            let began = Instant::now();
            make(&mut guest, 10);
            longest = longest.max(began.elapsed());
        }
        inside.into_iter().for_each(Watch::kill);
        lift(&guest, &before, "in the end");
        guest.ends_with("answer right");
        say(format_args!(
            "{ruby}: {steps} steps, {kills} kills, its longest answer took {longest:?}"
        ));
    }
}

/// Two at the same instant, on functions of which each has some alone.
#[test]
fn two_begin_at_the_same_instant() {
    for ruby in rubies("together") {
        let (mut guest, before) = guest(&ruby);
        for round in 0..if soak() { 100 } else { 5 } {
            let what = format!("{ruby}, round {round}");
            let both = [["-x", SETS], ["-x", "rb_ary_*"]];
            let both = both.map(|[x, name]| {
                Watch::start(calls(
                    guest.pid,
                    &["-c", x, name, "-x", PUSHES, "-x", "malloc"],
                ))
            });
            let both = both.map(|mut watch| {
                watch.until("lancet: process ");
                watch
            });
            make(&mut guest, 100);
            for watch in both {
                leaves(Calls(PUSHES), watch, guest.pid, 100, &what);
            }
        }
        let output = run(
            &mut calls(guest.pid, &["-c", "-x", SETS, "--for", "10ms"]),
            LIMIT,
        );
        text_holds(&before, guest.pid, "in the end", &output);
        guest.ends_with("answer right");
    }
}

/// C++ exceptions, longjmp, contexts, signal handlers and forks through functions that two have hooked, of which the
/// first leaves while it works.
#[test]
fn two_have_hooked_what_frames_leave_by_jumps() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let modes = [
        (
            "exceptions",
            "10000",
            &["-x", "h_*", "-x", "__cxa_*", "-x", "malloc"][..],
        ),
        (
            "jumps",
            "30000",
            &["-x", "h_*", "-x", "*longjmp*", "-x", "*setjmp*"],
        ),
        ("ucontexts", "400", &["-x", "h_*", "-x", "*context"]),
        ("signals", "100000", &["-x", "h_*"]),
        (
            "forks",
            "100",
            &["-x", "h_*", "-x", "fork", "-x", "write", "-x", "_exit"],
        ),
        ("abi", "3000", &["-x", "h_*"]),
    ];
    for (mode, rounds, functions) in modes {
        let mut guest = start(&path, mode);
        guest.tell(rounds);
        let truth = guest.find("answer ");
        for first in [0, 1] {
            let mut guest = start(&path, mode);
            let before = Snapshot::take(guest.pid);
            let mut arguments = vec!["-o", "/dev/null", "--max-wait", "30s", "-c"];
            arguments.extend(functions);
            let mut both = [(); 2].map(|()| Some(hooked(calls(guest.pid, &arguments))));
            guest.tell(rounds);
            let gone = left(both[first].take().expect("it is inside"), mode);
            let answer = guest.find("answer ");
            assert_eq!(answer, truth, "{mode}, {first} first");
            let mut output = left(both[1 - first].take().expect("it is inside"), mode);
            // The hook on the unwinder may stay of either.
            output.stderr.push_str(&gone.stderr);
            text_holds(&before, guest.pid, mode, &output);
            guest.ends_with_nothing(mode);
        }
    }
}

/// Everything of Ruby's library hooked twice, while it raises, throws and switches fibers.
#[test]
fn two_have_hooked_all_of_a_ruby() {
    for ruby in rubies("together, nasty") {
        for (script, rounds) in [("exc", "2"), ("raise", "2"), ("fib", "3")] {
            let guest = || {
                let guest = Guest::script(&ruby, &format!("calls/{script}.rb"), &[]);
                guest.expect("ready");
                guest
            };
            let mut alone = guest();
            alone.tell(rounds);
            let truth = alone.find("answer ");
            let mut guest = guest();
            let before = Snapshot::take(guest.pid);
            let everything = [
                "-c",
                "-x",
                "*@libruby*",
                "-o",
                "/dev/null",
                "--max-wait",
                "30s",
            ];
            let [inner, outer] = [(); 2].map(|()| hooked(calls(guest.pid, &everything)));
            guest.tell(rounds);
            let gone = left(inner, script);
            assert_eq!(guest.find("answer "), truth, "{ruby} {script}");
            let mut output = left(outer, script);
            output.stderr.push_str(&gone.stderr);
            text_holds(&before, guest.pid, script, &output);
        }
    }
}
