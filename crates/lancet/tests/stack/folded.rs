//! Many looks, folded.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::output::{folder, stack};
use crate::support::{Guest, LIMIT, await_handler, installed, schema, skip, tool, until};

const DEEP: &str = "def deep(n) = n == 0 ? STDIN.read : [1].each { deep(n - 1) }; puts 'ready'; STDOUT.flush; deep(2)";

#[test]
fn a_sleeping_guest_has_one_stack() {
    let guest = Guest::asleep(Command::new("ruby").args(["-e", DEEP]));
    let output = stack(&[
        "-p",
        &guest.pid.to_string(),
        "--for",
        "300ms",
        "--every",
        "20ms",
        "--format",
        "folded",
    ]);
    // On a machine that is busy some looks do not take place, which is said.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{said}");
    let (frames, count) = lines[0].rsplit_once(' ').expect("a count");
    assert!(count.parse::<u64>().expect("a number") >= 1, "{said}");
    let scripts: Vec<&str> = frames
        .split(';')
        .filter(|frame| frame.contains("(-e:"))
        .collect();
    let deep = ["deep (-e:1)", "block in deep (-e:1)"];
    assert_eq!(scripts[0], "<main> (-e:1)");
    assert_eq!(
        scripts[1..],
        [deep, deep]
            .concat()
            .into_iter()
            .chain(["deep (-e:1)"])
            .collect::<Vec<_>>()
    );
    // Innermost is the system call the guest waits in.
    assert!(
        frames.ends_with(";read") || frames.ends_with("__read"),
        "{frames}"
    );

    let picture = folder("folded").join("flame.svg");
    let path = picture.to_str().expect("a path");
    let output = stack(&[
        "-p",
        &guest.pid.to_string(),
        "--for",
        "100ms",
        "--format",
        "svg",
        "-o",
        path,
    ]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
    let picture = std::fs::read_to_string(&picture).expect("written");
    assert!(
        picture.starts_with("<svg ") && picture.contains("block in deep (-e:1)"),
        "{picture}"
    );
    assert!(guest.ends_well());
}

/// Ten fibers that wait at one place, and one elsewhere.
const PARKED: &str = "
def wait_in(n) = n == 0 ? Fiber.yield : wait_in(n - 1)
$kept = (0...10).map { |n| Fiber.new { wait_in(n == 9 ? 3 : 1) } }.each(&:resume)
puts 'ready'; STDOUT.flush; STDIN.read";

#[test]
fn what_is_parked_is_folded_too() {
    let guest = Guest::asleep(Command::new("ruby").args(["-e", PARKED]));
    let pid = guest.pid.to_string();
    let options = ["--for", "50ms", "--fibers", "--format", "folded"];
    let output = stack(&[&options[..], &["-p", &pid]].concat());
    let talk = String::from_utf8_lossy(&output.stderr);
    // Without --every as many looks are made as there is time for: none is late.
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let looks = talk
        .strip_prefix("lancet: ")
        .and_then(|talk| talk.split_once(" look"));
    let looks: u64 = looks.expect("how often").0.parse().expect("a number");
    // How many calls deep, and how often that was seen.
    let mut seen: Vec<(usize, u64)> = Vec::new();
    for line in said
        .lines()
        .filter(|line| line.starts_with("Fiber, parked;"))
    {
        let (frames, count) = line.rsplit_once(' ').expect("a count");
        let depth = frames.split(';').filter(|frame| *frame == "wait_in (-e:2)");
        seen.push((depth.count(), count.parse().expect("a number")));
    }
    seen.sort_unstable();
    assert_eq!(seen, [(2, 9 * looks), (4, looks)], "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("thread ")),
        "{said}"
    );
    assert!(guest.ends_well());
}

/// A look cannot be made in a microsecond: the others are a loss, said and in the exit code.
#[test]
fn looks_that_do_not_take_place_are_a_loss() {
    let guest = Guest::asleep(Command::new("ruby").args(["-e", DEEP]));
    let pid = guest.pid.to_string();
    let output = stack(&["-p", &pid, "--for", "200ms", "--every", "1ms"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    let late = talk.contains(
        " did not take place, because others took longer than --every says: ask for fewer",
    );
    assert_eq!(
        output.status.code(),
        Some(if late { 4 } else { 0 }),
        "{talk}"
    );
    assert!(guest.ends_well());
}

/// The time that was given ends a rest of any length, and so does a signal.
#[test]
fn a_rest_ends_with_the_time_and_with_a_signal() {
    let guest = Guest::asleep(Command::new("ruby").args(["-e", DEEP]));
    let pid = guest.pid.to_string();
    let began = Instant::now();
    let output = stack(&["-p", &pid, "--for", "1s", "--every", "10m"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut command = Command::new(tool());
    command.args(["stack", "-p", &pid, "--every", "10m"]);
    let watching = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let watcher = watching.id() as i32;
    await_handler(watcher, libc::SIGTERM);
    // SAFETY: sends a signal to a child of ours that was not waited for.
    assert_eq!(unsafe { libc::kill(watcher, libc::SIGTERM) }, 0);
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(300));
    assert!(guest.ends_well());
}

#[test]
fn what_does_not_go_together_is_refused() {
    for args in [
        &["--format", "svg", "/bin/true"][..],
        &["--every", "1s", "/bin/true"],
        // It would look for ever.
        &["--format", "svg", "-p", "1"],
        &["--check", "-p", "1"],
        &["--max", "1", "--for", "1s", "-p", "1"],
    ] {
        assert_eq!(stack(args).status.code(), Some(2), "{args:?}");
    }
    let output = stack(&["--gc", "/bin/true"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// Six threads that wait for one lock at two lines, whoever of them has it, and as many for another, where Python's own lock is asked for all
/// the time.
const LOCKS: &str = "
import threading, time
one, other = threading.Lock(), threading.Lock()
def first():
    with one: time.sleep(0.02)
def second():
    with one: time.sleep(0.02)
def alone():
    with other: time.sleep(0.02)
def forever(what):
    while True: what()
for what in (first, second, alone):
    for _ in range(3): threading.Thread(target=forever, args=(what,), daemon=True).start()
print('ready', flush=True)
time.sleep(600)
";

/// A wait at a line is one row, whoever has the lock; what a lock costs at all its lines is one, too.
#[test]
fn a_wait_is_one_row_whoever_has_the_lock() {
    if !installed("python3") {
        return skip("waits for locks", "there is no python3");
    }
    let guest = Guest::ready(Command::new("python3").args(["-c", LOCKS]));
    let pid = guest.pid.to_string();
    // On a busy machine a run has few looks, and does not see all of it.
    until(LIMIT, "a wait at each line", || {
        let output = stack(&["-p", &pid, "--for", "3s", "--json"]);
        assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
        one_row_a_wait(&String::from_utf8(output.stdout).expect("text"))
    });
    until(LIMIT, "a lock with its lines", || {
        let table = stack(&["-p", &pid, "--for", "3s"]);
        let table = String::from_utf8_lossy(&table.stdout).into_owned();
        let (_, together) = table.split_once("waiting for one lock, all lines together")?;
        let mut rows = together.lines();
        rows.find(|row| row.contains("  mutex 0x") && row.contains(": at 2 lines, most at "))
            .map(drop)
    });
}

/// Asserts that no wait is split; `None` if a wait was not seen.
fn one_row_a_wait(said: &str) -> Option<()> {
    let records = schema::records(&["stack"], said);
    let of = |kind: &'static str| {
        let all = records.iter();
        all.filter(move |record| record["record"] == kind)
    };
    let acquire = "asleep in acquire of a lock";
    let at = |row: &Value| schema::site(row).replace('\'', "");
    let seen_at = |line: &str| {
        let rows = of("place").filter(|row| at(row) == line && row["running"] == false);
        let waits = rows.filter(|row| {
            let state = row["state"].as_str().unwrap_or_default();
            state.starts_with("waits for a mutex") || state == acquire
        });
        let waits: Vec<&Value> = waits.collect();
        assert!(waits.len() <= 1, "{line}: {said}");
        let wait = waits.first()?;
        assert_eq!(wait["state"], acquire, "{line}: {said}");
        wait["seen"].as_u64()
    };
    let sum = seen_at("<string>:5 in first")? + seen_at("<string>:7 in second")?;
    seen_at("<string>:9 in alone")?;
    let mutexes = of("lock").filter(|lock| {
        let name = lock["lock"].as_str().unwrap_or_default();
        name.starts_with("mutex ") && lock["at"].as_array().is_some_and(|at| at.len() == 2)
    });
    let seen: Vec<Option<u64>> = mutexes.map(|lock| lock["seen"].as_u64()).collect();
    assert!(seen.len() <= 1, "{said}");
    assert_eq!(*seen.first()?, Some(sum), "{said}");
    Some(())
}
