//! Heaps of many objects: what reading them takes is said before the copy of the process is read, and held.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::support::{Guest, Interpreter, LIMIT, lancet, run};

/// What lancet takes beside the objects: its program, tables of symbols, blocks of the copy's memory.
const BESIDE: u64 = 48 << 20;

/// Runs `lancet heap -p PID`; what it said, and the most memory that it had, in bytes.
fn read(pid: i32) -> (String, u64) {
    let mut command = lancet();
    command.args(["heap", "-p", &pid.to_string()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let path = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().expect("our child").is_none() {
        let status = fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        most = most.max(number.unwrap_or(0) << 10);
        sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().expect("our child");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    (String::from_utf8(output.stderr).expect("text"), most)
}

/// The number before a text.
fn number_before(text: &str, what: &str) -> u64 {
    let (before, _) = text
        .split_once(what)
        .unwrap_or_else(|| panic!("no `{what}` in: {text}"));
    let word = before.rsplit(' ').next().unwrap_or_default();
    word.replace(',', "").parse().expect("a number")
}

fn check(language: &'static str, program: &str, how: &str) {
    let mut command = Interpreter::system(language).command();
    let flag = if language == "ruby" { "-e" } else { "-c" };
    let guest = Guest::ready(command.args([flag, program]));
    let (said, most) = read(guest.pid);
    let objects = number_before(&said, " objects, ");
    let expected = number_before(&said, how);
    assert!(
        (objects..objects * 2).contains(&expected),
        "{expected} for {objects}: {said}"
    );
    let [before, after] = [how, "stood still"].map(|part| said.find(part));
    assert!(before < after, "{said}");
    let each = most.saturating_sub(BESIDE) as f64 / objects as f64;
    crate::support::say(format_args!(
        "{objects} objects of a {language}: {each:.1} bytes each"
    ));
    assert!(
        (1.0..=60.0).contains(&each),
        "{each} bytes an object: {most}"
    );
    assert!(guest.ends_well());
}

#[test]
fn many_objects_of_a_ruby_take_what_was_said() {
    let program =
        "$kept = Array.new(300_000) { |i| { id: \"order #{i}\", lines: [i.to_s + 'x' * 30, nil] } }
        STDOUT.puts 'ready'; STDOUT.flush; STDIN.read";
    check("ruby", program, " slots for objects in its heap");
}

#[test]
fn many_objects_of_a_python_take_what_was_said() {
    let program = "import sys\nkept = [[str(i), (i + 300,), 'order %d' % i] for i in range(250_000)]\n\
        print('ready', flush=True)\nsys.stdin.read()";
    check("python3", program, " objects by the memory it has");
}

/// What a user allows is asked before the process is stopped: it has no agent then, and its threads have not woken up.
#[test]
fn a_heap_that_takes_more_than_is_allowed_is_left_alone() {
    let programs = [
        (
            "ruby",
            "-e",
            "$kept = Array.new(100_000) { |i| [i.to_s] }; STDOUT.puts 'ready'; STDOUT.flush; STDIN.read",
            " slots for objects in its heap: ",
        ),
        (
            "python3",
            "-c",
            "import sys\nkept = [[str(i)] for i in range(100_000)]\nprint('ready', flush=True)\nsys.stdin.read()",
            " objects by the memory it has: ",
        ),
    ];
    for (language, flag, program, how) in programs {
        let mut command = Interpreter::system(language).command();
        let guest = Guest::asleep(command.args([flag, program]));
        let state = |file: &str| {
            fs::read_to_string(format!("/proc/{}/{file}", guest.pid)).expect("it lives")
        };
        let before = (state("maps"), state("schedstat"));
        let pid = guest.pid.to_string();
        let heap = |most: &str| {
            run(
                lancet().args(["heap", "-p", &pid, "--max-memory", most]),
                LIMIT,
            )
        };
        let refused = heap("1M");
        assert_eq!(refused.code(), 3, "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
        let begins = format!("lancet: process {pid} has ");
        let lines: Vec<&str> = refused.stderr.lines().collect();
        assert!(
            lines.len() == 1 && lines[0].starts_with(&begins),
            "{refused:?}"
        );
        assert!(
            lines[0].contains(how)
                && lines[0].contains(" and --max-memory allows 1.0 MiB; it was not stopped. "),
            "{refused:?}"
        );
        assert_eq!((state("maps"), state("schedstat")), before);
        let read = heap("1G");
        assert_eq!(read.code(), 0, "{read:?}");
        assert!(guest.ends_well());
    }
}
