//! Every command shows its answer in every form that records have, and says which forms there are where one is asked for that it has not.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::support::{Guest, Output, TempDir, installed, skip, until_seen};
use super::{answer, scenario};

/// What is asked of a process that waits, and the answers that are of no process.
const ANSWERS: &[&str] = &[
    "lancet mem -p PID --for 300ms",
    "lancet mem -p PID --for 600ms --every 300ms",
    "lancet heap -p PID",
    "lancet heap -p PID --path String",
    "lancet heap -p PID --rss",
    "lancet calls -p PID -x read --for 300ms",
    "lancet calls -c -p PID -x read --for 300ms",
    "lancet calls -c --preset files -p PID --for 300ms",
    "lancet calls --now -p PID",
    "lancet syscalls -p PID --for 300ms",
    "lancet syscalls -c -p PID --for 300ms",
    "lancet syscalls --blocked -p PID",
    "lancet stack -p PID",
    "lancet stack -p PID --gc",
    "lancet stack -p PID --for 300ms",
    "lancet stack /bin/sh",
    "lancet stack /bin/sh --chains",
    "lancet profile -p PID --for 300ms",
    "lancet patch -p PID --list",
    "lancet patch --remedies",
    "lancet tune -p PID --no-sample",
];

/// The fields of a line of CSV.
fn fields(line: &str) -> usize {
    let mut is_quoted = false;
    let commas = line.chars().filter(|c| {
        is_quoted ^= *c == '"';
        *c == ',' && !is_quoted
    });
    commas.count() + 1
}

/// Each table has a head, and no line has more or fewer fields than that.
fn is_csv(output: &Output, line: &str) {
    for table in output.stdout.split("\n\n") {
        let mut lines = table.lines();
        let Some(head) = lines.next() else {
            continue;
        };
        assert!(head.starts_with("record,"), "{line}: {output:?}");
        for row in lines {
            assert_eq!(fields(row), fields(head), "{line}: {row}\n{head}");
        }
    }
}

/// It is whole, says what was lost, and is short.
fn is_markdown(output: &Output, records: &[Value], line: &str) {
    let text = &output.stdout;
    assert!(!text.contains("cut off"), "{line}: {text}");
    let last = text.lines().last().unwrap_or_default();
    match output.code() {
        0 => assert_eq!(last, "Nothing was lost.", "{line}: {output:?}"),
        _ => assert!(text.contains("\n**Lost:**\n"), "{line}: {output:?}"),
    }
    let heads = text.lines().filter(|line| line.starts_with("### ")).count();
    let is_of_process = records.iter().any(|record| record["record"] == "process");
    assert_eq!(heads > 0, is_of_process, "{line}: {text}");
    assert!(text.lines().count() < 200, "{line}: {text}");
}

#[test]
fn every_answer_has_every_form_of_records() {
    let Some(guest) = scenario("leak.rb", &[]) else {
        return;
    };
    for line in ANSWERS {
        let shown = |form: &str| {
            let output = answer(&guest, &format!("{line} --format {form}"));
            assert!(matches!(output.code(), 0 | 4), "{line} {form}: {output:?}");
            output
        };
        let json = shown("json");
        let records: Result<Vec<Value>, _> =
            json.stdout.lines().map(serde_json::from_str).collect();
        let records = records.unwrap_or_else(|error| panic!("{line}: {error}: {json:?}"));
        let last = records.last().map(|record| &record["record"]);
        assert_eq!(last, Some(&"losses".into()), "{line}: {json:?}");
        let (csv, markdown) = (shown("csv"), shown("markdown"));
        is_csv(&csv, line);
        is_markdown(&markdown, &records, line);
        let rows = |kind: &str| {
            let of = records.iter().filter(|record| record["record"] == kind);
            of.count()
        };
        // Of what does not change all forms say the same.
        for kind in ["function", "chain", "remedy"] {
            let begin = format!("{kind},");
            let lines = csv.stdout.lines().filter(|line| line.starts_with(&begin));
            assert_eq!(lines.count(), rows(kind), "{line}: {kind}");
        }
        // What each thread does is in all of them.
        for kind in ["thread", "stack"] {
            if records
                .iter()
                .any(|record| record["record"] == kind && record["state"].is_object())
            {
                assert!(
                    csv.stdout.contains(&format!("\n{kind},")),
                    "{line}: {csv:?}"
                );
                assert!(
                    markdown.stdout.contains("| state |"),
                    "{line}: {markdown:?}"
                );
            }
        }
    }
    assert!(guest.ends_well());
}

