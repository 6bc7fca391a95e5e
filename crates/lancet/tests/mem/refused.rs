//! What cannot be opened: exit code 1, one line that says what, why and what to do, guest untouched.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Guest, Interpreter, Killed, LIMIT, Snapshot, TempDir, Watch, as_nobody, assert_shown,
    bears_no_ractors, copy_for_all, fixtures, installed, is_root, lancet, mem, program_of_32_bits,
    refused, refused_to_itself, rubies, run, skip, until,
};

/// A Ruby that sleeps, in its state.
fn sleeper(ruby: &Interpreter) -> Guest {
    let guest = Guest::script(ruby, "states/sleep.rb", &[]);
    guest.expect("ready");
    guest.settle('S');
    guest
}

#[test]
fn a_process_that_is_not_there() {
    let mut child = Command::new("true").spawn().expect("true");
    child.wait().expect("its end");
    let gone = |pid: i32| {
        format!(
            "lancet: there is no process {pid}: look it up again, for instance with pgrep -af NAME"
        )
    };
    refused(mem(child.id() as i32), &gone(child.id() as i32));
    refused(mem(i32::MAX), &gone(i32::MAX));
}

#[test]
fn a_zombie() {
    let mut child = Command::new("true").spawn().expect("true");
    let pid = child.id() as i32;
    until(LIMIT, "a zombie", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") Z ").then_some(())
    });
    refused(
        mem(pid),
        &format!(
            "lancet: process {pid} has ended and only waits for its parent to collect it (zombie): nothing of it is left to look at; name its parent or another worker"
        ),
    );
    child.wait().expect("its end");
}

#[test]
fn a_stopped_guest_stays_stopped() {
    for ruby in rubies("stopped") {
        let guest = sleeper(&ruby);
        guest.signal(Signal::SIGSTOP);
        guest.settle('T');
        let before = Snapshot::take(guest.pid);
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", guest.pid)).expect("maps");
        refused(
            mem(guest.pid),
            &format!(
                "lancet: process {} is stopped (SIGSTOP, Ctrl-Z or a cgroup freezer): let it go on first (kill -CONT), then open it",
                guest.pid
            ),
        );
        assert_eq!(guest.state(), Some('T'), "{ruby}");
        let after = std::fs::read_to_string(format!("/proc/{}/maps", guest.pid)).expect("maps");
        assert_eq!(after, maps, "{ruby}");
        before.holds(guest.pid, "stopped");
        guest.signal(Signal::SIGCONT);
        guest.settle('S');
        guest.answers("1000");
    }
}

#[test]
fn a_guest_that_somebody_else_traces() {
    if !installed("strace") {
        return skip("already traced", "no strace");
    }
    let guest = sleeper(&Interpreter::system("ruby"));
    let mut strace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-p", &guest.pid.to_string()])
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
        mem(guest.pid),
        &format!(
            "lancet: process {} is already traced by process {tracer} (strace): end that tracer first; a process can have only one",
            guest.pid
        ),
    );
    kill(Pid::from_raw(strace.id() as i32), Signal::SIGINT).expect("strace ends");
    strace.wait().expect("its end");
    guest.settle('S');
    guest.answers("1000");
}

#[test]
fn somebody_elses_process() {
    if !is_root() || !installed("setpriv") {
        return skip(
            "not ours",
            "it needs root and setpriv to become somebody else",
        );
    }
    let folder = TempDir::new("refused");
    let tool = copy_for_all(&folder);
    let guest = sleeper(&Interpreter::system("ruby"));
    let mut program = Command::new(&tool);
    program.args(["mem", "--for", "1ms", "-p", &guest.pid.to_string()]);
    refused(
        as_nobody(&program),
        &format!(
            "lancet: the kernel does not allow us to trace process {}: it belongs to user 0, we are user 65534 without CAP_SYS_PTRACE: run lancet as that user or as root",
            guest.pid
        ),
    );
    guest.answers("1000");
}

#[test]
fn a_kernel_thread() {
    let name = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if name.trim() != "kthreadd" {
        return skip("kernel thread", "process 2 is none here (a PID namespace)");
    }
    refused(
        mem(2),
        "lancet: process 2 cannot be opened: it has no program (a kernel thread, or it is ending)",
    );
}

