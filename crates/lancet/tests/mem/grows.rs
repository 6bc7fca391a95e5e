//! What grows without more and more objects: single objects that hold more and more, memory that is no object's, a process
//! whose collector is switched off. And a job that ends before its time is over.
//!
//! The guest is `fixtures/ruby/leak/grows.rb`.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    Guest, Interpreter, Output, Snapshot, lancet, mem, rubies, run, schema, until_seen,
};

/// How long each is watched at first: enough for a verdict, if looks are in time.
const WATCH: Duration = Duration::from_secs(12);

fn guest(ruby: &Interpreter, kind: &str) -> Guest {
    let guest = Guest::script(ruby, "leak/grows.rb", &[kind]);
    guest.expect("ready");
    guest
}

/// What lancet writes of a guest of this kind.
fn watched(ruby: &Interpreter, kind: &str, watch: &str) -> Vec<Value> {
    let guest = guest(ruby, kind);
    let before = Snapshot::take(guest.pid);
    let mut command = mem(guest.pid);
    // On a busy machine a look takes long, and few of them would be allowed.
    command.args(["--for", watch, "--budget", "60"]);
    let output = run(&mut command, Duration::from_secs(120));
    assert_eq!(output.code(), 0, "{ruby}, {kind}: {}", output.stderr);
    // One that makes threads has others than before.
    if kind != "threads" {
        before.holds(guest.pid, "after the watch");
    }
    records(&output)
}

/// What lancet writes of a guest of this kind with its verdict, for which it must have looked often enough.
fn judged(ruby: &Interpreter, kind: &str, watch: Duration) -> Vec<Value> {
    until_seen(watch, "looks for a verdict", |length| {
        let records = watched(ruby, kind, length);
        let is_early = of(&records, "verdict")[0]["verdict"] == "too_early";
        (!is_early).then_some(records)
    })
}

fn records(output: &Output) -> Vec<Value> {
    schema::records(&["mem"], &output.stdout)
}

fn of<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["record"] == kind)
        .collect()
}

/// Asserts that the first leak is one of these types, whose objects hold more and more.
fn holds_more(ruby: &Interpreter, kind: &str, watch: Duration, types: &[&str], before: bool) {
    let records = judged(ruby, kind, watch);
    let leaks = of(&records, "leak");
    assert_eq!(leaks.len(), types.len(), "{ruby}, {kind}: {records:#?}");
    for leak in leaks {
        let of = leak["type"].as_str().expect("a type");
        assert!(types.contains(&of), "{ruby}, {kind}: {leak}");
        assert_eq!(leak["before"], before, "{ruby}, {kind}: {leak}");
        assert_eq!(leak["grows"], "size", "{ruby}, {kind}: {leak}");
        assert!(
            leak["grown"].as_u64() > Some(64 << 10),
            "{ruby}, {kind}: {leak}"
        );
        let line = leak["place"]["line"].as_u64().is_some_and(|line| line != 0);
        assert_eq!(line, !before, "{ruby}, {kind}: {leak}");
    }
    let verdict = of(&records, "verdict")[0];
    assert_eq!(verdict["verdict"], "leak", "{ruby}, {kind}: {verdict}");
    let text = verdict["text"].as_str().expect("a text");
    assert!(
        text.contains("more at each look, +"),
        "{ruby}, {kind}: {text}"
    );
}

#[test]
fn an_object_that_holds_more_and_more_is_a_leak() {
    for ruby in rubies("one object grows") {
        thread::scope(|scope| {
            let ruby = &ruby;
            for (kind, of) in [
                ("text", "String"),
                ("elements", "Array"),
                ("pairs", "Hash"),
                ("many", "String"),
            ] {
                scope.spawn(move || holds_more(ruby, kind, WATCH, &[of], true));
            }
            let late = Duration::from_secs(20);
            scope.spawn(move || holds_more(ruby, "late", late, &["String", "Array"], false));
        });
    }
}

#[test]
fn what_is_emptied_or_stays_as_it_is_is_none() {
    for ruby in rubies("nothing grows") {
        let records = judged(&ruby, "clean", WATCH);
        let verdict = of(&records, "verdict")[0];
        assert_eq!(verdict["verdict"], "none", "{ruby}: {records:#?}");
        assert_eq!(verdict["resident_grown"], Value::Null, "{ruby}: {verdict}");
    }
}

/// Stacks are no object's, and the VM stack that Ruby says a thread has is room: the row of threads is the first, with what they hold
/// beside these. Threads are what the VM has as such, of whatever class.
#[test]
fn threads_come_first_and_their_stacks_are_not_their_bytes() {
    for ruby in rubies("threads grow") {
        let records = judged(&ruby, "threads", WATCH);
        let first = of(&records, "leak")[0];
        assert_eq!(first["type"], "Refresher", "{ruby}: {records:#?}");
        let (bytes, live) = (first["bytes"].as_u64(), first["live"].as_u64());
        let each = bytes.zip(live).map(|(bytes, live)| bytes / live.max(1));
        assert!(each < Some(64 << 10), "{ruby}: {first}");
        let text = of(&records, "verdict")[0]["text"].as_str().expect("a text");
        assert!(text.contains(" without their stacks"), "{ruby}: {text}");
    }
}

