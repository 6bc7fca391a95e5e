//! A process whose first thread ends while others go on (`pthread_exit` in `main`) has not ended: it is watched on, and left as it was.

use std::process::Command;

use crate::machine::built;
use crate::support::{Guest, LIMIT, Snapshot, TempDir, until};
use crate::watch::{calls, counted, hooked};

#[test]
fn a_process_without_its_first_thread_has_not_ended() {
    let Some(path) = built("first_thread.c", &["-rdynamic"]) else {
        return;
    };
    let folder = TempDir::new("first-thread");
    let out = folder.join("out");
    let mut guest = Guest::start("first thread", Command::new(path));
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let file = out.to_str().expect("plain");
    let what = ["-c", "-x", "tick", "--max-wait", "30s", "-o", file];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("end");
    until(LIMIT, "its first thread ends", || {
        (guest.state() == Some('Z')).then_some(())
    });
    guest.expect("more");
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    before.text_holds(guest.pid, "without its first thread");
    let table = std::fs::read_to_string(&out).expect("a table");
    assert!(counted(&table, "tick") >= 200, "{table}");
    assert_eq!(guest.state(), Some('Z'), "the others go on");
}