#[test]
fn a_program_without_ruby() {
    let mut child = Killed::start(Command::new("sleep").arg("600")).expect("sleep");
    let pid = child.pid();
    until(LIMIT, "sleep to come up", || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        maps.contains("libc.so").then_some(())
    });
    let before = Snapshot::take(pid);
    refused(
        mem(pid),
        &format!(
            "lancet: process {pid} is not a Ruby lancet can read: no Ruby is loaded in it: mem counts what Ruby, Python and PHP make; of a server name its Ruby, Python or PHP (pgrep -a 'ruby|python|php'), and `lancet mem -p {pid} --native` says who takes memory from its allocator"
        ),
    );
    before.holds(pid, "sleep");
    assert!(child.runs(), "it goes on");
}

#[test]
fn a_program_of_32_bits() {
    let folder = TempDir::new("bits");
    let mut child = match program_of_32_bits(&folder) {
        Ok(child) => child,
        Err(why) => return skip("32-bit program", why),
    };
    let (pid, program) = (child.pid(), folder.join("program"));
    refused(
        mem(child.pid()),
        &format!(
            "lancet: process {pid}: {} is a program for 32-bit x86; only 64-bit x86-64 programs can be opened",
            program.display()
        ),
    );
    assert!(child.runs(), "it goes on");
}

#[test]
fn lancet_itself() {
    refused_to_itself("mem --for 1ms");
}

/// Two at the same moment: both get in.
#[test]
fn two_lancets_at_once() {
    let mut guest = Guest::script(&Interpreter::system("ruby"), "live/births.rb", &[]);
    guest.expect("ready");
    for _ in 0..20 {
        let both = [0, 1].map(|_| {
            let mut command = mem(guest.pid);
            command.args(["--for", "30ms"]);
            Watch::start(command)
        });
        let outputs = both.map(Watch::end);
        for output in outputs {
            assert_eq!(output.code(), 0, "{output:?}");
        }
    }
    guest.tell("500");
    guest.find("made ");
    guest.ends_with("answer 0");
}

/// With Ractors at work births would be lost, or the guest: it is not opened.
#[test]
fn a_guest_with_ractors() {
    for ruby in rubies("ractors") {
        if !bears_no_ractors(&ruby) {
            skip("ractors", format_args!("{ruby} has none, or bears them"));
            continue;
        }
        let mut program = ruby.command();
        let code = "r = Ractor.new { Ractor.receive }; $stdout.puts 'ready'; $stdout.flush; \
                    $stdin.gets; r.send(1); $stdout.puts \"answer #{r.respond_to?(:value) ? r.value : r.take}\"; $stdout.flush";
        program.args(["-W0", "-e", code]);
        let mut guest = Guest::start("ractors", program);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let output = run(&mut mem(guest.pid), LIMIT);
        assert_eq!((output.code(), &*output.stdout), (1, ""), "{output:?}");
        let pid = guest.pid.to_string();
        // Its third number is the patch level of this Ruby.
        let version = output
            .stderr
            .split_whitespace()
            .skip_while(|word| *word != "Ruby")
            .nth(1);
        let version = version.unwrap_or_default().to_owned();
        let (major, minor) = ruby.numbers();
        assert!(
            version.starts_with(&format!("{major}.{minor}.")),
            "{output:?}"
        );
        let why = if major >= 4 {
            "makes objects in all of them at the same time, which lancet does not count"
        } else {
            "crashes or loses births when they are watched (Ruby bugs 18464, 19112)"
        };
        let named = [(&*pid, "PID"), (&*version, "VERSION"), (why, "WHY")];
        assert_shown(
            &output.stderr,
            &named,
            r"
            lancet: process PID runs several Ractors, and Ruby VERSION WHY: lancet heap --rss says what its memory is used for
            ",
        );
        before.holds(guest.pid, "ractors");
        guest.tell("");
        guest.ends_with("answer 1");
    }
}

/// Wrong usage is another exit code.
#[test]
fn wrong_usage() {
    for arguments in [
        &["mem"][..],
        &["mem", "-p", "0"],
        &["mem", "-p", "x"],
        &["no"],
    ] {
        let output = run(lancet().args(arguments), LIMIT);
        assert_eq!(output.code(), 2, "{arguments:?}: {output:?}");
    }
    assert!(fixtures().is_dir(), "the fixtures are there");
}
