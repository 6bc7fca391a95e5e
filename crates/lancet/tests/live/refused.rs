//! What cannot be opened: exit code 1, one line that says what, why and what to do, guest untouched.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Guest, LIMIT, Ruby, Snapshot, TempDir, Watch, as_nobody, beside, born, copy_for_all, fixtures,
    installed, is_root, lancet, mem, program_of_32_bits, refused, rubies, run, skip, until,
};

/// A Ruby that sleeps, in its state.
fn sleeper(ruby: &Ruby) -> Guest {
    let guest = Guest::script(ruby, "states/sleep.rb", &[]);
    guest.expect("ready");
    guest.settle('S');
    guest
}

#[test]
fn a_process_that_is_not_there() {
    let _turn = beside();
    let mut child = Command::new("true").spawn().expect("true");
    child.wait().expect("its end");
    refused(mem(child.id() as i32), &["there is no process"]);
    refused(mem(i32::MAX), &["there is no process"]);
}

#[test]
fn a_zombie() {
    let _turn = beside();
    let mut child = Command::new("true").spawn().expect("true");
    let pid = child.id() as i32;
    until(LIMIT, "a zombie", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") Z ").then_some(())
    });
    refused(mem(pid), &["zombie"]);
    child.wait().expect("its end");
}

#[test]
fn a_stopped_guest_stays_stopped() {
    let _turn = beside();
    for ruby in rubies("stopped") {
        let guest = sleeper(&ruby);
        guest.signal(Signal::SIGSTOP);
        guest.settle('T');
        let before = Snapshot::take(guest.pid);
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", guest.pid)).expect("maps");
        refused(mem(guest.pid), &["is stopped", "kill -CONT"]);
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
    let _turn = beside();
    if !installed("strace") {
        return skip("already traced", "no strace");
    }
    let guest = sleeper(&Ruby::system());
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
    refused(mem(guest.pid), &["already traced", "strace"]);
    kill(Pid::from_raw(strace.id() as i32), Signal::SIGINT).expect("strace ends");
    strace.wait().expect("its end");
    guest.settle('S');
    guest.answers("1000");
}

#[test]
fn somebody_elses_process() {
    let _turn = beside();
    if !is_root() || !installed("setpriv") {
        return skip(
            "not ours",
            "it needs root and setpriv to become somebody else",
        );
    }
    let folder = TempDir::new("refused");
    let tool = copy_for_all(&folder);
    let guest = sleeper(&Ruby::system());
    let mut program = Command::new(&tool);
    program.args(["mem", "--for", "1ms", "-p", &guest.pid.to_string()]);
    refused(as_nobody(&program), &["user 0", "65534", "CAP_SYS_PTRACE"]);
    guest.answers("1000");
}

#[test]
fn a_kernel_thread() {
    let _turn = beside();
    let name = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if name.trim() != "kthreadd" {
        return skip("kernel thread", "process 2 is none here (a PID namespace)");
    }
    refused(mem(2), &["process 2", "kernel thread"]);
}

#[test]
fn a_program_without_ruby() {
    let _turn = beside();
    let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
    let pid = child.id() as i32;
    until(LIMIT, "sleep to come up", || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        maps.contains("libc.so").then_some(())
    });
    let before = Snapshot::take(pid);
    refused(mem(pid), &["not a Ruby"]);
    before.holds(pid, "sleep");
    child.kill().expect("it runs");
    child.wait().expect("its end");
}

#[test]
fn a_program_of_32_bits() {
    let _turn = beside();
    let folder = TempDir::new("bits");
    let mut child = match program_of_32_bits(&folder) {
        Ok(child) => child,
        Err(why) => return skip("32-bit program", why),
    };
    refused(mem(child.id() as i32), &["32-bit"]);
    assert!(child.try_wait().expect("our child").is_none(), "it goes on");
    child.kill().expect("it runs");
    child.wait().expect("its end");
}

#[test]
fn lancet_itself() {
    let _turn = beside();
    // Its own id is known to the shell that becomes it.
    let tool = lancet().get_program().to_string_lossy().into_owned();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" mem --for 1ms -p $$", &tool]);
    refused(shell, &["lancet itself"]);
}

#[test]
fn a_second_lancet_while_one_is_inside() {
    let _turn = beside();
    for ruby in rubies("second lancet") {
        let mut guest = Guest::script(&ruby, "live/births.rb", &[]);
        guest.expect("ready");
        let watch = Watch::open(mem(guest.pid));
        guest.tell("500");
        guest.find("made ");
        let owner = format!("process {}", watch.pid());
        refused(
            mem(guest.pid),
            &["already opened by another lancet", &owner],
        );
        // The first one has not noticed.
        guest.tell("500");
        guest.find("made ");
        let report = watch.report();
        let count = born(report.of(guest.pid), "births.rb:9:String");
        assert_eq!(count, 1000, "{ruby}");
        guest.ends_with("answer 0");
    }
}

/// Two at the same moment: one gets in, the other is refused or comes after it.
#[test]
fn two_lancets_at_once() {
    let _turn = beside();
    let mut guest = Guest::script(&Ruby::system(), "live/births.rb", &[]);
    guest.expect("ready");
    for _ in 0..20 {
        let both = [0, 1].map(|_| {
            let mut command = mem(guest.pid);
            command.args(["--for", "30ms"]);
            Watch::start(command)
        });
        let outputs = both.map(Watch::end);
        let good = outputs.iter().filter(|output| output.code() == 0).count();
        assert!(good >= 1, "{outputs:#?}");
        for output in outputs.iter().filter(|output| output.code() != 0) {
            assert_eq!(output.code(), 1, "{output:?}");
            assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        }
    }
    guest.tell("500");
    guest.find("made ");
    guest.ends_with("answer 0");
}

/// With Ractors at work births would be lost, or the guest: it is not opened.
#[test]
fn a_guest_with_ractors() {
    let _turn = beside();
    for ruby in rubies("ractors") {
        if ruby.version() < (3, 0) {
            skip("ractors", format_args!("{ruby} has none"));
            continue;
        }
        let mut program = ruby.command();
        let code = "r = Ractor.new { Ractor.receive }; $stdout.puts 'ready'; $stdout.flush; \
                    $stdin.gets; r.send(1); $stdout.puts \"answer #{r.take}\"; $stdout.flush";
        program.args(["-W0", "-e", code]);
        let mut guest = Guest::start("ractors", program);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        refused(mem(guest.pid), &["Ractors"]);
        before.holds(guest.pid, "ractors");
        guest.tell("");
        guest.ends_with("answer 1");
    }
}

/// Wrong usage is another exit code.
#[test]
fn wrong_usage() {
    let _turn = beside();
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
