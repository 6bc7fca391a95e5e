//! What cannot be opened, and what ends in the middle: one line that says what, why and what to do, the guest untouched or left
//! as it was.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Guest, LIMIT, Random, Snapshot, TempDir, as_nobody, beside, copy_for_all, installed, is_root,
    lancet, program_of_32_bits, refused, skip, until,
};
use crate::watch::{calls, hooked, left, text_holds};

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
    let _turn = beside();
    let mut child = Command::new("true").spawn().expect("true");
    let pid = child.id() as i32;
    until(LIMIT, "a zombie", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") Z ").then_some(())
    });
    refused(open(pid), &["zombie"]);
    child.wait().expect("its end");
    refused(open(pid), &["there is no process"]);
    refused(open(i32::MAX), &["there is no process"]);
}

#[test]
fn a_stopped_process_stays_stopped() {
    let _turn = beside();
    let guest = cat();
    guest.signal(Signal::SIGSTOP);
    guest.settle('T');
    let before = Snapshot::take(guest.pid);
    refused(open(guest.pid), &["is stopped", "kill -CONT"]);
    assert_eq!(guest.state(), Some('T'));
    before.holds(guest.pid, "stopped");
    guest.signal(Signal::SIGCONT);
    goes_on(guest);
}

#[test]
fn a_process_that_somebody_else_traces() {
    let _turn = beside();
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
    refused(open(guest.pid), &["already traced", "strace"]);
    kill(Pid::from_raw(strace.id() as i32), Signal::SIGINT).expect("strace ends");
    strace.wait().expect("its end");
    goes_on(guest);
}

#[test]
fn somebody_elses_process() {
    let _turn = beside();
    if !is_root() || !installed("setpriv") {
        return skip("calls: not ours", "it needs root and setpriv");
    }
    let folder = TempDir::new("calls-refused");
    let tool = copy_for_all(&folder);
    let guest = cat();
    let mut program = Command::new(&tool);
    program.args(["calls", "-x", "write", "-p", &guest.pid.to_string()]);
    refused(as_nobody(&program), &["user 0", "65534", "CAP_SYS_PTRACE"]);
    goes_on(guest);
}

#[test]
fn a_program_of_32_bits() {
    let _turn = beside();
    let folder = TempDir::new("calls-bits");
    let mut child = match program_of_32_bits(&folder) {
        Ok(child) => child,
        Err(why) => return skip("calls: 32-bit program", why),
    };
    refused(open(child.id() as i32), &["32-bit"]);
    assert!(child.try_wait().expect("our child").is_none(), "it goes on");
    child.kill().expect("it runs");
    child.wait().expect("its end");
}

/// A second lancet is told who is there, and the first does not notice.
#[test]
fn a_second_lancet_while_one_is_inside() {
    let _turn = beside();
    let mut guest = cat();
    let before = Snapshot::take(guest.pid);
    let watch = hooked(open(guest.pid));
    let owner = format!("process {}", watch.pid());
    refused(
        open(guest.pid),
        &["already opened by another lancet", &owner],
    );
    guest.tell("line");
    guest.expect("line");
    let output = left(watch, "the first");
    assert!(output.stdout.contains("write(1, \"line"), "{output:?}");
    text_holds(&before, guest.pid, "two", &output);
    goes_on(guest);
}

/// `lancet calls … | head -1`: no failure, and the hooks are gone.
#[test]
fn a_reader_that_has_seen_enough() {
    let _turn = beside();
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
    let _turn = beside();
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
    let _turn = beside();
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
    let _turn = beside();
    let tool = lancet().get_program().to_string_lossy().into_owned();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" calls -x write -p $$", &tool]);
    refused(shell, &["lancet itself"]);
}
