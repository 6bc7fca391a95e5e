//! `calls -c` of a program that calls more functions than one table of counts has rows: each is counted, and nothing is lost.

use std::collections::BTreeMap;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::machine::built;
use crate::support::{Guest, Snapshot, TempDir, Watch};
use crate::watch::{calls, hooked, text_holds};

/// Functions of `fixtures/c/rows.c`; function N is called N mod 3 plus 1 times in a round.
const FUNCTIONS: usize = 10_000;

struct Rows {
    guest: Guest,
    folder: TempDir,
}

impl Rows {
    fn start() -> Option<Self> {
        let path = built("rows.c", &["-rdynamic"])?;
        let guest = Guest::start("rows", Command::new(path));
        guest.expect("ready");
        let folder = TempDir::new("rows");
        Some(Rows { guest, folder })
    }

    fn counted(&self, more: &[&str]) -> Watch {
        let out = self.folder.join("rows.json");
        let mut what = vec!["-c", "--json", "--max-wait", "30s", "-x", "r_*@MAIN", "-o"];
        what.push(out.to_str().expect("plain"));
        what.extend(more);
        hooked(calls(self.guest.pid, &what))
    }

    fn does(&mut self, what: &str) {
        assert_eq!(self.guest.answer_to(what), "done", "{what}");
    }

    /// Each function was counted so many rounds, and nothing was lost.
    fn holds(&self, rounds: u64, what: &str) {
        let text = std::fs::read_to_string(self.folder.join("rows.json")).expect("rows");
        let objects = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("an object"));
        let (rows, others): (Vec<Value>, Vec<Value>) =
            objects.partition(|object: &Value| object["record"] == "row");
        for losses in others.iter().filter_map(|other| other["losses"].as_array()) {
            assert!(losses.is_empty(), "{what}: {losses:?}");
        }
        let rows = rows.iter().map(|row| {
            let function = row["function"].as_str().expect("a name").to_owned();
            let number: usize = function[2..].parse().expect("a number");
            let calls = row["calls"].as_u64().expect("calls");
            assert_eq!(calls, rounds * (number as u64 % 3 + 1), "{what}: {row}");
            (function, calls)
        });
        let rows: BTreeMap<String, u64> = rows.collect();
        assert_eq!(rows.len(), FUNCTIONS, "{what}");
    }
}

/// One thread, twice in two sessions, the second of which begins with empty tables; then threads that end, beside one another.
#[test]
fn a_thread_has_a_row_for_each_function() {
    let Some(mut rows) = Rows::start() else {
        return;
    };
    let before = Snapshot::take(rows.guest.pid);
    for (what, asked, rounds) in [
        ("one round", &["round"][..], 1),
        ("two rounds", &["round", "round"], 2),
        ("threads", &["threads", "round", "threads"], 7),
        ("one round more", &["round"], 1),
    ] {
        let watch = rows.counted(&[]);
        asked.iter().for_each(|asked| rows.does(asked));
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
        rows.holds(rounds, what);
        text_holds(&before, rows.guest.pid, what, &output);
    }
    rows.does("round");
}

/// A child of fork that is followed has rows of its own, and one that is not followed counts nothing.
#[test]
fn a_child_has_rows_of_its_own() {
    let Some(mut rows) = Rows::start() else {
        return;
    };
    for (more, rounds) in [(&["-f"][..], 4), (&[], 2)] {
        let watch = rows.counted(more);
        for asked in ["round", "fork", "round", "fork"] {
            rows.does(asked);
        }
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{more:?}: {}", output.stderr);
        rows.holds(rounds, "fork");
    }
}

/// What was counted is told, too, when the process is killed.
#[test]
fn rows_outlive_the_process() {
    let Some(mut rows) = Rows::start() else {
        return;
    };
    let watch = rows.counted(&[]);
    rows.does("round");
    rows.does("threads");
    rows.guest.signal(Signal::SIGKILL);
    let output = watch.end();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    rows.holds(4, "killed");
}
