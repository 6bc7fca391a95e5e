//! lancet at work on a guest's calls.

use std::process::Command;

use crate::support::{Output, Snapshot, Watch, lancet};

/// What it says when the hooks are set.
const HOOKED: &str = "lancet: process ";

/// `lancet calls` for a process.
pub fn calls(pid: i32, arguments: &[&str]) -> Command {
    let mut command = lancet();
    command
        .arg("calls")
        .args(arguments)
        .args(["-p", &pid.to_string()]);
    command
}

/// Starts it and waits until its hooks are set.
pub fn hooked(command: Command) -> Watch {
    let mut watch = Watch::start(command);
    watch.until(HOOKED);
    watch
}

/// Ctrl-C, and a good end.
pub fn left(watch: Watch, what: &str) -> Output {
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
    output
}

/// The same where a signal handler leaves hooks by longjmp: what they had begun to say is lost, and that is said.
pub fn left_with_losses(watch: Watch, what: &str) -> Output {
    let output = watch.interrupt();
    let lost = output.stderr.contains(" lost: ");
    let expected = if lost { 4 } else { 0 };
    assert_eq!(output.code(), expected, "{what}: {}", output.stderr);
    output
}

/// Whether anything was hooked; the exit code says the same.
pub fn hooked_something(output: &Output, what: &str) -> bool {
    let nothing = output.stderr.contains("nothing was hooked");
    let code = if nothing { 4 } else { 0 };
    assert_eq!(output.code(), code, "{what}: {}", output.stderr);
    !nothing
}

/// Functions that unwinders ask and that we hook for ourselves, in one guest at most.
const UNWINDERS: usize = 3;

/// The text is as it was. Where it said that its hook on the unwinder stays for frames that are parked, that one is.
pub fn text_holds(before: &Snapshot, pid: i32, what: &str, output: &Output) {
    let stays = output.stderr.contains("the unwinder's hook stays");
    before.text_holds_but(pid, what, if stays { UNWINDERS } else { 0 });
}

/// The figure of a function in a table of `-c`, with the calls that were left; 0 = it is not in it.
pub fn counted(output: &Output, text: &str, function: &str) -> u64 {
    let row = text
        .lines()
        .map(|line| match line.rsplit_once(" (") {
            Some((row, note)) if note.ends_with(" left without a return)") => row,
            _ => line,
        })
        .find(|line| line.split_whitespace().last() == Some(function));
    let Some(row) = row else {
        return 0;
    };
    let count = row.split_whitespace().rev().nth(1);
    let count = count.and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("{row}: {}", output.stderr))
}
