//! Nobody stands still for long: neither for a thread that cannot be stopped, nor for a lancet that does not come on.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine::program;
use crate::support::{Guest, LIMIT, Random, Snapshot, alone, can_fail, lancet, rubies, run, skip};
use crate::watch::{calls, hooked, left};

/// The parent of a vfork waits in the kernel, where no stop reaches it, until its child runs another program. The other
/// threads stand still for it no longer than one stop may take, however often it is tried.
#[test]
fn nobody_is_held_for_a_thread_that_waits_in_vfork() {
    alone();
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
    // All tries together; 50 ms each would be 3 s.
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
    if !can_fail() {
        skip(
            "writes that are refused",
            "what is shipped cannot be told to refuse them",
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

/// Ctrl-Z, and SIGSTOP, while a guest stands still: it goes on before lancet stops, or soon after.
#[test]
fn a_lancet_that_is_stopped_lets_its_guest_go_first() {
    let mut command = Command::new("perl");
    command.args(["-e", "$| = 1; print qq(ready\\n); $n = [1] while 1"]);
    let guest = Guest::start("busy", command);
    guest.expect("ready");
    let pid = guest.pid.to_string();
    let mut random = Random::new("stopped");
    for _ in 0..10 {
        let counted = calls(guest.pid, &["-c", "-x", "malloc", "--for", "300ms"]);
        goes_on_under(&mut random, guest.pid, counted, 60);
        let mut sampled = lancet();
        sampled.args(["stack", "--for", "300ms", "--every", "1ms", "-p", &pid]);
        goes_on_under(&mut random, guest.pid, sampled, 300);
    }
    assert_eq!(guest.state(), Some('R'));
}

#[test]
fn a_mem_that_is_stopped_lets_its_guest_go_first() {
    for ruby in rubies("held") {
        let mut guest = Guest::script(&ruby, "calls/fib.rb", &[]);
        guest.expect("ready");
        let mut random = Random::new("stopped mem");
        for _ in 0..5 {
            let mut command = lancet();
            command.args(["mem", "--for", "200ms", "-p", &guest.pid.to_string()]);
            goes_on_under(&mut random, guest.pid, command, 60);
        }
        guest.tell("1");
        guest.find("answer ");
    }
}

/// Stops a lancet by either signal at some time within so many milliseconds of its start, sees its guest go on, and continues
/// it until it has ended.
fn goes_on_under(random: &mut Random, guest: i32, mut command: Command, within: u64) {
    for signal in [Signal::SIGTSTP, Signal::SIGSTOP] {
        // Of a group that a shell could control: in others the kernel ignores SIGTSTP.
        command.process_group(0).stdout(Stdio::null());
        let mut lancet = command.stderr(Stdio::null()).spawn().expect("it starts");
        let pid = Pid::from_raw(lancet.id() as i32);
        std::thread::sleep(Duration::from_micros(random.below(within * 1000)));
        kill(pid, signal).expect("not waited for");
        let deadline = Instant::now() + Duration::from_secs(3);
        while lancet.try_wait().expect("ours").is_none() {
            if process_state(pid) == Some('T') && !stands(guest) {
                break;
            }
            if Instant::now() > deadline {
                kill(pid, Signal::SIGKILL).expect("not waited for");
                panic!("{command:?}: the guest does not go on after {signal}");
            }
            std::thread::yield_now();
        }
        let code = loop {
            match lancet.try_wait().expect("ours") {
                Some(status) => break status.code(),
                None if process_state(pid) == Some('T') => {
                    kill(pid, Signal::SIGCONT).expect("not waited for");
                }
                None => std::thread::yield_now(),
            }
            assert!(Instant::now() < deadline + LIMIT, "it does not end");
        };
        // 4: what the guest did meanwhile is not known.
        assert!(matches!(code, Some(0 | 4)), "{command:?}: {code:?}");
    }
}

/// Whether a thread of a process stands still for a tracer.
fn stands(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    threads.flatten().any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('t'))
    })
}

fn process_state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}
