//! Where a copy cannot be had, or not be kept: one line says so, and the program goes on.

use std::process::Command;

use crate::support::{Group, Guest, Interpreter, TempDir, as_nobody, fixtures, is_root, say, skip};

use super::taken::{save, save_despite_limit};

/// Every write of the program to a page copies it while there is a copy of the process. Where the group has no room for that no copy is made,
/// unless the user takes the risk: then the copy is ended first, as a rule, and lancet ends with one line.
#[test]
fn within_a_memory_limit_no_copy_is_made() {
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
    let output = save(guest.pid, &folder.join("heap"));
    assert_eq!(output.code(), 1, "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(
        lines.len() == 1
            && lines[0].contains("its memory limit leaves")
            && lines[0].contains("--despite-limit"),
        "{output:?}"
    );
    group.write("memory.limit_in_bytes", group.charged() * 2 + (64 << 20));
    let output = save(guest.pid, &folder.join("heap"));
    assert_eq!(output.code(), 0, "twice as much is room enough: {output:?}");
    guest.tell("");
    guest.ends_with("right");
    the_risk_is_taken(&group, &command, &folder);
}

fn the_risk_is_taken(group: &Group, command: &Command, folder: &TempDir) {
    group.write("memory.limit_in_bytes", u64::MAX >> 1);
    let guest = Guest::start("limited", group.inside(command));
    guest.expect("ready");
    group.write("memory.limit_in_bytes", group.charged() + (24 << 20));
    let output = save_despite_limit(guest.pid, &folder.join("heap"));
    let lines = output.stderr.lines().count();
    assert!(matches!(output.code(), 0 | 1) && lines == 1, "{output:?}");
    let is_saved = output.code() == 0;
    say(format_args!("the risk was taken: saved: {is_saved}"));
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

/// What has no VM has no objects: the line says what there is for it.
#[test]
fn a_process_without_a_vm_is_told_what_there_is_for_it() {
    let mut command = Command::new("cat");
    command.stdin(std::process::Stdio::piped());
    let mut cat = command.spawn().expect("cat");
    let folder = TempDir::new("heap-cat");
    let output = save(cat.id() as i32, &folder.join("heap"));
    cat.kill().expect("it runs");
    cat.wait().expect("it is ours");
    assert_eq!(output.code(), 1, "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(
        lines.len() == 1 && lines[0].contains("no Python, Perl or PHP: lancet heap --rss"),
        "{output:?}"
    );
}

/// The copy would be the first process of a PID namespace, and its end the end of that.
#[test]
fn where_children_are_made_in_another_namespace_no_copy_is_made() {
    if !is_root() {
        return skip("heap limited", "a PID namespace is made as root");
    }
    let folder = TempDir::new("heap-namespace");
    let mut command = Command::new("unshare");
    // The kernel refuses threads there, so it is no Ruby.
    let script = "print('ready', flush=True); input(); print('right', flush=True)";
    command.args(["--pid", "/usr/bin/python3", "-c", script]);
    let mut guest = Guest::start("namespace", command);
    guest.expect("ready");
    let output = save(guest.pid, &folder.join("heap"));
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("another PID namespace"),
        "{output:?}"
    );
    guest.tell("");
    guest.ends_with("right");
}
