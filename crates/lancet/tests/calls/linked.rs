//! However a program is linked, loaded or started its threads: what it calls is seen, each call once.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Guest, Output, Snapshot, TempDir, fixtures, installed, lancet, skip};
use crate::watch::{calls, calls_of, hooked, left, text_holds};

/// Compiles a program of `fixtures/c`.
fn compile(folder: &TempDir, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let mut compiler = Command::new("gcc");
    compiler.args(["-O2", "-o"]).arg(&path);
    compiler.arg(fixtures().join("c").join(source)).args(flags);
    let output = compiler.output().expect("gcc runs");
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    path
}

fn run(path: &Path, arguments: &[&str]) -> Guest {
    let mut command = Command::new(path);
    command.args(arguments);
    let guest = Guest::start(&path.display().to_string(), command);
    guest.expect("ready");
    guest
}

/// How many calls `-c` has of a function.
pub fn count(output: &Output, function: &str) -> u64 {
    let count = calls_of(&output.stdout, function);
    count.unwrap_or_else(|| panic!("no {function}: {}{}", output.stdout, output.stderr))
}

/// Without one, and with one that is no block of the C library's and ends where it ends: nothing behind it is read. Made before lancet comes, and
/// while it watches.
#[test]
fn threads_with_a_storage_of_their_own_are_counted_like_others() {
    if !installed("gcc") {
        return skip("bare", "no gcc");
    }
    let folder = TempDir::new("bare");
    let path = compile(&folder, "bare.c", "bare", &["-fno-stack-protector"]);
    for mode in [&[][..], &["storage"]] {
        let what = format!("bare {mode:?}");
        let mut guest = run(&path, mode);
        let before = Snapshot::take(guest.pid);
        let watch = hooked(calls(guest.pid, &["-c", "-x", "b_work"]));
        guest.tell("10000");
        assert_eq!(guest.find("answer "), "300000000", "{what}");
        let output = left(watch, &what);
        assert_eq!(count(&output, "b_work"), 30_000, "{what}");
        text_holds(&before, guest.pid, &what, &output);
        guest.ends_with_nothing(&what);
        for options in [
            &["-c"][..],
            &["-c", "-U", "calls,errors,name"],
            &["-s", "16"],
        ] {
            let what = format!("{what}, system calls {options:?}");
            let mut guest = run(&path, mode);
            let mut command = lancet();
            command.args(["syscalls", "--hooks", "-f", "-o", "/dev/null"]);
            command.args(options).args(["-p", &guest.pid.to_string()]);
            let watch = hooked(command);
            guest.tell("10000");
            assert_eq!(guest.find("answer "), "300000000", "{what}");
            left(watch, &what);
            guest.ends_with_nothing(&what);
        }
    }
}

/// Its text is new each time, mostly at the same address.
#[test]
fn a_library_that_is_loaded_again_is_hooked_again() {
    if !installed("gcc") {
        return skip("reload", "no gcc");
    }
    let folder = TempDir::new("reload");
    let library = compile(
        &folder,
        "reload.c",
        "libreload.so",
        &["-shared", "-fPIC", "-DLIBRARY"],
    );
    let path = compile(&folder, "reload.c", "reload", &["-ldl"]);
    let mut guest = run(&path, &[&library.display().to_string()]);
    let watch = hooked(calls(guest.pid, &["-c", "-x", "l_work"]));
    guest.tell("40");
    assert_eq!(
        guest.find("answer "),
        (40 * 39 / 2 * 10 + 40 * 45).to_string()
    );
    let output = left(watch, "reload");
    assert_eq!(count(&output, "l_work"), 400, "{}", output.stderr);
    guest.ends_with_nothing("reload");
}

/// Ways to link, each with the flags that make it.
const MODES: [(&str, &[&str]); 11] = [
    ("lazy", &["-Wl,-z,lazy"]),
    ("now", &["-Wl,-z,now"]),
    ("ibt", &["-fcf-protection", "-Wl,-z,ibtplt"]),
    ("ibt-now", &["-fcf-protection", "-Wl,-z,ibtplt,-z,now"]),
    ("no-plt", &["-fno-plt"]),
    ("no-pie", &["-no-pie"]),
    ("stripped", &["-rdynamic", "-s"]),
    ("static", &["-static"]),
    ("static-pie", &["-static-pie"]),
    ("separate-code", &["-Wl,-z,noseparate-code"]),
    ("sysv-hash", &["-Wl,--hash-style=sysv", "-rdynamic", "-s"]),
];
const ROUNDS: u64 = 1000;

