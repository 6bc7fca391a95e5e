//! Number and bytes of the living blocks of each line, against what `tracemalloc` counts in a run of its own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pythons;
use crate::support::{Guest, Interpreter, Snapshot, Watch, fixtures, mem, say};

const WORKLOADS: [&str; 5] = ["small", "documents", "closures", "growing", "evaluated"];

/// Blocks and bytes by `path:line`.
type Figures = BTreeMap<String, (u64, u64)>;

/// Whether a row of that place is compared: of the workloads, of the library that they use, and of code that they make.
fn is_compared(place: &str) -> bool {
    let file = place.rsplit_once(':').map_or("", |(path, _)| path);
    file.ends_with("/workloads.py") || file.contains("/json/") || file.starts_with("made")
}

/// Whether tracemalloc can be kept from giving a block that comes out of a free list to the line that gets it, as it does and lancet does
/// not: see `truth.py`.
fn keeps_first_lines(python: &Interpreter) -> bool {
    let command = "import sys; print(int(sys.version_info < (3, 12)))";
    let output = python.command().args(["-c", command]).output();
    output.expect("it runs").stdout.starts_with(b"1")
}

/// All lines together.
fn sum(figures: &Figures) -> (u64, u64) {
    let add = |sum: (u64, u64), one: &(u64, u64)| (sum.0 + one.0, sum.1 + one.1);
    figures.values().fold((0, 0), add)
}

/// The living by line, of either allocator.
fn lines(report: &str) -> Figures {
    let mut lines = Figures::new();
    for line in report.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        if record["record"] != "row" {
            continue;
        }
        let number = |key: &str| record[key].as_u64().unwrap_or(0);
        let place = format!(
            "{}:{}",
            record["place"]["path"].as_str().unwrap_or("-"),
            record["place"]["line"].as_u64().unwrap_or(0)
        );
        if is_compared(&place) && number("live") != 0 {
            let sum = lines.entry(place).or_default();
            *sum = (sum.0 + number("live"), sum.1 + number("bytes"));
        }
    }
    lines
}

/// What tracemalloc counts in a run of its own.
fn oracle(python: &Interpreter, workload: &str, environment: &[(&str, &str)]) -> Figures {
    let mut guest = start(python, workload, &["trace"], environment);
    guest.tell("");
    let counts: Value = serde_json::from_str(&guest.find("counts ")).expect("JSON");
    guest.tell("");
    let counts = counts.as_object().expect("lines");
    let compared = counts.iter().filter(|(place, _)| is_compared(place));
    let number = |value: &Value| value.as_u64().expect("a number");
    compared
        .map(|(place, both)| (place.clone(), (number(&both[0]), number(&both[1]))))
        .collect()
}

fn start(
    python: &Interpreter,
    workload: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Guest {
    let mut command = python.command();
    command
        .arg(fixtures().join("python/births/truth.py"))
        .arg(workload)
        .args(arguments)
        .env("PYTHONHASHSEED", "0")
        .envs(environment.iter().copied());
    let guest = Guest::start(&format!("{python} {workload} {arguments:?}"), command);
    guest.expect("ready");
    guest
}

/// Counts a workload from its beginning to its end, and compares what lives of it.
fn compare(python: &Interpreter, workload: &str, environment: &[(&str, &str)]) {
    let wanted = oracle(python, workload, environment);
    let mut guest = start(python, workload, &[], environment);
    let before = Snapshot::take(guest.pid);
    let mut command = mem(guest.pid);
    command.arg("--no-gc");
    let watch = Watch::open(command);
    guest.tell("");
    guest.expect("done");
    let output = watch.interrupt();
    let what = format!("{python} {workload} {environment:?}");
    assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
    before.holds(guest.pid, &what);
    let found = lines(&output.stdout);
    assert!(wanted.len() > 3, "{what}: {wanted:?}");
    assert_eq!(sum(&found), sum(&wanted), "{what}: {found:?} {wanted:?}");
    // Nothing of this one is in a free list.
    if workload != "growing" && !keeps_first_lines(python) {
        return guest.tell("");
    }
    let all = wanted.keys().chain(found.keys());
    let wrong: Vec<String> = all
        .filter(|place| wanted.get(*place) != found.get(*place))
        .map(|place| {
            let (wanted, found) = (wanted.get(place), found.get(place));
            format!("{place}: tracemalloc {wanted:?}, lancet {found:?} (blocks, bytes)")
        })
        .collect();
    say(format_args!(
        "{what}: {} lines, {} wrong",
        wanted.len(),
        wrong.len()
    ));
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    guest.tell("");
}

/// Number and bytes of the living are those that tracemalloc has of the same work: of each line, or, where it gives blocks of free lists
/// to other lines, of all together.
#[test]
fn blocks_by_line_are_those_of_tracemalloc() {
    for python in pythons("truth") {
        for workload in WORKLOADS {
            compare(&python, workload, &[]);
        }
        // Other functions are behind ours.
        for allocator in ["debug", "malloc"] {
            compare(&python, "small", &[("PYTHONMALLOC", allocator)]);
        }
    }
}
