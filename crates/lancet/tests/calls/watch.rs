//! lancet at work on a guest's calls.

use std::process::Command;

use crate::support::{Output, Snapshot, Watch, lancet};

/// What it says when the hooks are set.
pub const HOOKED: &str = "lancet: process ";

/// `lancet calls` for a process, whatever hooks cost it: many of these guests do nothing but call what is hooked. Or, where that
/// is the first argument, `lancet syscalls`, which watches whatever it costs anyway.
pub fn calls(pid: i32, arguments: &[&str]) -> Command {
    let mut command = lancet();
    if arguments.first() == Some(&"syscalls") {
        command.args(arguments).args(["-p", &pid.to_string()]);
        return command;
    }
    command.arg("calls");
    if !arguments.contains(&"--budget") {
        command.args(["--budget", "100"]);
    }
    command.args(arguments).args(["-p", &pid.to_string()]);
    command
}

/// Starts it and waits until its hooks are set.
pub fn hooked(command: Command) -> Watch {
    let mut watch = Watch::start(command);
    watch.until(HOOKED);
    watch
}

/// What it says, as a loss, when the hook on the unwinder must stay.
const STAYS: &str = "the unwinder's hook stays";

/// The functions of glibc 2.36 by which threads begin and end that have such places.
const OF_THREADS: [&str; 4] = [
    "start_thread",
    "pthread_create",
    "__libc_start_call_main",
    "__pthread_kill_implementation",
];

/// Whether it says, as losses, that the kernel has counted calls where no hook is, and all of these places are among those of the C library
/// that cannot be hooked, by which threads begin and end (glibc 2.36).
pub fn lacks_places_of_threads(output: &Output) -> bool {
    let mut said = output
        .stderr
        .lines()
        .filter_map(|line| line.split_once(": not seen by hooks: "))
        .filter_map(|(_, text)| text.rsplit_once(" is (")?.1.split_once(");"))
        .peekable();
    let is_known = |place: &str| {
        let function = place.strip_suffix(" in libc.so.6")?.split_once('+')?.0;
        OF_THREADS.contains(&function).then_some(())
    };
    let are_known = |places: &str| places.split(", ").all(|place| is_known(place).is_some());
    said.peek().is_some() && said.all(|(places, _)| are_known(places))
}

/// Ctrl-C, and a good end: nothing is lost, but for a hook on the unwinder where a frame of ours is found in memory, and for calls at the
/// places of threads. [`text_holds`] then looks whether that is all that has changed.
pub fn left(watch: Watch, what: &str) -> Output {
    ended_well(watch.interrupt(), what)
}

/// A good end of a command that ended by itself; see [`left`].
pub fn ended_well(output: Output, what: &str) -> Output {
    let lacks = output.stderr.contains(STAYS) || lacks_places_of_threads(&output);
    let expected = if lacks { 4 } else { 0 };
    assert_eq!(output.code(), expected, "{what}: {}", output.stderr);
    output
}

/// The same where calls may be lost, by a signal handler that leaves hooks by longjmp or because there are more rows than a
/// table holds: that is said.
pub fn left_with_losses(watch: Watch, what: &str) -> Output {
    let output = watch.interrupt();
    let said = [
        STAYS,
        " calls and returns are not shown, ",
        " calls were not counted, ",
        " calls are counted in one row of others, ",
    ];
    let lost = said.iter().any(|text| output.stderr.contains(text));
    let expected = if lost || lacks_places_of_threads(&output) {
        4
    } else {
        0
    };
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
    let stays = output.stderr.contains(STAYS);
    before.text_holds_but(pid, what, if stays { UNWINDERS } else { 0 });
}

/// How many calls a table of `-c` has of a function, those that were left included; `None` = it is not in it. The columns
/// are where its head says.
pub fn calls_of(table: &str, function: &str) -> Option<u64> {
    let head = table
        .lines()
        .find(|line| line.starts_with("% time") && line.ends_with("function"))?;
    let chars = |text: &str| text.chars().count();
    let end = chars(head.split_once(" calls")?.0) + chars(" calls");
    let name = chars(head) - chars("function");
    table.lines().find_map(|line| {
        let row = line
            .rsplit_once(" (")
            .filter(|(_, note)| note.ends_with(" left without a return)"));
        let row: Vec<char> = row.map_or(line, |(row, _)| row).chars().collect();
        let what: String = row.get(name..)?.iter().collect();
        let figures: String = row[..end].iter().collect();
        let count = figures.rsplit(' ').next().filter(|_| what == function)?;
        count.parse().ok()
    })
}

/// The figure of a function in a table of `-c`; 0 = it is not in it.
pub fn counted(text: &str, function: &str) -> u64 {
    calls_of(text, function).unwrap_or(0)
}
