//! `lancet syscalls --strace -- PROGRAM`: strace's answer, beside strace's own of the same work; PID namespaces; what is wrong on its
//! command line.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use regex::Regex;

use crate::support::{LIMIT, TempDir, installed, lancet, run, skip};

fn ours(options: &[&str]) -> Command {
    let mut command = lancet();
    command.args(["syscalls", "--strace"]).args(options);
    command
}

/// The lines of strace and of lancet, with ids as numbers in the order in which they come.
fn both(options: &[&str], words: &[&str]) -> [String; 2] {
    let folder = TempDir::new("as-strace");
    let out = folder.join("out");
    let ids = Regex::new(r"\d{3,}|0x[0-9a-f]{6,}|si_[us]time=[^,}]*").expect("a literal");
    [Command::new("strace"), ours(&[])].map(|mut tracer| {
        tracer
            .args(options)
            .arg("-o")
            .arg(&out)
            .arg("--")
            .args(words);
        let output = run(&mut tracer, LIMIT);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        let text = std::fs::read_to_string(&out).expect("lines");
        let mut known = Vec::new();
        let masked = ids.replace_all(&text, |found: &regex::Captures| {
            let id = found[0].to_owned();
            let at = known
                .iter()
                .position(|one| *one == id)
                .unwrap_or(known.len());
            if at == known.len() {
                known.push(id);
            }
            format!("ID{at}")
        });
        by_thread(&masked)
    })
}

/// The lines of each thread together, with calls in one piece: when which thread runs is the kernel's to decide.
fn by_thread(text: &str) -> String {
    let mut threads: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').expect("an id");
        if !threads.iter().any(|(known, _)| *known == thread) {
            threads.push((thread, String::new()));
        }
        let lines = threads.iter_mut().find(|(known, _)| *known == thread);
        let (_, lines) = lines.expect("it is there");
        *lines += &format!(
            "{}\n",
            rest.split_whitespace().collect::<Vec<_>>().join(" ")
        );
    }
    let cut = Regex::new(r" ?<unfinished \.\.\.>\n<\.\.\. \w+ resumed>").expect("a literal");
    let whole = threads.iter().map(|(thread, lines)| {
        let lines = cut.replace_all(lines, "").replace(", ", ",");
        format!("{thread}:\n{}", lines.replace(" <unf", "<unf"))
    });
    whole.collect()
}

/// Ends of threads and of who was killed in a call, a thread that runs another program in the place of all others.
#[test]
fn ends_are_told_as_strace_tells_them() {
    if !installed("strace") || !installed("python3") {
        return skip("ends beside strace", "no strace or no python3");
    }
    let threads = "import threading, time
one = threading.Thread(target=time.sleep, args=(0.05,))
one.start(); one.join()";
    let replaced = "import os, threading
threading.Thread(target=lambda: os.execv('/bin/true', ['true'])).start()
threading.Event().wait()";
    let killed = "import os, signal, time
child = os.fork()
if child == 0: time.sleep(100)
def read(name): return open(f'/proc/{child}/{name}').read()
while not (read('syscall').startswith('230 ') and read('stat').split()[2] == 'S'): pass
os.kill(child, signal.SIGKILL); os.wait()";
    for (set, script) in [
        ("trace=exit", threads),
        ("trace=execve,exit_group", replaced),
        ("trace=clock_nanosleep", killed),
    ] {
        let words = ["/usr/bin/python3", "-S", "-c", script];
        let [theirs, ours] = both(&["-f", "-e", "signal=none", "-e", set], &words);
        // On a busy machine strace itself now and then leaves out the end of who was killed.
        const KILLED: &str = "+++ killed by SIGKILL +++\n";
        assert_eq!(ours.contains(KILLED), script == killed, "{ours}");
        let [theirs, ours] = [theirs, ours].map(|text| text.replace(KILLED, ""));
        assert!(theirs.contains("+++ exited with 0 +++"), "{theirs}");
        assert_eq!(ours, theirs, "{set}");
    }
}

