//! Programs that `lancet stack` starts, and the children of a server.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::output::{records, stack};
use crate::support::{Guest, LIMIT, Watch, lancet, until};

/// Works for three seconds and ends with 7.
const WORKS: &str = "def busy; t = Process.clock_gettime(1); 1 while Process.clock_gettime(1) - t < 3; end\nputs 'mine'; busy; exit 7";

/// Two children, the second when it is told to make it.
const SERVER: &str = "\
def first; sleep; end
def second; sleep; end
def make(&work) = fork { STDOUT.puts 'child'; STDOUT.flush; work.call }
made = [make { first }]
STDIN.gets
made << make { second }
STDIN.gets
made.each { |pid| Process.kill(:KILL, pid); Process.wait(pid) }
";

fn place(records: &[Value], method: &str) -> u64 {
    let here = |record: &&Value| {
        let function = record["place"]["qualified"].as_str();
        function.is_some_and(|name| name.contains(method))
    };
    let seen = records
        .iter()
        .filter(here)
        .filter_map(|record| record["seen"].as_u64());
    seen.sum()
}

/// Its output and its exit code stay its own, what was seen goes to standard error, and its script lines are told though its VM is
/// made after it was opened.
#[test]
fn a_program_is_looked_at_until_it_ends() {
    let output = stack(&["--", "ruby", "-e", WORKS]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"mine\n", "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let running = said.split("\nwaiting").next().unwrap_or_default();
    assert!(running.contains("-e:1 in Object#busy"), "{said}");
}

/// A shell that becomes the program: its memory is another one from then on.
#[test]
fn a_program_that_becomes_another_is_followed() {
    let output = stack(&["--", "sh", "-c", "exec ruby -e \"$0\"", WORKS]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("-e:1 in Object#busy"), "{said}");
}

#[test]
fn a_program_that_is_not_there_is_one_line() {
    let output = stack(&["--", "/nonexistent/program"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("/nonexistent/program"), "{said}");
}

/// One look has the children that are there; many looks have those too that come meanwhile.
#[test]
fn children_are_looked_at_too() {
    let mut guest = Guest::start("server", Command::new("ruby").args(["-e", SERVER]));
    guest.expect("child");
    let pid = guest.pid.to_string();
    until(LIMIT, "the child sleeps", || {
        let output = stack(&["-p", &pid, "--children"]);
        let said = String::from_utf8_lossy(&output.stdout);
        said.contains("-e:1 in Object#first").then_some(())
    });
    let mut command = lancet();
    command.args(["stack", "-p", &pid, "--children", "--for", "3s", "--json"]);
    let watch = Watch::start(command);
    let opened = format!("/proc/{}/fd", watch.pid());
    until(LIMIT, "both are open", || {
        let files = fs::read_dir(&opened).into_iter().flatten().flatten();
        let names = files.filter_map(|file| fs::read_link(file.path()).ok());
        (names.filter(|name| name.ends_with("mem")).count() >= 2).then_some(())
    });
    guest.tell("the second");
    let output = watch.end();
    assert_eq!(output.code(), 0, "{output:?}");
    let places: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(place(&places, "Object#first") > 0, "{output:?}");
    assert!(place(&places, "Object#second") > 0, "{output:?}");
    guest.tell("end");
    assert!(guest.ends_well());
}

/// `--json` goes with `--for`; the last record is that of the losses.
#[test]
fn many_looks_are_json_too() {
    let guest = Guest::asleep(Command::new("ruby").args([
        "-e",
        "def wait = STDIN.read\nputs 'ready'; STDOUT.flush; wait",
    ]));
    let output = stack(&["-p", &guest.pid.to_string(), "--for", "300ms", "--json"]);
    let looks = records(&output, "looks");
    let places = records(&output, "place");
    assert_eq!(
        looks[0]["looks"].as_u64(),
        Some(place(&places, "Object#wait")),
        "{output:?}"
    );
    assert_eq!(records(&output, "losses").len(), 1, "{output:?}");
    assert!(guest.ends_well());
}
