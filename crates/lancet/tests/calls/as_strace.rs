//! `lancet syscalls --strace -- PROGRAM`: strace's answer, beside strace's own of the same work; PID namespaces; what is wrong on its
//! command line.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use regex::Regex;

use crate::support::{LIMIT, TempDir, installed, lancet, run, skip};

pub fn ours(options: &[&str]) -> Command {
    let mut command = lancet();
    command.args(["syscalls", "--strace"]).args(options);
    command
}

/// The lines of strace and of lancet, with ids as numbers in the order in which they come.
pub fn both(options: &[&str], words: &[&str]) -> [String; 2] {
    both_started_by(&[], options, words)
}

/// The command that starts another one by this one.
fn started_by(outer: &[&str], inner: Command) -> Command {
    let Some((program, words)) = outer.split_first() else {
        return inner;
    };
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(inner.get_program())
        .args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// The same, of tracers that a command starts.
pub fn both_started_by(outer: &[&str], options: &[&str], words: &[&str]) -> [String; 2] {
    let folder = TempDir::new("as-strace");
    let out = folder.join("out");
    let ids = Regex::new(r"\d{3,}|0x[0-9a-f]{6,}|si_[us]time=[^,}]*").expect("a literal");
    [Command::new("strace"), ours(&[])].map(|tracer| {
        let mut tracer = started_by(outer, tracer);
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
        (
            &["--hooks", "-b", "execve"],
            "-b execve is for processes that are seen by ptrace",
        ),
        (
            &["-DDDD"],
            "-D can be given three times at most, and was 4 times",
        ),
        (
            &["--daemonize=cellar"],
            "there is no cellar to be behind in: grandchild, pgroup, session",
        ),
    ] {
        let output = run(ours(words).args(["--", "true"]), LIMIT);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{words:?}: {output:?}");
        assert!(output.stderr.contains(says), "{words:?}: {}", output.stderr);
    }
}

/// Where the thread stands, before each line; of both with the same addresses, because the kernel maps everything at the same place.
#[test]
fn addresses_of_instructions_are_those_of_strace() {
    let mut probe = Command::new("setarch");
    let can = probe.args(["-R", "true"]).output();
    if !installed("strace") || !can.is_ok_and(|output| output.status.success()) {
        return skip("-i beside strace", "no strace, or no setarch -R");
    }
    let words = ["setarch", "-R", "sh", "-c", "kill -0 $$; kill -USR1 $$"];
    let folder = TempDir::new("as-strace-instructions");
    let out = folder.join("out");
    let [theirs, traced, hooked] =
        [Command::new("strace"), ours(&[]), ours(&["--hooks"])].map(|mut tracer| {
            tracer.args(["-i", "-e", "trace=kill", "-o"]);
            let output = run(tracer.arg(&out).arg("--").args(words), LIMIT);
            assert_eq!(output.status.signal(), Some(libc::SIGUSR1), "{output:?}");
            let text = std::fs::read_to_string(&out).expect("lines");
            let ids = Regex::new(r"(kill\(|si_pid=)\d+").expect("a literal");
            ids.replace_all(&text, "${1}ID").into_owned()
        });
    let shapes = [
        r"^\[0000[0-9a-f]{12}\] kill\(ID, 0\) +=",
        r"\n\[0000[0-9a-f]{12}\] --- SIGUSR1 ",
        r"\n\[\?{16}\] \+\+\+ killed by SIGUSR1 \+\+\+",
    ];
    for shape in shapes {
        let shape = Regex::new(shape).expect("a literal");
        assert!(shape.is_match(&theirs), "{theirs}");
        assert!(shape.is_match(&hooked), "{hooked}");
    }
    assert_eq!(traced, theirs);
}

/// Names of arguments, as strace has them since 6.16; without them the lines are those of strace 6.1.
#[test]
fn arguments_have_their_names() {
    let folder = TempDir::new("as-strace-names");
    let out = folder.join("out");
    let lines = |option: &[&str]| {
        let mut command = ours(option);
        command.args(["-e", "trace=openat,read,close,execve,futex", "-o"]);
        let words = ["/usr/bin/env", "-i", "cat", "/etc/hostname"];
        let output = run(command.arg(&out).arg("--").args(words), LIMIT);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        std::fs::read_to_string(&out).expect("lines")
    };
    let named = lines(&["-N"]);
    for text in [
        "execve(pathname=\"/usr/bin/env\", argv=[\"/usr/bin/env\", \"-i\", \"cat\", \"/etc/hostname\"], envp=0x",
        "openat(dirfd=AT_FDCWD, pathname=\"/etc/ld.so.cache\", flags=O_RDONLY|O_CLOEXEC) = 3\n",
        "read(fd=3, buf=\"",
        "close(fd=3)  ",
    ] {
        assert!(named.contains(text), "{text}: {named}");
    }
    let raw = lines(&["--arg-names", "-e", "raw=close"]);
    assert!(raw.contains("close(fd=0x3) "), "{raw}");
    let name =
        Regex::new(r"([(,] ?)(pathname|argv|envp|dirfd|flags|fd|buf|count|uaddr|futex_op|val)=")
            .expect("a literal");
    let spaces = Regex::new(r" +=|0x[0-9a-f]+").expect("a literal");
    let bare = |text: &str| {
        spaces
            .replace_all(&name.replace_all(text, "$1"), "")
            .into_owned()
    };
    assert_eq!(bare(&named), bare(&lines(&[])));
}

/// `-b execve`: the program that is started is seen until it runs another one, and so is each of its children.
#[test]
fn processes_are_left_at_their_next_exec() {
    if !installed("strace") {
        return skip("-b beside strace", "no strace");
    }
    let script = "/bin/true; exec /bin/sh -c 'exit 3'";
    let words = ["/bin/sh", "-c", script];
    let options = ["-f", "-b", "execve", "-e", "trace=execve,exit_group"];
    let [theirs, ours] = both(&options, &words);
    assert_eq!(theirs.matches("<detached ...>").count(), 2, "{theirs}");
    assert_eq!(ours, theirs);
    let mut command = self::ours(&["-f", "--detach-on=execve", "-e", "trace=none", "--"]);
    let output = run(command.args(words), LIMIT);
    assert_eq!(
        output.stderr.matches(" detached\n").count(),
        2,
        "{output:?}"
    );
}

/// `-D`: the program is whom we have started, lancet is no child and no parent of it, and what it sees of itself is what it would see alone.
#[test]
fn lancet_goes_behind_the_program() {
    let folder = TempDir::new("as-strace-behind");
    for (letter, hooks) in [("-D", false), ("-DD", false), ("--daemonize=session", true)] {
        let out = folder.join("out");
        let _ = std::fs::remove_file(&out);
        let script = "grep -E '^(PPid|TracerPid)' /proc/$$/status; read -r _ _ _ _ group session _ </proc/$$/stat; echo $group $session; \
            tracer=$(sed -n 's/^TracerPid:\\t//p' /proc/$$/status); read -r _ _ _ parent group session _ </proc/$tracer/stat; echo $parent $group $session; exit 5";
        let mut command = ours(if hooks { &["--hooks"] } else { &[] });
        command.args([letter, "-qq", "-e", "trace=getppid", "-o"]);
        command.arg(&out).args(["--", "sh", "-c", script]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.status.code(), Some(5), "{letter}: {output:?}");
        let lines: Vec<&str> = output.stdout.lines().collect();
        let [parent, tracer, own, of_tracer] = lines[..] else {
            panic!("{letter}: {output:?}");
        };
        let number = |text: &str| text.split_whitespace().nth(1).expect("a number").to_owned();
        assert_eq!(number(parent), std::process::id().to_string(), "{letter}");
        let tracer = number(tracer);
        assert_ne!(tracer, "0", "{letter}");
        let own: Vec<&str> = own.split(' ').collect();
        let [_, group, session] = of_tracer.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{letter}: {output:?}");
        };
        assert_eq!(group == own[0], letter == "-D", "{letter}: {output:?}");
        assert_eq!(session == own[1], !hooks, "{letter}: {output:?}");
        // It writes when the program is over, behind whoever waited for that.
        crate::support::until(LIMIT, "lancet has written", || {
            let text = std::fs::read_to_string(&out).ok()?;
            text.contains("getppid()").then_some(())
        });
    }
}
