//! `lancet syscalls --no-modify` and what cannot be hooked: calls are seen by ptrace, and nothing in the process changes.
//! `--require exact`: what would not be seen is a reason to refuse.

use std::collections::BTreeMap;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::machine::{program, start};
use crate::support::{
    Guest, LIMIT, Output, Random, Snapshot, TempDir, installed, is_root, lancet,
    program_of_32_bits, run, skip, soak, until,
};

fn syscalls(options: &[&str]) -> Command {
    let mut command = lancet();
    command.arg("syscalls").args(options);
    command
}

fn opened(pid: i32, options: &[&str]) -> crate::support::Watch {
    let mut command = syscalls(options);
    command.args(["-p", &pid.to_string()]);
    crate::watch::hooked(command)
}

/// Everything that is mapped with code in it, with its protection.
fn code(pid: i32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let code = maps.lines().filter(|line| line.contains('x'));
    code.map(String::from).collect()
}

/// While it is watched no byte of its text and no mapping of code is another than before; and it computes what it computes.
fn holds(mode: &str, rounds: u64) {
    let Some(path) = program("system_calls.cpp") else {
        return;
    };
    let mut alone = start(&path, mode);
    alone.tell(&rounds.to_string());
    let truth = alone.find("answer ");
    for options in [
        &["--no-modify", "-o", "/dev/null"][..],
        &["--no-modify", "-f", "-c"],
        &["--by", "ptrace", "-f", "-c"],
    ] {
        let mut guest = start(&path, mode);
        let (before, mapped) = (Snapshot::take(guest.pid), code(guest.pid));
        let watch = opened(guest.pid, options);
        before.text_holds(guest.pid, mode);
        assert_eq!(code(guest.pid), mapped, "{mode} {options:?}");
        guest.tell(&rounds.to_string());
        assert_eq!(guest.find("answer "), truth, "{mode} {options:?}");
        let output = crate::watch::left(watch, mode);
        assert!(
            output.stderr.contains("nothing in it is changed"),
            "{output:?}"
        );
        before.text_holds(guest.pid, mode);
        guest.ends_with_nothing(mode);
    }
}

/// A call that a signal interrupts fails with EINTR or is made again, as the program asked for it, and lasts as long as it did.
#[test]
fn interrupted_calls_are_as_they_were() {
    for ruby in crate::support::chosen("python", "traced") {
        let folder = TempDir::new("traced-eintr");
        let script = folder.join("eintr.py");
        std::fs::write(&script, INTERRUPTED).expect("written");
        let mut command = ruby.command();
        command.arg(&script);
        let mut guest = Guest::ready(&mut command);
        let watch = opened(guest.pid, &["--no-modify", "-o", "/dev/null"]);
        // It sleeps in `select` with a timeout meanwhile.
        let again = opened_again(watch, guest.pid);
        guest.tell("");
        assert_eq!(guest.find("answer "), "20 20 True", "{ruby}");
        crate::watch::left(again, "interrupted");
        guest.ends_with_nothing("interrupted");
    }
}

fn opened_again(watch: crate::support::Watch, pid: i32) -> crate::support::Watch {
    crate::watch::left(watch, "left while it sleeps");
    opened(pid, &["--no-modify", "-o", "/dev/null"])
}

/// Bare system calls, which Python does not make again: those with SA_RESTART return what they wait for, the others EINTR.
const INTERRUPTED: &str = r#"
import ctypes, errno, os, select, signal, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
handled = 0
def on(*_):
    global handled
    handled += 1
signal.signal(signal.SIGUSR1, on)
print("ready", flush=True)
select.select([sys.stdin], [], [])
sys.stdin.readline()
def told(name):
    with open(f"/proc/self/task/{os.getpid()}/{name}") as file:
        return file.read()
def waits(r):
    return told("syscall").startswith(f"0 {r:#x} ") and ") S " in told("stat")
