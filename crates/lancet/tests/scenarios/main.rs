//! What people come with at three in the morning: each program of `fixtures/scenarios` has one thing wrong with it, and the
//! one command that README names for it says in its first lines which file and line that is.

#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;

mod agent;
mod demo;
mod first_ended;
mod forms;
mod mcp;
mod parquet;
mod probe;
mod readers;
mod tutorial;

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use support::{Guest, LIMIT, Output, database, fixtures, installed, is_root, lancet, run, skip};

fn script(name: &str) -> PathBuf {
    fixtures().join("scenarios").join(name)
}

/// Starts a scenario with the interpreter of its ending, and waits until it is where it goes wrong.
fn scenario(name: &str, arguments: &[&str]) -> Option<Guest> {
    let interpreter = match name.rsplit_once('.') {
        Some((_, "rb")) => "ruby",
        _ => "python3",
    };
    if !installed(interpreter) {
        skip(name, format_args!("there is no {interpreter}"));
        return None;
    }
    let mut command = Command::new(interpreter);
    command.arg(script(name)).args(arguments);
    Some(Guest::ready(&mut command))
}

/// Runs a command of README, written as there, for a scenario.
fn answer(guest: &Guest, line: &str) -> Output {
    let line = line.replace("PID", &guest.pid.to_string());
    let mut command = lancet();
    command.args(line.split_whitespace().skip(1));
    run(&mut command, LIMIT)
}

/// The lines of a text that a reader sees first: the first `count` that are not empty.
fn first(text: &str, count: usize) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.take(count).collect()
}

/// README names the command for what hurts.
fn is_in_readme(command: &str) {
    let readme = fixtures().join("../README.md");
    let readme = std::fs::read_to_string(readme).expect("README");
    assert!(readme.contains(&format!("`{command}`")), "{command}");
}

/// The first row of a table of `calls -c`.
fn row(output: &Output) -> &str {
    let rows = output.stdout.lines().skip(2);
    rows.take(1).next().unwrap_or_default()
}

