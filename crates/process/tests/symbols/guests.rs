//! Processes for tests to open, and what is needed to make them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use process::maps::Maps;
use process::modules::{GuestFiles, Module, modules};

/// The memory of a process, through `/proc/PID/mem`.
pub struct Memory(File);

impl vm::Memory for Memory {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), vm::Fault> {
        self.0.read_exact_at(into, at).map_err(|_| vm::Fault { at })
    }
}

/// A process started for a test, killed at its end.
pub struct Guest {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Its number.
    pub pid: i32,
    /// Its files.
    pub files: Arc<GuestFiles>,
}

impl Guest {
    /// Starts a program and waits until it has loaded its libraries and sleeps.
    pub fn start(command: Command) -> Guest {
        let guest = Guest::spawn(command);
        let deadline = Instant::now() + Duration::from_secs(20);
        let loaded = |guest: &Guest| {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", guest.pid)).unwrap();
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", guest.pid)).unwrap();
            status.contains(") S ") && maps.contains("libc.so")
        };
        while !loaded(&guest) {
            assert!(Instant::now() < deadline, "the guest does not come up");
            std::thread::sleep(Duration::from_millis(2));
        }
        guest.with_files()
    }

    /// Starts a program and waits for the line `ready`.
    pub fn start_ready(command: Command) -> Guest {
        let mut guest = Guest::spawn(command);
        guest.wait_ready();
        guest.with_files()
    }

    fn spawn(mut command: Command) -> Guest {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = BufReader::new(child.stdout.take().unwrap());
        let pid = child.id() as i32;
        Guest {
            child,
            output,
            pid,
            files: Arc::new(GuestFiles::of(pid)),
        }
    }

    /// What `/proc` says of the root may differ before and after the exec.
    fn with_files(mut self) -> Guest {
        self.files = Arc::new(GuestFiles::of(self.pid));
        self
    }

    fn wait_ready(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    /// Sends a line and waits for the next `ready`.
    pub fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.wait_ready();
    }

    /// Its memory.
    pub fn memory(&self) -> Memory {
        Memory(File::open(format!("/proc/{}/mem", self.pid)).unwrap())
    }

    /// Its modules.
    pub fn modules(&self) -> Vec<Module> {
        modules(&self.files, &Maps::read(self.pid).unwrap(), &self.memory()).unwrap()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that goes away with the test.
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes one.
    pub fn new() -> TempDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("lancet-symbols-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles a C program.
pub fn compile(source: &str, options: &[&str], to: &Path) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O0", "-x", "c", "-", "-x", "none", "-o"])
        .arg(to)
        .args(options)
        .stdin(Stdio::piped());
    let mut child = gcc.spawn().expect("gcc runs");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(source.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success(), "{gcc:?}");
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) {
    assert!(
        command
            .status()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
            .success(),
        "{command:?}"
    );
}

/// Whether a program is in the PATH.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether we are root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Says that a test, or the rest of it, is skipped, and why.
pub fn skip(test: &str, why: &str) {
    println!("SKIPPED {test}: {why}");
}

/// Address, kind letter and name of every line of `nm` that has an address, without versions of names.
pub fn nm(arguments: &[&str], file: &Path) -> Vec<(u64, char, String)> {
    let output = Command::new("nm")
        .args(arguments)
        .arg(file)
        .output()
        .expect("nm runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?.chars().next()?;
        Some((address, kind, words.next()?.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}