def pending():
    lines = told("status").splitlines()
    sets = [line.split()[1] for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(int(pending, 16) >> signal.SIGUSR1 - 1 & 1 for pending in sets)
def ask(restarts):
    signal.siginterrupt(signal.SIGUSR1, not restarts)
    r, w = os.pipe()
    returned = threading.Event()
    # The signal comes while the main thread waits in read, and the byte when it does so again, or has returned.
    def send():
        while not waits(r):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)
        while pending() or not (returned.is_set() or waits(r)):
            time.sleep(0.001)
        os.write(w, b"x")
    thread = threading.Thread(target=send)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    thread.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    buffer = ctypes.create_string_buffer(1)
    got = libc.read(r, buffer, 1)
    wrong = ctypes.get_errno()
    returned.set()
    thread.join()
    os.close(r)
    os.close(w)
    return got == 1 if restarts else got == -1 and wrong == errno.EINTR
began = time.monotonic()
ended = sum(ask(False) for _ in range(20))
again = sum(ask(True) for _ in range(20))
libc.poll(None, 0, 300)
print("answer", ended, again, time.monotonic() - began > 0.3, flush=True)
sys.stdin.read()
"#;

#[test]
fn handlers_leave_calls_by_longjmp() {
    holds("jumps", 200);
}

#[test]
fn threads_are_cancelled_in_calls() {
    holds("cancels", 50);
}

#[test]
fn children_of_every_kind_are_followed() {
    holds("children", 10);
}

#[test]
fn threads_come_and_go() {
    holds("storm", 30);
}

/// Seven threads of a Ruby that sleep, look at files and fork, opened and left at any instant, by hooks and by ptrace in turn.
#[test]
fn a_ruby_is_opened_and_left_again_and_again() {
    for ruby in crate::support::rubies("traced") {
        let folder = TempDir::new("traced-ruby");
        let script = folder.join("threads.rb");
        std::fs::write(&script, THREADS).expect("written");
        let mut command = ruby.command();
        command.arg(&script);
        let mut guest = Guest::ready(&mut command);
        let before = Snapshot::take(guest.pid);
        let mut random = Random::new("traced");
        for round in 0..if soak() { 1000 } else { 12 } {
            let ways: [&[&str]; 2] = [&["--max-wait", "30s"], &["--no-modify", "-f"]];
            let mut options = ways[round % 2].to_vec();
            options.extend(if round % 4 < 2 {
                ["-c"].as_slice()
            } else {
                &["-o", "/dev/null"]
            });
            let watch = opened(guest.pid, &options);
            std::thread::sleep(std::time::Duration::from_millis(random.below(10)));
            let output = watch.interrupt();
            assert_eq!(output.code(), 0, "{ruby}, round {round}: {}", output.stderr);
        }
        before.text_holds(guest.pid, "opened and left");
        guest.tell("");
        assert_eq!(guest.find("answer "), "right", "{ruby}");
        assert!(guest.ends_well(), "{ruby}");
    }
}

const THREADS: &str = r#"
$stdout.sync = true
$stop = false
wrong = Queue.new
work = [
  -> { sleep 0.001 }, -> { File.stat("/etc/passwd").size > 0 or wrong << :stat },
  -> { r, w = IO.pipe; w << "x"; w.close; r.read == "x" or wrong << :pipe; r.close },
  -> { system("true") or wrong << :exec; sleep 0.01 }, -> { sleep 0.002 },
  -> { IO.select([$never], nil, nil, 0.003) and wrong << :select },
]
$never, _kept = IO.pipe
threads = work.map { |one| Thread.new { one.call until $stop } }
puts "ready"
$stdin.gets
$stop = true
threads.each(&:join)
puts "answer #{wrong.empty? ? :right : wrong.pop}"
"#;