#[test]
fn a_leak_is_the_first_line() {
    is_in_readme("lancet mem -p PID --for 20s");
    let Some(guest) = scenario("leak.rb", &[]) else {
        return;
    };
    // Debug builds of lancet take their time; the interval is a fourth of it.
    let output = answer(&guest, "lancet mem -p PID --for 20s");
    let said = first(&output.stdout, 3);
    let leaks = said.iter().filter(|line| line.starts_with("leak: "));
    let leaks: Vec<_> = leaks.collect();
    assert!(
        !leaks.is_empty() && leaks.iter().all(|line| line.contains("leak.rb:11:")),
        "{output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn a_python_that_grows_is_named_by_its_line() {
    let Some(guest) = scenario("grows.py", &[]) else {
        return;
    };
    let output = answer(&guest, "lancet mem -p PID --for 20s");
    let said = first(&output.stdout, 3);
    // The numbers that it keeps are made where it counts them.
    // Where its main thread waits at the count no collection is run before it.
    let is_leak = |line: &&&str| line.starts_with("leak: ") || line.starts_with("perhaps a leak: ");
    let first = said.iter().find(is_leak);
    assert!(
        first.is_some_and(|line| line.contains("grows.py:11:")),
        "{output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn a_deadlock_is_said_with_both_lines() {
    is_in_readme("lancet stack -p PID");
    let Some(guest) = scenario("deadlock.rb", &[]) else {
        return;
    };
    // The threads are stuck when Ruby says that they sleep; its account of it may be a moment old.
    let begun = Instant::now();
    let output = loop {
        let output = answer(&guest, "lancet stack -p PID");
        if output.stdout.contains("\ndeadlock: ") || begun.elapsed() > LIMIT {
            break output;
        }
    };
    let said = first(&output.stdout, 4);
    assert!(
        said[1].starts_with("deadlock: these 2 threads"),
        "{output:?}"
    );
    for (line, thread, wants, holder) in [
        (said[2], "transfer", "deadlock.rb:10", "deadlock.rb:18"),
        (said[3], "audit", "deadlock.rb:18", "deadlock.rb:10"),
    ] {
        let wanted = [
            format!("{thread} ({wants}) waits for a mutex"),
            format!("({holder}) holds"),
        ];
        assert!(wanted.iter().all(|text| line.contains(text)), "{output:?}");
    }
    assert!(guest.ends_well());
}

#[test]
fn a_name_server_that_does_not_answer_is_named() {
    is_in_readme("lancet stack -p PID");
    if !is_root() {
        return skip("dns", "a resolv.conf of its own takes root");
    }
    let Some(guest) = scenario("dns.rb", &[]) else {
        return;
    };
    let output = answer(&guest, "lancet stack -p PID");
    let state = output.stdout.lines().find(|line| line.contains(" rates: "));
    let state = state.unwrap_or_default();
    assert!(
        state.contains("TCPSocket#initialize (getaddrinfo, ")
            && state.contains("udp to 127.0.0.99:53, ")
            && state.ends_with(", asking for rates.example.com"),
        "{output:?}"
    );
    assert!(
        output.stdout.contains("dns.rb:18 in Object#exchange_rate"),
        "{output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn a_busy_line_is_the_first_row() {
    is_in_readme("lancet stack -p PID --for 10s");
    let Some(guest) = scenario("busy.rb", &[]) else {
        return;
    };
    let output = answer(&guest, "lancet stack -p PID --for 10s");
    let said = first(&output.stdout, 3);
    assert_eq!(said[1], "running", "{output:?}");
    assert!(
        said[2].ends_with("busy.rb:6 in Object#known?"),
        "{output:?}"
    );
    let share: f64 = said[2]
        .trim()
        .split('%')
        .next()
        .and_then(|share| share.parse().ok())
        .unwrap_or_default();
    assert!((60.0..=100.0).contains(&share), "{output:?}");
    assert!(guest.ends_well());
}

#[test]
fn a_line_that_queries_in_a_loop_is_the_first_row() {
    const COMMAND: &str = "lancet calls -c --preset sql -p PID --for 10s";
    is_in_readme(COMMAND);
    let Some(server) = database("scenarios") else {
        return;
    };
    let socket = server.socket().display().to_string();
    let libraries = Command::new("ruby")
        .args(["-e", "require 'sequel'; require 'mysql2'"])
        .status();
    if !libraries.is_ok_and(|status| status.success()) {
        return skip("n_plus_one", "sequel or mysql2 is missing");
    }
    let Some(guest) = scenario("n_plus_one.rb", &[&socket]) else {
        return;
    };
    let output = answer(&guest, COMMAND);
    let first = row(&output);
    assert!(
        first.contains("SELECT `name` FROM `customers`") && first.contains("n_plus_one.rb:11 in "),
        "{output:?}"
    );
    // A statement that was sent and whose result has not come as lancet goes is told as left. The program has one connection, so
    // that is one at most.
    let left = output.stdout.replace("(1 left without a return)", "");
    assert!(!left.contains("left without a return"), "{output:?}");
    // Fifty of it for one of the other.
    let calls = |line: &str| -> u64 {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "mysql_send_query");
        at.and_then(|at| words[at - 1].parse().ok())
            .unwrap_or_default()
    };
    let second = output.stdout.lines().nth(3).unwrap_or_default();
    let (many, one) = (calls(first), calls(second));
    assert!(
        second.contains("SELECT * FROM `orders`") && one > 0,
        "{output:?}"
    );
    assert!(
        (45..=55).contains(&(many / one)),
        "{many} and {one}: {output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn the_line_whose_garbage_is_collected_is_the_first_row() {
    const COMMAND: &str = "lancet calls -c --preset gc -p PID --for 10s";
    is_in_readme(COMMAND);
    let Some(guest) = scenario("gc.rb", &[]) else {
        return;
    };
    let output = answer(&guest, COMMAND);
    let first = row(&output);
    assert!(
        first.contains(" gc ← ") && first.contains("gc.rb:10 in "),
        "{output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn a_line_that_opens_and_does_not_close_is_told() {
    const COMMAND: &str = "lancet calls -c --preset files -p PID --for 20s";
    is_in_readme(COMMAND);
    let Some(guest) = scenario("descriptors.rb", &[]) else {
        return;
    };
    let output = answer(&guest, COMMAND);
    let first = output.stdout.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("leak: ") && first.contains("descriptors.rb:8"),
        "{output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn a_line_that_waits_is_the_first_of_those() {
    is_in_readme("lancet stack -p PID --for 10s");
    let Some(guest) = scenario("slow.rb", &[]) else {
        return;
    };
    let output = answer(&guest, "lancet stack -p PID --for 10s");
    let waiting = output.stdout.lines().skip_while(|line| *line != "waiting");
    let first = waiting.skip(1).take(1).next().unwrap_or_default();
    assert!(
        first.contains("slow.rb:12 in Object#recommendations: asleep in IO#gets")
            && first.contains("tcp to 127.0.0.1:"),
        "{output:?}"
    );
    assert!(guest.ends_well());
}
