//! What is written where it cannot be written: one line and exit code 1 of every command, and the guest as it was.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::{Guest, LIMIT, Output, Snapshot, TempDir, is_root, lancet, run, skip};

/// A Perl that makes some system calls and `getppid` again and again, and says first that it does.
fn busy() -> Guest {
    let mut perl = Command::new("perl");
    let script =
        "$| = 1; print qq(ready\\n); while (1) { getppid; select undef, undef, undef, 0.001 }";
    let guest = Guest::start("busy", perl.args(["-e", script]));
    guest.expect("ready");
    guest
}

/// Has a shell do something before it becomes this program, or where `script` says so behind it.
fn from_shell(script: &str, program: &Command) -> Command {
    let mut shell = Command::new("bash");
    shell
        .args(["-c", script, "bash"])
        .arg(program.get_program());
    shell.args(program.get_args());
    shell
}

/// The command line parted by spaces, of this process and into this file.
fn of(line: &str, pid: i32, file: &Path) -> Command {
    let mut command = lancet();
    for word in line.split(' ') {
        match word {
            "PID" => command.arg(pid.to_string()),
            "FILE" => command.arg(file),
            word => command.arg(word),
        };
    }
    command
}

/// It ended with exit code 1, and its last line says so.
#[track_caller]
fn cannot(output: &Output, what: &str, why: &str) {
    assert_eq!(output.code(), 1, "{what}: {output:?}");
    let last = output.stderr.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("lancet: cannot write "),
        "{what}: {output:?}"
    );
    assert!(last.contains(why), "{what}: {output:?}");
}

/// The signal that the kernel sends with it ends a program that has said nothing about it.
#[test]
fn a_limit_for_the_size_of_files() {
    let folder = TempDir::new("file-size");
    let guest = busy();
    let before = Snapshot::take(guest.pid);
    for line in [
        "calls -x *@libc* --record FILE --for 50s -p PID",
        "calls -x getppid -o FILE --for 50s -p PID",
        "syscalls -o FILE --for 50s -p PID",
        "syscalls -ff -o FILE --for 50s -p PID",
        "heap --rss -o FILE -p PID",
        "stack --json -o FILE -p PID",
    ] {
        let file = folder.join("file");
        let command = from_shell("ulimit -f 1; exec \"$@\"", &of(line, guest.pid, &file));
        let output = run(&mut { command }, LIMIT);
        cannot(&output, line, "File too large (os error 27)");
        before.text_holds(guest.pid, line);
    }
}

/// Whether the signal is in the set of ignored ones that the program has shown.
fn ignores(output: &Output) -> bool {
    let set = output.stdout.trim_start_matches("SigIgn:").trim();
    let set = u64::from_str_radix(set, 16);
    let set = set.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    set >> (Signal::SIGXFSZ as i32 - 1) & 1 == 1
}

/// A program has what the shell has given to it, although lancet itself outlives the signal.
#[test]
fn a_started_program_keeps_what_it_does_with_the_signal() {
    let mut grep = Command::new("grep");
    grep.args(["SigIgn", "/proc/self/status"]);
    for (shell, ignored) in [("exec \"$@\"", false), ("trap '' XFSZ; exec \"$@\"", true)] {
        assert_eq!(ignores(&run(&mut from_shell(shell, &grep), LIMIT)), ignored);
        let mut with_us = lancet();
        with_us.args(["syscalls", "-c", "-o", "/dev/null", "--"]);
        with_us.arg(grep.get_program()).args(grep.get_args());
        let with_us = run(&mut from_shell(shell, &with_us), LIMIT);
        assert_eq!((with_us.code(), ignores(&with_us)), (0, ignored), "{shell}");
    }
}

/// Of each command an answer on standard output.
const ANSWERS: [&str; 20] = [
    "--version",
    "--help",
    "help calls",
    "calls --help",
    "calls -D help",
    "man",
    "man calls",
    "completions bash",
    "tune",
    "stack -p PID",
    "stack --for 50ms -p PID",
    "stack /bin/true",
    "heap --rss -p PID",
    "heap -p PID",
    "mem --for 50ms -p RUBY",
    "calls -c -x *@libc* --for 50ms -p PID",
    "calls --now -p PID",
    "syscalls --for 50ms -p PID",
    "syscalls -c --for 50ms -p PID",
    "patch --list -p PID",
];

