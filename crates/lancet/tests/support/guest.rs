//! A program that a test opens, mostly a Ruby.
//!
//! A script of the fixtures talks line by line: it says `ready` when it is where it wants to be, goes on when it is told a
//! line, and says `answer …` at its end.

use std::borrow::BorrowMut;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::program::{children, wait};
use super::{Interpreter, LIMIT, Patience, fixtures, join, soak, standing, until};

/// A program that a test has started, with its standard streams. It is killed when this value is dropped, so that a test that fails leaves no
/// process behind.
pub struct Guest {
    /// Process id of the program.
    pub pid: i32,
    /// What it said before `ready`, where [`Guest::ready`] waited for that.
    pub preface: Vec<String>,
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Arc<Mutex<String>>,
}

/// Most guests compute for as long as they live. Where tests share few processors, lancet and the test, which are waited for, go first: a
/// guest that is waited for has its turn then, as they sleep. It halves the time of a run. In the long forms guests have the same
/// priority as all others, so that both orders are tried.
fn gives_way(guest: &Child) {
    const NICE: i32 = 5;
    if !soak() {
        // SAFETY: it takes numbers. The number is the guest's until it has been waited for.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, guest.id(), NICE) };
    }
}

impl Guest {
    /// Starts a script of the fixtures in the interpreter's language.
    pub fn script(interpreter: &Interpreter, script: &str, arguments: &[&str]) -> Self {
        let mut command = interpreter.command();
        command.arg(fixtures().join(interpreter.language).join(script));
        command.args(arguments);
        let name = format!("{interpreter} {script} {}", arguments.join(" "));
        Guest::start(&name, command)
    }

    /// Starts one that waits for us before its first round and after its answer, and waits for its
    /// `ready`.
    pub fn held(ruby: &Interpreter, script: &str, arguments: &[&str]) -> Self {
        let mut command = ruby.command();
        command.arg(fixtures().join("ruby").join(script));
        command.args(arguments).env("ATTACH", "1").env("HOLD", "1");
        let guest = Guest::start(&format!("{ruby} {script}"), command);
        guest.expect("ready");
        guest
    }

