//! Stacks of threads that lie in one mapping, with guards between them that split no mapping, as glibc makes them since 2.42: what reads a
//! stack stops at its guard, and a guard is neither in memory nor in swap.

use crate::machine::program;
use crate::support::{Guest, LIMIT, Snapshot, lancet, run, skip};
use crate::watch::{calls, counted, hooked, left, text_holds};
use serde_json::Value;
use std::process::Command;

const THREADS: u64 = 4;

/// A guest whose threads all wait in `g_waits`, in which they began before anybody looked.
fn start() -> Option<Guest> {
    let mut guest = Guest::start("guarded", Command::new(program("guarded.c")?));
    if guest.line().as_deref() != Some("ready") {
        skip("guarded", "the kernel has no MADV_GUARD_INSTALL");
        return None;
    }
    guest.tell("go 10");
    guest.expect("waiting");
    Some(guest)
}

/// The threads are in a counted call when the command leaves, which is found on their stacks, and returns later.
#[test]
fn calls_that_are_open_are_found_on_such_stacks() {
    let Some(mut guest) = start() else {
        return;
    };
    let before = Snapshot::take(guest.pid);
    for _ in 0..3 {
        let watch = hooked(calls(
            guest.pid,
            &["-c", "-x", "g_counted", "-x", "g_waits"],
        ));
        guest.tell("on");
        guest.expect("done");
        guest.tell("go 1000");
        guest.expect("waiting");
        let output = left(watch, "guarded");
        let what = format!("{output:?}");
        assert_eq!(
            counted(&output.stdout, "g_counted"),
            THREADS * 1000,
            "{what}"
        );
        assert_eq!(counted(&output.stdout, "g_waits"), 0, "{what}");
        assert!(!output.stdout.contains("left without"), "{what}");
        text_holds(&before, guest.pid, "guarded", &output);
    }
    guest.tell("on");
    guest.ends_with("done");
}

#[test]
fn how_much_of_such_stacks_was_used_is_told() {
    let Some(guest) = start() else {
        return;
    };
    let pid = guest.pid.to_string();
    let output = run(
        lancet().args(["stack", "--bytes", "--json", "-p", &pid]),
        LIMIT,
    );
    assert_eq!(output.code(), 0, "{output:?}");
    let stacks = output.stdout.lines();
    let stacks = stacks.map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let rooms = stacks.filter(|stack| stack["mapped"] == 2047 * 4096);
    let rooms: Vec<Value> = rooms.collect();
    assert_eq!(rooms.len() as u64, THREADS, "{output:?}");
    for room in rooms {
        let used = room["high_water"].as_u64().expect("a number");
        assert!((1..=256 << 10).contains(&used), "{room}");
        assert_eq!(room["guard"], 4096, "{room}");
    }
}

/// Nothing of the process is in swap, and a guard is nothing at all.
#[test]
fn a_guard_is_not_counted_as_memory_in_swap() {
    let Some(guest) = start() else {
        return;
    };
    let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid));
    let swapped = status.expect("it is there");
    if !swapped
        .lines()
        .any(|line| line.starts_with("VmSwap:") && line.ends_with(" 0 kB"))
    {
        skip("guarded", "a page of the guest is in swap");
        return;
    }
    let pid = guest.pid.to_string();
    let output = run(lancet().args(["heap", "--rss", "-p", &pid]), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(!output.stdout.contains("in swap"), "{output:?}");
}
