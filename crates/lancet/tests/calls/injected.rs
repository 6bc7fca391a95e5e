//! `-e inject=` and `--inject`: exactly these calls, exactly this answer; the program goes on; and what was injected ends with
//! whoever asked for it.

use std::path::Path;
use std::process::Command;

use crate::machine::{program, start};
use crate::support::{LIMIT, TempDir, installed, lancet, run, skip};
use crate::watch::{hooked, left};

/// What a program says under these injections, and the lines that were written of it; `name` is that of a folder, one for
/// each run.
fn injected(name: &str, options: &[&str], words: &[&str]) -> (String, String) {
    let folder = TempDir::new(name);
    let lines = folder.join("lines");
    let mut command = lancet();
    command
        .args(["syscalls", "--max-wait", "30s", "-o"])
        .arg(&lines);
    command.args(options).arg("--").args(words);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let lines = std::fs::read_to_string(lines).expect("it was written");
    (output.stdout, lines)
}

/// How many lines of calls hold this text.
fn told(lines: &str, text: &str) -> usize {
    lines.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn those_calls_get_that_answer_and_no_others() {
    let Some(path) = program("injected.c") else {
        return;
    };
    let path = path.to_str().expect("plain");
    // The first getppid is not one of the six.
    let (said, lines) = injected(
        "injected-answers",
        &[
            "-e",
            "inject=getppid:retval=77:when=3",
            "-e",
            "inject=openat:error=ENOSPC:when=2+2",
        ],
        &[path],
    );
    let expected = "ready\n\
        getppid 1: right\ngetppid 2: 77\ngetppid 3: right\ngetppid 4: right\ngetppid 5: right\ngetppid 6: right\n\
        open 1: right\nopen 2: ENOSPC\nopen 3: right\nopen 4: ENOSPC\nopen 5: right\nopen 6: ENOSPC\n";
    assert_eq!(said, expected);
    assert_eq!(told(&lines, "= 77 (INJECTED)"), 1, "{lines}");
    let full = "openat(AT_FDCWD, \"/dev/null\", O_RDONLY) = -1 ENOSPC (No space left on device) (INJECTED)";
    assert_eq!(told(&lines, full), 3, "{lines}");
    assert_eq!(told(&lines, "INJECTED"), 4, "{lines}");
}

#[test]
fn calls_wait_as_long_as_they_are_asked_to() {
    let Some(path) = program("injected.c") else {
        return;
    };
    let path = path.to_str().expect("plain");
    let (said, lines) = injected(
        "injected-delays",
        &["-T", "-e", "inject=getppid:delay_enter=50ms:when=2..3"],
        &[path],
    );
    assert_eq!(told(&said, "right"), 12, "{said}");
    let waited = lines.lines().filter(|line| line.contains("(DELAYED)"));
    let times: Vec<f64> = waited
        .filter_map(|line| line.rsplit_once('<')?.1.split_once('>')?.0.parse().ok())
        .collect();
    assert_eq!(times.len(), 2, "{lines}");
    assert!(times.iter().all(|time| *time >= 0.05), "{times:?}");
}

/// Two methods that open the same file; the first is to fail from its second time on.
#[test]
fn a_line_of_a_script_alone_is_concerned() {
    const RUBY: &str = "\
def look
  File.open('/dev/null') { 'right' }
rescue SystemCallError => error
  error.class.name
end
def other = File.open('/dev/null') { 'right' }
3.times { puts \"#{look} #{other}\" }
";
    const PYTHON: &str = "\
import os
def look():
    try:
        os.close(os.open('/dev/null', 0))
        return 'right'
    except OSError as error:
        return os.strerror(error.errno)
def other():
    os.close(os.open('/dev/null', 0))
    return 'right'
for _ in range(3): print(look(), other(), flush=True)
";
    let folder = TempDir::new("injected-scripts");
    for (interpreter, name, text, line, error) in [
        ("/usr/bin/ruby", "app.rb", RUBY, 2, "Errno::ENOSPC"),
        (
            "/usr/bin/python3",
            "app.py",
            PYTHON,
            4,
            "No space left on device",
        ),
    ] {
        if !Path::new(interpreter).exists() {
            skip("injection by line", format!("no {interpreter}"));
            continue;
        }
        let script = folder.join(name);
        std::fs::write(&script, text).expect("written");
        let what = format!("openat:ENOSPC:when=2+@{name}:{line}");
        let script = script.to_str().expect("plain");
        let (said, lines) = injected(
            &format!("injected-{name}"),
            &["--inject", &what],
            &[interpreter, script],
        );
        let expected = format!("right right\n{error} right\n{error} right\n");
        assert_eq!(said, expected, "{lines}");
        assert_eq!(told(&lines, "(INJECTED)"), 2, "{lines}");
        // The others of that line are shown as they are.
        let line = format!("{name}:{line} in");
        let opened = lines
            .lines()
            .filter(|one| one.starts_with("openat(") && one.contains(&line));
        assert_eq!(opened.count(), 3, "{lines}");
    }
}

/// Killed at any instant, lancet leaves a guest whose calls are its own again soon, by itself; so does the next that comes.
#[test]
fn what_was_injected_ends_with_lancet() {
    let Some(path) = program("injected.c") else {
        return;
    };
    for ends in ["kill", "leave"] {
        let mut guest = start(&path, "changes");
        let own = format!("uid {}", guest.find("uid "));
        let mut command = lancet();
        command.args(["syscalls", "-o", "/dev/null", "-e", "trace=getuid"]);
        command.args([
            "--inject",
            "getuid:retval=4242",
            "-p",
            &guest.pid.to_string(),
        ]);
        let watch = hooked(command);
        guest.expect("uid 4242");
        match ends {
            "kill" => watch.kill(),
            _ => drop(left(watch, ends)),
        }
        // Nobody else comes to its help.
        guest.expect(&own);
        guest.tell("");
        guest.ends_with("over");
    }
}

#[test]
fn what_cannot_be_injected_is_said() {
    for (options, words) in [
        (
            &["-e", "inject=execve:error=EIO"][..],
            "execve cannot be injected into",
        ),
        (&["-e", "inject=read"], "nothing is injected"),
        (&["--inject", "read:EVERY"], "there is no error EVERY"),
        (
            &["-e", "trace=read", "--inject", "write:EIO"],
            "write is injected into and not shown",
        ),
    ] {
        let output = run(
            lancet().arg("syscalls").args(options).args(["--", "true"]),
            LIMIT,
        );
        assert_ne!(output.code(), 0, "{options:?}");
        assert!(output.stderr.contains(words), "{options:?}: {output:?}");
        assert_eq!(output.stderr.trim_end().lines().count(), 1, "{output:?}");
    }
}

/// The reference for two of the answers above, where it is installed.
#[test]
fn strace_injects_the_same() {
    let (Some(path), true) = (program("injected.c"), installed("strace")) else {
        return skip("injection beside strace", "no strace");
    };
    let what = ["-e", "inject=getppid:retval=77:when=3"];
    let mut strace = Command::new("strace");
    strace.args(["-o", "/dev/null"]).args(what).arg(&path);
    let strace = run(&mut strace, LIMIT);
    let (ours, _) = injected("injected-strace", &what, &[path.to_str().expect("plain")]);
    assert_eq!(ours, strace.stdout);
}
