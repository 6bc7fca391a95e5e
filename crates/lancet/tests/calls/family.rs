//! Children and the programs that they run, followed from their first call; and several guests at once.

use std::collections::HashSet;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::machine::program;
use crate::support::{Guest, LIMIT, Output, Random, TempDir, lancet, run, soak, until};
use crate::watch::{HOOKED, calls, counted, hooked};

const ROUNDS: u64 = 200;

/// Modes of `family.cpp`, with how many processes come to do their rounds.
const MODES: [(&str, u64); 6] = [
    ("tree", 1 + 2 + 4 + 8),
    ("storm", 61),
    ("exec", 2),
    ("exec_thread", 2),
    ("spawn", 2),
    ("vfork", 4),
];

const FOLLOWS: &[&str] = &["-f", "-c", "--max-wait", "30s", "-x", "h_round"];

fn start(mode: &str) -> Option<Guest> {
    let path = program("family.cpp")?;
    let mut command = Command::new(path);
    command.args([mode, &ROUNDS.to_string(), "wait"]);
    let guest = Guest::start(mode, command);
    guest.expect("ready");
    Some(guest)
}

fn holds(mode: &str, processes: u64, output: &Output, table: &str) {
    let count = counted(table, "h_round");
    assert_eq!(
        count,
        processes * ROUNDS,
        "{mode}: {table} {}",
        output.stderr
    );
}

#[test]
fn children_of_a_started_program_are_followed() {
    let Some(path) = program("family.cpp") else {
        return;
    };
    for (mode, processes) in MODES {
        let mut command = lancet();
        command
            .args(["calls", "--budget", "100"])
            .args(FOLLOWS)
            .arg(&path);
        let output = run(command.args([mode, &ROUNDS.to_string()]), LIMIT);
        assert_eq!(output.code(), 7, "{mode}: {}", output.stderr);
        holds(mode, processes, &output, &output.stderr);
    }
}

/// A program to be started and followed, with nothing lost of this function.
fn followed(function: &str) -> Command {
    let mut command = lancet();
    command.args(["calls", "--budget", "100", "-f", "--max-wait", "30s"]);
    command.args(["-x", function]);
    command
}

#[test]
fn children_of_a_running_process_are_followed() {
    for (mode, processes) in MODES {
        let Some(mut guest) = start(mode) else {
            return;
        };
        let watch = hooked(calls(guest.pid, FOLLOWS));
        guest.tell("");
        let (_, status) = guest.end();
        assert_eq!(status.code(), Some(7), "{mode}");
        let output = watch.end();
        assert_eq!(output.code(), 0, "{mode}: {}", output.stderr);
        holds(mode, processes, &output, &output.stdout);
    }
}

/// Without `-f` children are not told of, and nobody waits for us.
#[test]
fn children_are_left_alone_unless_they_are_wanted() {
    let Some(mut guest) = start("tree") else {
        return;
    };
    let what = ["-c", "--max-wait", "30s", "-x", "h_round"];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("");
    let (_, status) = guest.end();
    assert_eq!(status.code(), Some(7));
    let output = watch.end();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    holds("tree", 1, &output, &output.stdout);
}

#[test]
fn a_shell_and_what_it_runs_are_followed() {
    let Some(path) = program("family.cpp") else {
        return;
    };
    let path = path.to_str().expect("plain");
    let script = format!(
        "{path} return {ROUNDS}; ({path} tree {ROUNDS}) | cat; exec sh -c 'exec {path} exec {ROUNDS}'"
    );
    let mut command = followed("h_round");
    let output = run(command.args(["--", "sh", "-c", &script]), LIMIT);
    assert_eq!(output.code(), 7, "{}", output.stderr);
    let told = output.stderr.matches("h_round(").count() as u64;
    assert_eq!(told, (1 + 15 + 2) * ROUNDS, "{}", output.stderr);
    let named = output
        .stderr
        .lines()
        .filter(|line| line.contains("h_round(") && line.starts_with("[pid "));
    assert!(named.count() as u64 > 15 * ROUNDS, "{}", output.stderr);
}

