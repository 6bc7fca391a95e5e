//! Calls that are left by an exception, a jump, a break or a throw are counted, and shown as left.

use serde_json::Value;

use crate::machine::program;
use crate::support::{Guest, LIMIT, TempDir, chosen, lancet, run};
use crate::watch::{calls, hooked, left};

const ROUNDS: u64 = 300;

/// Calls and how many of them were left, of a function in the JSON of `-c`; an empty name is the sum.
fn figures(text: &str, function: &str) -> (u64, u64) {
    let mut found = (0, 0);
    for line in text.lines() {
        let object: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let is_it = match function {
            "" => object["record"] == "total",
            name => object["record"] == "row" && object["function"] == name,
        };
        if is_it {
            let figure = |name: &str| {
                object[name]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{name}: {line}"))
            };
            found = (found.0 + figure("calls"), found.1 + figure("left"));
        }
    }
    found
}

fn unwound() -> Option<Guest> {
    let path = program("unwound.cpp")?;
    let guest = Guest::start("unwound", std::process::Command::new(path));
    guest.expect("ready");
    Some(guest)
}

/// Holds the calls of each function of the fixture, and how many of them were left.
fn functions_agree(text: &str) {
    assert_eq!(figures(text, "h_jumps"), (2 * ROUNDS, 2 * ROUNDS), "{text}");
    assert_eq!(
        figures(text, "h_nested"),
        (3 * ROUNDS, 3 * ROUNDS),
        "{text}"
    );
    assert_eq!(figures(text, "h_throws"), (ROUNDS, ROUNDS), "{text}");
    assert_eq!(figures(text, "h_returns"), (ROUNDS, 0), "{text}");
}

/// Of a call that is open when we leave nothing is counted: it was not left.
#[test]
fn what_jumps_and_exceptions_leave_is_counted_in_the_guest() {
    let Some(mut guest) = unwound() else {
        return;
    };
    let watch = hooked(calls(guest.pid, &["-c", "--json", "-x", "h_*"]));
    guest.tell(&ROUNDS.to_string());
    guest.find("answer ");
    let output = left(watch, "unwound");
    let text = &output.stdout;
    functions_agree(text);
    assert_eq!(figures(text, "h_waits"), (0, 0), "{text}");
    assert_eq!(figures(text, ""), (7 * ROUNDS, 6 * ROUNDS), "{text}");
    guest.ends_with_nothing("unwound");
}

#[test]
fn the_table_says_how_many_were_left() {
    let Some(mut guest) = unwound() else {
        return;
    };
    let watch = hooked(calls(
        guest.pid,
        &["-c", "-x", "h_throws", "-x", "h_returns"],
    ));
    guest.tell(&ROUNDS.to_string());
    guest.find("answer ");
    let output = left(watch, "unwound");
    let ends = |end: &str| output.stdout.lines().any(|line| line.ends_with(end));
    assert!(
        ends(" 300 h_throws (300 left without a return)"),
        "{}",
        output.stdout
    );
    assert!(ends(" 300 h_returns"), "{}", output.stdout);
    assert!(
        ends(" 600 total (300 left without a return)"),
        "{}",
        output.stdout
    );
    guest.ends_with_nothing("unwound");
}

/// The same figures from events: a recording that is counted, while it is made and when it is read.
#[test]
fn what_was_left_is_counted_of_events_too() {
    let Some(mut guest) = unwound() else {
        return;
    };
    let folder = TempDir::new("unwound");
    let file = folder.join("calls").display().to_string();
    let what = ["-c", "--json", "--record", &file, "-x", "h_*"];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell(&ROUNDS.to_string());
    guest.find("answer ");
    let output = left(watch, "unwound");
    guest.ends_with_nothing("unwound");
    let replayed = run(lancet().args(["calls", "-c", "--json", &file]), LIMIT);
    for text in [&output.stdout, &replayed.stdout] {
        functions_agree(text);
    }
}

/// `each { break }`, `raise`, `throw`; and what raises never returns.
#[test]
fn what_a_ruby_leaves_is_counted() {
    for ruby in chosen("ruby", "unwound") {
        let mut guest = ruby.start("unwound", &[]);
        let what = [
            "-c",
            "--json",
            "-x",
            "rb_ary_each",
            "-x",
            "rb_exc_raise",
            "-x",
            "rb_throw_obj",
        ];
        let watch = hooked(calls(guest.pid, &what));
        guest.tell("");
        guest.expect("end");
        let output = left(watch, "unwound");
        let text = &output.stdout;
        assert_eq!(
            figures(text, "rb_ary_each"),
            (3 * ROUNDS + 1, 3 * ROUNDS),
            "{ruby}: {text}"
        );
        guest.ends_with_nothing("unwound");
    }
}