/// Closed, full, and read by nobody any more, which alone is no failure (`lancet … | head`).
#[test]
fn standard_output_that_takes_nothing() {
    let nowhere = Path::new("/nowhere");
    let guest = busy();
    let before = Snapshot::take(guest.pid);
    let mut ruby = Command::new("ruby");
    ruby.args([
        "-e",
        "$stdout.sync = true; puts :ready; loop { +'text'; sleep 0.001 }",
    ]);
    let ruby = Guest::start("ruby", ruby);
    ruby.expect("ready");
    for line in ANSWERS {
        let (pid, words) = match line.contains("RUBY") {
            true => (ruby.pid, line.replace("RUBY", "PID")),
            false => (guest.pid, line.to_owned()),
        };
        let command = of(&words, pid, nowhere);
        let output = run(&mut from_shell("exec \"$@\" >&-", &command), LIMIT);
        let why = "cannot write to standard output: it is closed";
        cannot(&output, line, why);
        let output = run(&mut from_shell("exec \"$@\" >/dev/full", &command), LIMIT);
        let why = "cannot write to standard output: No space left on device";
        cannot(&output, line, why);
        // The reader ends before the writer begins.
        let broken = "exec 3> >(exit 0); wait $!; exec \"$@\" >&3";
        let output = run(&mut from_shell(broken, &command), LIMIT);
        assert_eq!(output.code(), 0, "{line}: {output:?}");
    }
    before.text_holds(guest.pid, "standard output");
}

/// What is opened does not become a stream that was closed: no message gets into a file of results, and a program that is started has
/// its streams closed as it would have without us.
#[test]
fn streams_that_are_closed_stay_closed() {
    let folder = TempDir::new("closed");
    let guest = busy();
    for closed in ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let file = folder.join("file");
        let line = "syscalls -e trace=getppid -o FILE --for 300ms -p PID";
        let script = format!("exec \"$@\" {closed}");
        let command = of(line, guest.pid, &file);
        let output = run(&mut from_shell(&script, &command), LIMIT);
        assert_eq!(output.code(), 0, "{closed}: {output:?}");
        let text = std::fs::read_to_string(&file).expect("the file");
        let others = text.lines().find(|line| !line.contains("getppid("));
        assert_eq!(others, None, "{closed}");
    }
    for (closed, number) in [("<&-", 0), (">&-", 1), ("2>&-", 2)] {
        let ask = format!("test -e /proc/self/fd/{number} && exit 7; exit 8");
        let mut command = lancet();
        command.args([
            "syscalls",
            "-c",
            "-o",
            "/dev/null",
            "--",
            "bash",
            "-c",
            &ask,
        ]);
        let script = format!("exec \"$@\" {closed}");
        let output = run(&mut from_shell(&script, &command), LIMIT);
        assert_eq!(output.code(), 8, "{closed}: {output:?}");
    }
}

/// Root in a folder of everybody's: nothing is made where somebody else's link leads.
#[test]
fn a_link_of_others_in_place_of_a_folder_is_refused() {
    if !is_root() {
        return skip("links of others", "only root can make them");
    }
    let folder = TempDir::new("links");
    let (shared, real) = (folder.join("shared"), folder.join("real"));
    for path in [&shared, &real] {
        std::fs::create_dir(path).expect("a folder");
    }
    std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("its mode");
    let link = shared.join("link");
    symlink(&real, &link).expect("a link");
    lchown(&link, Some(65534), Some(65534)).expect("its owner");
    let guest = busy();
    let before = Snapshot::take(guest.pid);
    for line in [
        "calls -x getppid -o FILE --for 50s -p PID",
        "calls -x getppid --record FILE --for 50s -p PID",
        "calls --now -o FILE -p PID",
        "syscalls -o FILE --for 50s -p PID",
        "syscalls -ff -o FILE --for 50s -p PID",
        "stack -o FILE -p PID",
        "heap --rss -o FILE -p PID",
        "heap --save FILE -p PID",
        "man --into FILE",
    ] {
        let file = match line {
            "man --into FILE" => link.clone(),
            _ => link.join("file"),
        };
        let output = run(&mut of(line, guest.pid, &file), LIMIT);
        let why = "shared/link is a link that belongs to user 65534, in a folder that others can write to";
        cannot(&output, line, why);
        before.text_holds(guest.pid, line);
    }
    let made = std::fs::read_dir(&real).expect("a folder").count();
    assert_eq!(made, 0);
}

/// What is told of a program that was started is lost; the program runs to its end, and its code is what counts.
#[test]
fn a_full_disk_does_not_end_what_was_started() {
    let folder = TempDir::new("full-started");
    for line in [
        "syscalls -o /dev/full",
        "syscalls --strace -o /dev/full",
        "syscalls -c -o /dev/full",
        "syscalls --by ptrace -o /dev/full",
        "calls -x malloc -o /dev/full",
        "calls -c -x malloc -o /dev/full",
    ] {
        let ran = folder.join(&line.replace(['/', ' '], "-"));
        let mut command = of(line, 0, Path::new(""));
        // A shell that has something to say until its last moment.
        let script =
            "for n in 1 2 3 4 5 6 7 8; do test -e /$n; done; sleep 0.3; echo done >\"$0\"; exit 7";
        command.args(["--", "sh", "-c", script]).arg(&ran);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 7, "{line}: {output:?}");
        let said = std::fs::read_to_string(&ran).unwrap_or_default();
        assert_eq!(said, "done\n", "{line}: it ran to its end");
        let full = "cannot write to /dev/full: No space left on device";
        assert!(output.stderr.contains(full), "{line}: {output:?}");
    }
}
