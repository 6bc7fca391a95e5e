//! A real Ruby process to look into.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use vm::ruby::Facts;
use vm::{Fault, Memory};

/// The versions with a layout, oldest first.
const VERSIONS: [&str; 6] = ["2.7", "3.0", "3.1", "3.2", "3.3", "3.4"];

/// What every script may use: unspoilt methods, addresses, and a place to wait.
const PRELUDE: &str = include_str!("prelude.rb");

/// Runs prelude and script as if they were files.
const RUN: &str = "ARGV.each { |script| eval(script.dup.force_encoding('UTF-8'), TOPLEVEL_BINDING, 'script.rb') }";

/// Runs `test` on a guest of every version there is a root for, with `script` running in it up to its
/// first `ready`; says which versions were skipped.
pub fn each_version(script: &str, test: impl Fn(&str, &mut Guest)) {
    each_version_with(None, script, test);
}

/// The same with a library that the guest's loader puts before all others.
pub fn each_version_with(library: Option<&Path>, script: &str, test: impl Fn(&str, &mut Guest)) {
    let mut seen = 0;
    for version in VERSIONS {
        match root(version) {
            Some(root) => {
                seen += 1;
                let mut guest = Guest::start(&root, version, script, library);
                guest.wait();
                test(version, &mut guest);
            }
            None => println!(
                "skipped: ruby {version}: no root ruby-{version} in {}",
                roots().display()
            ),
        }
    }
    if seen == 0 {
        println!("skipped: everything: there is no Ruby to look into");
    }
}

pub fn roots() -> PathBuf {
    std::env::var_os("LANCET_ROOTS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/lancet/roots"),
        PathBuf::from,
    )
}

fn root(version: &str) -> Option<PathBuf> {
    let root = roots().join(format!("ruby-{version}"));
    root.join(format!("usr/bin/ruby{version}"))
        .exists()
        .then_some(root)
}

/// A running Ruby.
pub struct Guest {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// What it printed up to the last `ready`.
    pub lines: Vec<String>,
    pub memory: ProcessMemory,
    pub facts: Facts,
    /// There as long as the guest.
    #[expect(dead_code)]
    library: Option<Lent>,
}

/// A file that is in a root for a while.
struct Lent {
    path: PathBuf,
    /// Its name in there.
    inside: String,
}

impl Lent {
    fn to(root: &Path, file: &Path) -> Lent {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let inside = format!("/tmp/{}-{name}", std::process::id());
        let path = root.join(&inside[1..]);
        std::fs::create_dir_all(root.join("tmp")).expect("a folder in the root");
        std::fs::copy(file, &path).expect("a file in the root");
        Lent { path, inside }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Guest {
    fn start(root: &Path, version: &str, script: &str, library: Option<&Path>) -> Guest {
        let mut command = Command::new("chroot");
        command.arg(root);
        // For the guest's loader alone, not for that of chroot.
        let library = library.map(|library| Lent::to(root, library));
        if let Some(library) = &library {
            command.args(["/usr/bin/env", &format!("LD_PRELOAD={}", library.inside)]);
        }
        let mut child = command
            .arg(format!("/usr/bin/ruby{version}"))
            .args([
                "--disable-gems",
                "-EUTF-8:UTF-8",
                "-W0",
                "-e",
                RUN,
                PRELUDE,
                script,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("chroot runs");
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let memory = ProcessMemory(File::open("/dev/zero").expect("/dev/zero opens"));
        Guest {
            child,
            stdin,
            stdout,
            lines: Vec::new(),
            memory,
            facts: Facts::default(),
            library,
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the script go on to its next `ready`.
    pub fn resume(&mut self) {
        self.stdin.write_all(b"\n").expect("the script reads");
        self.wait();
    }

    fn wait(&mut self) {
        self.lines.clear();
        loop {
            let mut line = Vec::new();
            let read = self
                .stdout
                .read_until(b'\n', &mut line)
                .expect("the script writes");
            assert!(read > 0, "the script ended: {:?}", self.child.wait());
            let line = String::from_utf8_lossy(&line)
                .trim_end_matches('\n')
                .to_owned();
            if line == "READY" {
                break;
            }
            self.lines.push(line);
        }
        let pid = self.child.id();
        self.memory = ProcessMemory(File::open(format!("/proc/{pid}/mem")).expect("memory opens"));
        let libruby = Symbols::of(pid, &["/libruby"]);
        self.facts = Facts::find(&self.memory, &|name| libruby.address(name)).expect("facts");
    }
}

impl Drop for Guest {
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

/// What a mapped program or library exports.
pub struct Symbols {
    base: u64,
    bytes: Vec<u8>,
}

impl Symbols {
    /// Of the first file mapped whose path contains the first of `names` that any does.
    pub fn of(pid: u32, names: &[&str]) -> Symbols {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
        let line = names
            .iter()
            .find_map(|name| maps.lines().find(|line| line.contains(name)))
            .expect("it is mapped");
        let base = line
            .split('-')
            .next()
            .and_then(|start| u64::from_str_radix(start, 16).ok());
        let path = &line[line.find('/').expect("a path")..];
        let bytes = std::fs::read(path).expect("the file");
        // ET_EXEC: its symbols are addresses already.
        let fixed = bytes[16] == 2;
        Symbols {
            base: if fixed { 0 } else { base.expect("an address") },
            bytes,
        }
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
            (rest.starts_with(name.as_bytes()) && rest[name.len()] == 0)
                .then(|| self.base + self.word(symbol + 8))
        })
    }
}

/// `0x7f…` to a number.
pub fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
        .unwrap_or_else(|_| panic!("{text:?} is no address"))
}
