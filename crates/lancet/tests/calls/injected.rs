//! `-e inject=` and `--inject`: exactly these calls, exactly this answer; the program goes on; and what was injected ends with
//! whoever asked for it.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::machine::{program, start};
use crate::support::{Guest, LIMIT, TempDir, installed, lancet, run, skip};
use crate::watch::{ended_well, hooked, left};

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
            "--inject",
            "getppid:retval=77:when=3",
            "--inject",
            "openat:ENOSPC:when=2+2",
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
        &["-T", "--inject", "getppid:delay_enter=50ms:when=2..3"],
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
        let guest = start(&path, "changes");
        let own = format!("uid {}", guest.find("uid "));
        let mut command = lancet();
        command.args(["syscalls", "-o", "/dev/null", "-e", "trace=getuid"]);
        command.args([
            "--inject",
            "getuid:retval=4242",
            "-p",
            &guest.pid.to_string(),
        ]);
        injects_until(command, guest, &own, ends);
    }
}

/// What is injected is seen by the guest while lancet is there, and no more once it has left or was killed.
fn injects_until(command: Command, mut guest: Guest, own: &str, ends: &str) {
    let watch = hooked(command);
    guest.expect("uid 4242");
    match ends {
        "kill" => watch.kill(),
        _ => drop(left(watch, ends)),
    }
    // Nobody else comes to its help.
    guest.expect(own);
    guest.tell("");
    guest.ends_with("over");
}

#[test]
fn what_cannot_be_injected_is_said() {
    for (options, words) in [
        (
            &["--inject", "execve:EIO@app.rb:1"][..],
            "execve of a line alone",
        ),
        (
            &["-e", "inject=read:signal=HUP@app.rb:1"],
            "leave out @FILE:LINE",
        ),
        (
            &["--inject", "read:EIO@app.rb:1", "-e", "fault=write"],
            "ask for one of them",
        ),
        (&["-e", "fault=read:retval=0"], "invalid fault argument"),
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

/// What each of these has the program say, and what is told of its calls, is what strace has it say and tells: by ptrace, from the first
/// call on.
#[test]
fn strace_s_words_do_what_they_do_there() {
    if !installed("strace") {
        return skip("injection beside strace", "no strace");
    }
    let (Some(path), Some(tampered)) = (program("injected.c"), program("tampered.c")) else {
        return;
    };
    let (path, tampered) = (path.display().to_string(), tampered.display().to_string());
    let folder = TempDir::new("injected-strace");
    let ids = regex::Regex::new(r"^\d+ +|0x[0-9a-f]+|\d{3,}").expect("a literal");
    for (path, words) in [
        (&path, &["inject=getppid:retval=77:when=3"][..]),
        (&path, &["inject=getppid:error=1:when=2..5+2"]),
        // The loader's calls count.
        (&path, &["inject=openat:error=ENOSPC:when=6+"]),
        (
            &path,
            &["fault=getppid", "inject=getppid:retval=0x4d:when=2+"],
        ),
        (&tampered, &["inject=read:signal=USR1"]),
        (&tampered, &["inject=read:signal=USR1:when=2+"]),
        (&tampered, &["inject=read:signal=USR1:error=EIO:when=2"]),
        (
            &tampered,
            &[
                "inject=chdir:poke_enter=@arg1=2f00",
                "inject=getcwd:poke_exit=@arg1=58",
            ],
        ),
        (&tampered, &["inject=chdir:poke_enter=@arg1=2f00:retval=3"]),
        (&tampered, &["inject=clone,clone3,fork,vfork:error=EAGAIN"]),
        (
            &tampered,
            &["inject=getppid:delay_enter=20ms:delay_exit=20000:when=1"],
        ),
    ] {
        let options = words.iter().flat_map(|words| ["-e", words]);
        let options: Vec<&str> = options.collect();
        let ran = [Command::new("strace"), ours()].map(|mut tracer| {
            let lines = folder.join("lines");
            // Where it makes a child, the child's end and its clone's may come in any order.
            let clones = words.iter().any(|word| word.contains("clone"));
            let calls = "trace=read,chdir,getcwd,getppid,openat";
            let clone = if clones { ",clone" } else { "" };
            tracer.args(["-f", "-e", &format!("{calls}{clone}")]);
            tracer
                .args(&options)
                .arg("-o")
                .arg(&lines)
                .arg("--")
                .arg(path);
            let output = run(&mut tracer, LIMIT);
            let lines = std::fs::read_to_string(lines).expect("written");
            let lines = lines
                .lines()
                .map(|line| ids.replace_all(line, "").into_owned());
            // strace ends by the signal that its program has ended by.
            let signal = output.status.signal().map(|signal| 128 + signal);
            let code = output.status.code().or(signal);
            (code, output.stdout, lines.collect::<Vec<_>>())
        });
        let [theirs, ours] = ran;
        assert_eq!((ours.0, &ours.1), (theirs.0, &theirs.1), "{words:?}");
        let differ = ours
            .2
            .iter()
            .zip(&theirs.2)
            .find(|(ours, theirs)| ours != theirs);
        assert_eq!(differ, None, "{words:?}");
        assert_eq!(ours.2.len(), theirs.2.len(), "{words:?}");
    }
}

fn ours() -> Command {
    let mut command = lancet();
    command.args(["syscalls", "--strace"]);
    command
}

/// What a tracer has begun to inject is whole if it is killed, and then nothing is injected any more.
#[test]
fn what_a_tracer_injects_ends_with_it() {
    let Some(path) = program("injected.c") else {
        return;
    };
    for ends in ["kill", "leave"].into_iter().cycle().take(6) {
        let guest = start(&path, "changes");
        let own = format!("uid {}", guest.find("uid "));
        let mut command = lancet();
        command.args(["syscalls", "-o", "/dev/null", "-e"]);
        // A signal that nobody minds has it done by ptrace.
        command.arg("inject=getuid:retval=4242:signal=CHLD:delay_enter=5ms");
        command.args(["-p", &guest.pid.to_string()]);
        injects_until(command, guest, &own, ends);
    }
}

/// strace counts the calls of each thread and of each system call for itself; so do hooks.
#[test]
fn each_thread_counts_for_itself() {
    let (Some(path), true) = (program("tampered.c"), installed("strace")) else {
        return skip("injection into threads beside strace", "no strace");
    };
    let answer = |mut tracer: Command, options: &[&str]| {
        tracer.args(["-f", "-o", "/dev/null"]).args(options);
        let output = run(tracer.arg("--").arg(&path).arg("threads"), LIMIT);
        ended_well(output, "threads").stdout
    };
    let theirs = answer(
        Command::new("strace"),
        &["-e", "inject=getuid,getgid:retval=7:when=2+3"],
    );
    assert_eq!(theirs.matches('7').count(), 4 * 2 * 2, "{theirs}");
    let by_hooks = answer(ours(), &["--inject", "getuid,getgid:retval=7:when=2+3"]);
    assert_eq!(by_hooks, theirs);
    let by_tracer = answer(ours(), &["-e", "inject=getuid,getgid:retval=7:when=2+3"]);
    assert_eq!(by_tracer, theirs);
}
