//! The guest `fixtures/c/patched.c`, files to put into it, and lancet.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::support::{
    Guest, Killed, LIMIT, Output, Snapshot, TempDir, fixtures, lancet, run, until_traced,
};

/// A new `total` that adds 1000 to what the old one gives, and one that gives 7.
pub const FIX: &str = "
long lancet_original(long a, long b);
long total(long a, long b) { return lancet_original(a, b) + 1000; }
";

/// What links a file that can be loaded.
pub const PLAIN: &[&str] = &["-nostartfiles"];

fn folder() -> &'static TempDir {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| TempDir::new("patch"))
}

fn compile(compiler: &str, arguments: &[&str], to: &Path, from: &Path) {
    let mut command = Command::new(compiler);
    command
        .arg("-O2")
        .arg("-o")
        .arg(to)
        .arg(from)
        .args(arguments);
    let output = command.output().expect("a compiler");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// A shared library of this source, linked with these flags.
pub fn library(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    library_in("c", name, source, flags)
}

/// The same in C (`c`) or C++ (`cc`).
pub fn library_in(language: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let file = folder().join(&format!("{name}.{language}"));
    std::fs::write(&file, source).expect("a source file");
    let to = folder().join(&format!("{name}.so"));
    let mut all = vec!["-shared", "-fPIC"];
    all.extend(flags);
    let compiler = if language == "c" { "cc" } else { "c++" };
    compile(compiler, &all, &to, &file);
    to
}

/// A program of this source, compiled with these flags.
pub fn compiled(compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let language = if compiler == "cc" { "c" } else { "cc" };
    let file = folder().join(&format!("{name}.{language}"));
    std::fs::write(&file, source).expect("a source file");
    let to = folder().join(name);
    compile(compiler, flags, &to, &file);
    to
}

/// The program, compiled with these flags.
pub fn program(name: &str, flags: &[&str]) -> PathBuf {
    let mut all = vec!["-pthread", "-rdynamic"];
    all.extend(flags);
    compiled_from(name, "c/patched.c", &all)
}

/// A program of `fixtures/`, compiled with these flags, once for each name: tests in other threads may run it meanwhile.
pub fn compiled_from(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    static MADE: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let to = folder().join(name);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !made.iter().any(|one| one == name) {
        compile("cc", flags, &to, &fixtures().join(source));
        made.push(name.to_owned());
    }
    to
}

/// The program with so many busy threads; it is ready.
pub fn guest(test: &str, threads: usize) -> Guest {
    let program = program(&format!("guest-{test}"), &[]);
    Guest::ready(Command::new(program).arg(threads.to_string()))
}

/// `lancet patch` for a process.
pub fn patch(pid: i32, arguments: &[&str]) -> Command {
    let mut command = lancet();
    command
        .args(["patch", "-p", &pid.to_string()])
        .args(arguments);
    command
}

/// A strace that traces a process, from now on.
pub fn traced_by_strace(pid: i32) -> Killed {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-p", &pid.to_string()]);
    let tracer = Killed::start(&mut strace).expect("strace");
    until_traced(pid);
    tracer
}

/// `FUNCTION=FILE:NEW`.
pub fn request(function: &str, file: &Path, new: &str) -> String {
    format!("{function}={}:{new}", file.display())
}

/// Runs it to a good end; what it shows.
pub fn done(pid: i32, arguments: &[&str]) -> String {
    let output = run(&mut patch(pid, arguments), LIMIT);
    assert_eq!(output.code(), 0, "{arguments:?}: {output:?}");
    output.stdout
}

/// Runs it to its end.
pub fn tried(pid: i32, arguments: &[&str]) -> Output {
    run(&mut patch(pid, arguments), LIMIT)
}

/// Refused with a line that has this in it; the guest is as it was.
pub fn refused(guest: &mut Guest, arguments: &[&str], wanted: &str) {
    let before = Snapshot::take(guest.pid);
    let maps = || std::fs::read_to_string(format!("/proc/{}/maps", guest.pid)).expect("its maps");
    let mapped = maps().lines().count();
    let output = tried(guest.pid, arguments);
    assert_eq!(output.code(), 1, "{wanted}: {output:?}");
    assert!(
        output.stderr.contains(wanted),
        "{wanted}: {}",
        output.stderr
    );
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert_eq!(output.stdout, "", "{wanted}");
    assert_eq!(maps().lines().count(), mapped, "{wanted}: {}", maps());
    before.holds(guest.pid, wanted);
    assert_eq!(guest.answer_to("total"), "14", "{wanted}");
}
