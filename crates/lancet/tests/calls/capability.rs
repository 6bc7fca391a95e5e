//! lancet with `CAP_SYS_PTRACE` and no other capability, as in a container that was started with `--cap-drop=ALL --cap-add=SYS_PTRACE`: it
//! may trace the processes of others, but may not open their files. `/proc/PID/mem` is one of these.

use std::process::Command;

use crate::support::{
    Guest, LIMIT, Output, Snapshot, TempDir, Watch, as_nobody, copy_for_all, installed, is_root,
    lancet, rubies, run, skip,
};

/// A command of root's that has this capability alone.
fn with_ptrace_alone(command: &Command) -> Command {
    let mut limited = Command::new("setpriv");
    limited.args([
        "--bounding-set=-all,+sys_ptrace",
        "--inh-caps=-all",
        "--securebits=-noroot",
    ]);
    limited.arg(command.get_program()).args(command.get_args());
    limited
}

/// The same of another user's.
fn as_nobody_with_ptrace(command: &Command) -> Command {
    let mut limited = Command::new("setpriv");
    limited.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all,+sys_ptrace",
        "--ambient-caps=-all,+sys_ptrace",
    ]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir("/tmp");
    limited
}

/// Whether the kernel gives a program this capability and no other.
fn is_possible(test: &str) -> bool {
    if !is_root() || !installed("setpriv") {
        skip(test, "it needs root and setpriv");
        return false;
    }
    let mut show = Command::new("grep");
    show.args(["CapEff", "/proc/self/status"]);
    let output = run(&mut with_ptrace_alone(&show), LIMIT);
    let possible = output.stdout.trim_end().ends_with("0000000000080000");
    if !possible {
        skip(test, format_args!("there is no such process: {output:?}"));
    }
    possible
}

fn of(words: &[&str], pid: i32) -> Command {
    let mut command = lancet();
    command.args(words).args(["-p", &pid.to_string()]);
    command
}

fn done(command: &Command) -> Output {
    let output = run(&mut with_ptrace_alone(command), LIMIT);
    assert_eq!(output.code(), 0, "{command:?}: {}", output.stderr);
    output
}

/// A program of another user that answers each line.
fn answering(command: &Command) -> Guest {
    Guest::ready(&mut as_nobody(command))
}

/// A cat of another user, which is one already.
fn cat() -> Guest {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo ready; exec cat"]);
    let mut guest = answering(&shell);
    guest.tell("cat");
    guest.expect("cat");
    guest
}

#[test]
fn functions_and_system_calls_of_others_are_seen() {
    if !is_possible("calls: CAP_SYS_PTRACE alone") {
        return;
    }
    let mut guest = cat();
    let before = Snapshot::take(guest.pid);
    for (words, seen) in [
        (
            &["calls", "--budget", "100", "-x", "read", "-x", "write"][..],
            "write(",
        ),
        (&["calls", "--budget", "100", "-c", "-x", "write"], " write"),
        (&["syscalls"], "write("),
        (&["syscalls", "-c"], " write"),
        (&["syscalls", "--no-modify"], "write("),
    ] {
        let mut watch = Watch::start(with_ptrace_alone(&of(words, guest.pid)));
        watch.until("lancet: process ");
        assert_eq!(guest.answer_to("answer"), "answer");
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{words:?}: {}", output.stderr);
        assert!(output.stdout.contains(seen), "{words:?}: {output:?}");
        before.text_holds(guest.pid, &format!("{words:?}"));
    }
    let output = done(&of(&["stack", "--native"], guest.pid));
    assert!(output.stdout.contains("read"), "{output:?}");
    before.holds(guest.pid, "seen with CAP_SYS_PTRACE alone");
    guest.ends_with_nothing("seen with CAP_SYS_PTRACE alone");
}

