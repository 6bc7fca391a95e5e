//! Births of a Python: the lines that `tracemalloc` names (`truth`), the table of allocators as before, started programs (`ends`), what limits of
//! memory leave the books (`bounded`), collections that the VM is brought to run (`collected`), and guests that make it hard.

mod bounded;
mod collected;
mod ends;
mod leaks;
mod lines;
mod truth;

use std::time::Duration;

use serde_json::Value;

use crate::killed::spin;
use crate::support::{
    Door, Guest, Interpreter, LIMIT, Random, Report, Snapshot, Spoilt, Watch, born, chosen,
    fixtures, lancet, live, losses, mem, rounds, run, schema, until,
};

fn pythons(test: &str) -> Vec<Interpreter> {
    chosen("python", test)
}

fn guest(python: &Interpreter, script: &str, arguments: &[&str]) -> Guest {
    let guest = Guest::script(python, &format!("births/{script}.py"), arguments);
    guest.expect("ready");
    guest
}

/// Makes so many blocks at one line and counts exactly these.
fn exactly(python: &Interpreter, guest: &mut Guest, what: &str) {
    let watch = Watch::open(mem(guest.pid));
    guest.tell("1000");
    guest.find("made ");
    let report = watch.report();
    let rows = report.of(guest.pid);
    let row = "births.py:10:(PyObject)";
    assert_eq!(
        (born(rows, row), live(rows, row)),
        (1000, 1000),
        "{python}: {what}"
    );
}

/// Each attach counts from its own beginning, whether the one before it has left or was killed.
#[test]
fn each_attach_counts_from_its_own_beginning() {
    for python in pythons("from its beginning") {
        let mut guest = guest(&python, "births", &[]);
        exactly(&python, &mut guest, "the first attach");
        for round in 0..3 {
            let watch = Watch::open(mem(guest.pid));
            guest.tell("70");
            guest.find("made ");
            watch.kill();
            exactly(&python, &mut guest, &format!("after kill {round}"));
        }
        guest.ends_with("answer 0");
    }
}

/// Otherwise all would be counted as well, at the price of a call for each block.
#[test]
fn threads_are_read_in_the_form_of_their_version() {
    for python in pythons("form") {
        let command = "import sys; print(max(sys.version_info[1], 10) - 9 if sys.version_info < (3, 13) else 4)";
        let output = python.command().args(["-c", command]).output();
        let wanted = String::from_utf8(output.expect("it runs").stdout).expect("a number");
        let guest = guest(&python, "births", &[]);
        let watch = Watch::open(mem(guest.pid));
        let form = Door::find(guest.pid).expect("an agent").form();
        assert_eq!(form.to_string(), wanted.trim(), "{python}");
        watch.report();
    }
}

/// Five seconds without a heartbeat and some births: the agent takes its functions out by itself.
#[test]
fn an_agent_whose_command_was_killed_leaves_by_itself() {
    for python in pythons("deserted") {
        if !python.runs("deserted", "import ctypes") {
            continue;
        }
        let mut guest = guest(&python, "table", &[]);
        let own = table(&mut guest, "");
        let watch = Watch::open(mem(guest.pid));
        let ours = table(&mut guest, "churn");
        assert_ne!(
            own, ours,
            "{python}: the agent's functions are in the table"
        );
        let door = Door::find(guest.pid).expect("an agent");
        assert!(door.open() && door.hooked(), "{python}: it is watched");
        watch.kill();
        until(Duration::from_secs(20), "the agent to leave", || {
            (table(&mut guest, "churn") == own).then_some(())
        });
        assert!(door.deserted() && !door.hooked(), "{python}: it has left");
        guest.tell("end");
        guest.expect("answer 0");
    }
}

/// The table as the guest reads it, after it was told this.
fn table(guest: &mut Guest, word: &str) -> String {
    guest.tell(word);
    guest.find("table ")
}