/// What is asked of answers that have stacks.
const STACKS: &[&str] = &[
    "lancet mem -p PID --for 300ms --stacks 8",
    "lancet heap -p PID",
    "lancet calls -c -p PID -x rb_str_buf_append --for 300ms",
    "lancet calls -w 4 -p PID -x rb_str_modify --for 300ms",
    "lancet syscalls -c -p PID --for 300ms",
    "lancet syscalls -k -p PID --for 300ms",
    "lancet stack -p PID --for 300ms",
];

#[test]
fn every_answer_with_stacks_has_every_form_of_stacks() {
    let Some(guest) = scenario("leak.rb", &[]) else {
        return;
    };
    for line in STACKS {
        has_stacks(&guest, line, "leak.rb");
    }
    // What is weighed: the time where the process counts for itself, what costs nothing to note where each call is noted, and what there is
    // where no clock is read.
    for (line, unit) in [
        ("lancet calls -p PID -x rb_str_modify", "nanoseconds"),
        ("lancet calls -w 1 -p PID -x rb_str_modify", "none"),
        ("lancet calls --sort calls -p PID -x rb_str_modify", "none"),
        ("lancet syscalls -p PID", "nanoseconds"),
        ("lancet syscalls -U name,calls -S name -p PID", "none"),
    ] {
        let line = format!("{line} --for 300ms --format speedscope");
        let output = answer(&guest, &line);
        let file: Value = serde_json::from_str(&output.stdout).expect("JSON");
        let profile = &file["profiles"][0];
        assert_eq!(profile["unit"], unit, "{line}: {file}");
        assert!(
            profile["samples"]
                .as_array()
                .is_some_and(|all| !all.is_empty()),
            "{line}: {file}"
        );
        let name = profile["name"].as_str().unwrap_or_default();
        assert!(name.contains(&format!("(PID {})", guest.pid)), "{name}");
    }
    assert!(guest.ends_well());
    let Some(guest) = scenario("busy.rb", &[]) else {
        return;
    };
    let folder = TempDir::new("forms");
    let file = folder.join("profile").display().to_string();
    let kept = until_seen(Duration::from_millis(300), "it run", |length| {
        answer(
            &guest,
            &format!("lancet profile -p PID --for {length} --save {file}"),
        );
        let line = format!("lancet profile {file}");
        let folded = answer(&guest, &format!("{line} --format folded"));
        folded.stdout.contains("busy.rb").then_some(line)
    });
    has_stacks(&guest, &kept, "busy.rb");
    assert!(guest.ends_well());
}

