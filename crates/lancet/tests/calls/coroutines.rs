//! Pythons, Perls and PHPs that switch stacks and leave frames in the middle of the C functions they run on, while these
//! are hooked: greenlet, gevent, PHP's fibers, dies and alarms of Perl. They answer and end as without us.

use std::time::Duration;

use crate::support::{Guest, Interpreter, Random, Snapshot, chosen, soak};
use crate::watch::{calls, hooked, left, text_holds};

/// A script that makes it hard.
struct Case {
    language: &'static str,
    /// What it cannot do without.
    needs: &'static str,
    script: &'static str,
    /// For some hundred thousand calls.
    rounds: u32,
    /// All functions, and those few that run the VM.
    hooks: [&'static [&'static str]; 2],
}

const PYTHON: [&[&str]; 2] = [
    &["-x", "Py*", "-x", "_Py*", "-x", "*@_greenlet*"],
    &[
        "-x",
        "_PyEval_EvalFrameDefault",
        "-x",
        "PyObject_*",
        "-x",
        "PyList_Sort",
        "-x",
        "PyErr_*",
    ],
];

const CASES: [Case; 4] = [
    Case {
        language: "python",
        needs: "import greenlet",
        script: "greenlets",
        rounds: 1,
        hooks: PYTHON,
    },
    Case {
        language: "python",
        needs: "import gevent",
        script: "gevents",
        rounds: 1,
        hooks: PYTHON,
    },
    Case {
        language: "php",
        needs: "new ReflectionClass('Fiber');",
        script: "fibers",
        rounds: 5,
        hooks: [
            &[
                "-x",
                "zend_*",
                "-x",
                "execute_ex",
                "-x",
                "php_*",
                "-x",
                "_e*alloc*",
            ],
            &[
                "-x",
                "execute_ex",
                "-x",
                "zend_call_function",
                "-x",
                "zend_fiber_*",
                "-x",
                "zend_throw*",
            ],
        ],
    },
    Case {
        language: "perl",
        needs: "use Time::HiRes;",
        script: "dies",
        rounds: 1,
        hooks: [
            &["-x", "Perl_*", "-x", "PL_*"],
            &[
                "-x",
                "Perl_runops_standard",
                "-x",
                "Perl_pp_*",
                "-x",
                "Perl_die*",
                "-x",
                "Perl_call_sv",
            ],
        ],
    },
];

/// What it says, and how it ends, when it was told how many rounds to make and `meanwhile` is over.
fn run(
    interpreter: &Interpreter,
    case: &Case,
    meanwhile: impl FnOnce(&Guest),
    hooks: Option<&[&str]>,
) -> (String, Option<i32>) {
    let name = format!("{interpreter} {}", case.script);
    let mut guest = interpreter.start(case.script, &[]);
    let before = Snapshot::take(guest.pid);
    let watch = hooks.map(|hooks| open(&guest, hooks));
    guest.tell(&case.rounds.to_string());
    meanwhile(&guest);
    let answer = guest.find("answer ");
    if let Some(watch) = watch {
        let output = left(watch, &name);
        text_holds(&before, guest.pid, &name, &output);
    }
    guest.tell("");
    assert_eq!(guest.complaints(), "", "{name}");
    let (lines, status) = guest.end();
    assert!(lines.is_empty(), "{name}: {lines:?}");
    (answer, status.code())
}

fn open(guest: &Guest, hooks: &[&str]) -> crate::support::Watch {
    let mut arguments = vec!["-o", "/dev/null", "--max-wait", "30s"];
    arguments.extend(hooks);
    hooked(calls(guest.pid, &arguments))
}

fn holds(language: &str, script: &str) {
    let case = CASES
        .iter()
        .find(|case| case.language == language && case.script == script)
        .expect("it is one of them");
    let mut random = Random::new(script);
    for interpreter in chosen(case.language, script) {
        if !interpreter.runs(script, case.needs) {
            continue;
        }
        let truth = run(&interpreter, case, |_| {}, None);
        for round in 0..if soak() { 20 } else { 1 } {
            for hooks in case.hooks {
                // From the first round to the last.
                let seen = run(&interpreter, case, |_| {}, Some(hooks));
                assert_eq!(
                    seen, truth,
                    "{interpreter} {script}, {hooks:?}, run {round}"
                );
                // Opened and left at any instant.
                let often = |guest: &Guest| {
                    for _ in 0..2 {
                        let watch = open(guest, hooks);
                        std::thread::sleep(Duration::from_millis(random.below(40)));
                        left(watch, script);
                    }
                };
                let seen = run(&interpreter, case, often, None);
                assert_eq!(
                    seen, truth,
                    "{interpreter} {script}, {hooks:?}, often, run {round}"
                );
            }
        }
    }
}

#[test]
fn greenlets_switch_within_hooked_functions() {
    holds("python", "greenlets");
}

#[test]
fn gevent_runs_on_hooked_functions() {
    holds("python", "gevents");
}

#[test]
fn fibers_of_php_are_suspended_within_hooked_functions() {
    holds("php", "fibers");
}

#[test]
fn a_perl_dies_and_is_interrupted_in_hooked_functions() {
    holds("perl", "dies");
}
