//! Births of a PHP: bytes by line against `memory_get_usage()` (`truth`), the allocator as before, requests of a php-fpm (`served`), started
//! programs (`ends`), the verdict on leaks (`leaks`), what the VM does before it refuses a block (`limits`), magic calls and other tools (`magic`), faults of the
//! agent (`broken`), and guests that make it hard.

mod broken;
mod ends;
mod leaks;
mod limits;
mod magic;
mod served;
mod truth;

use std::time::Duration;

use process::functions::Functions;
use process::guest;
use vm::Memory;
use vm::php::allocator::Allocator;
use vm::php::{Facts, Php, Requests};

use crate::killed::spin;
use crate::support::{
    Door, Guest, Interpreter, LIMIT, Random, Snapshot, Spoilt, Watch, born, chosen, live, mem,
    rounds, run, schema, until,
};

fn phps(test: &str) -> Vec<Interpreter> {
    chosen("php", test)
}

fn guest(php: &Interpreter, script: &str, arguments: &[&str]) -> Guest {
    let guest = Guest::script(php, &format!("births/{script}.php"), arguments);
    guest.expect("ready");
    guest
}

/// Whether the heap has custom functions, and what the words lead to that a request begins and ends with.
fn functions(pid: i32) -> (u32, u64, u64) {
    let (_, memory, maps) = guest::reach(pid).expect("it can be read");
    let functions = Functions::read(pid, &memory, &maps).expect("its symbols");
    let memory = &*memory;
    let symbol = |name: &str| functions.symbol(name);
    let facts = Facts::find(&memory, &symbol).expect("a PHP");
    let registries = ["module_registry", "sapi_module"].map(|name| symbol(name).expect("a PHP"));
    let words = Requests::find(&memory, registries, facts.version()).expect("modules");
    let stack = Php::new(&memory, facts).map(|php| php.frame_stack());
    let stack = stack.expect("a version").expect("a stack");
    // What the heap is known by may be in the middle of a change.
    let heap = until(LIMIT, "a heap", || Allocator::of(&memory, stack)).heap();
    let word = |at: u64| memory.u64(at).expect("a word");
    (
        memory.u32(heap).expect("a word"),
        word(words.first),
        word(words.last),
    )
}

/// Makes so many blocks at one line and counts exactly these.
fn exactly(php: &Interpreter, guest: &mut Guest, what: &str) {
    let watch = Watch::open(mem(guest.pid));
    guest.tell("1000");
    guest.find("made ");
    let report = watch.report();
    let rows = report.of(guest.pid);
    let row = "births.php:10:(block)";
    assert_eq!(
        (born(rows, row), live(rows, row)),
        (1000, 1000),
        "{php}: {what}: {rows:?}"
    );
}

/// Each attach counts from its own beginning, whether the one before it has left or was killed; the allocator is as before when the last one
/// has left.
#[test]
fn each_attach_counts_from_its_own_beginning() {
    for php in phps("from its beginning") {
        let mut guest = guest(&php, "births", &[]);
        let own = functions(guest.pid);
        assert_eq!(own.0, 0, "{php}: its heap has custom functions by itself");
        exactly(&php, &mut guest, "the first attach");
        assert_eq!(functions(guest.pid), own, "{php}: after leaving");
        for round in 0..3 {
            let watch = Watch::open(mem(guest.pid));
            guest.tell("70");
            guest.find("made ");
            let ours = functions(guest.pid);
            assert!(ours.0 != 0 && ours.1 != own.1 && ours.2 != own.2, "{php}");
            watch.kill();
            exactly(&php, &mut guest, &format!("after kill {round}"));
            assert_eq!(functions(guest.pid), own, "{php}: after kill {round}");
        }
        guest.ends_with("answer 0");
    }
}

