//! Threads that sleep in every system call which answers a stop with EINTR (signal(7)): none sees one because of us, and none
//! comes back before its time. See `fixtures/c/sleepers.c`.

use std::process::Command;

use crate::machine::program;
use crate::support::{Guest, LIMIT, alone, lancet, run};
use crate::watch::{calls, hooked, left};

/// Starts the program; its timeouts end after so many milliseconds.
fn sleepers(timeout: &str) -> Option<Guest> {
    let mut command = Command::new(program("sleepers.c")?);
    command.arg(timeout);
    let guest = Guest::start("sleepers", command);
    guest.expect("ready");
    Some(guest)
}

/// Ends it; it has nothing to complain of. How often each call has ended, as it says.
fn undisturbed(mut guest: Guest) -> Vec<String> {
    guest.tell("");
    let (lines, _) = guest.end();
    let (counts, rest) = lines
        .into_iter()
        .partition::<Vec<_>, _>(|line| line.starts_with("count "));
    assert_eq!(rest, ["answer right"]);
    counts
}

#[test]
fn calls_interrupts_no_sleeper() {
    let Some(guest) = sleepers("50") else { return };
    for _ in 0..20 {
        let command = calls(guest.pid, &["-c", "-x", "malloc", "-o", "/dev/null"]);
        left(hooked(command), "sleepers");
    }
    drop(undisturbed(guest));
}

#[test]
fn stack_interrupts_no_sleeper() {
    let Some(guest) = sleepers("50") else { return };
    let pid = guest.pid.to_string();
    for options in [
        &["-p", &pid][..],
        &["--for", "1s", "--format", "folded", "-p", &pid],
    ] {
        let output = run(lancet().arg("stack").args(options), LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        assert!(output.stdout.contains("do_epoll_wait_ever"), "{output:?}");
    }
    drop(undisturbed(guest));
}

/// By ptrace each thread is stopped when lancet comes and when it goes.
#[test]
fn syscalls_by_ptrace_interrupts_no_sleeper() {
    let Some(guest) = sleepers("50") else { return };
    for _ in 0..20 {
        let way = ["syscalls", "--by", "ptrace", "-o", "/dev/null"];
        left(hooked(calls(guest.pid, &way)), "sleepers");
    }
    drop(undisturbed(guest));
}

/// A thread that is looked at every 10 ms must come to the end of its time all the same, in calls of which the timeout cannot
/// be shortened too.
#[test]
fn a_sleeper_that_is_watched_comes_to_its_end() {
    alone();
    let Some(guest) = sleepers("200") else { return };
    let pid = guest.pid.to_string();
    let mut command = lancet();
    command.args(["stack", "--for", "1500ms", "-p", &pid]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let counts = undisturbed(guest);
    for call in [
        "recv",
        "accept",
        "epoll_wait",
        "semtimedop",
        "select_constant",
    ] {
        let beginning = format!("count {call}: ");
        let line = counts.iter().find_map(|line| line.strip_prefix(&beginning));
        let ended = line.and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
        assert!(ended >= Some(3), "{call} ended {ended:?} times: {counts:?}");
    }
}
