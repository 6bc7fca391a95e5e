//! `--now`: what is in progress, though it began before lancet came.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::support::{
    Guest, LIMIT, Snapshot, TempDir, chosen, fixtures, installed, is_root, run, skip, until,
};
use crate::watch::calls;

/// What `--now` says of a process.
fn now(pid: i32, options: &[&str]) -> String {
    let arguments = [&["--now"], options].concat();
    let output = run(&mut calls(pid, &arguments), LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    output.stdout
}

/// What the row says of a thread of that name, or of so many threads: behind the columns of the time and of the thread.
pub fn row<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let of = |line: &'a str| {
        let (thread, does) = line.get(13..)?.split_once("  ")?;
        let is_it = thread == name || thread.split_once(' ')?.1 == name;
        is_it.then(|| does.trim_start())
    };
    said.lines().find_map(of)
}

/// A lock, a peer and waiting for work, each told with the script's line; what hangs comes before what waits for work,
/// and nothing is put into the process.
#[test]
fn what_hangs_is_told_with_owner_and_peer() {
    for ruby in chosen("ruby", "now") {
        let mut command = ruby.command();
        command.arg(fixtures().join("ruby/waits/locks.rb"));
        let guest = Guest::ready(&mut command);
        let before = Snapshot::take(guest.pid);
        let said = until(LIMIT, "all of them wait", || {
            let said = now(guest.pid, &[]);
            let wants = row(&said, "wants")?.starts_with("waits for a mutex that thread ");
            let is_there = wants && row(&said, "reads")?.contains("tcp to 127.0.0.1:");
            is_there.then_some(said)
        });
        let wants = row(&said, "wants").expect("it was there");
        assert!(
            wants.contains(" holder (locks.rb:29) holds ← ") && wants.contains("locks.rb:21 in '"),
            "{ruby}: {said}"
        );
        let reads = row(&said, "reads").expect("it was there");
        assert!(
            reads.starts_with("IO#read (") && reads.contains("locks.rb:36 in '"),
            "{ruby}: {said}"
        );
        let at = |name: &str| said.find(&format!(" {name} ")).expect("a row");
        for idle in ["pops", "sleeps"] {
            assert!(at("wants") < at(idle) && at("reads") < at(idle), "{said}");
        }
        let table = now(guest.pid, &["--format", "csv"]);
        let at = |name: &str| table.find(&format!(",{name},")).expect("a row");
        for idle in ["pops", "sleeps"] {
            assert!(at("wants") < at(idle) && at("reads") < at(idle), "{table}");
        }
        before.text_holds(guest.pid, &ruby.to_string());
        assert!(guest.ends_well());
    }
}

/// Mutexes of the C library that a script's threads take by themselves, without the VM's lock: the owner is told of every glibc, and a circle of
/// two, though their threads had to be stopped to be read.
#[test]
fn mutexes_of_the_c_library_are_told_with_their_owners() {
    for python in chosen("python", "now") {
        let mut command = python.command();
        command.arg(fixtures().join("python/waits/mutexes.py"));
        let guest = Guest::ready(&mut command);
        let said = until(LIMIT, "all of them wait", || {
            let said = now(guest.pid, &[]);
            let waits =
                |name: &&str| row(&said, name).is_some_and(|does| does.starts_with("waits"));
            let all = ["first", "second", "reads"].iter().all(waits);
            (all && said.contains("deadlock: these 2 threads wait for each other")).then_some(said)
        });
        let first = row(&said, "first").expect("it was there");
        let mutex = first.starts_with("waits for a pthread mutex that thread ");
        assert!(
            mutex && first.contains(" second (mutexes.py:24) holds ← "),
            "{python}: {said}"
        );
        let reads = row(&said, "reads").expect("it was there");
        assert!(
            reads.starts_with("waits for a pthread read-write lock that thread ")
                && reads.contains(" (mutexes.py:37) holds ← "),
            "{python}: {said}"
        );
        assert!(guest.ends_well(), "{python}");
    }
}

/// A name server that does not answer: in which call, on which server, since when, on which line.
#[test]
fn a_lookup_that_hangs_since_before_is_told() {
    let test = "now: a name server that is silent";
    if !is_root() || !installed("unshare") {
        return skip(test, "it needs root and unshare");
    }
    let folder = TempDir::new("now-dns");
    let configuration = folder.join("resolv.conf");
    let servers = "nameserver 127.0.0.99\noptions timeout:30 attempts:1\n";
    std::fs::write(&configuration, servers).expect("it can be written");
    for python in chosen("python", "now") {
        let looks_up = || {
            let began = Instant::now();
            let mut command = Command::new("unshare");
            command.args([
                "-m",
                "sh",
                "-c",
                "mount --bind $0 /etc/resolv.conf && exec \"$@\"",
            ]);
            command
                .arg(&configuration)
                .arg(python.command().get_program());
            command.args(python.command().get_args());
            command.arg(fixtures().join("python/waits/lookup.py"));
            let guest = Guest::ready(&mut command);
            let waits = || {
                let said = now(guest.pid, &["--json"]);
                let record: Value = serde_json::from_str(said.lines().nth(1)?).ok()?;
                (record["state"]["on"][0] == "udp to 127.0.0.99:53").then_some(record)
            };
            let record = until(LIMIT, "it waits for the name server", waits);
            (guest, began, record)
        };
        // Linux since 6.12 forgets when a thread ran last that it moves to another processor just as it falls asleep (`slept.rs`): of 100 lookups
        // on a busy machine two have no time.
        let is_timed = |record: &Value| record["state"]["asleep_ns"].is_u64();
        let mut lookups = (0..10).map(|_| looks_up());
        let (guest, began, record) = lookups
            .find(|(.., record)| is_timed(record))
            .expect("one of ten lookups whose time is known");
        assert_eq!(record["state"]["through"], "getaddrinfo", "{record}");
        assert_eq!(record["state"]["call"], "poll", "{record}");
        assert_eq!(record["state"]["asks_for"], "db.example.com", "{record}");
        assert_eq!(record["place"]["function"], "resolve", "{record}");
        assert_eq!(record["place"]["line"], 8, "{record}");
        // The kernel's account goes on; it cannot be longer than the process is old.
        let first = record["state"]["asleep_ns"].as_f64().expect("a time") / 1e9;
        let second = until(LIMIT, "it waits for longer", || {
            let said = now(guest.pid, &["--json"]);
            let record: Value = serde_json::from_str(said.lines().nth(1)?).ok()?;
            record["state"]["asleep_ns"]
                .as_f64()
                .map(|nanoseconds| nanoseconds / 1e9)
                .filter(|asleep| *asleep > first + 0.1)
        });
        assert!(second <= began.elapsed().as_secs_f64(), "{first} {second}");
        let said = now(guest.pid, &[]);
        let row = said.lines().last().unwrap_or_default();
        assert!(
            row.contains("getaddrinfo (poll): udp to 127.0.0.99:53, whose other end this process itself has, asking for db.example.com, for ")
                && row.contains("lookup.py:8 in 'resolve'"),
            "{said}"
        );
    }
}
