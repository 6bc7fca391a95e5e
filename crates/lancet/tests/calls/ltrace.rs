//! `--ltrace` is ltrace: its lines, its table, to the byte. And who called whom (`-w`), names of C++ (`-C`), which
//! module calls (`-e`, `-l`).

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Guest, LIMIT, TempDir, Watch, fixtures, installed, skip, until};
use crate::watch::calls;

/// `fixtures/c/shape`: the program, beside its library.
pub fn shape(folder: &TempDir) -> Option<PathBuf> {
    if !installed("g++") {
        skip("shape", "no g++");
        return None;
    }
    let (library, program) = (folder.join("libshape.so.1.2"), folder.join("shape"));
    let sources = fixtures().join("c/shape");
    let compile = |arguments: &[&str], source: &str, to: &PathBuf| {
        let mut compiler = Command::new("g++");
        compiler.args(["-O2", "-g", "-o"]).arg(to);
        compiler.arg(sources.join(source)).args(arguments);
        let output = compiler.output().expect("g++ runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    };
    let soname = ["-shared", "-fpic", "-Wl,-soname,libshape.so.1"];
    compile(&soname, "shape.cpp", &library);
    std::os::unix::fs::symlink(&library, folder.join("libshape.so.1")).expect("a link");
    let library = library.display().to_string();
    let folder = format!("-Wl,-rpath,{}", folder.join("").display());
    compile(&[&library, &folder], "main.cpp", &program);
    Some(program)
}

/// Prototypes of its functions.
const CONF: &str = "int shape_sides(string);\nint shape_hash(string);\nint _ZN5shape4areaEii(int, int);\nint twice(int);\n";

/// What lancet writes of one round of the program, whose functions a `.conf` describes.
fn one_round(name: &str, arguments: &[&str]) -> Option<Vec<String>> {
    rounds(name, true, arguments)
}

fn rounds(name: &str, described: bool, arguments: &[&str]) -> Option<Vec<String>> {
    let folder = TempDir::new(name);
    let program = shape(&folder)?;
    let (conf, out) = (folder.join("shape.conf"), folder.join("out"));
    std::fs::write(&conf, CONF).expect("a .conf");
    let mut guest = Guest::start("shape", Command::new(program));
    guest.expect("ready");
    let (conf, file) = (conf.display().to_string(), out.display().to_string());
    // ltrace begins lines in files with the process, if one was opened.
    let first = format!("{} ", guest.pid);
    let column = (40 + first.len()).to_string();
    let mut all = vec!["--ltrace", "-a", &column, "-o", &file];
    if described {
        all.extend(["-F", &conf]);
    }
    all.extend(arguments);
    let watch = Watch::start(calls(guest.pid, &all));
    let lines = || -> Vec<String> {
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        let line = |line: &str| line.strip_prefix(&first).unwrap_or(line).to_owned();
        text.lines().map(line).collect()
    };
    let begins = |line: &str| line.contains("shape_sides") && !line.starts_with([' ', '<']);
    // One round may have begun before the hooks were there.
    until(LIMIT, "two rounds", || {
        guest.tell("go");
        assert_eq!(guest.find("answer "), "24");
        (lines().iter().filter(|line| begins(line)).count() >= 2).then_some(())
    });
    let output = watch.interrupt();
    assert_eq!((output.code(), &*output.stderr), (0, ""), "it is silent");
    guest.ends_with_nothing(name);
    let lines = lines();
    let at = lines
        .iter()
        .rposition(|line| begins(line))
        .expect("a round");
    Some(lines[at..].to_vec())
}

/// The result stands in column 40.
fn at_40(call: &str, result: &str) -> String {
    format!("{call:39}{result}")
}

#[test]
fn calls_of_a_library_say_which_module_makes_them() {
    let Some(lines) = one_round("made", &["-l", "libshape.so.1"]) else {
        return;
    };
    let expected = [
        "shape->shape_sides(\"square\" <unfinished ...>",
        &at_40("libshape.so.1->shape_hash(\"square\")", "= 657"),
        &at_40("<... shape_sides resumed> )", "= 6"),
        &at_40("shape->_ZN5shape4areaEii(4, 3)", "= 12"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn calls_of_the_program_go_without_saying() {
    let Some(lines) = one_round("default", &[]) else {
        return;
    };
    let expected = [
        at_40("shape_sides(\"square\")", "= 6"),
        at_40("_ZN5shape4areaEii(4, 3)", "= 12"),
    ];
    assert_eq!(lines[..2], expected);
    // Its own functions, and those that its libraries call, are not meant.
    assert!(
        !lines
            .iter()
            .any(|line| line.contains("twice") || line.contains("hash")),
        "{lines:?}"
    );
}

#[test]
fn entries_say_which_library_they_are_in() {
    let what = [
        "-x",
        "shape_*@libshape.so.1",
        "-x",
        "twice",
        "-x",
        "_ZN5*",
        "-C",
        "-L",
    ];
    let Some(lines) = one_round("entered", &what) else {
        return;
    };
    let expected = [
        "shape_sides@libshape.so.1(\"square\" <unfinished ...>",
        &at_40("shape_hash@libshape.so.1(\"square\")", "= 657"),
        &at_40("<... shape_sides resumed> )", "= 6"),
        "shape::area(int, int)@libshape.so.1(4, 3) = 12",
        &at_40("twice(12)", "= 24"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_call_that_is_asked_for_twice_is_told_twice() {
    let Some(lines) = one_round(
        "twice",
        &["-e", "shape_sides", "-x", "shape_sides", "-n", "2"],
    ) else {
        return;
    };
    let expected = [
        "shape->shape_sides(\"square\" <unfinished ...>",
        &at_40("  shape_sides@libshape.so.1(\"square\")", "= 6"),
        &at_40("<... shape_sides resumed> )", "= 6"),
    ];
    assert_eq!(lines, expected);
}

/// Frames of ours, between a hooked function and its caller, are not among them.
#[test]
fn who_called_whom_is_told_through_hooked_functions() {
    let what = ["-x", "shape_*", "-L", "-w", "2"];
    let Some(lines) = one_round("callers", &what) else {
        return;
    };
    let frame = |line: &str| {
        let (path, rest) = line.strip_prefix(" > ")?.rsplit_once('(')?;
        let file = path.rsplit('/').next()?;
        Some(format!("{file} {}", rest.split('+').next()?))
    };
    let told: Vec<String> = lines
        .iter()
        .map(|line| frame(line).unwrap_or_else(|| line.clone()))
        .collect();
    let expected = [
        "shape_sides@libshape.so.1(\"square\" <unfinished ...>",
        &at_40("shape_hash@libshape.so.1(\"square\")", "= 657"),
        "libshape.so.1.2 shape_sides",
        "shape main",
        "",
        &at_40("<... shape_sides resumed> )", "= 6"),
        "shape main",
    ];
    assert_eq!(told[..expected.len()], expected, "{lines:?}");
    assert_eq!(
        told.len(),
        expected.len() + 2,
        "two frames and a line between: {lines:?}"
    );
}

#[test]
fn debug_information_describes_what_nobody_else_does() {
    let Some(lines) = rounds("compiled", false, &["-l", "libshape.so.1", "-C"]) else {
        return;
    };
    let expected = [
        "shape->shape_sides(\"square\" <unfinished ...>",
        &at_40("libshape.so.1->shape_hash(\"square\")", "= 657"),
        &at_40("<... shape_sides resumed> )", "= 6"),
        &at_40("shape->shape::area(int, int)(4, 3)", "= 12"),
    ];
    assert_eq!(lines, expected);
}
