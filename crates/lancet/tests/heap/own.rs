//! What lancet has mapped in a process is a row of its own in `lancet heap --rss`, and nothing of the program's.

use std::collections::HashSet;
use std::fs;

use crate::support::{Guest, Interpreter, LIMIT, fixtures, lancet, run, schema};

/// The bytes in memory of each mapping without a file, by its start.
fn anonymous(pid: i32) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it lives");
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut is_anonymous = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((start, _)) = words[0].split_once('-') {
            is_anonymous = words.len() == 5;
            found.push((u64::from_str_radix(start, 16).expect("an address"), 0));
        }
        if let (true, "Rss:", Some((_, rss))) = (is_anonymous, words[0], found.last_mut()) {
            *rss = words[1].parse::<u64>().expect("kilobytes") << 10;
        }
    }
    found
}

/// The bytes in memory of the rows of a kind.
fn rows(pid: i32, kinds: &[&str]) -> Vec<u64> {
    let mut command = lancet();
    command.args(["heap", "-p", &pid.to_string(), "--rss", "--json"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let records = schema::records(&["rss"], &output.stdout);
    let sum = |kind: &&str| {
        let of = records
            .iter()
            .filter(|row| row["record"] == "row" && row["kind"] == *kind);
        of.filter_map(|row| row["rss"].as_u64()).sum()
    };
    kinds.iter().map(sum).collect()
}

#[test]
fn stubs_tables_and_rings_are_a_row_of_their_own() {
    let ruby = Interpreter::system("ruby");
    let mut command = ruby.command();
    let guest = Guest::ready(command.arg(fixtures().join("ruby/heap/sparse.rb")));
    let pid = guest.pid;
    let kinds = ["jit_code", "lancet_agent", "anonymous"];
    let [none, _, other] = rows(pid, &kinds)[..] else {
        panic!("three");
    };
    assert_eq!(none, 0, "this Ruby compiles nothing");
    let there: HashSet<u64> = anonymous(pid).iter().map(|(start, _)| *start).collect();
    for options in [&["calls", "-x", "rb_*"][..], &["mem"]] {
        let mut command = lancet();
        command
            .args(options)
            .args(["-p", &pid.to_string(), "--for", "1s"]);
        let output = run(&mut command, LIMIT);
        assert!([0, 4].contains(&output.code()), "{output:?}");
    }
    let come = anonymous(pid);
    let come = come.iter().filter(|(start, _)| !there.contains(start));
    let come: u64 = come.map(|(_, rss)| rss).sum();
    let [code, own, now] = rows(pid, &kinds)[..] else {
        panic!("three");
    };
    assert_eq!(code, 0, "stubs are no code of a JIT");
    assert!(own >= 256 << 10, "{own}");
    assert!(
        own.abs_diff(come) <= 64 << 10,
        "{own} in the row, {come} have come"
    );
    assert!(now <= other + (64 << 10), "{other}, then {now} unknown");
}
