//! Programs that run to their end, in bounded time.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::{LIMIT, Patience, join, lancet, say, standing};

/// How a program ended and what it wrote.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Its exit code; a death by signal fails the test.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("it was killed: {self:?}"))
    }
}

/// Runs a program to its end.
pub fn run(command: &mut Command, limit: Duration) -> Output {
    join();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, limit);
    // A child of the program may hold the pipes a little longer.
    let text = |from: Receiver<String>| Patience::of(limit).next(&from).unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    let Some(status) = status else {
        panic!("{command:?} did not end within {limit:?}\nstdout: {stdout}\nstderr: {stderr}");
    };
    Output {
        status,
        stdout,
        stderr,
    }
}

/// Waits for the end of a program; `None` if it had to be killed. Says then where its threads were.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let mut patience = Patience::of(limit);
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if patience.is_over() {
            say(standing(child.id() as i32));
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a process catches a signal, so that it may be sent: its status says when the handler is there.
pub fn await_handler(pid: i32, signal: i32) {
    let mut patience = Patience::of(LIMIT);
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let set = u64::from_str_radix(line.expect("a set").trim(), 16).expect("a number");
        set >> (signal - 1) & 1 == 1
    };
    while !caught() {
        assert!(!patience.is_over(), "it does not catch {signal}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn collect(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.read_to_end(&mut bytes);
        }
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receive
}

/// Runs it; it ends with exit code 1 and has written exactly this line to standard error.
#[track_caller]
pub fn refused(mut command: Command, line: &str) {
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 1, "{command:?}: {output:?}");
    assert_eq!(output.stdout, "", "{command:?}");
    assert_eq!(output.stderr, format!("{line}\n"), "{command:?}");
}

/// A command that is to open its own process is refused. `arguments`, up to `-p`, are parted by spaces. The shell that becomes
/// lancet knows its process id.
#[track_caller]
pub fn refused_to_itself(arguments: &str) {
    let tool = lancet().get_program().to_string_lossy().into_owned();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" {arguments} -p $$"), &tool]);
    let mut child = shell
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let pid = child.id();
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("its end").code(), Some(1), "{said}");
    assert_eq!(
        said,
        format!("lancet: process {pid} cannot be opened: it is lancet itself\n")
    );
}

/// The children of a process that its main thread has made and that are still there.
pub fn children(pid: i32) -> Vec<i32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    let pids = list.split_ascii_whitespace();
    pids.map(|pid| pid.parse().expect("a number")).collect()
}
