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
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        output.stderr.contains(before).then_some(output.stderr)
    });
    assert!(said.contains(told), "{said}");
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
