//! A real process to look into: its memory, what its modules export, and a way to take turns with it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use vm::{Fault, Memory};

/// Where the root of a name would be, such as `ruby-3.1`.
pub fn root(name: &str) -> PathBuf {
    let roots = std::env::var_os("LANCET_ROOTS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/lancet/roots"),
        PathBuf::from,
    );
    roots.join(name)
}

/// `program` on the system in `root`, which is this machine's own if it is `/`.
pub fn command(root: &Path, program: &str) -> Command {
    if root == Path::new("/") {
        Command::new(program)
    } else {
        let mut command = Command::new("chroot");
        command.arg(root).arg(program);
        command
    }
}

/// A script that talks: it prints lines up to `READY`, and reads a line before it goes on.
pub struct Script {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// What it printed up to the last `READY`.
    pub lines: Vec<String>,
}

impl Script {
    /// Starts it.
    pub fn start(mut command: Command) -> Script {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Script {
            child,
            stdin,
            stdout,
            lines: Vec::new(),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on.
    pub fn resume(&mut self) {
        self.stdin.write_all(b"\n").expect("the script reads");
    }

    /// Reads up to the next `READY`, and waits until nothing of its main thread moves any more; false if the script has
    /// ended well instead.
    pub fn wait(&mut self) -> bool {
        self.lines.clear();
        loop {
            let mut line = Vec::new();
            let read = self
                .stdout
                .read_until(b'\n', &mut line)
                .expect("the script writes");
            if read == 0 {
                let status = self.child.wait().expect("the script ends");
                assert!(
                    status.success() && self.lines.is_empty(),
                    "the script ended: {status}; it said {:#?}",
                    self.lines
                );
                return false;
            }
            let line = String::from_utf8_lossy(&line)
                .trim_end_matches('\n')
                .to_owned();
            if line == "READY" {
                self.settle();
                return true;
            }
            self.lines.push(line);
        }
    }

    /// Waits until it reads its next line. `READY` was printed before.
    fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let point = format!("/proc/{}/syscall", self.pid());
        loop {
            let call = std::fs::read_to_string(&point).expect("a process");
            // The number of the call and its first argument. A Ruby waits for the file before it reads it.
            let mut words = call.split(' ');
            let call = [words.next(), words.next()];
            if call == [Some("0"), Some("0x0")]
                || matches!(call[0], Some("7" | "23" | "270" | "271"))
            {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "the script said READY, but does not read"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// The memory of the process as it is now: after an `exec` it is another.
    pub fn memory(&self) -> ProcessMemory {
        ProcessMemory(File::open(format!("/proc/{}/mem", self.pid())).expect("memory opens"))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `/proc/PID/mem`.
pub struct ProcessMemory(pub File);

impl Memory for ProcessMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.0.read_exact_at(into, at).map_err(|_| Fault { at })
    }
}

/// What a mapped file exports.
pub struct Symbols {
    base: u64,
    bytes: Vec<u8>,
}

impl Symbols {
    /// Of the first file mapped into the process whose path contains `part`.
    pub fn find(pid: u32, part: &str) -> Option<Symbols> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
        let line = maps.lines().find(|line| {
            line.find('/')
                .is_some_and(|path| line[path..].contains(part))
        })?;
        let base = line
            .split('-')
            .next()
            .and_then(|start| u64::from_str_radix(start, 16).ok());
        let path = &line[line.find('/').expect("a path")..];
        let mut symbols = Symbols {
            base: base.expect("an address"),
            bytes: std::fs::read(path).expect("the mapped file"),
        };
        // A program that is not position-independent lies where it says.
        if symbols.bytes[16] == 2 {
            symbols.base = 0;
        }
        Some(symbols)
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    /// Looks through `.dynsym` (type 11) one by one.
    pub fn address(&self, name: &str) -> Option<u64> {
        let headers = self.word(40) as usize;
        let count = self.word(60) as u16 as usize;
        let header = |index: usize| headers + index * 64;
        let table = (0..count)
            .map(header)
            .find(|&at| self.word(at + 4) as u32 == 11)?;
        let names = self.word(header(self.word(table + 40) as u32 as usize) + 24) as usize;
        let (begin, size) = (
            self.word(table + 24) as usize,
            self.word(table + 32) as usize,
        );
        (begin..begin + size).step_by(24).find_map(|symbol| {
            let at = names + self.word(symbol) as u32 as usize;
            let rest = &self.bytes[at..];
            let defined = self.word(symbol + 6) as u16 != 0;
            (defined && rest.starts_with(name.as_bytes()) && rest[name.len()] == 0)
                .then(|| self.base + self.word(symbol + 8))
        })
    }
}

/// `0x7f…` to a number.
pub fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
        .unwrap_or_else(|_| panic!("{text:?} is no address"))
}