/// A kill while its code is written in pieces leaves the guest computing, and the next attach puts all of it back.
#[test]
fn a_kill_while_code_is_written_in_pieces_hurts_nobody() {
    if !is_possible("calls: killed with CAP_SYS_PTRACE alone") {
        return;
    }
    let mut guest = cat();
    let before = Snapshot::take(guest.pid);
    let words = ["calls", "--budget", "100", "-c", "-x", "*@libc.so.6"];
    let mut random = crate::support::Random::new("capability killed");
    for round in 0..10 {
        let watch = Watch::start(with_ptrace_alone(&of(&words, guest.pid)));
        std::thread::sleep(std::time::Duration::from_micros(random.below(1_500_000)));
        watch.kill();
        assert_eq!(guest.answer_to("answer"), "answer", "round {round}");
    }
    let again = of(
        &["calls", "-c", "-x", "getppid", "--for", "50ms"],
        guest.pid,
    );
    done(&again);
    before.text_holds(guest.pid, "killed");
    guest.ends_with_nothing("killed with CAP_SYS_PTRACE alone");
}

const SCRIPT: &str = "$stdout.sync = true
kept = []
puts 'ready'
while gets
  100.times { kept << ('x' * 100 + kept.size.to_s) }
  puts 'answer'
end";

#[test]
fn objects_and_lines_of_others_are_seen() {
    if !is_possible("mem: CAP_SYS_PTRACE alone") {
        return;
    }
    for ruby in rubies("mem: CAP_SYS_PTRACE alone") {
        let mut command = ruby.command();
        command.args(["-e", SCRIPT]);
        let mut guest = answering(&command);
        let before = Snapshot::take(guest.pid);
        let mut watch = Watch::start(with_ptrace_alone(&of(&["mem"], guest.pid)));
        watch.until("lancet: opened process ");
        assert_eq!(guest.answer_to("more"), "answer", "{ruby}");
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{ruby}: {}", output.stderr);
        assert!(output.stdout.contains("-e:5:String"), "{ruby}: {output:?}");
        before.text_holds(guest.pid, "mem");
        let output = done(&of(&["heap"], guest.pid));
        assert!(output.stdout.contains("String"), "{ruby}: {output:?}");
        let output = done(&of(&["stack"], guest.pid));
        assert!(output.stdout.contains("-e:4"), "{ruby}: {output:?}");
        before.text_holds(guest.pid, "heap and stack");
        assert_eq!(guest.answer_to("more"), "answer", "{ruby}");
        guest.ends_with_nothing("seen with CAP_SYS_PTRACE alone");
    }
}

/// What that capability does not suffice for is said: the file and what is missing.
#[test]
fn what_takes_more_says_so() {
    if !is_possible("heap: CAP_SYS_PTRACE alone") {
        return;
    }
    let guest = answering(Command::new("sh").args(["-c", "echo ready; exec cat"]));
    let words = ["heap", "--rss"];
    let output = run(&mut with_ptrace_alone(&of(&words, guest.pid)), LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("pagemap") && output.stderr.contains("CAP_DAC_READ_SEARCH"),
        "{output:?}"
    );
    guest.ends_with_nothing("it takes more");
}

#[test]
fn another_user_with_that_capability_may_too() {
    if !is_possible("calls: another user with CAP_SYS_PTRACE") {
        return;
    }
    let folder = TempDir::new("calls-capability");
    let mut guest = Guest::ready(Command::new("sh").args(["-c", "echo ready; exec cat"]));
    guest.tell("cat");
    guest.expect("cat");
    let before = Snapshot::take(guest.pid);
    let mut command = Command::new(copy_for_all(&folder));
    command.args(["calls", "--budget", "100", "-x", "write", "-p"]);
    command.arg(guest.pid.to_string());
    let mut watch = Watch::start(as_nobody_with_ptrace(&command));
    watch.until("lancet: process ");
    assert_eq!(guest.answer_to("answer"), "answer");
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(output.stdout.contains("write("), "{output:?}");
    before.holds(guest.pid, "another user");
    guest.ends_with_nothing("another user");
}
