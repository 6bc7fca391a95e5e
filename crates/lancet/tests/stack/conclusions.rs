//! What follows from all threads of a process together is said before them: that a child does not go on, who has what a pool gave away. And
//! what does not follow: that a thread waits for its own mutex.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::output::{folder, stack};
use super::stuck::{look, python, says};
use crate::support::{Guest, fixtures};

/// A program of the folder of C fixtures.
pub fn compiled(source: &str) -> PathBuf {
    let program = folder("conclusions").join(source.trim_end_matches(".c"));
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-fomit-frame-pointer", "-pthread", "-o"]);
    compiler
        .arg(&program)
        .arg(fixtures().join("c").join(source));
    assert!(compiler.status().expect("gcc").success());
    program
}

/// A lock that a thread of the parent had when it was copied. `BETWEEN` is run in the parent's only child, which then waits for its own.
const COPIED: &str = "
import os, threading
lock = threading.Lock()
lock.acquire()
told, tells = os.pipe()
def makes(does):
    child = os.fork()
    if child == 0: does(); os._exit(0)
    return child
def stuck(): lock.acquire()
def waits():
    child = makes(stuck)
    os.write(tells, str(child).encode())
    os.waitpid(child, 0)
BETWEEN
child = int(os.read(told, 20))
print('ready', flush=True)
print('child', child, flush=True)
os.waitpid(own, 0)
";

/// The parent is said to wait for one that does not go on, whether that is its child or a child of it.
#[test]
fn a_copied_lock_that_nobody_has_is_told() {
    for between in [
        "own = makes(stuck); os.write(tells, str(own).encode())",
        "own = makes(waits)",
    ] {
        copied_lock(&COPIED.replace("BETWEEN", between));
    }
}

fn copied_lock(code: &str) {
    let Some(guest) = python(code) else { return };
    let line = guest.find("child ");
    let child: i32 = line
        .rsplit(' ')
        .next()
        .and_then(|id| id.parse().ok())
        .expect("an id");
    says(
        child,
        "\nno thread goes on: the only one waits without a time limit",
    );
    // The parent waits for another process, and that comes before its threads.
    let told = format!("waits for the end of process {child} python3, and that does not go on: ");
    let said = says(guest.pid, &told);
    assert!(
        said.contains(&format!(": lancet stack -p {child}\n\nthread ")),
        "{said}"
    );
    assert!(!said.contains("no thread goes on"), "{said}");
    let (said, _) = look(guest.pid, &["--json"]);
    assert!(said.contains(&format!("\"stands\":{child}")), "{said}");
    let id = nix::unistd::Pid::from_raw(child);
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).expect("our guest's");
}

/// A child that works, or that waits for a time, is not said to stand still.
#[test]
fn a_child_that_goes_on_is_told_as_before() {
    for does in ["time.sleep(600)", "lock.acquire(timeout=600)"] {
        let code = format!(
            "
import os, threading, time
lock = threading.Lock()
lock.acquire()
child = os.fork()
if child == 0: {does}; os._exit(0)
print('ready', flush=True)
print('child', child, flush=True)
os.waitpid(child, 0)
"
        );
        let Some(guest) = python(&code) else { return };
        let line = guest.find("child ");
        let child: i32 = line
            .rsplit(' ')
            .next()
            .expect("an id")
            .parse()
            .expect("a number");
        // The child sleeps where it does not go on from.
        says(child, "asleep");
        let said = says(guest.pid, "wait4: child ");
        assert!(!said.contains("does not go on"), "{said}");
        let id = nix::unistd::Pid::from_raw(child);
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).expect("our guest's");
    }
}

/// A pool of one connection. Who takes it keeps it, or forgets to give it back.
const USED_UP: &str = "
import threading, time
free = threading.Condition()
items = ['connection']
def checkout():
    with free:
        while not items: free.wait()
        return items.pop()
def pay(keeps):
    checkout()
    if keeps: time.sleep(600)
def work(): pay(KEEPS)
threading.Thread(target=work, name='first', daemon=KEEPS).start()
while items: time.sleep(0.01)
for at in range(3): threading.Thread(target=work, daemon=True).start()
print('ready', flush=True)
while True: time.sleep(0.01)
";

/// Of a pool that is used up is told who is further in the function that takes from it, or that nobody is.
#[test]
fn who_has_what_a_pool_gave_away_is_told() {
    for (keeps, further) in [
        (
            "True",
            "; in pay (<string>:10), which called it, another thread is further and may have what they wait for: thread ",
        ),
        (
            "False",
            ", and no other thread is in pay (<string>:10), which called it: they wait for work, ",
        ),
    ] {
        let Some(guest) = python(&USED_UP.replace("KEEPS", keeps)) else {
            return;
        };
        let said = says(
            guest.pid,
            "\n\n3 threads wait without a time limit in checkout (<string>:7), one of them for ",
        );
        let (before, row) = said.split_once("\n\n3 threads ").expect("found");
        let row = row.lines().next().expect("a line");
        assert!(row.contains(further), "{said}");
        assert_eq!(
            row.ends_with(" first (<string>:11)"),
            keeps == "True",
            "{said}"
        );
        assert!(!before.contains("\nthread "), "{said}");
        let (said, _) = look(guest.pid, &["--json"]);
        assert!(said.contains("\"record\":\"gathered\""), "{said}");
    }
}

/// How often a process is looked at.
const LOOKS: usize = 100;

/// Threads that take and give back one mutex, each asleep in it most of the time: none is said to hold what it waits for, and none of them
/// to stand still.
#[test]
fn who_takes_and_gives_a_mutex_does_not_wait_for_itself() {
    let guest = Guest::ready(&mut Command::new(compiled("own_lock.c")));
    let pid = guest.pid.to_string();
    let mut waits = 0;
    for _ in 0..LOOKS {
        let output = stack(&["--json", "-p", &pid]);
        let text = String::from_utf8_lossy(&output.stdout);
        let records = text.lines().map(serde_json::from_str::<Value>);
        for record in records.map(|record| record.expect("JSON")) {
            assert_ne!(record["record"], "deadlock", "{text}");
            assert_ne!(record["record"], "standstill", "{text}");
            let state = &record["state"];
            let (own, owner) = (record["tid"].as_i64(), state["lock"]["owner"].as_i64());
            assert!(owner.is_none() || owner != own, "{record}");
            waits += usize::from(state["lock"]["kind"] == "mutex");
        }
    }
    assert!(waits >= LOOKS, "too few were seen to wait: {waits}");
}