/// Children that no function tells of: they compute as without us, and with `-f` wait behind the system call that makes them.
#[test]
fn children_of_a_bare_clone_are_followed() {
    for mode in ["clone", "clone3"] {
        for follow in [false, true] {
            let Some(mut guest) = start(mode) else {
                return;
            };
            let folder = TempDir::new("clone");
            let out = folder.join("out");
            let mut what = vec!["--max-wait", "30s", "-x", "h_round", "-o"];
            what.push(out.to_str().expect("plain"));
            what.extend(follow.then_some("-f"));
            let watch = hooked(calls(guest.pid, &what));
            guest.tell("");
            let told = || std::fs::read_to_string(&out).unwrap_or_default();
            if follow {
                until(LIMIT, "calls of two children", || {
                    let told = told();
                    let rounds = told.lines().filter(|line| line.contains("] h_round(1"));
                    let of = rounds.filter_map(|line| line.split(' ').nth(1));
                    let children: HashSet<&str> =
                        of.filter(|id| *id != format!("{}]", guest.pid)).collect();
                    (children.len() == 2).then_some(())
                });
            } else {
                until(LIMIT, "all calls", || {
                    (told().matches("h_round(").count() as u64 == ROUNDS).then_some(())
                });
            }
            guest.tell("");
            assert_eq!(guest.end().1.code(), Some(7), "{mode}");
            let output = watch.end();
            // A child is killed, and what was not read of it by then is a loss.
            let is_lost = output.stderr.contains("is lost with its memory");
            let code = if is_lost { 4 } else { 0 };
            assert_eq!(output.code(), code, "{mode}: {}", output.stderr);
            assert!(!output.stderr.contains("was made by clone"), "{output:?}");
        }
    }
}

/// A child returns from the calls that its parent was in.
#[test]
fn a_child_returns_from_fork() {
    let Some(path) = program("family.cpp") else {
        return;
    };
    let mut command = followed("fork");
    let output = run(command.arg(path).args(["tree", "1"]), LIMIT);
    assert_eq!(output.code(), 7, "{}", output.stderr);
    let told = |what: &str| output.stderr.matches(what).count();
    assert_eq!(told("fork("), 14, "{}", output.stderr);
    let zeros = output.stderr.lines().filter(|line| line.ends_with("= 0"));
    assert_eq!(zeros.count(), 14, "{}", output.stderr);
    assert_eq!(told("+++ exited"), 15, "{}", output.stderr);
}

/// First the child, under its own number, then its parent, with that number as the result.
fn vfork_has_returned_twice(text: &str, parent: i32) {
    let told = |what: &str| text.matches(what).count();
    assert_eq!(told("vfork("), 3, "{text}");
    assert_eq!(told("<return not told>"), 0, "{text}");
    let result = |line: &str| {
        let (head, result) = line.rsplit_once("= ")?;
        let tid = head.strip_prefix("[pid ")?.split(']').next()?;
        let is_return = head.contains("vfork");
        is_return.then(|| {
            (
                tid.parse().expect("a thread"),
                result.parse().expect("an int"),
            )
        })
    };
    let returns: Vec<(i32, i32)> = text.lines().filter_map(result).collect();
    assert_eq!(returns.len(), 6, "{text}");
    for pair in returns.chunks(2) {
        let child = pair[0].0;
        assert_ne!(child, parent, "{text}");
        assert_eq!(pair, [(child, 0), (parent, child)], "{text}");
    }
}

#[test]
fn vfork_returns_in_the_child_and_then_in_its_parent() {
    let Some(mut guest) = start("vfork") else {
        return;
    };
    let watch = hooked(calls(
        guest.pid,
        &["-f", "--max-wait", "30s", "-x", "vfork"],
    ));
    let pid = guest.pid;
    guest.tell("");
    let (_, status) = guest.end();
    assert_eq!(status.code(), Some(7));
    let output = watch.end();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    vfork_has_returned_twice(&output.stdout, pid);
    let Some(path) = program("family.cpp") else {
        return;
    };
    let mut command = followed("vfork");
    let output = run(command.arg(path).args(["vfork", "1"]), LIMIT);
    assert_eq!(output.code(), 7, "{}", output.stderr);
    let first = output.stderr.split("lancet: process ").nth(1);
    let pid = first.and_then(|rest| rest.split(':').next()?.parse().ok());
    vfork_has_returned_twice(&output.stderr, pid.expect("its number"));
}

#[test]
fn a_recording_has_both_returns_of_vfork() {
    let Some(path) = program("family.cpp") else {
        return;
    };
    let folder = TempDir::new("vfork");
    let file = folder.join("file").display().to_string();
    let mut command = lancet();
    command.args([
        "calls",
        "-f",
        "--max-wait",
        "30s",
        "-x",
        "vfork",
        "--record",
        &file,
    ]);
    let output = run(command.arg(path).args(["vfork", "1"]), LIMIT);
    assert_eq!(output.code(), 7, "{}", output.stderr);
    let first = output.stderr.split("lancet: process ").nth(1);
    let pid = first.and_then(|rest| rest.split(':').next()?.parse().ok());
    let shown = run(lancet().args(["calls", &file]), LIMIT);
    assert_eq!(shown.code(), 0, "{}", shown.stderr);
    vfork_has_returned_twice(&shown.stdout, pid.expect("its number"));
}

