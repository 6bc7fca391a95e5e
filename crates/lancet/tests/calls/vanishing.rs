//! Memory that arguments lead to, and that another thread takes away at the moment at which a hook looks at it: the program lives, and
//! computes what it computes alone. See `fixtures/c/vanishing.c`.

use crate::machine::{program, start};
use crate::support::{Guest, Snapshot, TempDir, Watch, fixtures, soak};
use crate::watch::{calls, hooked, left};

/// What one round of one thread adds to the answer.
const ROUND: u64 = 36;
const THREADS: u64 = 4;
/// Functions and system calls of a round.
const CALLS: u64 = 8 + 13;

/// Every way in which hooks read memory: texts, structs and lists at the call and at the return, conditions, results that are held back,
/// arguments of system calls, everything at once.
const WAYS: [&[&str]; 6] = [
    &["calls", "-x", "van_*"],
    &["calls", "-S", "-w", "8", "-x", "van_*"],
    &["calls", "-f", "-S", "-x", "van_*", "--json"],
    &["calls", "-x", "van_*", "--where", "arg1 ~ \"b.*d\""],
    &["syscalls", "-v", "-s", "4000"],
    &[
        "calls",
        "-c",
        "-x",
        "van_text",
        "--where",
        "arg1 == \"abc\"",
    ],
];

fn watched(guest: &Guest, way: &[&str]) -> Watch {
    let conf = fixtures().join("c/vanishing.conf").display().to_string();
    let mut arguments: Vec<&str> = match way {
        ["calls", rest @ ..] => [rest, &["-F", &conf]].concat(),
        _ => way.to_vec(),
    };
    // What is lost for want of room is no matter here.
    arguments.extend(["--max-wait", "0", "-o", "/dev/null"]);
    hooked(calls(guest.pid, &arguments))
}

/// Ctrl-C; nothing is said of an end, nor of memory that may not be copied. Records may be lost.
fn left_alive(watch: Watch, way: &[&str]) {
    let output = watch.interrupt();
    let what = format!("{way:?}: {}", output.stderr);
    assert!([0, 4].contains(&output.code()), "{what}");
    assert!(!output.stderr.contains(" were not read, "), "{what}");
    assert!(!output.stderr.contains("ended"), "{what}");
}

#[test]
fn memory_that_another_thread_takes_away() {
    let Some(program) = program("vanishing.c") else {
        return;
    };
    // That many calls together.
    let rounds = if soak() { 10_000_000 } else { 500_000 } / (THREADS * CALLS * WAYS.len() as u64);
    for way in WAYS {
        let mut guest = start(&program, "");
        let before = Snapshot::take(guest.pid);
        let watch = watched(&guest, way);
        let answer = guest.answer_to(&format!("go {rounds}"));
        assert_eq!(
            answer,
            format!("answer {}", rounds * THREADS * ROUND),
            "{way:?}"
        );
        left_alive(watch, way);
        before.text_holds(guest.pid, &format!("{way:?}"));
        guest.ends_with_nothing(&format!("{way:?}"));
    }
}

/// What is there is read, also when the process's first thread has ended meanwhile: the kernel has no memory of that one.
#[test]
fn a_text_that_stays_is_shown() {
    const TEXTS: usize = 100;
    let Some(program) = program("vanishing.c") else {
        return;
    };
    let folder = TempDir::new("vanishing");
    for mode in ["", "headless"] {
        let mut guest = start(&program, mode);
        let out = folder.join("out").display().to_string();
        let conf = fixtures().join("c/vanishing.conf").display().to_string();
        let way = ["-x", "van_text", "-F", &conf, "-o", &out, "--where"];
        for (condition, shown) in [("arg1 ~ \"this\"", 0), ("arg1 ~ \"that\"", TEXTS)] {
            let watch = hooked(calls(guest.pid, &[&way[..], &[condition]].concat()));
            if mode == "headless" && shown != 0 {
                assert_eq!(guest.answer_to("end"), "answer 0");
            }
            assert_eq!(guest.answer_to("text 100"), "answer 100", "{mode}");
            let output = left(watch, mode);
            let lines = std::fs::read_to_string(&out).expect("what was shown");
            let texts = lines.matches("van_text(\"a text that stays\", 0)").count();
            assert_eq!(
                texts, shown,
                "{mode} {condition}: {lines} {}",
                output.stderr
            );
        }
        guest.ends_with_nothing(mode);
    }
}

/// The stack of a detached thread is unmapped while its maker's hook reads what `clone3` has written there.
#[test]
fn threads_that_are_detached_and_end_at_once() {
    let Some(program) = program("vanishing.c") else {
        return;
    };
    let ways: [&[&str]; 4] = [
        &["syscalls"],
        &["syscalls", "-f", "-e", "trace=clone3,clone,munmap"],
        &["calls", "-S"],
        &["calls", "-S", "-f", "-x", "pthread_create", "-w", "8"],
    ];
    for _ in 0..if soak() { 200 } else { 2 } {
        for way in ways {
            let mut guest = start(&program, "detached");
            let watch = watched(&guest, way);
            assert_eq!(guest.answer_to("go 2000"), "answer 2000", "{way:?}");
            left_alive(watch, way);
            guest.ends_with_nothing(&format!("{way:?}"));
        }
    }
}
