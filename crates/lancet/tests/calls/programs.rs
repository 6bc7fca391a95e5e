//! Everything that can be hooked of real programs is hooked while they work: they give the answers that they give without us,
//! twice, and once more when we have left; their text is as it was.
//!
//! Ten programs that `make deps-test` installs; more in `make soak`: the Pythons of pyenv, which are optimised with profiles,
//! servers, node, a JVM, a Rust compiler. `LANCET_PROGRAM` names one of them.

mod served;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Guest, Snapshot, TempDir, fixtures, installed, lancet, run, say, skip, soak};
use crate::watch::{calls, hooked, left_with_losses, text_holds};

/// No program takes longer for one of its answers, hooked and on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A program that is opened while it runs.
struct Running {
    pid: i32,
    /// Makes it work, and returns what it says.
    ask: Box<dyn FnMut() -> String>,
}

/// Hooked, asked, left, twice; asked again.
fn holds(name: &str, functions: &str, least: u64, mut program: Running) {
    let truth = (program.ask)();
    assert_eq!((program.ask)(), truth, "{name} answers the same each time");
    let before = Snapshot::take(program.pid);
    let mut said = String::new();
    for round in 0..2 {
        let began = Instant::now();
        let watch = hooked(calls(
            program.pid,
            &["-c", "-x", functions, "-o", "/dev/null"],
        ));
        let attached = began.elapsed();
        assert_eq!((program.ask)(), truth, "{name}, hooked, round {round}");
        let output = left_with_losses(watch, name);
        let hooks = figure(&output.stderr);
        assert!(hooks >= least, "{name}: {hooks}: {}", output.stderr);
        text_holds(&before, program.pid, name, &output);
        let line = output.stderr.lines().find(|line| line.contains(" hooked "));
        said = format!("{} (attached in {attached:?})", line.unwrap_or_default());
    }
    assert_eq!((program.ask)(), truth, "{name}, left");
    say(format_args!("{name}: {said}"));
}

/// How many functions were hooked, of what lancet has said.
fn figure(said: &str) -> u64 {
    let hooked = said.lines().find_map(|line| {
        let (before, _) = line.split_once(" functions hooked ")?;
        before.split_whitespace().nth_back(2)?.parse().ok()
    });
    hooked.unwrap_or_else(|| panic!("{said}"))
}

/// A program that runs once: started with all of it hooked, it says what it says bare, and ends with the same code.
fn once(name: &str, functions: &str, least: u64, command: &Command) {
    let copy = |mut to: Command| {
        to.arg(command.get_program()).args(command.get_args());
        to
    };
    let bare = run(&mut copy(Command::new("env")), PATIENCE);
    let mut started = lancet();
    started.args([
        "calls",
        "--budget",
        "100",
        "-c",
        "-x",
        functions,
        "-o",
        "/dev/null",
        "--",
    ]);
    let watched = run(&mut copy(started), PATIENCE);
    assert_eq!(
        (watched.code(), &watched.stdout),
        (bare.code(), &bare.stdout),
        "{name}: {}",
        watched.stderr
    );
    let hooks = figure(&watched.stderr);
    assert!(hooks >= least, "{name}: {hooks}: {}", watched.stderr);
    let line = watched
        .stderr
        .lines()
        .find(|line| line.contains(" hooked "));
    say(format_args!("{name}: {}", line.unwrap_or_default()));
}

/// A script that answers each line that it is told.
fn script(interpreter: &str, file: &str) -> Running {
    let mut command = Command::new(interpreter);
    command.arg(fixtures().join("work").join(file));
    interactive(command)
}

fn interactive(mut command: Command) -> Running {
    let mut guest = Guest::ready(&mut command);
    Running {
        pid: guest.pid,
        ask: Box::new(move || {
            guest.tell("go");
            guest.find("answer ")
        }),
    }
}

/// Whether this program is to be tried.
fn wanted(name: &str, program: &str) -> bool {
    if std::env::var("LANCET_PROGRAM").is_ok_and(|only| only != name) {
        return false;
    }
    let there = installed(program);
    if !there {
        skip(&format!("calls: all of {name}"), format!("no {program}"));
    }
    there
}

#[test]
fn interpreters() {
    for (name, functions, least, file) in [
        ("ruby", "*@libruby*", 1_500, "work.rb"),
        ("/usr/bin/python3", "*@MAIN", 1_400, "work.py"),
        ("perl", "*@MAIN", 1_000, "work.pl"),
        ("php", "*@MAIN", 1_000, "work.php"),
    ] {
        let program = name.rsplit('/').next().unwrap_or(name);
        if wanted(program, program) {
            holds(program, functions, least, script(name, file));
        }
    }
}