    /// Starts any program.
    pub fn start(name: &str, mut command: impl BorrowMut<Command>) -> Self {
        join();
        let command = command.borrow_mut();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A program that was just written is busy while a child that another test has forked still holds its descriptor.
        let mut child = until(LIMIT, "the program can be run", || match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => None,
            Err(error) => panic!("{command:?}: {error}"),
            Ok(child) => Some(child),
        });
        gives_way(&child);
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stderr = child.stderr.take().expect("a pipe");
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let complaints = Arc::new(Mutex::new(String::new()));
        let heard = complaints.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                heard.lock().expect("no holder panics").push_str(&text);
            }
        });
        Guest {
            pid: child.id() as i32,
            preface: Vec::new(),
            name: name.into(),
            stdin: child.stdin.take(),
            child,
            lines,
            complaints,
        }
    }

    /// Starts a program and waits until it says `ready`; keeps what it says before.
    pub fn ready(command: &mut Command) -> Self {
        let mut guest = Guest::start(&format!("{command:?}"), command);
        loop {
            match guest.line() {
                Some(line) if line == "ready" => return guest,
                Some(line) => guest.preface.push(line),
                None => panic!(
                    "it ended before it was ready: {:?} {}",
                    guest.preface,
                    guest.complaints()
                ),
            }
        }
    }

    /// Starts a program, waits until it says `ready`, and then until its main thread sleeps.
    pub fn asleep(command: &mut Command) -> Self {
        let guest = Guest::ready(command);
        guest.settle('S');
        guest
    }

    /// A core file of it, as gcore of gdb writes it, at this path with its process id for an ending.
    pub fn core(&self, at: &Path) -> PathBuf {
        let mut command = Command::new("gcore");
        let made = command.arg("-o").arg(at).arg(self.pid.to_string()).output();
        let made = made.expect("gcore, of gdb");
        assert!(made.status.success(), "{made:?}");
        let mut path = at.as_os_str().to_owned();
        path.push(format!(".{}", self.pid));
        path.into()
    }

    /// What it said on standard error, a crash report for instance.
    pub fn complaints(&self) -> String {
        let text = self.complaints.lock().expect("no holder panics");
        text.chars().take(2000).collect()
    }

    /// Everything that it said on standard error; `complaints` is the beginning of it.
    pub fn complaints_whole(&self) -> String {
        self.complaints.lock().expect("no holder panics").clone()
    }

    /// Its next line; `None` after the last.
    pub fn line(&self) -> Option<String> {
        match Patience::of(LIMIT).next(&self.lines) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!(
                "{} ({}) said nothing for {LIMIT:?}; {}\n{}",
                self.name,
                self.pid,
                self.complaints(),
                standing(self.pid)
            ),
        }
    }

    /// Fails unless its next line is this.
    pub fn expect(&self, wanted: &str) {
        let line = self.line();
        assert_eq!(
            line.as_deref(),
            Some(wanted),
            "{} ({}): {}",
            self.name,
            self.pid,
            self.complaints()
        );
    }

    /// Reads lines until one begins with this, and returns the rest of that line.
    pub fn find(&self, beginning: &str) -> String {
        loop {
            let Some(line) = self.line() else {
                panic!(
                    "{} ended before it said {beginning:?}: {}",
                    self.name,
                    self.complaints()
                );
            };
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim().into();
            }
        }
    }

    /// Reads lines until one has this in it, and returns what stands behind it in that line.
    pub fn find_within(&self, part: &str) -> String {
        loop {
            let Some(line) = self.line() else {
                panic!(
                    "{} ended before it said {part:?}: {}",
                    self.name,
                    self.complaints()
                );
            };
            if let Some((_, rest)) = line.split_once(part) {
                return rest.to_owned();
            }
        }
    }

    /// Tells it a line.
    pub fn tell(&mut self, line: &str) {
        self.try_tell(line)
            .unwrap_or_else(|error| panic!("{}: {error}; {}", self.name, self.complaints()));
    }

    /// Tells it a line and returns the line that it answers.
    pub fn answer_to(&mut self, line: &str) -> String {
        self.tell(line);
        self.line().unwrap_or_default()
    }

    /// Tells it a line, in one piece, if it still listens.
    pub fn try_tell(&mut self, line: &str) -> std::io::Result<()> {
        let stdin = self.stdin.as_mut().expect("it is still told things");
        stdin.write_all(format!("{line}\n").as_bytes())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid), signal).expect("a guest can be signalled");
    }

    /// One letter of `/proc/PID/stat`: R, S, T, Z …; `None` if it is gone.
    pub fn state(&self) -> Option<char> {
        state(self.pid)
    }

    /// Waits until it is in this state.
    pub fn settle(&self, wanted: char) {
        until(LIMIT, "the guest to settle", || {
            (self.state() == Some(wanted)).then_some(())
        });
    }

    /// Waits until its first thread waits for a line of its standard input.
    pub fn settle_in_read(&self) {
        let call = || std::fs::read_to_string(format!("/proc/{}/syscall", self.pid)).ok();
        until(LIMIT, "it to read", || {
            call()?.starts_with("0 0x0 ").then_some(())
        });
    }

    /// Bytes of memory in use.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))
            .expect("the guest is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: Option<u64> = line
            .and_then(|line| line.split_whitespace().next())
            .and_then(|word| word.parse().ok());
        kilobytes.expect("a size") * 1024
    }

    /// Closes its standard input, waits for its end, and returns the lines that it still said and how it ended.
    pub fn end(mut self) -> (Vec<String>, ExitStatus) {
        self.stdin = None;
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            lines.push(line);
        }
        let status = wait(&mut self.child, LIMIT)
            .unwrap_or_else(|| panic!("{} closed its output and did not end", self.name));
        (lines, status)
    }

    /// Closes its standard input and waits for its end; returns whether it ended with exit code 0.
    pub fn ends_well(self) -> bool {
        self.end().1.success()
    }

    /// Closes its standard input, and fails unless it ends with this as its last line and with exit code 0.
    pub fn ends_with(self, wanted: &str) {
        let name = self.name.clone();
        let complaints = self.complaints.clone();
        let (lines, status) = self.end();
        let heard = complaints.lock().expect("no holder panics").clone();
        assert_eq!(
            (lines.last().map(String::as_str), status.code()),
            (Some(wanted), Some(0)),
            "{name}: {status}: {heard}"
        );
    }

    /// Closes its standard input, and fails unless it ends with exit code 0 and says nothing more.
    pub fn ends_with_nothing(self, what: &str) {
        let complaints = self.complaints.clone();
        let (lines, status) = self.end();
        let heard = complaints.lock().expect("no holder panics").clone();
        assert!(
            lines.is_empty() && status.success() && heard.is_empty(),
            "{what}: {status}: {lines:?} {heard}"
        );
    }

    /// Ends a state of `fixtures/ruby/states` by SIGUSR1, and fails unless it gives this answer.
    pub fn answers(self, wanted: &str) {
        self.signal(Signal::SIGUSR1);
        self.ends_with(&format!("answer {wanted}"));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if thread::panicking() {
            // A server tells its troubles, a worker that it killed for instance, where no test has looked.
            let said: Vec<String> = self.lines.try_iter().collect();
            let (name, complaints) = (&self.name, self.complaints());
            eprintln!("{name} said last: {}\n{complaints}", said.join("\n"));
        }
        // Workers of a server do not end with a master that is killed.
        let workers = children(self.pid);
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for worker in workers {
            let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
        }
    }
}

/// One letter of `/proc/PID/stat`.
pub fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
