//! Signals that come while a thread makes remote calls.

mod ended;

use super::{Gadgets, RemoteThread, departing};
use ended::stopped;
use process::guest::reach_ours;
use process::maps::Maps;
use process::stop::thread_state;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Answers each line with the same one, and each of these signals with its name.
const ECHO: &str =
    "$| = 1; for my $name (qw(SEGV BUS ILL FPE TRAP)) { $SIG{$name} = sub { print \"$name\\n\" } }
    print \"ready\\n\"; while (my $line = <STDIN>) { print $line }";

struct Echo {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

/// The same at the bottom of a recursion that takes C frames (perl's `sort` runs its comparison in a loop of its own).
const DEEP: &str = "$| = 1; sub deep { my $n = shift;
    if ($n) { my @sorted = sort { deep($n - 1); 0 } 1, 2; return }
    print \"ready\\n\"; while (my $line = <STDIN>) { print $line } exit }
    deep(1000)";

impl Echo {
    fn start() -> Self {
        Self::of(ECHO)
    }

    fn of(script: &str) -> Self {
        let mut child = Command::new("perl")
            .args(["-e", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl");
        let to = child.stdin.take().expect("piped");
        let from = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut echo = Echo { child, to, from };
        assert_eq!(echo.hear(), "ready");
        echo
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn hear(&mut self) -> String {
        self.from.next().expect("a line").expect("text")
    }

    fn send(&self, signal: i32) {
        // SAFETY: our own child, which we have not waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Stops it, sends it a signal, has it make a system call, and sends it another signal before it goes on.
    fn works_under(&self, signal: i32, then: Option<i32>) {
        let pid = self.pid();
        let (_, memory, maps) = reach_ours(pid).expect("it can be opened");
        let gadgets = Gadgets::find(pid, &memory, &maps).expect("it has a libc");
        let stop = stopped(pid, pid);
        // Its stack may have grown on the way to where it stands.
        let maps = Maps::read(pid).expect("it lives");
        let mut remote = RemoteThread::new(pid, &memory, gadgets, &maps).expect("it has room");
        self.send(signal);
        for _ in 0..3 {
            let answer = remote.syscall("getpid", libc::SYS_getpid, [0; 6]);
            assert_eq!(answer.expect("answered"), pid as u64);
        }
        then.inspect(|then| self.send(*then));
        remote.give_back().expect("it is given back");
        drop(stop);
    }

    fn answers(&mut self) {
        self.to.write_all(b"hello\n").expect("written");
        let deadline = Instant::now() + Duration::from_secs(10);
        while thread_state(self.pid(), self.pid()) == Some('T') {
            assert!(Instant::now() < deadline, "it is stopped");
            std::thread::yield_now();
        }
        assert_eq!(self.hear(), "hello");
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_stop_signal_is_not_delivered_after_the_signal_that_ends_it() {
    let mut echo = Echo::start();
    for _ in 0..20 {
        echo.works_under(libc::SIGSTOP, Some(libc::SIGCONT));
    }
    echo.answers();
}

#[test]
fn a_stop_signal_that_nothing_follows_stops_it() {
    let mut echo = Echo::start();
    echo.works_under(libc::SIGSTOP, None);
    let deadline = Instant::now() + Duration::from_secs(10);
    while thread_state(echo.pid(), echo.pid()) != Some('T') {
        assert!(Instant::now() < deadline, "it is not stopped");
        std::thread::yield_now();
    }
    echo.send(libc::SIGCONT);
    echo.answers();
}

#[test]
fn a_signal_that_somebody_sent_is_no_fault_of_the_call() {
    let mut echo = Echo::start();
    for (signal, name) in [
        (libc::SIGSEGV, "SEGV"),
        (libc::SIGBUS, "BUS"),
        (libc::SIGILL, "ILL"),
        (libc::SIGFPE, "FPE"),
        (libc::SIGTRAP, "TRAP"),
    ] {
        echo.works_under(signal, None);
        assert_eq!(echo.hear(), name);
    }
    echo.answers();
}

/// A stack is mapped as far as it was used. Where its thread is deeper than ever before there is no room below it, until the
/// kernel is asked for more.
#[test]
fn a_thread_at_its_deepest_point_makes_calls() {
    let mut echo = Echo::of(DEEP);
    let pid = echo.pid();
    let stack = || {
        let maps = Maps::read(pid).expect("it lives");
        let stack = maps.iter().find(|one| one.is_named("[stack]"));
        stack.expect("a stack").size()
    };
    // Until it is as deep as it goes.
    let deadline = Instant::now() + Duration::from_secs(10);
    while thread_state(pid, pid) != Some('S') {
        assert!(Instant::now() < deadline, "it does not wait for a line");
        std::thread::yield_now();
    }
    let before = stack();
    assert!(before > 256 << 10, "{before} bytes: it is not deep");
    echo.works_under(libc::SIGURG, None);
    assert!(stack() > before, "there was room");
    assert!(stack() - before <= 64 << 10);
    echo.answers();
}

/// A call begins with the flags that the ABI asks for, whatever the thread was doing, and in no system call, so that none is made again.
#[test]
fn a_call_begins_with_the_flags_of_the_abi() {
    // SAFETY: all zeros is a valid value of this struct of plain words.
    let mut saved: process::ptrace::Registers = unsafe { std::mem::zeroed() };
    // Carry, interrupts, and what must be clear: single steps and the direction of string instructions.
    (saved.eflags, saved.orig_rax, saved.rbx) = (0x201 | 0x100 | 0x400, 35, 9);
    let called = departing(&saved, [0x1000, 0x2000, 1], [11, 12, 13, 14, 15, 16]);
    assert_eq!((called.eflags, called.orig_rax), (0x201, u64::MAX));
    assert_eq!((called.rip, called.rsp, called.rax), (0x1000, 0x2000, 1));
    let of_kernel = [
        called.rdi, called.rsi, called.rdx, called.r10, called.r8, called.r9,
    ];
    assert_eq!(of_kernel, [11, 12, 13, 14, 15, 16]);
    assert_eq!(called.rbx, 9);
}
