//! Where a copy cannot be had, or not be kept: one line says so, and the program goes on.

use crate::support::{Group, Guest, Interpreter, TempDir, as_nobody, fixtures, is_root, say, skip};

use super::taken::save;

/// Every write of the program to a page copies it while there is a copy of the process, which the group has no room for. The kernel
/// ends the copy then, and not the program, which is far larger.
#[test]
fn a_memory_limit_ends_the_copy_and_not_the_program() {
    let Some(group) = Group::make("heap") else {
        return;
    };
    let folder = TempDir::new("heap-limited");
    let ruby = Interpreter::system("ruby");
    let mut command = ruby.command();
    command.arg(fixtures().join("ruby/heap/large.rb"));
    let mut guest = Guest::start("limited", group.inside(&command));
    guest.expect("ready");
    say(format_args!("{} MiB are used", group.charged() >> 20));
    group.write("memory.limit_in_bytes", group.charged() + (24 << 20));
    for round in 0..3 {
        let output = save(guest.pid, &folder.join("heap"));
        let ended = output.stderr.contains("it was ended (by a memory limit");
        assert!(output.code() == 0 || ended, "{output:?}");
        say(format_args!(
            "round {round}: {}",
            if ended {
                "the copy was ended"
            } else {
                "there was room"
            }
        ));
    }
    guest.tell("");
    guest.ends_with("right");
}

#[test]
fn a_user_who_may_have_no_more_processes_is_told_so() {
    if !is_root() {
        return skip(
            "heap limited",
            "a program of another user is started as root",
        );
    }
    let ruby = Interpreter::system("ruby");
    let folder = TempDir::new("heap-processes");
    let mut command = ruby.command();
    command.args([
        "-e",
        "Process.setrlimit(Process::RLIMIT_NPROC, 1); puts :ready; $stdout.flush; $stdin.gets",
    ]);
    let guest = Guest::start("nobody's", as_nobody(&command));
    guest.expect("ready");
    let output = save(guest.pid, &folder.join("heap"));
    assert_eq!(output.code(), 1, "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(
        lines.len() == 1 && lines[0].contains("RLIMIT_NPROC"),
        "{output:?}"
    );
    guest.ends_with_nothing("limited");
}
