//! Execs that wait for threads of ours.

use super::{seize, seize_within};
use crate::ptrace::{Event, end_of, poll};
use crate::stop::{Stop, Ties, is_late, let_go, poll_stragglers, thread_is_gone, thread_state};
use nix::errno::Errno;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A seize that takes longer waits for ever.
const LONGEST: Duration = Duration::from_secs(20);

/// A program with four threads: the first one reads words, the second ends at the word "end", the third runs `sleep` at the word "exec",
/// the fourth does nothing. It says their ids first.
const GUEST: &str = r#"
import os, sys, threading, time
words = {word: threading.Event() for word in ("end", "exec", "never")}
def ends(): words["end"].wait()
def execs():
    words["exec"].wait()
    os.execvp("sleep", ["sleep", "600"])
def idles(): words["never"].wait()
threads = [threading.Thread(target=of) for of in (ends, execs, idles)]
for one in threads: one.start()
print(*[one.native_id for one in threads], flush=True)
for line in sys.stdin: words[line.strip()].set()
"#;

struct Guest {
    process: Child,
    _says: BufReader<ChildStdout>,
    ends: i32,
    execs: i32,
    idles: i32,
}

impl Guest {
    fn start() -> Self {
        let mut process = Command::new("python3")
            .args(["-c", GUEST])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut says = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        says.read_line(&mut line).expect("it says its threads");
        let ids: Vec<i32> = line
            .split_whitespace()
            .map(|id| id.parse().expect("a number"))
            .collect();
        Guest {
            process,
            _says: says,
            ends: ids[0],
            execs: ids[1],
            idles: ids[2],
        }
    }

    fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    fn tell(&mut self, word: &str) {
        let mut to = self.process.stdin.as_ref().expect("piped");
        writeln!(to, "{word}").expect("it reads");
    }

    /// Has a thread that this thread of ours has seized end, and another one begin an exec, which waits for that end to be heard.
    fn exec_waits(&mut self) {
        let pid = self.pid();
        seize(self.ends, 0).expect("seized");
        self.tell("end");
        until("its end", || thread_state(pid, self.ends) == Some('Z'));
        self.tell("exec");
        // The exec has ended them.
        until("the exec", || {
            thread_is_gone(pid, self.idles) && thread_state(pid, pid) == Some('Z')
        });
        assert_eq!(
            thread_state(pid, self.execs),
            Some('D'),
            "the exec waits for us"
        );
    }

    fn has_begun_the_other_program(&self) -> bool {
        crate::proc_file::name(self.pid()).as_deref() == Some("sleep")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONGEST;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} does not come");
        thread::yield_now();
    }
}

/// Has a thread of ours bring a guest's exec to where it waits for that thread, which then does `work`. If that hangs the guest is killed,
/// which ends both waits.
fn while_an_exec_waits(work: impl FnOnce(&Guest) + Send + 'static) {
    let mut guest = Guest::start();
    let pid = guest.pid();
    let (tell, told) = mpsc::channel();
    let works = thread::spawn(move || {
        guest.exec_waits();
        work(&guest);
        assert_eq!(end_of(guest.ends), Some(Event::Exited(0)), "it is known");
        until("the other program", || guest.has_begun_the_other_program());
        let _ = tell.send(());
    });
    if told.recv_timeout(2 * LONGEST) == Err(mpsc::RecvTimeoutError::Timeout) {
        // SAFETY: kill(2) takes integers; the process is our child, which nobody has waited for.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        panic!("the exec and the seize wait for each other");
    }
    works.join().expect("no panic");
}

#[test]
fn an_exec_that_waits_for_the_end_of_a_thread_of_ours_goes_on_while_another_is_seized() {
    while_an_exec_waits(|guest| {
        // The first thread is a zombie until the exec has replaced it.
        let seized = seize(guest.pid(), 0);
        assert!(matches!(seized, Ok(()) | Err(Errno::EPERM)), "{seized:?}");
    });
}