/// The guest ends as without us, whatever happens to us while it forks.
#[test]
fn a_kill_while_it_forks_costs_the_guest_nothing() {
    let mut random = Random::new("family killed");
    for _ in 0..if soak() { 60 } else { 6 } {
        for mode in ["storm", "vfork", "exec", "spawn"] {
            let Some(mut guest) = start(mode) else {
                return;
            };
            let watch = hooked(calls(guest.pid, FOLLOWS));
            guest.tell("");
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            watch.kill();
            let (_, status) = guest.end();
            assert_eq!(status.code(), Some(7), "{mode}");
        }
    }
}

#[test]
fn one_of_several_guests_ends_and_the_others_go_on() {
    let (Some(mut first), Some(mut second), Some(third)) =
        (start("return"), start("tree"), start("kill"))
    else {
        return;
    };
    let mut command = calls(first.pid, FOLLOWS);
    command.args(["-p", &second.pid.to_string()]);
    command.args(["-p", &third.pid.to_string()]);
    let mut watch = hooked(command);
    watch.until(&format!("lancet: process {}: ", third.pid));
    let killed = third.pid;
    third.signal(Signal::SIGKILL);
    watch.until(&format!("lancet: process {killed} was ended by SIGKILL"));
    first.tell("");
    assert_eq!(first.end().1.code(), Some(7));
    second.tell("");
    assert_eq!(second.end().1.code(), Some(7));
    let output = watch.end();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    holds("several", 1 + 15, &output, &output.stdout);
}

/// `execvp` calls `execve` for each directory of `PATH`, and all but the last fail. `xargs` does that in a child of
/// `fork`, Python's `subprocess` in one of `vfork`.
#[test]
fn a_program_is_followed_through_all_directories_of_the_path() {
    let folder = TempDir::new("path");
    let text = folder.join("text");
    std::fs::write(&text, "a line\n").expect("written");
    let text = text.to_str().expect("a path of ours");
    let python = "import subprocess, sys; subprocess.run(['cat', sys.argv[1]], check=True)";
    let ways: [&[&str]; 2] = [
        &[
            "/usr/bin/xargs",
            "-a",
            text,
            "sh",
            "-c",
            "exec cat \"$0\"",
            text,
        ],
        &["/usr/bin/python3", "-c", python, text],
    ];
    let path: Vec<String> = (0..12).map(|number| format!("/nowhere/{number}")).collect();
    let path = format!("{}:/usr/bin:/bin", path.join(":"));
    for way in ways {
        let mut command = lancet();
        command.args([
            "calls",
            "-f",
            "-c",
            "--max-wait",
            "30s",
            "-x",
            "write",
            "--",
        ]);
        let output = run(command.args(way).env("PATH", &path), LIMIT);
        assert_eq!(output.code(), 0, "{way:?}: {}", output.stderr);
        assert_eq!(output.stdout, "a line\n", "{way:?}");
        // The one that writes is `cat`.
        let written = counted(&output.stderr, "write");
        assert_eq!(written, 1, "{way:?}: {}", output.stderr);
    }
}

/// `--children` opens the workers that are there, and follows those that come; `-p` alone has none of them.
#[test]
fn children_that_are_there_are_opened() {
    const SERVER: &str = "\
STDOUT.sync = true
def work = 50.times { [3, 1].sort }
parent = $$
child = proc { puts 'child'; STDIN.sysread(5); work; puts 'done'; sleep 0.01 while Process.ppid == parent }
2.times { fork(&child) }
sleep
";
    if !crate::support::installed("ruby") {
        return crate::support::skip("children", "there is no ruby");
    }
    for (options, wanted) in [(&["--children"][..], 100), (&[], 0)] {
        let mut guest = Guest::start("server", Command::new("ruby").args(["-e", SERVER]));
        guest.expect("child");
        guest.expect("child");
        let mut arguments = vec!["-c", "-x", "rb_ary_sort"];
        arguments.extend(options);
        let mut watch = hooked(calls(guest.pid, &arguments));
        for _ in options {
            // The children.
            watch.until(HOOKED);
            watch.until(HOOKED);
        }
        guest.tell("work");
        guest.tell("work");
        guest.expect("done");
        guest.expect("done");
        let output = watch.interrupt();
        let rows = output
            .stdout
            .lines()
            .filter_map(|line| line.split_once(" rb_ary_sort ←"));
        let calls =
            rows.filter_map(|(row, _)| row.split_whitespace().next_back()?.parse::<u64>().ok());
        assert_eq!(calls.sum::<u64>(), wanted, "{options:?}: {output:?}");
        guest.signal(Signal::SIGKILL);
        guest.end();
    }
}
