//! `kill -9` between any two system calls.
//!
//! The test is a tracer: it lets lancet run from system call to system call (ptrace(2), PTRACE_SYSCALL) and kills it
//! at the n-th stop behind the lock it takes before its first write. Each system call has two stops, before it
//! and behind it, so every write is cut off both ways. That is every instant there is, not a random one.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::harness::{Network, lancet, may_make_networks, text};
use crate::network::CHANGEABLE;

/// How many instants of an apply, and of an undo.
const INSTANTS: usize = 100;
const UNDO_INSTANTS: usize = 30;

/// Runs lancet in the network and kills it at stop number `at` behind the lock; gives the number of stops it lived for
/// and whether it was killed.
fn run_until(network: &Network, args: &[&str], at: usize) -> (usize, bool) {
    let mut command: Command = network.command(lancet().to_str().unwrap());
    command.args(["tune", "--no-sample", "--journals", network.journals.arg()]);
    command
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec, one system call.
    unsafe {
        command.pre_exec(|| ptrace::traceme().map_err(Into::into));
    }
    let mut child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    let mut behind_lock = None;
    let killed = loop {
        match waitpid(pid, None).unwrap() {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => break false,
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let call = ptrace::getregs(pid).unwrap().orig_rax;
                match &mut behind_lock {
                    Some(stops) => *stops += 1,
                    None if call == libc::SYS_flock as u64 => behind_lock = Some(0),
                    None => {}
                }
                if behind_lock == Some(at) {
                    child.kill().unwrap();
                    break true;
                }
                ptrace::syscall(pid, None).unwrap();
            }
            WaitStatus::Stopped(_, signal) => ptrace::syscall(pid, signal).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    // Also when it has been reaped above.
    let _ = child.wait();
    (behind_lock.unwrap_or(0), killed)
}

fn heal(network: &Network, instant: usize) {
    let output = network.tune(&["--undo"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "killed at {instant}: {}",
        text(&output)
    );
}

#[test]
fn an_apply_killed_anywhere_is_healed_by_undo() {
    if !may_make_networks("an_apply_killed_anywhere_is_healed_by_undo") {
        return;
    }
    let network = Network::new();
    network.detune();
    let first = network.state("throughput");
    let args: Vec<&str> = ["--goal", "throughput", "--apply"]
        .iter()
        .chain(&CHANGEABLE)
        .copied()
        .collect();
    let (stops, killed) = run_until(&network, &args, usize::MAX);
    assert!(!killed && stops > 2 * INSTANTS, "only {stops} stops");
    assert_ne!(network.state("throughput"), first);
    heal(&network, stops);
    assert_eq!(network.state("throughput"), first);

    let mut half_done = 0;
    for number in 0..INSTANTS {
        // The last one is the very end.
        let instant = (stops - 2) * number / (INSTANTS - 1);
        let (_, killed) = run_until(&network, &args, instant);
        assert!(killed, "it ended before stop {instant}");
        half_done += usize::from(network.state("throughput") != first);
        heal(&network, instant);
        assert_eq!(
            network.state("throughput"),
            first,
            "killed at stop {instant} of {stops}"
        );
    }
    println!("{INSTANTS} of {stops} stops; {half_done} left changes behind, all were taken back");
    assert!(
        half_done > INSTANTS / 2,
        "only {half_done} kills left anything to heal"
    );
}

#[test]
fn an_undo_killed_anywhere_is_healed_by_the_next() {
    if !may_make_networks("an_undo_killed_anywhere_is_healed_by_the_next") {
        return;
    }
    let network = Network::new();
    network.detune();
    let first = network.state("throughput");
    let args: Vec<&str> = ["--goal", "throughput", "--apply"]
        .iter()
        .chain(&CHANGEABLE)
        .copied()
        .collect();
    let apply = || {
        let output = network.tune(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    };
    apply();
    let (stops, _) = run_until(&network, &["--undo"], usize::MAX);
    assert_eq!(network.state("throughput"), first);
    for number in 0..UNDO_INSTANTS {
        let instant = (stops - 2) * number / (UNDO_INSTANTS - 1);
        apply();
        let (_, killed) = run_until(&network, &["--undo"], instant);
        assert!(killed, "it ended before stop {instant}");
        heal(&network, instant);
        assert_eq!(
            network.state("throughput"),
            first,
            "killed at stop {instant} of {stops}"
        );
    }
}
