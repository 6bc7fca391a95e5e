//! What cannot be opened, and what ends in the middle: one line that says what, why and what to do, the guest untouched or left
//! as it was.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine::program;
use crate::support::{
    Guest, LIMIT, Random, Snapshot, TempDir, as_nobody, copy_for_all, installed, is_root, lancet,
    program_of_32_bits, refused, refused_to_itself, run, skip, until,
};
use crate::watch::{calls, hooked};

fn open(pid: i32) -> Command {
    calls(pid, &["-x", "write"])
}

/// Says `ready`, echoes each line it is told, ends when there are no more.
fn cat() -> Guest {
    let mut guest = Guest::start("cat", Command::new("cat"));
    guest.tell("ready");
    guest.expect("ready");
    guest
}

/// It goes on as if nothing had been.
fn goes_on(mut guest: Guest) {
    guest.tell("answer");
    guest.expect("answer");
    guest.ends_with_nothing("it goes on");
}

#[test]
fn a_process_that_is_not_there() {
    let mut child = Command::new("true").spawn().expect("true");
    let pid = child.id() as i32;
    until(LIMIT, "a zombie", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") Z ").then_some(())
    });
    refused(
        open(pid),
        &format!(
            "lancet: process {pid} has ended and only waits for its parent to collect it (zombie): nothing of it is left to look at; name its parent or another worker"
        ),
    );
    child.wait().expect("its end");
    let gone = |pid: i32| {
        format!(
            "lancet: there is no process {pid}: look it up again, for instance with pgrep -af NAME"
        )
    };
    refused(open(pid), &gone(pid));
    refused(open(i32::MAX), &gone(i32::MAX));
}

#[test]
fn a_stopped_process_stays_stopped() {
    let guest = cat();
    guest.signal(Signal::SIGSTOP);
    guest.settle('T');
    let before = Snapshot::take(guest.pid);
    refused(
        open(guest.pid),
        &format!(
            "lancet: process {} is stopped (SIGSTOP, Ctrl-Z or a cgroup freezer): let it go on first (kill -CONT), then open it",
            guest.pid
        ),
    );
    assert_eq!(guest.state(), Some('T'));
    before.holds(guest.pid, "stopped");
    guest.signal(Signal::SIGCONT);
    goes_on(guest);
}

#[test]
fn a_process_that_somebody_else_traces() {
    if !installed("strace") {
        return skip("calls: already traced", "no strace");
    }
    let guest = cat();
    let mut strace = Command::new("strace")
        .args(["-o", "/dev/null", "-p", &guest.pid.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("strace");
    let traced = format!("TracerPid:\t{}", strace.id());
    until(LIMIT, "strace", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid)).ok()?;
        status.contains(&traced).then_some(())
    });
    let tracer = strace.id();
    refused(
        open(guest.pid),
        &format!(
            "lancet: process {} is already traced by process {tracer} (strace): end that tracer first; a process can have only one",
            guest.pid
        ),
    );
    counted_by_the_kernel(guest.pid);
    kill(Pid::from_raw(strace.id() as i32), Signal::SIGINT).expect("strace ends");
    strace.wait().expect("its end");
    goes_on(guest);
}