/// What lives has been allocated: of no row can the one be more than the other.
#[test]
fn no_row_holds_more_than_it_allocated() {
    for ruby in rubies("tails") {
        let records = watched(&ruby, "tails", "5s");
        let made: Vec<&Value> = of(&records, "row")
            .into_iter()
            .filter(|row| row["allocated"].is_u64() && row["born"].as_u64() > Some(0))
            .collect();
        let large = made
            .iter()
            .filter(|row| row["bytes"].as_u64() > Some(4 << 20));
        assert_eq!(large.count(), 1, "{ruby}: {made:#?}");
        for row in made {
            assert!(
                row["allocated"].as_u64() >= row["bytes"].as_u64(),
                "{ruby}: {row}"
            );
        }
    }
}

#[test]
fn a_cache_that_is_still_filling_is_no_leak_yet() {
    for ruby in rubies("a cache fills") {
        let records = judged(&ruby, "filling", WATCH);
        let verdict = of(&records, "verdict")[0];
        assert_eq!(verdict["verdict"], "none", "{ruby}: {records:#?}");
        let text = verdict["text"].as_str().expect("a text");
        assert!(text.starts_with("no leak yet: "), "{ruby}: {text}");
    }
}

#[test]
fn memory_that_no_object_holds_is_said_beside_the_verdict() {
    for ruby in rubies("native memory grows") {
        let records = judged(&ruby, "native", WATCH);
        let verdict = of(&records, "verdict")[0];
        let grown = verdict["resident_grown"].as_u64();
        assert!(grown > Some(4 << 20), "{ruby}: {verdict}");
        let text = verdict["text"].as_str().expect("a text");
        assert!(text.contains("resident memory grew by "), "{ruby}: {text}");
        assert!(text.contains("lancet heap --rss -p "), "{ruby}: {text}");
        assert!(!text.contains("no leak"), "{ruby}: {text}");
    }
}

/// It is the fault, so it is the first line, and nobody reads of garbage that the next collection frees.
#[test]
fn a_collector_that_is_switched_off_is_the_verdict() {
    for ruby in rubies("the collector is off") {
        let guest = guest(&ruby, "off");
        for options in [&["--for", "3s"][..], &["--for", "1s", "--no-gc"]] {
            let mut command = lancet();
            command
                .args(["mem", "-p", &guest.pid.to_string()])
                .args(options);
            let output = run(&mut command, Duration::from_secs(60));
            assert_eq!(output.code(), 0, "{ruby}: {}", output.stderr);
            let line = output.stdout.lines().nth(2).unwrap_or_default();
            assert!(
                line.contains("switched off in this process (GC.disable)"),
                "{ruby}: {line}"
            );
        }
        // It is still off: what the agent asked has changed nothing.
        let records = watched(&ruby, "off", "1s");
        assert_eq!(of(&records, "verdict")[0]["collector_off"], true, "{ruby}");
    }
}

#[test]
fn a_job_that_ends_before_its_time_is_reported_as_it_was_last_seen() {
    for ruby in rubies("a job ends") {
        let guest = guest(&ruby, "job");
        let mut command = mem(guest.pid);
        command.args(["--for", "100s"]);
        let output = run(&mut command, Duration::from_secs(90));
        assert_eq!(output.code(), 4, "{ruby}: {}", output.stderr);
        let records = records(&output);
        let rows = of(&records, "row");
        let kept = rows
            .iter()
            .find(|row| row["type"] == "String" && row["live"].as_u64() > Some(50));
        assert!(kept.is_some(), "{ruby}: {records:#?}");
        let losses = of(&records, "loss");
        let said = losses.iter().any(|loss| {
            let text = loss["text"].as_str().unwrap_or_default();
            text.starts_with("the process has ended since")
        });
        assert!(said, "{ruby}: {losses:?}");
    }
}

/// A look at two million objects takes longer than the budget allows for several: what single objects hold is not known then, and nobody says
/// that it did not grow.
#[test]
fn what_too_few_looks_do_not_show_is_not_denied() {
    const MANY: &str = "
ALL = Array.new(2_000_000) { Object.new }
text = String.new
200_000.times { text << 'x' * 10 }
puts 'ready'; STDOUT.flush
loop { 100.times { text << 'x' * 100 }; sleep 0.01 }";
    for ruby in rubies("too few looks") {
        let guest = Guest::ready(ruby.command().args(["-e", MANY]));
        let mut command = mem(guest.pid);
        command.args(["--for", "12s", "--budget", "1"]);
        let output = run(&mut command, Duration::from_secs(120));
        assert_eq!(output.code(), 0, "{ruby}: {}", output.stderr);
        let records = records(&output);
        let verdict = of(&records, "verdict")[0];
        let text = verdict["text"].as_str().expect("a text");
        // A fast machine has looks enough to see it.
        if text.starts_with("leak: String") {
            continue;
        }
        assert_eq!(verdict["followed"], false, "{ruby}: {verdict}");
        assert!(text.starts_with("no leak by number: "), "{ruby}: {text}");
        assert!(text.contains(" were too few"), "{ruby}: {text}");
    }
}
