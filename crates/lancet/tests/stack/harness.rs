//! The tool, run and read; guests that stand where they are to be looked at.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

/// Runs `lancet stack`.
pub fn stack(args: &[&str]) -> Output {
    let lancet = std::env::var_os("LANCET_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_lancet").into(), PathBuf::from);
    Command::new(lancet)
        .arg("stack")
        .args(args)
        .output()
        .expect("lancet runs")
}

/// What it wrote to standard output.
pub fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// What it wrote with `--json`, of one kind of record.
pub fn records(output: &Output, kind: &str) -> Vec<Value> {
    let lines = text(output);
    let all = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    all.filter(|line| line["record"] == kind).collect()
}

/// A program that says `ready` and then waits for its input to end.
pub struct Guest {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said before.
    pub told: Vec<String>,
}

impl Guest {
    /// Starts it and waits until it is ready, and then asleep.
    pub fn start(command: &mut Command) -> Guest {
        let guest = Guest::busy(command);
        guest.asleep();
        guest
    }

    /// Starts it and waits until it is ready.
    pub fn busy(command: &mut Command) -> Guest {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut told = Vec::new();
        loop {
            let mut line = String::new();
            let read = out.read_line(&mut line).expect("a line");
            assert!(read > 0, "it ended: {:?}, {told:?}", child.wait());
            match line.trim_end_matches('\n') {
                "ready" => break,
                line => told.push(line.to_owned()),
            }
        }
        let guest = Guest { child, out, told };
        guest.asleep();
        guest
    }

    /// Writes to it, and gives the line it answers.
    pub fn asks(&mut self, text: &str) -> String {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(text.as_bytes()).expect("it listens");
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }

    /// Its process id.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Waits until it waits.
    fn asleep(&self) {
        let stat = PathBuf::from(format!("/proc/{}/stat", self.child.id()));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !std::fs::read_to_string(&stat)
            .expect("it lives")
            .contains(") S ")
        {
            assert!(
                std::time::Instant::now() < deadline,
                "it never came to wait"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Lets it end; whether it ended well.
    pub fn end(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends").success()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An interpreter to start: what to call it, and the command, which may lead into another root.
pub struct Interpreter {
    /// `python 3.9`.
    pub name: String,
    /// Where its files are.
    pub root: PathBuf,
    /// The program in there.
    pub program: String,
}

impl Interpreter {
    /// Runs it.
    pub fn command(&self) -> Command {
        if self.root == Path::new("/") {
            return Command::new(&self.program);
        }
        let mut command = Command::new("chroot");
        command.arg(&self.root).arg(&self.program);
        command
    }
}

/// This machine's own `program`, and those of `versions` there are roots for (`fixtures/roots/make`); `{}` in the
/// program's name is the version.
pub fn interpreters(
    language: &str,
    own: &str,
    program: &str,
    versions: &[&str],
) -> Vec<Interpreter> {
    let roots = std::env::var_os("LANCET_ROOTS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/lancet/roots"),
        PathBuf::from,
    );
    let mut found = vec![Interpreter {
        name: format!("this machine's {language}"),
        root: "/".into(),
        program: own.to_owned(),
    }];
    found.extend(versions.iter().map(|version| Interpreter {
        name: format!("{language} {version}"),
        root: roots.join(format!("{language}-{version}")),
        program: program.replace("{}", version),
    }));
    let is_root = std::fs::metadata("/proc/self").expect("/proc").uid() == 0;
    found.retain(|one| {
        let there = one.root.join(one.program.trim_start_matches('/')).exists();
        let may = is_root || one.root == Path::new("/");
        match (there, may) {
            (false, _) => println!("SKIPPED: {}: it is not in {}", one.name, one.root.display()),
            (true, false) => println!("SKIPPED: {}: a root is entered as root", one.name),
            (true, true) => {}
        }
        there && may
    });
    found
}

/// Where the fixtures are.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// A folder of this test's own.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