/// `.plt`, `.plt.sec`, no table at all; bound at the start or at the first call; with names in the dynamic symbols only. Functions
/// that an IFUNC picks have its name.
#[test]
fn each_call_is_counted_however_it_is_linked() {
    if !installed("gcc") {
        return skip("modes", "no gcc");
    }
    let folder = TempDir::new("modes");
    let mut answers = std::collections::HashSet::new();
    for (mode, flags) in MODES {
        let path = compile(
            &folder,
            "modes.c",
            mode,
            &[&["-fno-builtin"], flags].concat(),
        );
        let mut guest = run(&path, &[]);
        let before = Snapshot::take(guest.pid);
        let names = ["m_work", "m_picked", "swab", "strspn"];
        let what: Vec<&str> = names.iter().flat_map(|name| ["-x", name]).collect();
        let watch = hooked(calls(guest.pid, &[&["-c"], &what[..]].concat()));
        guest.tell(&ROUNDS.to_string());
        answers.insert(guest.find("answer "));
        let output = left(watch, mode);
        for name in names {
            assert_eq!(count(&output, name), ROUNDS, "{mode}: {}", output.stderr);
        }
        text_holds(&before, guest.pid, mode, &output);
        guest.ends_with_nothing(mode);
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

/// What returned calls leave on a stack is not taken for frames that are still to return: all hooks go, the unwinder's too.
#[test]
fn returned_calls_keep_no_hook() {
    if !installed("gcc") {
        return skip("holes", "no gcc");
    }
    let folder = TempDir::new("holes");
    let path = compile(&folder, "holes.c", "holes", &["-static", "-rdynamic"]);
    for how in [&["-c"][..], &[]] {
        let mut guest = run(&path, &[]);
        let before = Snapshot::take(guest.pid);
        let watch = hooked(calls(guest.pid, &[how, &["-x", "h_work"]].concat()));
        guest.tell("1000");
        assert_eq!(
            guest.find("answer "),
            (999 * 1000 / 2 * 3 + 1000).to_string()
        );
        let output = left(watch, "holes");
        assert!(!output.stderr.contains("hook stays"), "{}", output.stderr);
        before.text_holds(guest.pid, "holes");
        guest.ends_with_nothing("holes");
    }
}

/// Libraries whose calls are asked for, one there at the attach, one loaded later; what the program calls is not told.
#[test]
fn calls_are_told_from_the_libraries_that_were_named() {
    if !installed("gcc") {
        return skip("callers", "no gcc");
    }
    let folder = TempDir::new("callers");
    let library = |name| {
        let flags = ["-fno-builtin", "-shared", "-fPIC", "-DLIBRARY"];
        compile(&folder, "callers.c", name, &flags)
            .display()
            .to_string()
    };
    let libraries = [library("libfirst.so"), library("libsecond.so")];
    let path = compile(&folder, "callers.c", "callers", &["-fno-builtin", "-ldl"]);
    let told = |filter: &str| {
        let out = folder.join("out").display().to_string();
        let mut guest = run(&path, &libraries.each_ref().map(String::as_str));
        let watch = hooked(calls(guest.pid, &["-e", filter, "-o", &out]));
        guest.tell("50");
        assert_eq!(
            guest.find("answer "),
            (50 * 100 * 98 + 50 * 2 * 98).to_string()
        );
        left(watch, filter);
        guest.ends_with_nothing(filter);
        let text = std::fs::read_to_string(&out).expect("what was told");
        text.lines().filter(|line| line.contains("swab(")).count()
    };
    assert_eq!(told("swab@libfirst.so"), 50 * 2);
    assert_eq!(told("swab@libsecond.so"), 50 * 3);
    assert_eq!(told("swab@lib*.so"), 50 * 5);
    assert_eq!(told("swab@MAIN"), 50 * 100);
}
