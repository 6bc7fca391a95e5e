//! `-c --preset`: calls that have not returned when a process is left, which are in no row.

use std::process::Command;

use crate::support::{Guest, LIMIT, TempDir, installed, lancet, run, skip, until};
use crate::watch::{calls, hooked, left};

/// A statement that waits for a lock is in no row, whether it was sent before lancet came or after: it is told by itself.
#[test]
fn a_statement_that_has_not_returned_is_told() {
    if !installed("python3") {
        return skip("a statement that has not returned", "there is no python3");
    }
    let folder = TempDir::new("presets-unreturned");
    let code = "
import os, sqlite3, sys
path = sys.argv[1]
first = sqlite3.connect(path); first.execute('CREATE TABLE jobs (id INTEGER)'); first.commit(); first.close()
theirs = sqlite3.connect(path, isolation_level=None)
theirs.execute('BEGIN EXCLUSIVE')
ours = sqlite3.connect(path, timeout=900)
def finish():
    ours.execute('INSERT INTO jobs VALUES (1)')
print('ready', flush=True)
input()
print('goes', flush=True)
finish()
";
    let start = |name: &str| {
        let mut command = Command::new("python3");
        Guest::ready(command.args(["-c", code]).arg(folder.join(name)))
    };
    let told =
        "1 call has not returned, and is in no row: sqlite3_prepare_v2 ← <string>:9 in 'finish'";
    let before = ", and is in no row: sqlite3_prepare_v2 ← <string>:9 in 'finish' (since before it was hooked, ";
    // It waits before lancet comes.
    let mut guest = start("before");
    guest.tell("go");
    guest.find("goes");
    let said = until(LIMIT, "it waits", || {
        let mut command = calls(guest.pid, &["-c", "--preset", "sql", "--for", "1s"]);
        command.args(["--debug", "1"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        output.stderr.contains(before).then_some(output.stderr)
    });
    assert!(said.contains(told), "{said}");
    // It is looked at when no hook waits for us any more and all records were read.
    let over = format!("process {} is over", guest.pid);
    let at = |what: &str| said.find(what).unwrap_or_else(|| panic!("{what}: {said}"));
    assert!(at(&over) < at(told), "{said}");
    // It begins to wait when the functions are hooked.
    let mut guest = start("after");
    let watch = hooked(calls(guest.pid, &["-c", "--preset", "sql"]));
    guest.tell("go");
    guest.find("goes");
    let pid = guest.pid.to_string();
    until(LIMIT, "it waits", || {
        let output = run(lancet().args(["stack", "-p", &pid]), LIMIT);
        output.stdout.contains(" in sqlite3_").then_some(())
    });
    let output = left(watch, "it waits");
    assert!(
        output.stderr.contains(told) && !output.stderr.contains("since before"),
        "{}",
        output.stderr
    );
}

/// What a function calls back is not its caller. When it was hooked is said of functions only whose calls show by their caller whether they
/// were made before.
#[test]
fn a_call_is_told_with_what_is_known_of_it() {
    if !installed("python3") {
        return skip("calls that call back", "there is no python3");
    }
    let folder = TempDir::new("presets-called-back");
    let file = folder.join("mine.preset");
    std::fs::write(&file, "about mine\nbsearch\n_Unwind_Backtrace\n").expect("a file");
    let file = file.display().to_string();
    let code = "
import ctypes
libc, unwinder = ctypes.CDLL(None), ctypes.CDLL('libgcc_s.so.1')
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def answers(a, b):
    print('goes', flush=True)
    input()
    return 0
def searches():
    libc.bsearch(b'a', b'a', 1, 1, answers)
def walks():
    unwinder._Unwind_Backtrace(answers, None)
print('ready', flush=True)
for calls in searches, searches, walks:
    input()
    calls()
";
    let mut guest = Guest::ready(Command::new("python3").args(["-c", code]));
    let searches = "in no row: bsearch ← <string>:10 in 'searches'";
    let since = " (since before it was hooked, ";
    // A function that was called before it was hooked, then one of which the call was seen.
    guest.tell("search");
    guest.find("goes");
    let watch = hooked(calls(guest.pid, &["-c", "--preset", &file]));
    let stderr = left(watch, "it waits").stderr;
    assert!(stderr.contains(&format!("{searches}{since}")), "{stderr}");
    guest.tell("back");
    let mut watch_and_call = |what: &str| {
        let watch = hooked(calls(guest.pid, &["-c", "--preset", &file]));
        guest.tell(what);
        guest.find("goes");
        let stderr = left(watch, "it waits").stderr;
        guest.tell("back");
        assert!(!stderr.contains(since), "{stderr}");
        stderr
    };
    let seen = watch_and_call("search");
    assert!(seen.contains(searches), "{seen}");
    // Of this one no call has a frame of ours.
    let walked = watch_and_call("walk");
    let told = "in no row: _Unwind_Backtrace ← <string>:12 in 'walks'";
    assert!(walked.contains(told), "{walked}");
}
