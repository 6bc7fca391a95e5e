//! `-c --preset files`, `syscalls --leaks`: which descriptors are still open, held against the kernel's own list.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::machine::{program, start};
use crate::support::{Guest, chosen, schema};
use crate::watch::{calls, hooked, left};

const ROUNDS: u64 = 20;

fn count(pid: i32) -> u64 {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it is there");
    entries.count() as u64
}

fn records(text: &str) -> Vec<Value> {
    schema::records(&["calls", "syscalls"], text)
}

/// Rounds of opening and closing: as many are still open, by their lines, as the process has more than before.
fn rounds(mut guest: Guest, about: &str, lines: &[(u64, u64)]) {
    let before = count(guest.pid);
    let watch = hooked(calls(
        guest.pid,
        &["-c", "--preset", "files", "--json", "--max-wait", "30s"],
    ));
    guest.tell(&ROUNDS.to_string());
    guest.find("answer");
    let after = count(guest.pid);
    let output = left(watch, about);
    let records = records(&output.stdout);
    let all = schema::first(&records, "descriptors");
    assert_eq!(all["before"], before, "{about}: {all}");
    assert_eq!(all["before_closed"], 1, "{about}: {all}");
    let open = all["open"].as_u64().expect("a number");
    // One that it had before is closed.
    assert_eq!(open, after - (before - 1), "{about}: {all}");
    assert_eq!(
        (&all["closed_unseen"], &all["came_unseen"]),
        (&0.into(), &0.into()),
        "{about}: {all}"
    );
    let mut by_line: BTreeMap<u64, u64> = BTreeMap::new();
    for row in records.iter().filter(|row| row["record"] == "still_open") {
        let line = schema::site(row);
        let number = line.split_once("descriptors.").and_then(|(_, rest)| {
            let digits = rest.split(':').nth(1)?.split(' ').next()?;
            digits.parse().ok()
        });
        let number = number.unwrap_or_else(|| panic!("{about}: {row}"));
        *by_line.entry(number).or_default() += row["open"].as_u64().expect("a number");
        assert!(row["example"].is_string(), "{about}: {row}");
    }
    let expected: BTreeMap<u64, u64> = lines
        .iter()
        .map(|(line, of)| (*line, of * ROUNDS))
        .collect();
    assert_eq!(by_line, expected, "{about}: {records:#?}");
    guest.tell("");
    guest.ends_with_nothing(about);
}

#[test]
fn of_a_ruby() {
    for ruby in chosen("ruby", "descriptors") {
        let guest = ruby.start("descriptors", &[]);
        rounds(
            guest,
            &ruby.to_string(),
            &[(13, 1), (14, 2), (15, 2), (19, 1), (21, 1)],
        );
    }
}

#[test]
fn of_a_python() {
    for python in chosen("python", "descriptors") {
        let guest = python.start("descriptors", &[]);
        let mut lines = vec![
            (13, 1),
            (14, 2),
            (15, 2),
            (16, 1),
            (18, 1),
            (19, 1),
            (21, 1),
            (24, 1),
            (26, 2),
        ];
        if python.runs("descriptors", "import os; os.eventfd") {
            lines.push((20, 1));
        }
        rounds(guest, &python.to_string(), &lines);
    }
}

/// Those that a message brings, that the kernel writes into memory and that a command returns, by the function that asks.
#[test]
fn of_calls_whose_result_is_no_descriptor() {
    let Some(path) = program("received.c") else {
        return;
    };
    let mut guest = start(&path, "rounds");
    let pid = guest.pid;
    let watch = hooked(calls(pid, &["syscalls", "--leaks", "-k", "--json"]));
    guest.tell(&ROUNDS.to_string());
    let more: u64 = guest.find("answer ").parse().expect("a number");
    let records = records(&left(watch, "received").stdout);
    let all = schema::first(&records, "descriptors");
    assert_eq!(all["open"], more, "{all}");
    assert_eq!(all["came_unseen"], 0, "{all}");
    let mut opened: BTreeMap<(String, String), u64> = BTreeMap::new();
    for row in records.iter().filter(|row| row["record"] == "still_open") {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let site = schema::site(row);
        let by = site.split(" ← ").find(|name| name.starts_with("by_"));
        let call = text("function").trim_end_matches("@SYS");
        let key = (by.unwrap_or_default().to_owned(), call.to_owned());
        *opened.entry(key).or_default() += row["open"].as_u64().expect("a number");
    }
    let mut expected = vec![
        ("by_message", "recvmsg", 2),
        ("by_messages", "recvmmsg", 4),
        ("by_clone", "clone", 1),
        ("by_clone3", "clone3", 1),
        ("by_command", "ioctl", 1),
        ("by_namespace", "ioctl", 1),
        ("by_option", "getsockopt", 1),
        ("by_process", "pidfd_getfd", 1),
    ];
    let each: u64 = expected.iter().map(|(.., count)| count).sum();
    if more != each * ROUNDS {
        // SO_PEERPIDFD is of Linux 6.5.
        expected.retain(|(by, ..)| *by != "by_option");
    }
    let expected = expected.into_iter();
    let expected = expected.map(|(by, call, of)| ((by.into(), call.into()), of * ROUNDS));
    assert_eq!(opened, expected.collect(), "{records:#?}");
    guest.tell("");
    guest.ends_with_nothing("received");
}

/// The verdict says what leaks, in the first line, and names the line of the script.
#[test]
fn a_leak_is_the_first_line_and_a_pool_is_none() {
    let script = "\
import os, sys, time
def leaks(): kept.append(os.open('/etc/passwd', os.O_RDONLY))
def closes(): os.close(os.open('/etc/passwd', os.O_RDONLY))
kept = []
print('ready', flush=True)
sys.stdin.readline()
pool = [os.open('/dev/null', os.O_RDONLY) for n in range(30)]
while True:
    leaks(); closes(); closes()
    time.sleep(0.2)
";
    for python in chosen("python", "descriptors") {
        let mut command = python.command();
        let mut guest = Guest::ready(command.args(["-c", script]));
        let watch = hooked(calls(
            guest.pid,
            &["-c", "--preset", "files", "--for", "14s"],
        ));
        guest.tell("");
        let output = watch.end();
        let first = output.stdout.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("leak: ") && first.contains("openat@SYS ← <string>:2 in 'leaks'"),
            "{python}: {output:?}"
        );
        assert_eq!(output.stdout.matches("\nleak: ").count(), 0, "{output:?}");
    }
}
