//! Nobody stands still for long: neither for a thread that cannot be stopped, nor for a lancet that does not come on.

use std::process::Command;

use crate::machine::program;
use crate::support::{Guest, LIMIT, Snapshot, run};
use crate::watch::calls;

/// The parent of a vfork waits in the kernel, where no stop reaches it, until its child runs another program. The other
/// threads stand still for it no longer than one stop may take, however often it is tried.
#[test]
fn nobody_is_held_for_a_thread_that_waits_in_vfork() {
    let Some(path) = program("vforks.c") else {
        return;
    };
    let mut guest = Guest::start("vforks", Command::new(path));
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let output = run(&mut calls(guest.pid, &["-c", "-x", "malloc"]), LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("does not stop"), "{output:?}");
    guest.tell("?");
    let held: u64 = guest.find("held ").parse().expect("a number");
    assert!(held < 500, "the other thread lost {held} ms");
    before.text_holds(guest.pid, "vforks");
    guest.tell("");
    let (lines, status) = guest.end();
    assert_eq!(lines, ["answer right"]);
    assert!(status.success());
}
