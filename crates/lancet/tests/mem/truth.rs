//! Births and survivors per line and class, against what Ruby itself counts in the same process.
//!
//! `fixtures/ruby/truth/oracle.rb` waits before its work, and again when all that is left is what
//! survives. lancet is there from the first wait to the second; its one report then holds both
//! figures. It collects no garbage: the oracle has just done so, and counts what it left.
//!
//! What is born in a method that the VM has written in Ruby (`<internal:timev>`) Ruby counts there, and lancet at the line
//! that called it: such lines may have more, in all at most what Ruby counts of that type in its own files.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::support::{Guest, Interpreter, Report, TempDir, Watch, fixtures, mem, rubies, run, say};

const WORKLOADS: [&str; 5] = [
    "w1_small",
    "w2_json_erb",
    "w3_structs_closures",
    "w4_threads_fibers",
    "w5_eval_ext",
];

/// How many wrong rows are shown.
const SHOWN: usize = 12;

/// Births and survivors, by row or by type.
type Figures = BTreeMap<String, (u64, u64)>;

/// What the oracle wrote: row → (births, survivors), of its own files; and of the VM's own, by type.
fn oracle(path: &Path) -> (Figures, Figures) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let all: serde_json::Value = serde_json::from_str(&text).expect("the oracle's JSON");
    let files = files(&all);
    let (mut rows, mut internal) = (Figures::new(), Figures::new());
    for (which, kind) in ["births", "survivors"].into_iter().enumerate() {
        for (row, count) in all[kind].as_object().expect("rows") {
            let counts = if is_of(&files, row) {
                rows.entry(row.clone()).or_default()
            } else if let Some(kind) = kind_of_internal(row) {
                internal.entry(kind.to_owned()).or_default()
            } else {
                continue;
            };
            let count = count.as_u64().expect("a count");
            *(if which == 0 {
                &mut counts.0
            } else {
                &mut counts.1
            }) += count;
        }
    }
    assert!(!rows.is_empty(), "the oracle counted nothing");
    (rows, internal)
}

/// The type of `<internal:timev>:225:Time`.
fn kind_of_internal(row: &str) -> Option<&str> {
    let (_, rest) = row.strip_prefix("<internal:")?.split_once(">:")?;
    Some(rest.split_once(':')?.1)
}

fn files(all: &serde_json::Value) -> Vec<String> {
    let files = all["files"].as_array().expect("files");
    files
        .iter()
        .filter_map(|file| Some(file.as_str()?.to_owned()))
        .collect()
}

fn is_of(files: &[String], row: &str) -> bool {
    files.iter().any(|file| {
        row.strip_prefix(file.as_str())
            .is_some_and(|rest| rest.starts_with(':'))
    })
}

fn differences(
    (wanted, internal): &(Figures, Figures),
    files: &[String],
    got: &Report,
    pid: i32,
) -> Vec<String> {
    let found: BTreeMap<&String, (u64, u64)> = got
        .of(pid)
        .iter()
        .filter(|(row, _)| is_of(files, row))
        .map(|(row, counts)| (row, (counts.born, counts.live)))
        .collect();
    let mut all: Vec<&String> = wanted.keys().chain(found.keys().copied()).collect();
    all.sort();
    all.dedup();
    let mut internal = internal.clone();
    let mut is_called = |row: &str, want: Option<&(u64, u64)>, have: Option<&(u64, u64)>| {
        let (want, have) = (
            want.copied().unwrap_or_default(),
            have.copied().unwrap_or_default(),
        );
        let of_kind = |(kind, _): &(&String, &mut (u64, u64))| row.ends_with(&format!(":{kind}"));
        let Some((_, left)) = internal.iter_mut().find(of_kind) else {
            return false;
        };
        let more = (have.0.checked_sub(want.0), have.1.checked_sub(want.1));
        let (Some(born), Some(live)) = more else {
            return false;
        };
        let enough = born <= left.0 && live <= left.1;
        *left = (left.0.saturating_sub(born), left.1.saturating_sub(live));
        enough
    };
    all.into_iter()
        .filter_map(|row| {
            let (want, have) = (wanted.get(row), found.get(row));
            (want != have && !is_called(row, want, have))
                .then(|| format!("{row}: Ruby counts {want:?}, lancet {have:?} (born, living)"))
        })
        .collect()
}