/// Ids that a process of another PID namespace uses are told with those that they have here, also where lancet is in a new namespace itself
/// and the `/proc` there is of the old one.
#[test]
fn ids_of_other_namespaces_are_translated() {
    let mut probe = Command::new("unshare");
    let can = probe.args(["-Urpf", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skip("PID namespaces", "unshare -Urpf is not allowed");
    }
    let words = ["-f", "-e", "trace=kill,getpid", "--decode-pids=pidns"];
    let inner = ["unshare", "-Urpf", "sh", "-c", "kill -0 $$; :"];
    let told = Regex::new(r"kill\(1 /\* (\d+) in strace's PID NS \*/, 0\)").expect("a literal");
    let output = run(ours(&words).arg("--").args(inner), LIMIT);
    let found = told.captures(&output.stderr).expect(&output.stderr);
    let ended = format!("[pid {:>5}] +++ exited with 0 +++", &found[1]);
    assert!(output.stderr.contains(&ended), "{}", output.stderr);
    // In a namespace of its own, which keeps the old /proc for everybody else.
    let program = ours(&[]).get_program().to_owned();
    let mut outer = Command::new("unshare");
    outer
        .arg("-Urpf")
        .arg(program)
        .args(["syscalls", "--strace"]);
    outer.args(words).arg("--");
    outer.args(["sh", "-c", "readlink /proc/self; kill -0 $$"]);
    let output = run(&mut outer, LIMIT);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let seen: i32 = output.stdout.trim().parse().expect("an id");
    let own = Regex::new(r"kill\((\d+), 0\) += 0").expect("a literal");
    let own = own.captures(&output.stderr).expect(&output.stderr);
    assert!(own[1].parse::<i32>().expect("an id") < seen, "{output:?}");
}

/// What PROGRAM finds: its environment, its standard streams, SIGPIPE; and how lancet ends with it.
#[test]
fn programs_find_what_strace_gives_them() {
    let mut command = ours(&["-e", "trace=none", "-E", "GIVEN=text", "-E", "HOME", "--"]);
    let output = run(
        command.args(["sh", "-c", "echo $GIVEN ${HOME-none}"]),
        LIMIT,
    );
    assert_eq!(output.stdout, "text none\n", "{output:?}");
    let mut command = ours(&["-qq", "-e", "trace=none", "--"]);
    let output = run(command.args(["sh", "-c", "kill -TERM $$"]), LIMIT);
    assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{output:?}");
    // The writer of a pipe ends when PROGRAM lets go of it, though lancet was given it too.
    let program = ours(&[]).get_program().to_owned();
    let script = format!(
        "(trap 'echo ended >&2; exit' PIPE; while :; do echo y || exit; done) | '{}' syscalls --strace -qq -e trace=none -- sh -c 'exec <&-; sleep 0.5'",
        program.display()
    );
    let output = run(Command::new("bash").args(["-c", &script]), LIMIT);
    assert!(output.status.success(), "{output:?}");
    // Lines are what a command reads, which has had them all when lancet ends.
    let folder = TempDir::new("as-strace-piped");
    let out = folder.join("out");
    let reader = format!("|cat >'{}'; sleep 0.2; echo read >>'{0}'", out.display());
    let mut command = ours(&["-e", "trace=chdir", "-o", &reader, "--"]);
    let output = run(command.args(["sh", "-c", "cd /"]), LIMIT);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = std::fs::read_to_string(&out).expect("it was written");
    assert!(
        text.starts_with("chdir(\"/\")") && text.ends_with("read\n"),
        "{text}"
    );
}

/// One line each, which names what is wrong.
#[test]
fn what_is_wrong_is_one_line() {
    for (words, says) in [
        (&["-e", "trace=opneat"][..], "invalid system call 'opneat'"),
        (
            &["-e", "trace=%nothing"],
            "invalid system call '%nothing': the classes are %file",
        ),
        (
            &["-e", "trace="],
            "invalid system call '': a name is missing",
        ),
        (&["-e", "signal=WINTER"], "invalid signal 'WINTER'"),
        (
            &["-e", "read=x"],
            "invalid descriptor 'x': a number, all or none",
        ),
        (&["-e", "status=gone"], "there is no status gone"),
        (
            &["-e", "inject=read"],
            "invalid inject argument 'read': nothing is injected",
        ),
        (&["-e", "nosuch=1"], "there is no nosuch=: trace, status"),
        (
            &["--decode-pids=names"],
            "processes are not shown as names: comm, pidns, all, none",
        ),
        (
            &["-I", "5"],
            "anywhere, waiting, never and never_tstp (1 to 4) are understood",
        ),
    ] {
        let output = run(ours(words).args(["--", "true"]), LIMIT);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{words:?}: {output:?}");
        assert!(output.stderr.contains(says), "{words:?}: {}", output.stderr);
    }
}
