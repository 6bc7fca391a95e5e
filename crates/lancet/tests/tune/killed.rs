//! `kill -9`, or Ctrl-C, between any two system calls.
//!
//! The test is a tracer: it lets lancet run from system call to system call (ptrace(2), PTRACE_SYSCALL) and sends it
//! a signal at the n-th stop behind the lock it takes before its first write. Each system call has two stops, before it
//! and behind it, so every write is cut off both ways. That is every instant there is, not a random one.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::harness::{Network, may_make_networks, text};
use crate::network::CHANGEABLE;
use crate::support::tool;

/// How many instants of an apply, and of an undo or an interrupted apply.
const INSTANTS: usize = 60;
const FEWER: usize = 30;
const NEVER: usize = usize::MAX;

/// How a run under the tracer ended.
struct Run {
    /// Stops behind the lock.
    stops: usize,
    /// Whether it lived to the instant of the signal.
    reached: bool,
    /// Its exit code; none if the signal killed it.
    code: Option<i32>,
}

/// A network where everything is set wrong, and what is to be done about it.
struct Bench {
    network: Network,
    apply: Vec<&'static str>,
    first: String,
}

impl Bench {
    fn new() -> Self {
        let network = Network::new();
        network.detune();
        let apply = ["--goal", "throughput", "--apply"].into_iter();
        Self {
            first: network.state("throughput"),
            network,
            apply: apply.chain(CHANGEABLE).collect(),
        }
    }

    fn is_as_at_first(&self) -> bool {
        self.network.state("throughput") == self.first
    }

    /// Runs lancet and sends it the signal at stop number `at` behind the lock.
    fn run(&self, args: &[&str], at: usize, signal: Signal) -> Run {
        let mut command: Command = self.network.command(tool().to_str().unwrap());
        command.args([
            "tune",
            "--no-sample",
            "--journals",
            self.network.journals.arg(),
        ]);
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
        let mut reached = false;
        let code = loop {
            let status = waitpid(pid, None).unwrap();
            match status {
                WaitStatus::Exited(_, code) => break Some(code),
                WaitStatus::Signaled(..) => break None,
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                    let call = ptrace::getregs(pid).unwrap().orig_rax;
                    match &mut behind_lock {
                        Some(stops) => *stops += 1,
                        None if call == libc::SYS_flock as u64 => behind_lock = Some(0),
                        None => {}
                    }
                    if behind_lock == Some(at) {
                        reached = true;
                        kill(pid, signal).unwrap();
                    }
                    // A process that SIGKILL ends cannot be told to go on.
                    let _ = ptrace::syscall(pid, None);
                }
                WaitStatus::Stopped(_, signal) => ptrace::syscall(pid, signal).unwrap(),
                other => panic!("{other:?}"),
            }
        };
        // It has been reaped above.
        let _ = child.wait();
        let stops = behind_lock.unwrap_or(0);
        Run {
            stops,
            reached,
            code,
        }
    }

    /// `--undo`, until nothing is left to take back; then all is as it was.
    fn heal(&self, instant: usize) {
        let output = self.network.tune(&["--undo"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(0), "at {instant}: {said}");
        assert!(self.is_as_at_first(), "not healed at {instant}: {said}");
    }
}

/// So many instants of so many stops, the first and the last of them too.
fn instants(stops: usize, of: usize) -> impl Iterator<Item = usize> {
    (0..of).map(move |number| (stops - 2) * number / (of - 1))
}

#[test]
fn an_apply_killed_anywhere_is_healed_by_undo() {
    if !may_make_networks("an_apply_killed_anywhere_is_healed_by_undo") {
        return;
    }
    let bench = Bench::new();
    let Run { stops, code, .. } = bench.run(&bench.apply, NEVER, Signal::SIGKILL);
    assert!(
        code == Some(0) && stops > 2 * INSTANTS,
        "only {stops} stops"
    );
    assert!(!bench.is_as_at_first());
    bench.heal(stops);

    let mut half_done = 0;
    for instant in instants(stops, INSTANTS) {
        let run = bench.run(&bench.apply, instant, Signal::SIGKILL);
        assert!(
            run.reached && run.code.is_none(),
            "it ended before stop {instant}"
        );
        half_done += usize::from(!bench.is_as_at_first());
        bench.heal(instant);
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
    let bench = Bench::new();
    let apply = || {
        let output = bench.network.tune(&bench.apply);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    };
    apply();
    let stops = bench.run(&["--undo"], NEVER, Signal::SIGKILL).stops;
    assert!(bench.is_as_at_first());
    for instant in instants(stops, FEWER) {
        apply();
        let run = bench.run(&["--undo"], instant, Signal::SIGKILL);
        assert!(run.reached, "it ended before stop {instant}");
        bench.heal(instant);
    }
}

/// Ctrl-C: it ends between two changes and says so, or it was done already.
#[test]
fn an_interrupted_apply_stops_between_two_changes() {
    if !may_make_networks("an_interrupted_apply_stops_between_two_changes") {
        return;
    }
    let bench = Bench::new();
    let stops = bench.run(&bench.apply, NEVER, Signal::SIGINT).stops;
    bench.heal(stops);
    let mut stopped = 0;
    for instant in instants(stops, FEWER) {
        let run = bench.run(&bench.apply, instant, Signal::SIGINT);
        assert!(run.reached, "it ended before stop {instant}");
        match run.code {
            Some(0) => {}
            Some(1) => stopped += 1,
            other => panic!("it ended with {other:?} at {instant}"),
        }
        bench.heal(instant);
    }
    assert!(stopped > FEWER / 2, "only {stopped} were stopped");
}
