//! Events that a stop meets, children at their making, and threads that do not stop.

use super::{Happening, Tracee};
use crate::lifecycle::{Became, Seized};
use process::error::Error;
use process::guest::Status;
use process::ptrace;
use process::stop::{Stop, Ties};
use std::ffi::OsString;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Returns when the kernel has something to tell of a traced thread, and leaves it to be told: its `si_status`.
fn until_told(tid: i32) -> i32 {
    // SAFETY: the structure is integers, for which zero is valid, and lives through the call.
    unsafe {
        let mut told: libc::siginfo_t = std::mem::zeroed();
        let what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL;
        let done = libc::waitid(libc::P_PID, tid as libc::id_t, &raw mut told, what);
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        told.si_status()
    }
}

fn launched(script: &str, follow: bool) -> Tracee {
    let command = ["sh", "-c", script].map(OsString::from);
    Tracee::launch(&command, follow, None, None).expect("started")
}

#[test]
fn an_event_that_a_stop_meets_is_told_to_the_tracer() {
    let mut tracee = launched("exit 3", false);
    until_told(tracee.pid());
    for _ in 0..2 {
        let stop = Stop::one(tracee.pid(), tracee.pid(), true);
        assert!(matches!(stop, Err(Error::AtEvent { .. })), "{stop:?}");
    }
    assert_eq!(tracee.poll().expect("polled"), Some(Happening::Exec));
    tracee.go_on(false).expect("goes on");
    assert_eq!(tracee.wait().expect("waited"), Happening::Ending);
    tracee.go_on(false).expect("goes on");
    assert_eq!(tracee.wait().expect("waited"), Happening::Ended(3));
}

/// An exec of another thread ends the first one, which stands at its end until we set it going; until then the exec waits, and who would
/// seize a thread waits for the exec.
#[test]
fn a_stop_does_not_wait_for_an_exec_that_waits_for_us() {
    let execs = "import os, threading\n\
                 of = lambda: os.execvp('sleep', ['sleep', '600'])\n\
                 one = threading.Thread(target=of); one.start(); one.join()";
    let (tell, told) = mpsc::channel();
    let (name, named) = mpsc::channel();
    let works = std::thread::spawn(move || {
        let command = ["python3", "-c", execs].map(OsString::from);
        let mut tracee = Tracee::launch(&command, false, None, None).expect("started");
        let pid = tracee.pid();
        name.send(pid).expect("somebody waits");
        // A `python3` that is a script runs another program first.
        while until_told(pid) != libc::PTRACE_EVENT_EXIT << 8 | libc::SIGTRAP {
            tracee.poll().expect("polled");
            tracee.go_on(false).expect("goes on");
        }
        let stop = Stop::all(pid, Ties::Kept);
        assert!(matches!(stop, Err(Error::AtEvent { .. })), "{stop:?}");
        // The same where a stop has met that event before, and put it back.
        let (_, event) = ptrace::poll(pid).expect("told");
        assert_eq!(event, ptrace::Event::Special(libc::PTRACE_EVENT_EXIT));
        ptrace::put_back(pid, libc::PTRACE_EVENT_EXIT);
        let stop = Stop::all(pid, Ties::Kept);
        assert!(matches!(stop, Err(Error::AtEvent { .. })), "{stop:?}");
        assert_eq!(tracee.poll().expect("polled"), Some(Happening::Ending));
        tracee.go_on(false).expect("goes on");
        while process::proc_file::name(pid).as_deref() != Some("sleep") {
            std::thread::yield_now();
        }
        tell.send(()).expect("somebody waits");
    });
    let pid = named.recv().expect("it starts");
    let done = told.recv_timeout(Duration::from_secs(40));
    // SAFETY: kill(2) and waitpid(2) touch no memory of ours: the status pointer is null. It is a child of ours that nobody has waited for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    assert_ne!(
        done,
        Err(mpsc::RecvTimeoutError::Timeout),
        "it waits for ever"
    );
    works.join().expect("no panic");
}

