//! lancet: run to its end, or watched while it watches.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::program::{Output, run, wait};
use super::{LIMIT, Patience, Report, join, standing};

/// The lancet to test: that of `LANCET_BIN`, or this build's.
pub fn tool() -> PathBuf {
    join();
    chosen().unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_lancet")))
}

/// A command that runs it.
pub fn lancet() -> Command {
    Command::new(tool())
}

/// Whether the lancet to test panics where it is asked to (`process::fault`), and refuses writes. What is shipped does neither.
pub fn can_fail() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let mut asked = Command::new(tool());
        asked.arg("--version").env("LANCET_FAULT", "beginning");
        !run(&mut asked, LIMIT).status.success()
    })
}

/// A lancet that panics at these places (`process::fault`): this build's, where the one to test has none of them.
pub fn failing(command: &Command, places: &str) -> Command {
    let own = || PathBuf::from(env!("CARGO_BIN_EXE_lancet"));
    let mut failing = Command::new(if can_fail() { tool() } else { own() });
    failing.args(command.get_args()).env("LANCET_FAULT", places);
    failing.env_remove("RUST_BACKTRACE");
    failing
}

/// A lancet without the tables of a language's versions. It is always this build's: they are there in a release build.
pub fn without_table(language: &str) -> Command {
    let mut without_table = Command::new(env!("CARGO_BIN_EXE_lancet"));
    without_table.env("LANCET_WITHOUT_TABLE", language);
    without_table
}

/// `lancet mem` for a process, with figures that a test can read, over all rows.
pub fn mem(pid: i32) -> Command {
    let mut command = lancet();
    command.args(["mem", "--format", "json", "-p", &pid.to_string()]);
    command
}

/// Whether it is optimised, so that the promised times hold.
pub fn is_release() -> bool {
    chosen().is_some() || !cfg!(debug_assertions)
}

fn chosen() -> Option<PathBuf> {
    std::env::var_os("LANCET_BIN").map(PathBuf::from)
}

/// What lancet says about an attach.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Until the first answer.
    pub milliseconds: f64,
    /// How long the guest stood still.
    pub stopped: f64,
}

impl Opened {
    /// From `lancet: opened process … in X ms; it stood still for Y ms`.
    pub fn read(stderr: &str) -> Self {
        let line = stderr
            .lines()
            .find(|line| line.starts_with("lancet: opened process "))
            .unwrap_or_else(|| panic!("it opened nothing: {stderr}"));
        let after = |words: &str| {
            let (_, rest) = line.rsplit_once(words)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        match (after(") in "), after("still for ")) {
            (Some(milliseconds), Some(stopped)) => Opened {
                milliseconds,
                stopped,
            },
            _ => panic!("not understood: {line}"),
        }
    }
}

/// A lancet at work. Ended at the end of the test.
pub struct Watch {
    child: Child,
    complaints: Receiver<String>,
    said: String,
    stdout: Option<JoinHandle<String>>,
}

impl Watch {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        join();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut stdout = child.stdout.take().expect("a pipe");
        let (send, complaints) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let stdout = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Watch {
            child,
            complaints,
            said: String::new(),
            stdout: Some(stdout),
        }
    }

    /// Starts it and waits until it has opened its process.
    pub fn open(command: Command) -> Self {
        let mut watch = Watch::start(command);
        watch.until("lancet: opened process ");
        watch
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits until it says a line that begins so; that line.
    pub fn until(&mut self, beginning: &str) -> String {
        let mut patience = Patience::of(LIMIT);
        loop {
            match patience.next(&self.complaints) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                    if line.starts_with(beginning) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "no {beginning:?} within {LIMIT:?}: {}\n{}",
                        self.said,
                        standing(self.pid())
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it ended without {beginning:?}: {}", self.said)
                }
            }
        }
    }

    /// Ctrl-C: what it says and shows at its end.
    pub fn interrupt(self) -> Output {
        self.ask(Signal::SIGINT);
        self.end()
    }

    /// Ctrl-C, and a good end; the report.
    pub fn report(self) -> Report {
        let output = self.interrupt();
        assert_eq!(output.code(), 0, "{}", output.stderr);
        Report::parse(&output.stdout)
    }

    /// Sends it a signal.
    pub fn ask(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("our child can be signalled");
    }

    /// Waits for its end.
    pub fn end(mut self) -> Output {
        let status = wait(&mut self.child, LIMIT);
        while let Ok(line) = self.complaints.recv_timeout(Duration::from_secs(5)) {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        let stdout = self
            .stdout
            .take()
            .map(|reader| reader.join().unwrap_or_default());
        let stderr = std::mem::take(&mut self.said);
        match status {
            Some(status) => Output {
                status,
                stdout: stdout.unwrap_or_default(),
                stderr,
            },
            None => panic!("lancet did not end within {LIMIT:?}: {stderr}"),
        }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