#[test]
fn an_exec_that_waits_for_the_end_of_a_thread_of_ours_goes_on_while_its_own_thread_is_seized() {
    while_an_exec_waits(|guest| match seize(guest.execs, 0) {
        // For a moment the id is that of the thread that was the first one, which has ended.
        Err(Errno::ESRCH | Errno::EPERM) => {}
        // It was found by the id that it had before.
        Ok(()) => assert_eq!(let_go(guest.pid(), guest.execs), Ok(())),
        other => panic!("{other:?}"),
    });
}

/// Brings a thread that this thread of ours has seized to where it has the id of its process from its exec.
fn with_another_id(work: impl FnOnce(&Guest)) {
    let mut guest = Guest::start();
    seize(guest.execs, 0).expect("seized");
    guest.tell("exec");
    until("the other program", || {
        // Without PTRACE_O_TRACEEXEC it is sent SIGTRAP if it was not seized; signals that come are delivered.
        let _ = poll(guest.pid());
        guest.has_begun_the_other_program()
    });
    assert!(thread_is_gone(guest.pid(), guest.execs));
    let tracer = crate::guest::Status::read(guest.pid()).map(|status| status.tracer);
    assert_ne!(
        tracer.expect("it lives"),
        0,
        "it is traced under its new id"
    );
    work(&guest);
    let status = crate::guest::Status::read(guest.pid()).expect("it lives");
    assert_eq!(status.tracer, 0, "it is let go");
    assert_ne!(status.state, 't', "it goes on");
}

#[test]
fn a_thread_that_has_another_id_from_its_exec_is_let_go_by_the_one_that_it_had() {
    with_another_id(|guest| assert_eq!(let_go(guest.pid(), guest.execs), Ok(())));
}

#[test]
fn a_straggler_that_has_another_id_when_it_is_noted_is_let_go() {
    with_another_id(|guest| {
        is_late(guest.pid(), guest.execs);
        poll_stragglers();
    });
}

/// Another thread of ours traces the one whose end the exec waits for, so that this one cannot hear of it.
#[test]
fn an_exec_is_waited_for_no_longer_than_it_is_said() {
    let mut guest = Guest::start();
    let (begin, begun) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let ends = guest.ends;
    let other = thread::spawn(move || {
        seize(ends, 0).expect("seized");
        begin.send(()).expect("somebody waits");
        // It ends when the sender is dropped, and the kernel then takes the trace off.
        let _ = left.recv();
    });
    begun.recv().expect("it seizes");
    guest.tell("end");
    until("its end", || {
        thread_state(guest.pid(), guest.ends) == Some('Z')
    });
    guest.tell("exec");
    until("the exec", || thread_is_gone(guest.pid(), guest.idles));
    let mut time = Duration::from_millis(30);
    assert_eq!(
        seize_within(guest.execs, 0, &mut time),
        Err(Errno::ETIMEDOUT)
    );
    assert_eq!(time, Duration::ZERO);
    // What was waited for before is taken from what comes later.
    let began = Instant::now();
    assert_eq!(
        seize_within(guest.execs, 0, &mut time),
        Err(Errno::ETIMEDOUT)
    );
    assert!(began.elapsed() < LONGEST);
    drop(leave);
    other.join().expect("no panic");
    until("the other program", || guest.has_begun_the_other_program());
}

/// Whoever has seized a thread lets it go, whatever id its exec gives it.
#[test]
fn a_thread_that_execs_while_it_is_stopped_is_let_go() {
    while_an_exec_waits(|guest| {
        let stop = Stop::one(guest.pid(), guest.execs, false);
        if let Ok(stop) = stop {
            assert_eq!(stop.threads().collect::<Vec<_>>(), [guest.pid()]);
        }
        let status = crate::guest::Status::read(guest.pid()).expect("it lives");
        assert_eq!(status.tracer, 0, "it is let go");
    });
}

#[test]
fn an_exec_that_waits_for_the_end_of_a_thread_of_ours_goes_on_while_all_are_stopped() {
    while_an_exec_waits(|guest| {
        drop(Stop::all(guest.pid(), Ties::None));
        let status = crate::guest::Status::read(guest.pid()).expect("it lives");
        assert_eq!(status.tracer, 0, "it is let go");
    });
}
