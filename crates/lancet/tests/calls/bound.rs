//! What a name means is found out late, or differs from call to call: IFUNCs that pick while we watch, functions of the
//! kernel's vDSO, two names of one function.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::linked::count;
use crate::support::{
    Guest, LIMIT, Random, Snapshot, TempDir, Watch, fixtures, installed, lancet, run, skip, soak,
    until,
};
use crate::watch::{calls, hooked, left, text_holds};

/// `fixtures/c/bound.c` beside its library, linked with these flags.
fn program(folder: &TempDir, name: &str, flags: &[&str]) -> PathBuf {
    let (library, path) = (folder.join("libbound.so"), folder.join(name));
    let compile = |to: &Path, arguments: &[&str]| {
        let mut compiler = Command::new("gcc");
        compiler.args(["-O1", "-fno-builtin", "-o"]).arg(to);
        compiler.arg(fixtures().join("c/bound.c")).args(arguments);
        let output = compiler.output().expect("gcc runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
    };
    if !library.exists() {
        compile(&library, &["-shared", "-fPIC", "-DLIBRARY"]);
    }
    compile(
        &path,
        &[&[library.to_str().expect("plain")], flags].concat(),
    );
    path
}

const LAZY: [&str; 1] = ["-Wl,-z,lazy"];
const MODES: [(&str, &[&str]); 4] = [
    ("lazy", &LAZY),
    ("now", &["-Wl,-z,now"]),
    ("no-plt", &["-fno-plt"]),
    ("no-pie", &["-no-pie", "-Wl,-z,lazy"]),
];

/// Nobody has asked most of them when the hooks are set, and no call is missed.
#[test]
fn what_is_picked_while_we_watch_is_told_from_its_first_call() {
    if !installed("gcc") {
        return skip("bound", "no gcc");
    }
    let folder = TempDir::new("bound");
    for (mode, flags) in MODES {
        let mut guest = Guest::start(mode, Command::new(program(&folder, mode, flags)));
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let names = ["b_picked", "b_own", "wcsncmp", "gettimeofday"];
        let what: Vec<&str> = names.iter().flat_map(|name| ["-x", name]).collect();
        let watch = hooked(calls(guest.pid, &[&["-c", "-v"], &what[..]].concat()));
        for _ in 0..2 {
            guest.tell("500");
            assert_eq!(guest.find("answer "), "257250", "{mode}");
        }
        let output = left(watch, mode);
        for name in names {
            assert_eq!(count(&output, name), 1000, "{mode}: {}", output.stderr);
        }
        assert_eq!(
            output
                .stderr
                .contains("for the first time (IFUNC): b_picked"),
            flags.contains(&LAZY[0]),
            "{mode}: {}",
            output.stderr
        );
        text_holds(&before, guest.pid, mode, &output);
        guest.tell("500");
        assert_eq!(guest.find("answer "), "257250", "{mode}");
        guest.ends_with_nothing(mode);
    }
}

/// Threads wait with their choice for a lancet that is killed, or leaves, meanwhile.
#[test]
fn a_kill_while_choices_are_made_costs_the_guest_nothing() {
    if !installed("gcc") {
        return skip("asking", "no gcc");
    }
    let folder = TempDir::new("asking");
    let path = folder.join("asking");
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-O1", "-fno-builtin", "-pthread", "-o"])
        .arg(&path);
    let output = compiler
        .arg(fixtures().join("c/asking.c"))
        .arg("-ldl")
        .output();
    assert!(output.expect("gcc runs").status.success());
    let mut random = Random::new("asking");
    let mut guest = Guest::start("asking", Command::new(path));
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let what = ["-x", "wcsncmp", "-x", "time", "-x", "gettimeofday"];
    for _ in 0..if soak() { 100 } else { 8 } {
        let watch = Watch::start(calls(guest.pid, &[&["-c"], &what[..]].concat()));
        std::thread::sleep(Duration::from_micros(random.below(1_000_000)));
        watch.kill();
        let state = guest.state();
        assert!(!matches!(state, None | Some('Z' | 't' | 'T')), "{state:?}");
    }
    let out = folder.join("out").display().to_string();
    let watch = hooked(calls(guest.pid, &[&["-o", &out], &what[..]].concat()));
    until(LIMIT, "a call of each", || {
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        let told = |name: &&str| text.contains(&format!("{name}("));
        ["wcsncmp", "time", "gettimeofday"]
            .iter()
            .all(told)
            .then_some(())
    });
    let output = left(watch, "asking");
    text_holds(&before, guest.pid, "asking", &output);
    guest.tell("");
    guest.ends_with("answer right");
}

/// Its lines, without addresses, the results and what is behind them.
fn ltraced(path: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = lancet();
    command.args(["calls", "--ltrace"]).args(arguments);
    let output = run(command.arg("--").arg(path).arg("1"), LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let lines = output.stderr.lines();
    let calls = lines.filter_map(|line| Some(line.split_once('(')?.0.to_owned()));
    calls.filter(|line| !line.starts_with("+++")).collect()
}

#[test]
fn a_choice_is_told_as_ltrace_tells_it() {
    if !installed("gcc") {
        return skip("choice", "no gcc");
    }
    let folder = TempDir::new("choice");
    for (mode, flags) in MODES {
        let path = program(&folder, mode, flags);
        let told = ltraced(&path, &["-L", "-x", "b_own"]);
        assert_eq!(told, ["b_own.IFUNC", "b_own"], "{mode}");
        // Bound at once, it has picked before we know of the library.
        let mut told = ltraced(&path, &["-L", "-x", "b_picked"]);
        if flags.contains(&LAZY[0]) {
            assert_eq!(told.remove(0), "b_picked.IFUNC@libbound.so", "{mode}");
        }
        assert_eq!(told, ["b_picked@libbound.so"], "{mode}");
        let told = ltraced(&path, &["-e", "b_*"]);
        let from = |name: &str| format!("{mode}->{name}");
        assert_eq!(told, ["b_picked", "b_own"].map(from), "{mode}");
    }
}

/// They stand at one address; which of them was called is seen where the call was made.
#[test]
fn a_function_is_told_by_the_name_it_is_called_by() {
    if !installed("gcc") {
        return skip("names", "no gcc");
    }
    let folder = TempDir::new("names");
    for (mode, flags) in MODES {
        let path = program(&folder, mode, flags);
        let told = ltraced(&path, &["-e", "strtol*@MAIN"]);
        let from = |name: &str| format!("{mode}->{name}");
        assert_eq!(told, ["strtol", "strtoll"].map(from), "{mode}");
    }
}
