//! Looks hold a process with a big heap for no more of the time than `--budget` allows, and the report says so.

use std::time::Duration;

use serde_json::Value;

use crate::support::{Guest, lancet, mem, rubies, run};

/// The percentage of the time that the looks of a run may hold the process.
const BUDGET: u64 = 5;

#[test]
fn looks_come_later_where_they_take_long() {
    for ruby in rubies("the budget of pauses") {
        let guest = Guest::script(&ruby, "live/heap.rb", &[]);
        guest.expect("ready");
        let mut command = mem(guest.pid);
        command.args(["--every", "100ms", "--for", "8s"]);
        let output = run(&mut command, Duration::from_secs(60));
        assert_eq!(output.code(), 0, "{}", output.stderr);
        let records = output
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let looks: Vec<Value> = records
            .filter(|record: &Value| record["record"] == "look")
            .collect();
        let number = |look: &Value, key: &str| look[key].as_f64().expect("a number");
        let pause = |look: &Value| {
            (number(look, "walk_pause_ns") + look["collection_pause_ns"].as_f64().unwrap_or(0.0))
                / 1e9
        };
        for (at, look) in looks.iter().enumerate() {
            let paused = number(look, "paused_ns") / 1e9;
            // Each look is paid for by the time that follows it. The last one of the run comes in any case, so that the
            // one before it may not be paid for either.
            let is_last = at + 1 == looks.len();
            let before = if is_last && at > 0 {
                pause(&looks[at - 1])
            } else {
                0.0
            };
            let most = number(look, "watched_ns") / 1e9 * BUDGET as f64 / 100.0 * 1.05
                + pause(look)
                + before;
            assert!(
                paused <= most,
                "{ruby}: {paused} s of at most {most}: {look}"
            );
        }
        // Where one takes so long that the next would come after the end, it is the only one.
        let every_tenth = 80;
        assert!(
            (1..every_tenth).contains(&looks.len()),
            "{ruby}: {} looks",
            looks.len()
        );
        assert!(
            output.stderr.contains("(--budget)"),
            "{ruby}: {}",
            output.stderr
        );
    }
}

#[test]
fn the_report_says_for_how_much_of_the_time_looks_held_the_process() {
    for ruby in rubies("the share of the time") {
        let guest = Guest::script(&ruby, "live/heap.rb", &[]);
        guest.expect("ready");
        let mut command = lancet();
        command.args(["mem", "--for", "6s", "-p", &guest.pid.to_string()]);
        let output = run(&mut command, Duration::from_secs(60));
        let said = output.stdout.lines().find(|line| line.starts_with("all "));
        let said = said.unwrap_or_else(|| panic!("{ruby}: {}", output.stdout));
        assert!(
            said.contains(" looks: paused for ") && said.ends_with(" % of the time"),
            "{said}"
        );
    }
}

/// A look whose pause is more than is allowed is not taken and then told: what it costs is said before, and how to allow it.
#[test]
fn a_look_that_would_take_more_than_the_budget_is_refused_before() {
    const MANY: &str = "
ALL = Array.new(4_000_000) { Object.new }
puts 'ready'; STDOUT.flush
sleep";
    for ruby in rubies("a refused look") {
        let guest = Guest::ready(ruby.command().args(["-e", MANY]));
        let look = |options: &[&str]| {
            let mut command = lancet();
            command.args(["mem", "--for", "2s", "-p", &guest.pid.to_string()]);
            run(command.args(options), Duration::from_secs(60))
        };
        let refused = look(&[]);
        assert_eq!(refused.code(), 1, "{ruby}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{ruby}: {refused:?}");
        for said in [
            "slots for objects in its heap: a look would hold it for ",
            "it was not opened. Watch for longer (--for ",
            "allow more (--budget ",
            "count without a collection (--no-gc)",
        ] {
            assert!(refused.stderr.contains(said), "{ruby}: {said}: {refused:?}");
        }
        for allowed in [&["--budget", "50"][..], &["--no-gc"]] {
            let output = look(allowed);
            assert!(matches!(output.code(), 0 | 4), "{ruby}: {output:?}");
            assert!(
                output.stderr.contains(" holds it for some "),
                "{ruby}: {output:?}"
            );
        }
    }
}