/// The guest reads its own table of allocators: after lancet it is as before. tracemalloc in front of the agent's functions stays there,
/// and tracemalloc behind them counts on.
#[test]
fn the_table_of_allocators_is_as_before() {
    for python in pythons("table") {
        if !python.runs("table", "import ctypes") {
            continue;
        }
        let mut guest = guest(&python, "table", &[]);
        let own = table(&mut guest, "");
        for _ in 0..3 {
            let watch = Watch::open(mem(guest.pid));
            assert_ne!(table(&mut guest, "churn"), own, "{python}");
            watch.report();
            assert_eq!(table(&mut guest, ""), own, "{python}: after leaving");
        }
        // Started before lancet.
        let traced = table(&mut guest, "trace");
        let watch = Watch::open(mem(guest.pid));
        table(&mut guest, "churn");
        watch.report();
        assert_eq!(
            table(&mut guest, ""),
            traced,
            "{python}: behind is tracemalloc"
        );
        // And stopped beside it: that takes the agent's functions out, and is noticed.
        let watch = Watch::open(mem(guest.pid));
        assert_eq!(table(&mut guest, "untrace"), own, "{python}");
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        assert!(output.stderr.contains("tracemalloc"), "{output:?}");
        // Started beside lancet and not stopped: the agent's functions stay behind it, and lancet says so.
        let watch = Watch::open(mem(guest.pid));
        let covered = table(&mut guest, "trace");
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        assert!(output.stderr.contains("tracemalloc"), "{output:?}");
        assert_eq!(table(&mut guest, "churn"), covered, "{python}");
        // When it is stopped they take themselves out.
        table(&mut guest, "untrace");
        until(Duration::from_secs(20), "the table as it was", || {
            (table(&mut guest, "churn") == own).then_some(())
        });
        guest.tell("end");
        guest.expect("answer 0");
    }
}

/// Two lancets count one Python: both are right, whichever leaves first, and the table is as before when both have left.
#[test]
fn two_lancets_count_one_python() {
    for python in pythons("two") {
        if !python.runs("two", "import ctypes") {
            continue;
        }
        for first_leaves_first in [false, true] {
            // In one process the agents would change places, and one be refused that may be called by the other.
            let mut guest = guest(&python, "table", &[]);
            let own = table(&mut guest, "");
            let (first, second) = (Watch::open(mem(guest.pid)), Watch::open(mem(guest.pid)));
            table(&mut guest, "churn");
            let (one, other) = match first_leaves_first {
                true => (first, second),
                false => (second, first),
            };
            for (watch, is_covered) in [(one, first_leaves_first), (other, false)] {
                let output = watch.interrupt();
                let code = if is_covered { 4 } else { 0 };
                assert_eq!(output.code(), code, "{python}: {output:?}");
                let report = Report::parse(&output.stdout);
                // `"block" * 0` and `* 1` are no new blocks.
                let blocks = 5000 - 2 * 5000_u64.div_ceil(30);
                assert_eq!(
                    born(report.of(guest.pid), "table.py:32:(PyObject)"),
                    blocks,
                    "{python}"
                );
            }
            until(LIMIT, "the table as it was", || {
                (table(&mut guest, "churn") == own).then_some(())
            });
            guest.tell("end");
            guest.expect("answer 0");
        }
    }
}

#[test]
fn a_hundred_attaches_under_load_change_no_result() {
    for python in pythons("cycles") {
        let mut guest = guest(&python, "churn", &[]);
        let before = Snapshot::take(guest.pid);
        for number in 0..rounds(100, 1_000) {
            let mut command = mem(guest.pid);
            command.args(["--no-gc", "--for", "5ms"]);
            let output = run(&mut command, LIMIT);
            assert_eq!(
                output.code(),
                0,
                "{python}, attach {number}: {}",
                output.stderr
            );
        }
        before.holds(guest.pid, "under load");
        guest.tell("");
        guest.ends_with("answer right");
    }
}