/// BPF programs stop no thread, so whoever traces the process does not matter.
fn counted_by_the_kernel(pid: i32) {
    if let Some(reason) = crate::bpf::refused() {
        return skip("BPF for a traced process", reason);
    }
    let mut command = lancet();
    command.args(["syscalls", "-c", "--by", "bpf", "--for", "200ms", "-p"]);
    let output = run(command.arg(pid.to_string()), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
}

#[test]
fn somebody_elses_process() {
    if !is_root() || !installed("setpriv") {
        return skip("calls: not ours", "it needs root and setpriv");
    }
    let folder = TempDir::new("calls-refused");
    let tool = copy_for_all(&folder);
    let guest = cat();
    let mut program = Command::new(&tool);
    program.args(["calls", "-x", "write", "-p", &guest.pid.to_string()]);
    refused(
        as_nobody(&program),
        &format!(
            "lancet: the kernel does not allow us to trace process {}: it belongs to user 0, we are user 65534 without CAP_SYS_PTRACE: run lancet as that user or as root",
            guest.pid
        ),
    );
    goes_on(guest);
}

#[test]
fn a_program_of_32_bits() {
    let folder = TempDir::new("calls-bits");
    let mut child = match program_of_32_bits(&folder) {
        Ok(child) => child,
        Err(why) => return skip("calls: 32-bit program", why),
    };
    let (pid, program) = (child.pid(), folder.join("program"));
    refused(
        open(child.pid()),
        &format!(
            "lancet: process {pid}: {} is a program for 32-bit x86; only 64-bit x86-64 programs can be opened",
            program.display()
        ),
    );
    assert!(child.runs(), "it goes on");
}

/// `lancet calls … | head -1`: no failure, and the hooks are gone.
#[test]
fn a_reader_that_has_seen_enough() {
    let mut guest = cat();
    let before = Snapshot::take(guest.pid);
    let mut child = open(guest.pid)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lancet");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let first = said.next().expect("it says something").expect("text");
    assert!(first.contains("functions hooked"), "{first}");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    guest.tell("line");
    guest.expect("line");
    lines.read_line(&mut line).expect("a line");
    assert!(line.contains("write(1, \"line"), "{line}");
    drop(lines);
    let status = until(LIMIT, "lancet to end", || {
        // It notices when it has something to say.
        guest.tell("more");
        guest.expect("more");
        child.try_wait().expect("our child")
    });
    assert_eq!(status.code(), Some(0), "{:?}", said.collect::<Vec<_>>());
    before.text_holds(guest.pid, "closed pipe");
    goes_on(guest);
}

#[test]
fn a_disk_that_is_full() {
    let mut guest = cat();
    let before = Snapshot::take(guest.pid);
    let watch = hooked(calls(guest.pid, &["-x", "write", "-o", "/dev/full"]));
    guest.tell("line");
    guest.expect("line");
    let output = watch.end();
    assert_eq!(output.code(), 1, "{output:?}");
    let last = output.stderr.lines().last().unwrap_or_default();
    assert!(last.contains("No space left"), "{output:?}");
    before.text_holds(guest.pid, "full disk");
    goes_on(guest);
}

/// Whatever lancet is just doing when the process ends, it ends too, and says so in a line.
#[test]
fn a_process_that_ends_at_any_instant() {
    let mut random = Random::new("ends");
    for round in 0..20 {
        let guest = cat();
        let mut child = calls(guest.pid, &["-x", "*@libc*", "-o", "/dev/null"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("lancet");
        std::thread::sleep(std::time::Duration::from_micros(random.below(300_000)));
        match round % 2 {
            0 => guest.signal(Signal::SIGKILL),
            _ => drop(guest.end()),
        }
        let status = until(LIMIT, "lancet to end", || {
            child.try_wait().expect("our child")
        });
        let output = child.wait_with_output().expect("its output");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(status.code(), Some(0 | 1 | 4)), "{status}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(said.contains("lancet: "), "{said}");
    }
}

#[test]
fn lancet_itself() {
    refused_to_itself("calls -x write");
}

/// A thread may have a stricter filter than its process: hooks run in it too, and it would be killed for what they call.
#[test]
fn a_thread_that_locked_itself_in() {
    if !is_root() {
        return skip("a_thread_that_locked_itself_in", "only root reads filters");
    }
    let Some(path) = program("sandboxed.c") else {
        return;
    };
    let guest = Guest::ready(&mut Command::new(path));
    let worker = guest.preface[0]
        .strip_prefix("worker ")
        .expect("it says who");
    let output = run(&mut calls(guest.pid, &["-c", "-x", "strtol"]), LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    let line = format!(
        "lancet: process {} is under seccomp: the filter of its thread {worker} does not allow mmap",
        guest.pid
    );
    assert!(output.stderr.starts_with(&line), "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    let mut guest = guest;
    guest.tell("");
    assert_eq!(guest.end().0, ["answer right"]);
}

/// What is asked for is nowhere: that is said at once, and the exit code says that nothing could be seen.
#[test]
fn what_hooks_nothing() {
    for asked in [
        &["-x", "nosuchfunction"][..],
        &["-x", "malloc@nosuchlibrary"],
        &["-l", "nosuchlibrary"],
        &["--preset", "sql"],
    ] {
        let guest = cat();
        let watch = hooked(calls(guest.pid, asked));
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{asked:?}: {}", output.stderr);
        for said in [
            "nothing in it fits what was asked for",
            "nothing was hooked, so no call could be seen",
        ] {
            assert!(output.stderr.contains(said), "{asked:?}: {}", output.stderr);
        }
        goes_on(guest);
    }
}

/// A condition about what no function has is answered at once, in one line for all of them.
#[test]
fn a_condition_that_nothing_can_meet() {
    let guest = cat();
    for (asked, said) in [
        (
            &["-x", "read"][..],
            "no call of read is shown: it has no argument 9",
        ),
        (
            &["-x", "read", "-x", "write"],
            "no call of 2 functions is shown (read and others), because of each is true: it has no argument 9",
        ),
    ] {
        let arguments = [asked, &["--where", "arg9 > 5"]].concat();
        let output = run(&mut calls(guest.pid, &arguments), LIMIT);
        assert_eq!(output.code(), 4, "{asked:?}: {}", output.stderr);
        let nothing = "has what --where asks about: there is nothing to wait for";
        assert!(
            output.stderr.contains(said)
                && output.stderr.contains(nothing)
                && output.stderr.lines().count() == 2,
            "{asked:?}: {}",
            output.stderr
        );
    }
    goes_on(guest);
}

/// What nothing can bring any more ends the command at once.
#[test]
fn what_can_never_be_hooked_is_not_waited_for() {
    let guest = cat();
    for asked in ["nosuchfunction@MAIN", "nosuch*@MAIN"] {
        let output = run(&mut calls(guest.pid, &["-x", asked]), LIMIT);
        assert_eq!(output.code(), 4, "{asked}: {}", output.stderr);
        assert!(
            output.stderr.contains("there is nothing to wait for")
                && !output.stderr.contains(" yet"),
            "{asked}: {}",
            output.stderr
        );
    }
    goes_on(guest);
}

/// What the compiler puts into each program is no pattern's, and there for who names it.
#[test]
fn the_compilers_own_functions_are_asked_for_by_name_only() {
    let Some(path) = program("values.c") else {
        return;
    };
    let asked = |what: &str| {
        let mut command = lancet();
        command
            .args(["calls", "-c", "-v", "-L", "-L", "-x", what, "--"])
            .arg(&path);
        run(&mut command, LIMIT)
    };
    let own = [
        "_init",
        "_fini",
        "_start",
        "frame_dummy",
        "__do_global_dtors_aux",
    ];
    let all = asked("*@MAIN");
    let named =
        |output: &str, name: &str| output.split([' ', ',', ':', '\n']).any(|word| word == name);
    for name in own {
        assert!(!named(&all.stderr, name), "{name}: {all:?}");
    }
    let one = asked("_init@MAIN");
    assert!(named(&one.stderr, "_init"), "{one:?}");
}

/// Of many that cannot be hooked, the number is said; who wants to know more asks.
#[test]
fn refusals_are_counted() {
    let guest = cat();
    let said = |options: &[&str]| {
        let mut arguments = vec!["-c", "-x", "*@libc*", "--for", "10ms"];
        arguments.extend(options);
        let output = run(&mut calls(guest.pid, &arguments), LIMIT);
        let lines = output
            .stderr
            .lines()
            .filter(|line| line.contains("not hooked"));
        lines.map(String::from).collect::<Vec<_>>()
    };
    let counted = said(&[]);
    assert!(
        matches!(&counted[..], [one] if one.contains(" not hooked; ") && one.ends_with("; run it again with -v to be told all")),
        "{counted:?}"
    );
    let named = said(&["-v"]);
    assert!(
        !named.is_empty()
            && named
                .iter()
                .all(|line| line.starts_with("lancet: not hooked: ")),
        "{named:?}"
    );
    goes_on(guest);
}
