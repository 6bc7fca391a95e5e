//! Everything that can be hooked of a program is hooked, and it answers as without us; and what must not be hooked says why.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Guest, LIMIT, Random, Snapshot, Watch, fixtures, installed, run, say, skip};
use crate::watch::{calls, hooked, left, left_with_losses, text_holds};

/// Functions of the fixture `many`.
pub const MANY: u64 = 60_000;

fn out(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

fn compiled(name: &str, arguments: &[&str]) -> PathBuf {
    let out = out(name);
    let status = Command::new("gcc")
        .args(["-O1", "-o"])
        .arg(&out)
        .args(arguments)
        .current_dir(fixtures().join("c"))
        .status();
    assert!(
        status.expect("gcc is installed (make deps-test)").success(),
        "{name}"
    );
    out
}

pub fn many() -> PathBuf {
    let table = format!("-Wa,--defsym,MANY={MANY}");
    compiled(
        "many",
        &[&format!("-DMANY={MANY}"), "many.c", "many.s", &table],
    )
}

/// Anonymous memory that is executable or read-only: islands and tables, in KiB. The kernel joins neighbours, so sums count.
fn left_mapped(pid: i32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let bytes = maps.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ours = words.len() == 5 && (words[1] == "r-xp" || words[1] == "r--p");
        let (from, to) = words[0].split_once('-')?;
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        ours.then_some(number(to)? - number(from)?)
    });
    bytes.sum::<u64>() / 1024
}

/// CPython's `subtype_traverse`, which looks for its own address, and dies where it finds another.
#[test]
fn a_function_that_looks_for_its_own_address_finds_it() {
    let program = compiled("own_address", &["own_address.c"]);
    let mut guest = Guest::start("own_address", Command::new(&program));
    guest.expect("ready");
    guest.tell("100");
    let truth = guest.find("answer ");
    let before = Snapshot::take(guest.pid);
    let watch = hooked(calls(guest.pid, &["-c", "-x", "*@MAIN", "-o", "/dev/null"]));
    guest.tell("100");
    let answer = guest.find("answer ");
    let output = left(watch, "own_address");
    assert_eq!(answer, truth);
    text_holds(&before, guest.pid, "own_address", &output);
}

#[test]
fn sixty_thousand_functions_are_hooked_at_once_and_again_in_the_same_memory() {
    let program = many();
    let mut guest = Guest::start("many", Command::new(&program));
    guest.expect("ready");
    guest.tell("2");
    let truth = guest.find("answer ");
    let before = Snapshot::take(guest.pid);
    let mut mapped = Vec::new();
    for round in 0..2 {
        let watch = hooked(calls(
            guest.pid,
            &["-c", "-x", "f*@MAIN", "-o", "/dev/null"],
        ));
        guest.tell("2");
        assert_eq!(guest.find("answer "), truth, "round {round}");
        // So many rows have room in the guest's tables, but lancet shows fewer: the rest is one row, and that is said.
        let output = left_with_losses(watch, "many");
        // Without `frame_dummy`, which the compiler adds to each program: no pattern means it.
        let wanted = format!("{MANY} of {MANY} functions hooked");
        assert!(output.stderr.contains(&wanted), "{}", output.stderr);
        say(format_args!(
            "{}",
            output.stderr.lines().next().unwrap_or("")
        ));
        text_holds(&before, guest.pid, "many", &output);
        mapped.push(left_mapped(guest.pid));
    }
    say(format_args!("{mapped:?} KiB stay mapped"));
    assert_eq!(mapped[0], mapped[1], "the second time needs no more");
}

/// Killed at any instant of an attach to very many functions: the next attach lifts what was left, whatever it hooks itself.
#[test]
fn what_a_kill_leaves_of_many_is_lifted_by_the_next() {
    let program = many();
    let mut guest = Guest::start("many", Command::new(&program));
    guest.expect("ready");
    guest.tell("1");
    let truth = guest.find("answer ");
    let before = Snapshot::take(guest.pid);
    let mut random = Random::new("everything");
    for _ in 0..4 {
        let watch = Watch::start(calls(guest.pid, &["-c", "-x", "*@MAIN", "-o", "/dev/null"]));
        std::thread::sleep(std::time::Duration::from_millis(random.below(3_000)));
        watch.kill();
        let few = ["-c", "-x", "f7@MAIN", "--for", "10ms", "-o", "/dev/null"];
        let output = run(&mut calls(guest.pid, &few), LIMIT);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        text_holds(&before, guest.pid, "killed", &output);
    }
    guest.tell("1");
    assert_eq!(guest.find("answer "), truth);
}

/// Remote calls run where nothing else lies: the main thread stands on a small stack in the middle of other data. Its own
/// stack, which it does not stand on, is as it was afterwards.
#[test]
fn what_lies_around_a_small_stack_is_left_alone() {
    let program = compiled("switched", &["-Wl,-z,now", "switched.c"]);
    let mut guest = Guest::start("switched", Command::new(&program));
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    for _ in 0..10 {
        let what = ["-c", "-L", "-x", "getpid", "--for", "50ms"];
        let output = run(&mut calls(guest.pid, &what), LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        assert!(
            output.stderr.contains(" functions hooked in "),
            "{}",
            output.stderr
        );
    }
    before.text_holds(guest.pid, "switched");
    guest.tell("");
    guest.ends_with("answer right");
}

/// Go's runtime ends the program when it meets a frame that it does not know: its code is not hooked, stripped or not.
#[test]
fn go_is_refused_by_what_the_binary_is() {
    if !installed("go") {
        skip("go", "not installed");
        return;
    }
    let source = fixtures().join("go/server.go");
    for flags in ["", "-s -w"] {
        let program = out("server");
        let built = Command::new("go")
            .args(["build", "-ldflags", flags, "-o"])
            .arg(&program)
            .arg(&source)
            .status();
        assert!(built.expect("go runs").success());
        let mut guest = Guest::start("go server", Command::new(&program));
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let what = [
            "-vc",
            "-x",
            "main.*",
            "-x",
            "net/http.*",
            "-x",
            "*@MAIN",
            "--for",
            "300ms",
        ];
        let output = run(&mut calls(guest.pid, &what), LIMIT);
        say(format_args!(
            "go {flags}: {} {}",
            output.code(),
            output.stderr.lines().next().unwrap_or("")
        ));
        if flags.is_empty() {
            assert!(
                output.stderr.contains("compiled by Go"),
                "{}",
                output.stderr
            );
        }
        before.text_holds(guest.pid, "go");
        guest.tell("");
        guest.ends_with("answer right");
    }
}
