//! The copy itself, while it lives: a memory limit ends it first, it leaves no core, and has no descriptor of the program's, and is waited for where it gets no
//! processor.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Guest, Interpreter, LIMIT, TempDir, fixtures, lancet, until};

use super::killed::running;

/// Starts a snapshot, and looks at the copy when it has its pipe and nothing else.
fn look(guest: &Guest) -> Copy {
    let folder = TempDir::new("heap-copy");
    let mut command = lancet();
    command.args(["heap", "-p", &guest.pid.to_string(), "--save"]);
    command.arg(folder.join("heap"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut tool = command.spawn().expect("lancet starts");
    let copy = until(LIMIT, "a copy that has its pipe", || {
        let pid = *running(guest.pid).first()?;
        // It makes its pipe when it has set its limits.
        has_its_pipe(pid)?.then_some(())?;
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let (limits, score) = (read("limits")?, read("oom_score_adj")?);
        Some(Copy { limits, score })
    });
    assert!(tool.wait().expect("our child").success());
    copy
}

/// Whether a copy has the end of its pipe that it writes to, and nothing else: it has closed the descriptors of the program before.
fn has_its_pipe(pid: i32) -> Option<bool> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let descriptors: Vec<String> = links.map(|link| link.display().to_string()).collect();
    Some(matches!(&descriptors[..], [pipe] if pipe.starts_with("pipe:")))
}

struct Copy {
    limits: String,
    score: String,
}

impl Copy {
    /// A program that the machine has for cores is given one in spite of a limit of 0, but not of 1 (core(5)).
    fn leaves_the_program_alone(&self) {
        let mut lines = self.limits.lines();
        let core = lines.find_map(|line| line.strip_prefix("Max core file size"));
        let words: Vec<&str> = core.expect("a limit").split_whitespace().collect();
        assert_eq!(words[..2], ["1", "1"], "{}", self.limits);
        assert_eq!(self.score.trim(), "1000");
    }
}

#[test]
fn a_copy_ends_before_its_program_and_leaves_no_core() {
    for (name, script) in [("ruby", "heap/large.rb"), ("python", "heap/waits.py")] {
        let guest = Guest::script(&Interpreter::system(name), script, &[]);
        guest.expect("ready");
        look(&guest).leaves_the_program_alone();
    }
}

/// It closes its own descriptors before it opens a file.
#[test]
fn the_copy_of_a_program_without_a_free_descriptor_ends_before_it() {
    let mut command: Command = Interpreter::system("python").command();
    command.arg(fixtures().join("python/heap/full.py"));
    let guest = Guest::start("full", command);
    guest.expect("ready");
    look(&guest).leaves_the_program_alone();
    guest.ends_with_nothing("full");
}

/// A copy that gets no processor on a busy machine is silent for long, and does not hang. Here it is stopped, which is the same to whoever
/// reads its pipe and to its own alarm, and needs no machine that is busy.
#[test]
fn a_copy_that_does_not_come_to_run_is_waited_for() {
    /// Longer than a copy may be silent that runs or sleeps.
    const SILENT: Duration = Duration::from_secs(8);
    let mut command: Command = Interpreter::system("ruby").command();
    let script =
        "$all = Array.new(700_000) { |n| [n.to_s] }; puts :ready; $stdout.flush; $stdin.gets";
    let guest = Guest::start("silent", command.args(["-e", script]));
    guest.expect("ready");
    let mut rounds = 0;
    let mut was_silent = false;
    while !was_silent {
        assert!(rounds < 10, "no copy was caught in {rounds} rounds");
        rounds += 1;
        let mut tool = lancet();
        tool.args(["heap", "--json", "-p", &guest.pid.to_string()]);
        let mut tool = tool
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("lancet starts");
        let copy = until(LIMIT, "a copy that writes", || {
            let pid = *running(guest.pid).first()?;
            has_its_pipe(pid)?.then_some(pid)
        });
        // Once it has ended its id is still its own, because the program has not reaped it.
        let copy = Pid::from_raw(copy);
        let is_stopped = kill(copy, Signal::SIGSTOP).is_ok();
        let began = Instant::now();
        while began.elapsed() < SILENT && tool.try_wait().expect("our child").is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        // It may have written everything before.
        was_silent = is_stopped && began.elapsed() >= SILENT;
        let _ = kill(copy, Signal::SIGCONT);
        let output = tool.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
    guest.ends_with_nothing("silent");
}