/// Our death at any instant lets it go on.
#[test]
fn a_killed_tracer_leaves_it_running() {
    let Some(path) = program("system_calls.cpp") else {
        return;
    };
    let mut random = Random::new("traced-killed");
    let rounds = if soak() { 200 } else { 12 };
    let mut guest = start(&path, "many");
    for _ in 0..rounds {
        let mut command = syscalls(&["--no-modify", "-o", "/dev/null"]);
        command.args(["-p", &guest.pid.to_string()]);
        let mut child = command
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("lancet");
        std::thread::sleep(std::time::Duration::from_millis(random.below(40)));
        child.kill().expect("killed");
        child.wait().expect("its end");
        until(LIMIT, "nobody traces it", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid)).ok()?;
            status.contains("TracerPid:\t0").then_some(())
        });
    }
    guest.tell("1000");
    guest.find("answer ");
    guest.ends_with_nothing("killed tracers");
}

/// A program for 32 bits is seen by ptrace of itself, and that is said with the reason.
#[test]
fn a_program_of_32_bits_is_traced() {
    let folder = TempDir::new("traced-bits");
    let mut child = match program_of_32_bits(&folder) {
        Ok(child) => child,
        Err(why) => return skip("syscalls of a 32-bit program", why),
    };
    let options = ["--for", "200ms"];
    let mut command = syscalls(&options);
    let output = run(command.args(["-p", &child.pid().to_string()]), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(
        output.stderr.contains("is a program for 32-bit x86")
            && output.stderr.contains("seen by ptrace"),
        "{output:?}"
    );
    assert!(output.stdout.starts_with("pause("), "{output:?}");
    assert!(child.runs(), "it goes on");
}

/// A guest whose seccomp filter forbids what hooks need is traced; all that it is allowed goes on.
#[test]
fn a_thread_that_locked_itself_in_is_traced() {
    if !is_root() {
        return skip("syscalls under seccomp", "only root reads filters");
    }
    let Some(path) = program("sandboxed.c") else {
        return;
    };
    let mut guest = Guest::ready(&mut Command::new(path));
    let watch = opened(guest.pid, &[]);
    guest.tell("");
    let line = guest.find("answer ");
    assert_eq!(line, "right");
    let output = watch.end();
    assert!(
        output.stderr.contains("does not allow mmap") && output.stderr.contains("seen by ptrace"),
        "{output:?}"
    );
    assert!(
        output.stdout.contains("write(1, \"answer right"),
        "{output:?}"
    );
}

/// Signals of every thread and of children, as the kernel tells its tracer.
#[test]
fn signals_of_children_are_told() {
    let words = ["--no-modify", "-f", "--strace", "--"];
    let script = "(exit 3) & wait; kill -USR2 $$";
    let mut command = syscalls(&words);
    let output = run(command.args(["sh", "-c", script]), LIMIT);
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(Signal::SIGUSR2 as i32), "{output:?}");
    for text in [
        "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, ",
        "si_status=3, ",
        "rt_sigreturn(",
        "+++ exited with 3 +++",
        "--- SIGUSR2 {si_signo=SIGUSR2, si_code=SI_USER, ",
        "+++ killed by SIGUSR2 +++",
    ] {
        assert!(output.stderr.contains(text), "{text}: {}", output.stderr);
    }
}

/// Scripts wait for strace's words of attaching and leaving, and look by which signal it has ended; the process sleeps on.
#[test]
fn attaching_and_leaving_is_said_as_strace_says_it() {
    for option in ["--hooks", "--no-modify"] {
        let mut guest = Guest::start("cat", Command::new("cat"));
        guest.tell("ready");
        guest.expect("ready");
        let mut watch = opened(guest.pid, &["--strace", option, "-o", "/dev/null"]);
        watch.until(&format!("lancet: Process {} attached", guest.pid));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(watch.pid()), Signal::SIGTERM)
            .expect("sent");
        let output = watch.end();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(Signal::SIGTERM as i32), "{output:?}");
        let left = format!("Process {} detached", guest.pid);
        assert!(output.stderr.contains(&left), "{output:?}");
        guest.tell("answer");
        guest.expect("answer");
        guest.ends_with_nothing(option);
    }
}