/// A thread that says that it will run another program is seized, and may never do it: the rest goes on meanwhile.
#[test]
fn a_thread_that_is_seized_for_its_exec_can_be_stopped() {
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
    let pid = child.id() as i32;
    let sleeps = || {
        let is_there = process::proc_file::name(pid).as_deref() == Some("sleep");
        is_there && Status::read(pid).is_ok_and(|status| status.state == 'S')
    };
    while !sleeps() {
        std::thread::yield_now();
    }
    let seized = Seized::seize(pid, pid).expect("seized");
    for _ in 0..2 {
        let stop = Stop::all(pid, Ties::None).expect("we trace it ourselves");
        assert_eq!(stop.threads().collect::<Vec<_>>(), [pid]);
        stop.release();
        assert!(matches!(seized.poll(), Became::Going), "it is traced still");
        assert_ne!(Status::read(pid).expect("alive").state, 't', "it goes on");
    }
    // Only who has seized a thread can stop it.
    let others = std::thread::spawn(move || Stop::all(pid, Ties::None).map(drop));
    let refused = others.join().expect("no panic");
    assert!(matches!(refused, Err(Error::Traced { .. })), "{refused:?}");
    seized.let_go();
    assert_eq!(Status::read(pid).expect("alive").tracer, 0);
    child.kill().expect("killed");
    child.wait().expect("ended");
}

#[test]
fn a_child_of_a_process_that_is_let_go_at_its_fork_goes_too() {
    let mut tracee = launched("(exit 5); exit $?", true);
    assert_eq!(tracee.wait().expect("waited"), Happening::Exec);
    tracee.go_on(false).expect("goes on");
    until_told(tracee.pid());
    tracee.let_go().expect("let go");
    assert_eq!(tracee.wait().expect("waited"), Happening::Ended(5));
}

/// A child of ours that waits in vfork, where no stop reaches it, for a child of its own that sleeps; the ids of both.
fn waits_in_vfork() -> (i32, i32) {
    extern "C" fn sleep(_: *mut libc::c_void) -> i32 {
        loop {
            // SAFETY: it is async-signal-safe and touches no memory.
            unsafe { libc::pause() };
        }
    }
    let mut stack = vec![0u8; 64 * 1024];
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: the child makes only async-signal-safe calls, and the grandchild sleeps on a stack that lives in it.
    let parent = unsafe {
        match libc::fork() {
            0 => {
                let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
                libc::clone(sleep, top.cast(), flags, std::ptr::null_mut());
                libc::pause();
                libc::_exit(0)
            }
            parent => parent,
        }
    };
    let list = format!("/proc/{parent}/task/{parent}/children");
    loop {
        let children = std::fs::read_to_string(&list).expect("the kernel lists children");
        if let Ok(child) = children.trim().parse() {
            return (parent, child);
        }
        std::thread::yield_now();
    }
}

#[test]
fn whoever_does_not_stop_is_let_go_later() {
    let (parent, child) = waits_in_vfork();
    let seized = Seized::seize(parent, parent).expect("seized");
    let began = Instant::now();
    seized.let_go();
    assert!(began.elapsed() < Duration::from_secs(20));
    // SAFETY: children of ours, which nobody has waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let deadline = Instant::now() + Duration::from_secs(10);
    let traced = || {
        let status = std::fs::read_to_string(format!("/proc/{parent}/status")).expect("it lives");
        !status.contains("TracerPid:\t0\n")
    };
    while traced() {
        assert!(Instant::now() < deadline, "it is traced still");
        // So it is between two tries of a look, in which nothing else is stopped.
        process::stop::leave_alone(Duration::from_millis(1));
    }
    // SAFETY: kill(2) and waitpid(2) touch no memory of ours: the status pointer is null.
    unsafe {
        libc::kill(parent, libc::SIGKILL);
        libc::waitpid(parent, std::ptr::null_mut(), 0);
    }
}