/// Programs of C, C++ and Rust.
#[test]
fn programs_that_run_once() {
    let folder = TempDir::new("once");
    let big = folder.join("big");
    let text: String = (0..40_000u64)
        .map(|n| format!("{} ", n * n % 977))
        .collect();
    std::fs::write(&big, text).expect("a file");
    let source = fixtures().join("c/calls.cpp");
    let object = folder.join("calls.o");
    let of = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    let big = big.to_str().expect("a plain path");
    let source = source.to_str().expect("a plain path");
    let object = object.to_str().expect("a plain path");
    if wanted("xz", "xz") {
        once("xz", "*@liblzma*", 80, &of("xz", &["-9", "-c", big]));
    }
    if wanted("objdump", "objdump") && wanted("g++", "g++") {
        let built = of("g++", &["-O2", "-c", source, "-o", object]).status();
        assert!(built.expect("g++ runs").success());
        once(
            "objdump",
            "*@libbfd*",
            400,
            &of("objdump", &["-d", "-C", object]),
        );
        let printed = of("g++", &["-print-prog-name=cc1plus"]).output();
        let compiler = String::from_utf8(printed.expect("g++").stdout).expect("a path");
        let small = folder.join("small.cpp");
        std::fs::write(&small, SMALL).expect("a file");
        let small = small.to_str().expect("a plain path");
        let arguments = ["-quiet", "-O2", small, "-o", "-"];
        once(
            "cc1plus",
            "*@MAIN",
            20_000,
            &of(compiler.trim(), &arguments),
        );
    }
    if wanted("gdb", "gdb") {
        let arguments = [
            "-nx",
            "-q",
            "-batch",
            "-ex",
            "python print(sum(range(9)))",
            "-ex",
            "p 6*7",
        ];
        once("gdb", "*@libpython*", 1_400, &of("gdb", &arguments));
    }
    if wanted("lancet", "perl") {
        // The one that has symbols: what users are given has none.
        let own = env!("CARGO_BIN_EXE_lancet");
        let arguments = ["stack", "--json", "/usr/lib/x86_64-linux-gnu/libz.so.1"];
        once("lancet", "*alloc*@MAIN", 5_000, &of(own, &arguments));
    }
    if soak() && wanted("rustc", "rustc") {
        let small = folder.join("small.rs");
        std::fs::write(
            &small,
            "pub fn small(n: u64) -> Vec<String> { (0..n).map(|n| n.to_string()).collect() }",
        )
        .expect("a file");
        let rustc = PathBuf::from(sysroot()).join("bin/rustc");
        let mut command = Command::new(rustc);
        command.args([
            "--crate-type=lib",
            "--emit=asm",
            "-O",
            "-Cdebuginfo=0",
            "-o",
            "/dev/stdout",
        ]);
        once("rustc", "*@librustc_driver*", 10_000, command.arg(small));
    }
}

const SMALL: &str = "template <int N> struct F { static const long v = F<N - 1>::v + F<N - 2>::v; };\n\
    template <> struct F<0> { static const long v = 0; };\ntemplate <> struct F<1> { static const long v = 1; };\n\
    long f(long *p, int n) { long s = F<40>::v; for (int i = 0; i < n; ++i) s += p[i] * i; return s; }\n";

fn sysroot() -> String {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    String::from_utf8_lossy(&output.expect("rustc runs").stdout)
        .trim()
        .into()
}

/// Pythons that were built with `--enable-optimizations`: the compiler knows from a profile which code is cold, and puts
/// functions apart and together as no other build has them.
#[test]
fn pythons_optimised_by_profiles() {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions"));
    let Ok(versions) = versions.map(|all| all.flatten().collect::<Vec<_>>()) else {
        return skip("calls: pyenv", "no pyenv");
    };
    if !soak() {
        return skip("calls: pyenv", "only in soak");
    }
    for version in versions {
        let name = version.file_name().to_string_lossy().into_owned();
        let python = version.path().join("bin/python");
        if std::env::var("LANCET_PROGRAM").is_ok_and(|only| only != name) {
            continue;
        }
        let mut command = Command::new(python);
        command.arg(fixtures().join("work/work.py"));
        command.env("PYTHONHASHSEED", "0").stderr(Stdio::null());
        holds(&name, "*@libpython*", 2_500, interactive(command));
    }
}

/// Virtual machines that write code while they run.
#[test]
fn programs_that_compile_as_they_run() {
    if !soak() {
        return skip("calls: node and a JVM", "only in soak");
    }
    if wanted("node", "node") {
        holds("node", "*@MAIN", 30_000, script("node", "work.js"));
    }
    if wanted("java", "javac") {
        let folder = TempDir::new("java");
        let source = fixtures().join("work/Work.java");
        let built = Command::new("javac")
            .arg("-d")
            .arg(folder.join(""))
            .arg(source)
            .status();
        assert!(built.expect("javac runs").success());
        let mut command = Command::new("java");
        command.arg("-XX:ErrorFile=/dev/null").arg("-cp");
        command.arg(folder.join("")).arg("Work");
        holds("java", "*@libjvm*", 20_000, interactive(command));
    }
}