/// Five seconds without a heartbeat and some births: the agent takes its functions out by itself.
#[test]
fn an_agent_whose_command_was_killed_leaves_by_itself() {
    for php in phps("deserted") {
        let mut guest = guest(&php, "births", &[]);
        let own = functions(guest.pid);
        let watch = Watch::open(mem(guest.pid));
        let door = Door::find(guest.pid).expect("an agent");
        assert!(door.open() && door.hooked(), "{php}: it is watched");
        watch.kill();
        until(Duration::from_secs(20), "the agent to leave", || {
            guest.tell("2000");
            guest.find("made ");
            (functions(guest.pid) == own).then_some(())
        });
        assert!(door.deserted() && !door.hooked(), "{php}: it has left");
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

/// A second lancet is refused, and changes nothing for the first.
#[test]
fn a_second_lancet_is_refused() {
    for php in phps("two") {
        let mut guest = guest(&php, "births", &[]);
        let watch = Watch::open(mem(guest.pid));
        let mut second = mem(guest.pid);
        second.args(["--for", "10ms"]);
        let output = run(&mut second, LIMIT);
        assert_eq!(output.code(), 1, "{php}: {output:?}");
        assert!(output.stderr.contains("another lancet"), "{output:?}");
        guest.tell("300");
        guest.find("made ");
        let report = watch.report();
        assert_eq!(born(report.of(guest.pid), "births.php:10:(block)"), 300);
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

#[test]
fn a_hundred_attaches_under_load_change_no_result() {
    for php in phps("cycles") {
        let mut guest = guest(&php, "churn", &[]);
        let (before, own) = (Snapshot::take(guest.pid), functions(guest.pid));
        for number in 0..rounds(100, 1_000) {
            let mut command = mem(guest.pid);
            command.args(["--no-gc", "--for", "5ms"]);
            let output = run(&mut command, LIMIT);
            assert_eq!(
                output.code(),
                0,
                "{php}, attach {number}: {}",
                output.stderr
            );
        }
        assert_eq!(functions(guest.pid), own, "{php}");
        before.holds(guest.pid, "under load");
        guest.tell("");
        guest.ends_with("answer right");
    }
}

/// lancet is killed at random instants of its course; the guest computes on, and the next attach works.
#[test]
fn a_kill_at_any_instant_leaves_the_guest_computing() {
    let mut random = Random::new("killed php");
    for php in phps("killed") {
        for script in ["churn", "births"] {
            let mut guest = guest(&php, script, &[]);
            let (before, own) = (Snapshot::take(guest.pid), functions(guest.pid));
            for number in 0..rounds(30, 500) {
                let mut command = mem(guest.pid);
                command.args(["--for", "5ms"]);
                let watch = Watch::start(command);
                spin(random.below(60_000));
                watch.kill();
                assert!(
                    !matches!(guest.state(), None | Some('Z' | 't' | 'T')),
                    "{php}, {script}, kill {number}: {:?} {}",
                    guest.state(),
                    guest.complaints()
                );
            }
            let mut command = mem(guest.pid);
            command.args(["--no-gc", "--for", "1ms"]);
            let output = run(&mut command, LIMIT);
            assert_eq!(output.code(), 0, "{script}: the next attach: {output:?}");
            assert_eq!(functions(guest.pid), own, "{php}, {script}");
            before.holds(guest.pid, script);
            if script == "births" {
                exactly(&php, &mut guest, "after kills");
                guest.ends_with("answer 0");
            } else {
                guest.tell("");
                guest.ends_with("answer right");
            }
        }
    }
}

/// A child that is forked beside lancet counts nothing and computes right; so does its parent.
#[test]
fn forked_children_compute_right() {
    for php in phps("forks") {
        if !php.runs("forks", "exit(function_exists('pcntl_fork') ? 0 : 1);") {
            continue;
        }
        let mut guest = guest(&php, "forks", &[]);
        let watch = Watch::open(mem(guest.pid));
        for _ in 0..rounds(10, 100) {
            guest.tell("go");
            assert_eq!(guest.find("child "), "0 True", "{php}");
        }
        let report = watch.report();
        assert!(live(report.of(guest.pid), "forks.php:10:(block)") > 0);
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

/// Close to the memory limit the VM gives back what is free before it refuses a block: also while the heap has custom functions, which keeps
/// it from that by itself. Each round has the same figures as without lancet.
#[test]
fn the_memory_limit_is_met_where_it_would_be_met() {
    for php in phps("limit") {
        let course = |is_watched: bool| {
            let mut guest = guest(&php, "limit", &[]);
            let watch = is_watched.then(|| Watch::open(mem(guest.pid)));
            guest.tell("");
            let rounds: Vec<String> = (0..6)
                .map(|round| guest.find(&format!("round {round} ")))
                .collect();
            if let Some(watch) = watch {
                let report = watch.report();
                let rows = report.of(guest.pid);
                let all: u64 = rows.values().map(|counts| counts.born).sum();
                assert!(all > 300_000, "{php}: {rows:?}");
            }
            guest.tell("");
            guest.ends_with("answer 0");
            rounds
        };
        assert_eq!(course(true), course(false), "{php}");
    }
}

/// A panic of the agent's code as a block is taken: the guest goes on, the command says what happened, and the next one counts again.
#[test]
fn a_panic_ends_the_session_and_not_the_next_one() {
    for php in phps("panics") {
        let mut guest = guest(&php, "births", &[]);
        let own = functions(guest.pid);
        for function in ["book_new_line", "book_block"] {
            let watch = Watch::open(mem(guest.pid));
            let spoilt = Spoilt::make(guest.pid, function);
            guest.tell("3000");
            guest.find("made ");
            let output = watch.interrupt();
            let said = output.stderr.contains("it found a fault of its own");
            assert!(said, "{php}, {function}: {}", output.stderr);
            assert_eq!(output.code(), 4, "{php}: {output:?}");
            assert_eq!(functions(guest.pid), own, "{php}, {function}");
            spoilt.mend();
        }
        exactly(&php, &mut guest, "after a panic");
        guest.ends_with("answer 0");
    }
}

/// Call paths are those of the script.
#[test]
fn call_paths_have_the_lines() {
    for php in phps("paths") {
        let mut guest = guest(&php, "births", &[]);
        let mut command = mem(guest.pid);
        command.args(["--stacks", "8", "--no-gc"]);
        let watch = Watch::open(command);
        guest.tell("300");
        guest.find("made ");
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{php}: {output:?}");
        let rows = schema::records(&["mem"], &output.stdout);
        let row = rows
            .iter()
            .find(|row| row["record"] == "row" && row["live"] == 300);
        let row = row.unwrap_or_else(|| panic!("{php}: {}", output.stdout));
        let path: Vec<_> = row["stack"]
            .as_array()
            .expect("a path")
            .iter()
            .map(|frame| (frame["line"].as_u64(), frame["function"].as_str()))
            .collect();
        assert_eq!(
            path,
            [(Some(10), Some("make")), (Some(18), Some("{main}"))],
            "{php}: {row}"
        );
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

/// While an exception is thrown the frame that it passes stands at no operation of its own: its line is where it was thrown, as PHP says itself.
#[test]
fn a_frame_that_an_exception_passes_has_its_line() {
    for php in phps("thrown") {
        let mut guest = guest(&php, "thrown", &[]);
        let mut command = mem(guest.pid);
        command.args(["--stacks", "8", "--no-gc"]);
        let watch = Watch::open(command);
        guest.tell("");
        let line: u64 = guest.find("line ").parse().expect("a line");
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{php}: {output:?}");
        let rows = schema::records(&["mem"], &output.stdout);
        let callers: Vec<_> = rows
            .iter()
            .filter(|row| row["record"] == "row" && row["live"].as_u64() >= Some(300))
            .map(|row| {
                (
                    row["stack"][0]["line"].as_u64(),
                    row["stack"][1]["line"].as_u64(),
                )
            })
            .collect();
        assert!(
            callers.contains(&(Some(9), Some(line))),
            "{php}: {line}, {callers:?}"
        );
        guest.tell("");
        guest.ends_with("answer 300");
    }
}
