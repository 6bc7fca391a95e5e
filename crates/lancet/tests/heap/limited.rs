//! Where a copy cannot be had or not be kept, or its file not be written: one line says so, and the program goes on.

use std::path::Path;
use std::process::Command;

use crate::support::{
    Group, Guest, Interpreter, LIMIT, TempDir, as_nobody, fixtures, is_root, lancet, run, say, skip,
};

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

/// Programs of 64 MiB that wait for a line, one for each way in which a copy is made.
fn waiting() -> [Command; 3] {
    let [mut ruby, mut perl, mut php] =
        ["ruby", "perl", "php"].map(|name| Interpreter::system(name).command());
    ruby.args([
        "-e",
        "$a = 'x' * (64 << 20); puts :ready; $stdout.flush; $stdin.gets",
    ]);
    perl.args([
        "-e",
        "$| = 1; $a = 'x' x (64 << 20); print \"ready\\n\"; <STDIN>",
    ]);
    php.args([
        "-d",
        "memory_limit=-1",
        "-r",
        "$a = str_repeat('x', 64 << 20); echo \"ready\\n\"; fgets(STDIN);",
    ]);
    [ruby, perl, php]
}

/// Saves a snapshot of a program that must be refused with one line, which has this in it, and goes on.
fn refused(guest: Guest, what: &str) {
    let folder = TempDir::new("heap-refused");
    let output = save(guest.pid, &folder.join("heap"));
    assert_eq!(output.code(), 1, "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains(what), "{output:?}");
    assert!(!folder.join("heap").exists(), "nothing is left");
    guest.ends_with_nothing("limited");
}

#[test]
fn no_language_is_copied_beyond_its_memory_limit() {
    for command in waiting() {
        let Some(group) = Group::make("heap-languages") else {
            return;
        };
        let guest = Guest::start("limited", group.inside(&command));
        guest.expect("ready");
        group.write("memory.limit_in_bytes", group.charged() + (16 << 20));
        refused(guest, "its memory limit leaves");
    }
}

#[test]
fn no_language_is_copied_beyond_the_limit_of_its_processes() {
    for command in waiting() {
        let Some(group) = Group::of("pids", "heap-pids") else {
            return;
        };
        let guest = Guest::start("limited", group.inside(&command));
        guest.expect("ready");
        // As many as it has.
        let now = std::fs::read_to_string(format!("/proc/{}/status", guest.pid)).expect("it runs");
        let threads = now.lines().find_map(|line| line.strip_prefix("Threads:"));
        group.write("pids.max", threads.expect("it has some").trim());
        refused(guest, "pids.max");
    }
}

/// A snapshot that cannot be written whole is not there, and one that was there before is.
#[test]
fn a_file_that_was_cut_does_not_have_its_name() {
    let ruby = Interpreter::system("ruby");
    let folder = TempDir::new("heap-cut");
    let mut command = ruby.command();
    command.args(["-e", "puts :ready; $stdout.flush; $stdin.gets"]);
    let guest = Guest::start("cut", command);
    guest.expect("ready");
    let file = folder.join("heap");
    std::fs::write(&file, "before").expect("a file");
    // Files of this shell have at most four blocks.
    let limited = |path: &Path| {
        let tool = lancet();
        let mut shell = Command::new("bash");
        shell
            .args(["-c", "ulimit -f 4; exec \"$@\"", "bash"])
            .arg(tool.get_program());
        shell.args(["heap", "-p", &guest.pid.to_string(), "--save"]);
        run(shell.arg(path), LIMIT)
    };
    for path in [&file, &folder.join("new")] {
        let output = limited(path);
        assert_eq!(output.code(), 1, "{output:?}");
        let wanted = format!(
            "lancet: cannot write to {}: File too large (os error 27)",
            path.display()
        );
        assert_eq!(
            output.stderr.lines().last(),
            Some(wanted.as_str()),
            "{output:?}"
        );
    }
    let full = save(guest.pid, Path::new("/dev/full"));
    assert_eq!(full.code(), 1, "{full:?}");
    let wanted = "lancet: cannot write to /dev/full: No space left on device (os error 28)";
    assert_eq!(full.stderr.lines().last(), Some(wanted), "{full:?}");
    // One that cannot be written at all is refused before the process is opened.
    let nowhere = save(guest.pid, &folder.join("none/heap"));
    assert!(
        nowhere.code() == 1 && nowhere.stderr.lines().count() == 1,
        "{nowhere:?}"
    );
    let left = std::fs::read_dir(folder.join("."))
        .expect("a folder")
        .count();
    assert_eq!(left, 1, "nothing is left but what was there");
    assert_eq!(
        std::fs::read_to_string(&file).expect("it is there"),
        "before"
    );
    save(guest.pid, &file);
    assert_ne!(std::fs::read(&file).expect("it is there"), b"before");
    guest.ends_with_nothing("cut");
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
