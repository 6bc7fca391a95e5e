//! `mem --native --children`: each process has rows of its own, and there is a sum.

use serde_json::Value;

use super::{Ledger, built, guest, native, round, since};
use crate::support::{TempDir, Watch};

/// The rows of one process; `None` = the sum of all.
fn rows_of(report: &str, pid: Option<i32>) -> Ledger {
    let mut rows = Ledger::new();
    for line in report.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        if record["record"] == "row" && record["pid"].as_i64() == pid.map(i64::from) {
            let function = record["place"]["function"].as_str().unwrap_or("?");
            let number = |key: &str| record[key].as_i64().expect("a number");
            rows.insert(function.to_owned(), ["born", "live", "bytes"].map(number));
        }
    }
    rows
}

/// A child is found that was forked while its parent is watched, with a copy of its hooks.
#[test]
fn a_child_is_counted_beside_its_parent() {
    let folder = TempDir::new("native-children");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut guest = guest(&program, &[]);
    let before = round(&mut guest);
    let mut command = native(guest.pid);
    command.arg("--children");
    let mut watch = Watch::open(command);
    let forked = round(&mut guest);
    guest.tell("child");
    let child: i32 = guest.find("child ").parse().expect("a process id");
    watch.until(&format!("lancet: opened process {child} "));
    let after = round(&mut guest);
    let output = watch.interrupt();
    // Each round makes a child for a moment, which may be found and be gone.
    assert!(matches!(output.code(), 0 | 4), "{}", output.stderr);
    let (of_parent, of_child) = (since(&before, &forked), since(&forked, &after));
    let [parent, its_child, sum] =
        [Some(guest.pid), Some(child), None].map(|pid| rows_of(&output.stdout, pid));
    for (name, counts) in &of_parent {
        let others = of_child.get(name).copied().unwrap_or_default();
        let both = [0, 1, 2].map(|at| counts[at] + others[at]);
        let found = [&parent, &its_child, &sum].map(|rows| rows.get(name).copied());
        let found = found.map(Option::unwrap_or_default);
        assert_eq!(
            found,
            [*counts, others, both],
            "{name} (born, live, bytes): {}",
            output.stdout
        );
    }
    guest.tell("");
    guest.ends_with("answer 42");
}
