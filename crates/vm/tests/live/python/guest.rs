//! A real Python process to look into.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use vm::python::{Facts, Python};

use crate::process::{ProcessMemory, Symbols, root};

/// The versions with a layout, oldest first.
fn known() -> impl Iterator<Item = String> {
    let versions = vm::python::Layout::all()
        .iter()
        .map(|layout| layout.version);
    versions.map(|(major, minor)| format!("{major}.{minor}"))
}

/// What every script may use: a place to wait.
const PRELUDE: &str = include_str!("prelude.py");

/// Runs prelude and script as if they were files.
const RUN: &str = "import sys
for script in sys.argv[1:]: exec(compile(script, 'script.py', 'exec'), globals())";

/// Runs `test` on a guest of every version there is, with `script` running in it up to its first `ready`;
/// says which versions were skipped.
pub fn each_version(script: &str, test: impl Fn(&str, &mut Guest)) {
    each(script, known(), false, test);
}

/// The same of free-threaded builds, too.
pub fn each_build(script: &str, test: impl Fn(&str, &mut Guest)) {
    let without = ["3.13t", "3.14t", "3.15t"].map(str::to_owned);
    each(script, known().chain(without), true, test);
}

fn each(
    script: &str,
    versions: impl Iterator<Item = String>,
    free_threaded: bool,
    test: impl Fn(&str, &mut Guest),
) {
    let mut seen = 0;
    let mut run = |name: &str, command: Command| {
        seen += 1;
        let mut guest = Guest::start(command, script);
        guest.wait();
        test(name, &mut guest);
    };
    for version in versions {
        let version = version.as_str();
        let root = root(&format!("python-{version}"));
        let program = format!("usr/bin/python{version}");
        if root.join(&program).exists() {
            let mut command = Command::new("chroot");
            command.arg(&root).arg(format!("/{program}"));
            run(version, command);
        } else {
            println!("skipped: python {version}: no root {}", root.display());
        }
    }
    let more = std::env::var_os("LANCET_PYTHONS").unwrap_or_default();
    let is_wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        !name.is_empty() && (free_threaded || !name.ends_with('t'))
    };
    for program in std::env::split_paths(&more).filter(is_wanted) {
        run(&program.display().to_string(), Command::new(&program));
    }
    if seen == 0 {
        println!("skipped: everything: there is no Python to look into");
    }
}

/// A running Python.
pub struct Guest {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// What it printed up to the last `ready`.
    pub lines: Vec<String>,
    pub memory: ProcessMemory,
    pub facts: Facts,
}

impl Guest {
    fn start(mut command: Command, script: &str) -> Guest {
        let mut child = command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args(["-S", "-X", "utf8", "-c", RUN, PRELUDE, script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Guest {
            child,
            stdin,
            stdout,
            lines: Vec::new(),
            memory: ProcessMemory(File::open("/dev/zero").expect("/dev/zero opens")),
            facts: Facts::default(),
        }
    }

    pub fn python(&self) -> Python<'_, ProcessMemory> {
        Python::new(&self.memory, self.facts).expect("a known version")
    }

    /// What it exports.
    pub fn symbols(&self) -> Symbols {
        Symbols::find(self.pid(), "/libpython3")
            .or_else(|| Symbols::find(self.pid(), "/python3"))
            .expect("a Python is mapped")
    }

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
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).expect("the script writes");
            assert!(read > 0, "the script ended: {:?}", self.child.wait());
            let line = line.trim_end_matches('\n');
            if line == "READY" {
                break;
            }
            self.lines.push(line.to_owned());
        }
        if self.facts == Facts::default() {
            let pid = self.pid();
            self.memory =
                ProcessMemory(File::open(format!("/proc/{pid}/mem")).expect("memory opens"));
            let symbols = self.symbols();
            let symbol = |name: &str| symbols.address(name);
            self.facts = Facts::for_frames(&self.memory, &symbol).expect("facts");
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