/// The answer has every form of stacks, with a line of this script; in a heap are types.
fn has_stacks(guest: &Guest, line: &str, script: &str) {
    let shown = |form: &str| {
        let output = answer(guest, &format!("{line} --format {form}"));
        assert!(matches!(output.code(), 0 | 4), "{line} {form}: {output:?}");
        output.stdout
    };
    let folded = shown("folded");
    for line in folded.lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        assert!(!stack.is_empty(), "{line}");
        assert!(
            weight.parse::<u64>().is_ok_and(|weight| weight > 0),
            "{line}"
        );
    }
    assert!(
        folded.contains(script) || line.contains("heap"),
        "{line}: {folded}"
    );
    let speedscope: Value = serde_json::from_str(&shown("speedscope")).expect("JSON");
    let [samples, weights] = ["samples", "weights"].map(|name| {
        let list = speedscope["profiles"][0][name].as_array();
        list.map_or(0, Vec::len)
    });
    assert!(samples > 0 && samples == weights, "{line}: {speedscope}");
    let svg = shown("svg");
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{line}: {svg}"
    );
    let firefox: Value = serde_json::from_str(&shown("firefox")).expect("JSON");
    let threads = firefox["threads"].as_array().into_iter().flatten();
    let samples = threads.filter_map(|thread| thread["samples"]["length"].as_u64());
    assert!(
        samples.max().is_some_and(|samples| samples > 0),
        "{line}: {firefox}"
    );
    assert_eq!(
        firefox["threads"][0]["pid"],
        guest.pid.to_string(),
        "{line}"
    );
    let otlp = shown("otlp");
    assert!(otlp.contains("unknown_service:ruby"), "{line}: {otlp}");
    // What is no text is told by its first bytes: gzip's.
    let pprof = answer(guest, &format!("{line} --format pprof"));
    assert!(pprof.stdout.starts_with('\u{1f}'), "{line}: {pprof:?}");
}

/// A leak is the first sentence of what is pasted into an issue.
#[test]
fn what_was_found_is_the_first_sentence() {
    let Some(guest) = scenario("leak.rb", &[]) else {
        return;
    };
    let output = answer(&guest, "lancet mem -p PID --for 20s --format markdown");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("### `ruby "), "{output:?}");
    assert!(lines[2].starts_with("**leak: "), "{output:?}");
    assert!(lines[2].contains("leak.rb:11:"), "{output:?}");
    assert!(guest.ends_well());
}

#[test]
fn a_form_that_an_answer_has_not_is_refused_with_those_that_it_has() {
    if !installed("sleep") {
        return skip("forms", format_args!("there is no sleep"));
    }
    let guest = Guest::asleep(Command::new("sh").args(["-c", "echo ready; exec sleep 1000"]));
    for (line, says) in [
        (
            "lancet heap -p PID --rss --format folded",
            "--rss has no --format folded: there are table, json, csv, markdown",
        ),
        (
            "lancet heap -p PID --path String --format svg",
            "--path has no --format svg: there are table, json, csv, markdown",
        ),
        (
            "lancet calls --now -p PID --format pprof",
            "--now has no --format pprof: there are lines, json, csv, markdown",
        ),
        (
            "lancet syscalls --leaks -p PID --format folded",
            "--leaks has no --format folded: there are lines, json, csv, markdown",
        ),
        (
            "lancet syscalls --blocked -p PID --strace",
            "--blocked has no --format strace: there are lines, json, csv, markdown",
        ),
        (
            "lancet calls -c --preset files -p PID --format folded",
            "has no --format folded: there are lines, json, csv, markdown",
        ),
        (
            "lancet calls -x read -p PID --sort calls",
            "--sort is the order of what is counted: ask for -c",
        ),
        (
            "lancet syscalls -C -p PID --format folded",
            "--format folded has nothing that -C would change",
        ),
        (
            "lancet mem -p PID --every 1s --format svg",
            "--format svg is one profile, and --every makes many",
        ),
        (
            "lancet stack -p PID --format svg",
            "one look at stacks (without --for 10s or --every 10ms), or a file, has no --format svg: there are table, json, csv, markdown",
        ),
        (
            "lancet profile --diff a b --format tree",
            "--diff has no --format tree: there are table, json, csv, markdown",
        ),
        ("lancet tune --format html", "table, json, csv, markdown"),
        (
            "lancet patch -p PID --list --format html",
            "lines, json, csv, markdown",
        ),
        (
            "lancet syscalls -p PID --format ltrace",
            "lines, strace, json, csv, markdown",
        ),
        (
            "lancet syscalls -N -p PID --format csv",
            "--format csv has nothing that -N would change",
        ),
    ] {
        let output = answer(&guest, line);
        assert_eq!(output.code(), 2, "{line}: {output:?}");
        assert!(output.stderr.contains(says), "{line}: {output:?}");
        assert_eq!(output.stdout, "", "{line}");
    }
}
