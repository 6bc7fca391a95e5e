//! The copy itself, while it lives: a memory limit ends it first, it leaves no core, and has no descriptor of the program's.

use std::fs;
use std::process::{Command, Stdio};

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
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let descriptors: Vec<String> = links.map(|link| link.display().to_string()).collect();
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let (limits, score) = (read("limits")?, read("oom_score_adj")?);
        // Of all others it has closed its own before: it keeps the end of its pipe that it writes to.
        let is_ready = matches!(&descriptors[..], [pipe] if pipe.starts_with("pipe:"));
        is_ready.then_some(Copy { limits, score })
    });
    assert!(tool.wait().expect("our child").success());
    copy
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