/// lancet is killed at random instants of its course; the guest computes on, and the next attach works.
#[test]
fn a_kill_at_any_instant_leaves_the_guest_computing() {
    let mut random = Random::new("killed python");
    for python in pythons("killed") {
        for script in ["churn", "births"] {
            let mut guest = guest(&python, script, &[]);
            let before = Snapshot::take(guest.pid);
            for number in 0..rounds(30, 500) {
                let mut command = mem(guest.pid);
                command.args(["--for", "5ms"]);
                let watch = Watch::start(command);
                spin(random.below(60_000));
                watch.kill();
                assert!(
                    !matches!(guest.state(), None | Some('Z' | 't' | 'T')),
                    "{python}, {script}, kill {number}: {:?} {}",
                    guest.state(),
                    guest.complaints()
                );
                if random.below(3) == 0 {
                    attach_works(guest.pid, script);
                }
            }
            attach_works(guest.pid, script);
            before.holds(guest.pid, script);
            if script == "births" {
                exactly(&python, &mut guest, "after kills");
                guest.ends_with("answer 0");
            } else {
                guest.tell("");
                guest.ends_with("answer right");
            }
        }
    }
}

fn attach_works(pid: i32, what: &str) {
    let mut command = mem(pid);
    command.args(["--no-gc", "--for", "1ms"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{what}: the next attach: {output:?}");
}

/// A child that is forked beside lancet counts nothing and computes right; so does its parent.
#[test]
fn forked_children_compute_right() {
    for python in pythons("forks") {
        let mut guest = guest(&python, "forks", &[]);
        let watch = Watch::open(mem(guest.pid));
        for _ in 0..rounds(10, 100) {
            guest.tell("go");
            assert_eq!(guest.find("child "), "0 True", "{python}");
        }
        let report = watch.report();
        assert!(live(report.of(guest.pid), "forks.py:11:(PyObject)") > 0);
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

/// Reports of what grew, of call paths and for other tools have the same lines.
#[test]
fn the_other_views_have_the_lines() {
    for python in pythons("views") {
        let mut guest = guest(&python, "births", &[]);
        let made = |arguments: &[&str], guest: &mut Guest| {
            let mut command = lancet();
            command
                .args(["mem", "-p", &guest.pid.to_string()])
                .args(arguments);
            let watch = Watch::open(command);
            guest.tell("300");
            guest.find("made ");
            let output = watch.interrupt();
            assert_eq!(output.code(), 0, "{python}, {arguments:?}: {output:?}");
            output.stdout
        };
        let folded = made(&["--stacks", "8"], &mut guest);
        let path = format!("<module> ({0}:17);make ({0}:10);(PyObject) 300", "PATH");
        let plain = folded.replace(
            &fixtures()
                .join("python/births/births.py")
                .display()
                .to_string(),
            "PATH",
        );
        assert!(plain.lines().any(|line| line == path), "{python}: {folded}");
        let table = made(&["--no-gc"], &mut guest);
        assert!(
            table.contains("births.py:10:(PyObject)") && table.contains(", Python 3."),
            "{table}"
        );
        let classic = made(&["--format", "memprof"], &mut guest);
        assert!(
            classic
                .lines()
                .any(|line| line.starts_with("    300 ")
                    && line.ends_with("births.py:10:(PyObject)")),
            "{classic}"
        );
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

/// Blocks that threads take and free without Python's lock pass through, and are told as lost: whoever counts them changes the books while
/// another thread does.
#[test]
fn what_is_taken_without_the_lock_passes_through() {
    for python in pythons("unlocked") {
        // From 3.13 on such a program crashes by itself.
        let bears_it = "import sys, ctypes; assert sys.version_info < (3, 13)";
        if !python.runs("unlocked", bears_it) {
            continue;
        }
        let mut guest = guest(&python, "unlocked", &[]);
        for _ in 0..3 {
            let watch = Watch::open(mem(guest.pid));
            guest.tell("take");
            guest.find("done ");
            let output = watch.interrupt();
            assert_eq!(output.code(), 4, "{python}: {output:?}");
            let rows = Report::parse(&output.stdout);
            let counted = born(rows.of(guest.pid), "unlocked.py:25:(PyMem)");
            assert_eq!(counted, 0, "{python}: {}", output.stdout);
            let lost: Vec<_> = losses(&output.stdout);
            // Four threads, each a thousand blocks, each of these taken and freed.
            assert_eq!(lost, [("births".to_owned(), Some(8000))], "{python}");
        }
        guest.tell("end");
        guest.expect("answer 0");
    }
}

/// Up to 3.11 all interpreters share one lock: what a sub-interpreter takes belongs to the line that runs there.
#[test]
fn lines_of_a_sub_interpreter_are_its_own() {
    for python in pythons("sub-interpreters") {
        let is_old =
            "import sys, ctypes; assert sys.version_info < (3, 12); import _xxsubinterpreters";
        if !python.runs("sub-interpreters", is_old) {
            continue;
        }
        let mut guest = guest(&python, "unlocked", &[]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("inner");
        guest.find("done ");
        let report = watch.report();
        let rows = report.of(guest.pid);
        let counted = live(rows, "<string>:4:(PyObject)");
        assert!(counted >= 1000, "{python}: {rows:?}");
        guest.tell("end");
        guest.expect("answer 0");
    }
}

/// Births in an interpreter with a lock of its own are told as a loss, those of the main one counted; nothing is wrong in either.
#[test]
fn interpreters_with_their_own_locks_pass_through() {
    for python in pythons("interpreters") {
        if !python.runs(
            "interpreters",
            "import sys; assert sys.version_info >= (3, 13); import _interpreters",
        ) {
            continue;
        }
        let mut guest = guest(&python, "interpreters", &[]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("go");
        guest.expect("computed right");
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        let report = Report::parse(&output.stdout);
        let rows = report.of(guest.pid);
        assert_eq!(
            live(rows, "interpreters.py:30:(PyObject)"),
            5000,
            "{python}: {rows:?}"
        );
        assert!(
            losses(&output.stdout)
                .iter()
                .any(|(what, count)| what == "births" && *count > Some(5000)),
            "{output:?}"
        );
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

/// A panic of the agent's code as a block is taken: the guest goes on, the command says what happened, and the next one counts again.
#[test]
fn a_panic_ends_the_session_and_not_the_next_one() {
    for python in pythons("panics") {
        let mut guest = guest(&python, "births", &[]);
        let watch = Watch::open(mem(guest.pid));
        let spoilt = Spoilt::make(guest.pid, "book_new_line");
        guest.tell("1000");
        guest.find("made ");
        let output = watch.interrupt();
        let said = output.stderr.contains("it found a fault of its own");
        assert!(said, "{python}: {}", output.stderr);
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        spoilt.mend();
        exactly(&python, &mut guest, "after a panic");
        guest.ends_with("answer 0");
    }
}

/// A main thread that waits with a lock held is not made to run finalizers that wait for that lock; the look says why there was no GC.
#[test]
fn no_finalizer_runs_where_the_main_thread_waits() {
    for python in pythons("finalizers") {
        let mut guest = guest(&python, "finalizers", &[]);
        let mut command = mem(guest.pid);
        command.args(["--for", "2300ms"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{python}: {}", output.stderr);
        let looks = records(&output.stdout, "look");
        assert!(
            looks.iter().all(|look| look["garbage_included"] == true),
            "{python}: {looks:?}"
        );
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

const STATES: [(&str, &str); 10] = [
    ("read", "1"),
    ("busy", "3996"),
    ("sleep", "2"),
    ("accept", "3"),
    ("lock", "4"),
    ("join", "5"),
    ("digest", "e55b8bdf"),
    ("native", "1"),
    ("collect", "100000"),
    ("threads", "{900}"),
];

/// Wherever its main thread stands, a Python is opened, counted and left.
#[test]
fn ten_states_are_opened_and_left() {
    for python in pythons("states") {
        for (state, answer) in STATES {
            let mut guest = guest(&python, "states", &[state]);
            let before = Snapshot::take(guest.pid);
            for attach in 0..3 {
                let what = format!("{python}, {state}, attach {attach}");
                let mut command = mem(guest.pid);
                command.args(["--for", "20ms"]);
                let output = run(&mut command, LIMIT);
                assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
                before.holds(guest.pid, &what);
            }
            guest.tell("");
            guest.ends_with(&format!("answer {answer}"));
        }
    }
}

/// The records of one kind.
fn records(text: &str, kind: &str) -> Vec<Value> {
    let records = schema::records(&["mem"], text).into_iter();
    records.filter(|record| record["record"] == kind).collect()
}
