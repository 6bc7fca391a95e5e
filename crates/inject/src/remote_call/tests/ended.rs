//! A thread that ends in a call that it makes for us: whether its process has ended is read from the process.

use crate::remote_call::{Gadgets, RemoteThread};
use process::error::Error;
use process::guest::{Status, reach_ours};
use process::maps::Maps;
use process::stop::Stop;
use process::tries::Tries;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Two threads that wait for a line each; the one that reads it begins another program.
const TWO: &str = "import os, sys, threading
def waits():
    print(threading.get_native_id(), flush=True)
    threading.Event().wait()
threading.Thread(target=waits, daemon=True).start()
sys.stdin.readline()
os.execv('/bin/sh', ['sh', '-c', 'echo next; read end'])";

struct Two {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
    other: i32,
}

impl Two {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", TWO])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let to = child.stdin.take().expect("piped");
        let mut from = BufReader::new(child.stdout.take().expect("piped")).lines();
        let other = from.next().expect("a line").expect("text");
        let other = other.parse().expect("a number");
        Two {
            child,
            to,
            from,
            other,
        }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Has one of its threads make a system call, before which `then` is done, and returns the error.
    fn fails(&mut self, tid: i32, call: i64, then: impl FnOnce(&mut ChildStdin)) -> Error {
        let pid = self.pid();
        let (_, memory, maps) = reach_ours(pid).expect("it can be opened");
        let gadgets = Gadgets::find(pid, &memory, &maps).expect("it has a libc");
        let stop = stopped(pid, tid);
        let maps = Maps::read(pid).expect("it lives");
        let mut remote = RemoteThread::new(tid, &memory, gadgets, &maps).expect("it has room");
        then(&mut self.to);
        let answer = remote.syscall("a call", call, [0; 6]);
        drop((remote, stop));
        answer.expect_err("it does not return")
    }
}

/// Stops a thread, which on a busy machine may not come to a processor in time.
pub(super) fn stopped(pid: i32, tid: i32) -> Stop {
    let mut tries = Tries::begin();
    loop {
        match Stop::one(pid, tid, false) {
            Err(error) if tries.again(&error) => {}
            stopped => return stopped.expect("it stops"),
        }
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each of two threads, the first one too, whose end the kernel tells no tracer as long as others go on.
#[test]
fn a_thread_that_ends_is_not_its_process() {
    for first in [false, true] {
        let mut two = Two::start();
        let before = Status::read(two.pid()).expect("it lives");
        let tid = if first { two.pid() } else { two.other };
        let error = two.fails(tid, libc::SYS_exit, |_| ());
        assert!(
            matches!(error, Error::ThreadEnded { tid: of, .. } if of == tid),
            "{error}"
        );
        assert!(!before.is_gone(), "the other thread goes on");
    }
}

#[test]
fn a_process_that_ends_in_a_call_has_ended() {
    for first in [false, true] {
        let mut two = Two::start();
        let tid = if first { two.pid() } else { two.other };
        let error = two.fails(tid, libc::SYS_exit_group, |_| ());
        assert!(matches!(error, Error::Gone(_)), "{error}");
    }
}

/// Another thread begins another program, which ends all others of its process.
#[test]
fn a_thread_that_an_exec_ends_is_not_its_process() {
    let mut two = Two::start();
    let before = Status::read(two.pid()).expect("it lives");
    let error = two.fails(two.other, libc::SYS_pause, |to| {
        to.write_all(b"go\n").expect("it listens");
    });
    assert!(!error.is_end(), "{error}");
    assert_eq!(two.from.next().expect("a line").expect("text"), "next");
    assert!(!before.is_gone());
}