fn exact(options: &[&str], words: &[&str]) -> Output {
    let mut command = syscalls(&["--require", "exact"]);
    run(command.args(options).arg("--").args(words), LIMIT)
}

#[test]
fn what_would_not_be_seen_is_refused() {
    let output = exact(&[], &["echo", "ran"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert_eq!(output.stdout, "", "it was not run");
    let last = output.stderr.lines().last().unwrap_or_default();
    assert!(
        last.contains("is not watched, because not all of it would be seen: returns from signal handlers (rt_sigreturn)")
            && last.ends_with("or see all with --no-modify"),
        "{last}"
    );
    // Of a running process, in one line.
    let mut guest = Guest::start("cat", Command::new("cat"));
    guest.tell("ready");
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let mut command = syscalls(&["--require", "exact", "-p", &guest.pid.to_string()]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    before.text_holds(guest.pid, "refused");
    let output = exact(&["--no-modify", "-c", "-f"], &["sh", "-c", "true & wait"]);
    assert_eq!(output.code(), 0, "{output:?}");
    guest.tell("answer");
    guest.expect("answer");
    guest.ends_with_nothing("refused");
}

/// Of ordinary programs every call of these classes is seen by hooks, and none is refused: as many as strace counts.
#[test]
fn ordinary_programs_are_seen_exactly() {
    const CLASSES: &str = "trace=%desc,%memory,%network";
    if !installed("strace") {
        return skip("--require exact beside strace", "no strace");
    }
    let Some(hello) = program("hello.c") else {
        return;
    };
    let hello = hello.display().to_string();
    let folder = TempDir::new("traced-exact");
    let out = folder.join("out");
    for words in [
        &[hello.as_str()][..],
        &["/usr/bin/ruby", "-e", "puts 1"],
        &["/usr/bin/python3", "-c", "print(1)"],
        &["/usr/bin/perl", "-e", "print 1"],
        &["/usr/bin/php", "-r", "echo 1;"],
    ] {
        if !std::path::Path::new(words[0]).exists() {
            skip("--require exact", format!("no {}", words[0]));
            continue;
        }
        let mut strace = Command::new("strace");
        let mut ours = syscalls(&[
            "--strace",
            "--hooks",
            "--require",
            "exact",
            "--max-wait",
            "60s",
        ]);
        let [theirs, ours] = [&mut strace, &mut ours].map(|tracer| {
            tracer
                .args(["-e", CLASSES, "-o"])
                .arg(&out)
                .arg("--")
                .args(words);
            let output = run(tracer, LIMIT * 2);
            assert_eq!(output.code(), 0, "{words:?}: {output:?}");
            let lines = std::fs::read(&out).expect("lines");
            counted(&String::from_utf8_lossy(&lines))
        });
        assert!(theirs.values().sum::<usize>() > 10, "{theirs:?}");
        assert_eq!(ours, theirs, "{words:?}");
    }
}

/// How many lines there are of each call. How often Ruby unmaps what is too much at the ends of its heap's pages depends on
/// where the kernel has mapped them.
fn counted(lines: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let names = lines
        .lines()
        .filter_map(|line| Some(line.split_once('(')?.0));
    for name in names.filter(|name| !matches!(*name, "mmap" | "munmap")) {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn what_changes_a_process_is_not_asked_with_no_modify() {
    for options in [
        &["--no-modify", "--inject", "read:EIO"][..],
        &["--no-modify", "-e", "inject=read:error=EIO"],
        &["--no-modify", "--at", "app.rb:1"],
        &["--no-modify", "-k"],
    ] {
        let output = run(syscalls(options).args(["--", "true"]), LIMIT);
        assert_eq!(output.code(), 2, "{options:?}: {output:?}");
        assert!(
            output.stderr.contains("--no-modify"),
            "{options:?}: {output:?}"
        );
    }
    let output = run(
        syscalls(&["--require", "most", "--", "true"]).env("NO_COLOR", "1"),
        LIMIT,
    );
    assert_eq!(output.code(), 2, "{output:?}");
}
