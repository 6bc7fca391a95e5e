//! Nobody stands still for long: neither for a thread that cannot be stopped, nor for a lancet that does not come on.

use std::process::Command;

use crate::machine::program;
use crate::support::{Guest, LIMIT, Snapshot, is_release, run, skip};
use crate::watch::{calls, hooked, left};

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

/// A kernel that lets only a tracer write protected pages (proc_mem.force_override=ptrace, Linux 6.12).
#[test]
fn a_kernel_on_which_only_tracers_write_code() {
    only_where_writes_can_be_refused(|guest| {
        for _ in 0..2 {
            let mut command = calls(guest.pid, &["-c", "-x", "malloc"]);
            command.env("LANCET_FORCE_OVERRIDE", "ptrace");
            left(hooked(command), "sleepers");
        }
        let mut killed = calls(guest.pid, &["-c", "-x", "malloc"]);
        killed.env("LANCET_FORCE_OVERRIDE", "ptrace");
        hooked(killed).kill();
        let mut command = calls(guest.pid, &["-c", "-x", "calloc"]);
        command.env("LANCET_FORCE_OVERRIDE", "ptrace");
        left(hooked(command), "sleepers");
    });
}

/// One that lets nobody (`=never`): refused, and nothing has changed.
#[test]
fn a_kernel_on_which_nobody_writes_code() {
    only_where_writes_can_be_refused(|guest| {
        let maps = || std::fs::read_to_string(format!("/proc/{}/maps", guest.pid)).expect("maps");
        let before = maps();
        let mut command = calls(guest.pid, &["-c", "-x", "malloc"]);
        command.env("LANCET_FORCE_OVERRIDE", "never");
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 1, "{output:?}");
        let advice = "start the kernel with proc_mem.force_override=ptrace";
        assert!(output.stderr.contains(advice), "{output:?}");
        assert_eq!(maps(), before);
    });
}

/// Opens a program by a lancet that can be told to refuse writes; its text is as it was then.
fn only_where_writes_can_be_refused(opened: impl Fn(&Guest)) {
    if is_release() {
        skip(
            "writes that are refused",
            "only a build with debug assertions can be told to",
        );
        return;
    }
    let Some(path) = program("sleepers.c") else {
        return;
    };
    let mut command = Command::new(path);
    command.arg("50");
    let mut guest = Guest::start("sleepers", command);
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    opened(&guest);
    before.text_holds(guest.pid, "sleepers");
    guest.tell("");
    assert!(guest.end().1.success());
}