fn check(ruby: &Interpreter, workload: &str, flags: &[&str], folder: &TempDir) -> Vec<String> {
    let out = folder.join(&format!(
        "{}-{workload}{}.json",
        ruby.version,
        flags.concat()
    ));
    let forked = flags.contains(&"--fork");
    let child_out = folder.join(&format!("{}.child", name_of(&out)));
    let go = folder.join(&format!("{}.child.go", name_of(&out)));
    if forked {
        let made = run(
            std::process::Command::new("mkfifo").arg(&go),
            crate::support::LIMIT,
        );
        assert_eq!(made.code(), 0, "{}", made.stderr);
    }
    let mut command = ruby.command();
    command
        .arg(fixtures().join("ruby/truth/oracle.rb"))
        .arg(workload)
        .arg(&out)
        .args(flags)
        .arg("--pause");
    let mut guest = Guest::start(&format!("{ruby} {workload} {flags:?}"), command);
    guest.find("ready ");
    let mut command = mem(guest.pid);
    command.arg("--no-gc");
    if forked {
        command.arg("--children");
    }
    let watch = Watch::open(command);
    guest.tell("");
    let mut child = None;
    let mut waiting = if forked { 2 } else { 1 };
    // The two processes of a fork reach their waits in any order.
    while waiting > 0 {
        let line = guest
            .line()
            .unwrap_or_else(|| panic!("{ruby} {workload} {flags:?} ended: {}", guest.complaints()));
        let Some((place, pid)) = line.split_once(' ') else {
            continue;
        };
        let pid: i32 = pid.parse().expect("a process id");
        match place {
            "born" => guest.tell(""),
            "survivors" => {
                waiting -= 1;
                if pid != guest.pid {
                    child = Some(pid);
                }
            }
            _ => {}
        }
    }
    let output = watch.interrupt();
    let what = format!("{ruby} {workload} {flags:?}");
    assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
    let report = Report::parse(&output.stdout);
    let mut held = None;
    if child.is_some() {
        // Opened for both: opening a FIFO for writing alone waits for a reader, who may have died.
        let both = fs::OpenOptions::new().read(true).write(true).open(&go);
        let mut both = both.expect("the FIFO");
        both.write_all(b"\n").expect("a FIFO has room for a line");
        held = Some(both);
    }
    guest.tell("");
    let pid = guest.pid;
    let (_, status) = guest.end();
    drop(held);
    assert!(status.success(), "{what}: {status}");
    let text = fs::read_to_string(&out).expect("the oracle's answer");
    let files = files(&serde_json::from_str(&text).expect("JSON"));
    let mut wrong = differences(&oracle(&out), &files, &report, pid);
    if let Some(child) = child {
        let of_child = differences(&oracle(&child_out), &files, &report, child);
        wrong.extend(of_child.into_iter().map(|line| format!("child: {line}")));
    }
    wrong.extend(report.losses.iter().map(|loss| format!("lost: {loss}")));
    say(format_args!("{what}: {} rows wrong", wrong.len()));
    wrong.truncate(SHOWN);
    wrong
        .into_iter()
        .map(|line| format!("{what}: {line}"))
        .collect()
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn check_all(test: &str, flags: &[&str]) {
    let folder = TempDir::new(&format!("truth-{test}"));
    let mut wrong = Vec::new();
    for ruby in rubies(test) {
        for workload in WORKLOADS {
            // Since 3.4 it is a gem, which a Ruby that was built from source may lack.
            if workload == "w5_eval_ext" && !ruby.runs(test, "require 'bigdecimal'") {
                continue;
            }
            wrong.extend(check(&ruby, workload, flags, &folder));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn births_and_survivors_are_rubys_own() {
    check_all("plain", &[]);
}

#[test]
fn objects_that_move_keep_their_lines() {
    check_all("compact", &["--compact"]);
}

#[test]
fn a_fork_takes_its_books_along() {
    check_all("fork", &["--fork"]);
}
