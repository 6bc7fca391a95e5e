//! Programs that we start: seen from before their first instruction to their end, and no other for it.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::machine::{built, program};
use crate::support::{LIMIT, Output, TempDir, assert_shown, lancet, rubies, run};
use crate::watch::counted;

const ROUNDS: u64 = 2000;

/// `lancet calls OPTIONS PROGRAM…`, to its end.
fn started(options: &[&str], words: &[&str]) -> Output {
    run(&mut command(options, words), LIMIT)
}

fn command(options: &[&str], words: &[&str]) -> Command {
    let mut command = lancet();
    command.args(["calls", "--budget", "100", "--max-wait", "30s"]);
    command.args(options).args(words);
    command
}

fn rounds() -> String {
    ROUNDS.to_string()
}

#[test]
fn every_call_is_seen_from_the_constructors_on_however_it_is_linked() {
    for flags in [
        &[][..],
        &["-Wl,-z,now"],
        &["-no-pie"],
        &["-static"],
        &["-static-pie"],
    ] {
        let Some(path) = built("family.cpp", flags) else {
            return;
        };
        let path = path.to_str().expect("plain");
        let output = started(
            &["-x", "h_*", "-x", "main", "--"],
            &[path, "return", &rounds()],
        );
        assert_eq!(output.code(), 7, "{flags:?}: {}", output.stderr);
        let told = |what: &str| output.stderr.matches(what).count() as u64;
        assert_eq!(told("h_round("), ROUNDS, "{flags:?}: {}", output.stderr);
        assert_eq!(told("h_begin("), 1, "{flags:?}: {}", output.stderr);
        assert_eq!(told("main("), 1, "{flags:?}: {}", output.stderr);
        assert!(
            output.stderr.ends_with("+++ exited (status 7) +++\n"),
            "{flags:?}: {}",
            output.stderr
        );
    }
}

/// ltrace's way: no `--`, and the program's own options are its own.
#[test]
fn the_first_word_that_is_no_option_is_the_program() {
    let folder = TempDir::new("started");
    let out = folder.join("out");
    let output = started(
        &["-o", out.to_str().expect("plain"), "-e", "write@MAIN"],
        &["sh", "-c", "echo \"$0 $1\"; exit 3", "-x", "-p"],
    );
    assert_eq!(output.code(), 3, "{output:?}");
    assert_eq!(output.stdout, "-x -p\n");
    let text = std::fs::read_to_string(&out).expect("what was told");
    assert!(text.contains("write(1, \"-x -p\\n\", 6)"), "{text}");
}

/// Nothing is lost with a program that is killed, because we are its tracer.
#[test]
fn a_program_that_is_killed_is_read_to_its_last_call() {
    let Some(path) = program("family.cpp") else {
        return;
    };
    let path = path.to_str().expect("plain");
    for (mode, code, name) in [
        ("kill", 137, "SIGKILL"),
        ("segv", 139, "SIGSEGV"),
        ("abort", 134, "SIGABRT"),
    ] {
        let output = started(&["-x", "h_round"], &[path, mode, &rounds()]);
        assert_eq!(output.code(), code, "{mode}: {}", output.stderr);
        let told = output.stderr.matches("h_round(").count() as u64;
        assert_eq!(told, ROUNDS, "{mode}: {}", output.stderr);
        let last = format!("+++ killed by {name} +++\n");
        assert!(output.stderr.ends_with(&last), "{mode}: {}", output.stderr);
        let output = started(&["-c", "-x", "h_round"], &[path, mode, &rounds()]);
        let count = counted(&output.stderr, "h_round");
        assert_eq!(count, ROUNDS, "{mode}: {}", output.stderr);
    }
}

#[test]
fn signals_are_shown_unless_they_are_not_wanted() {
    let Some(path) = program("family.cpp") else {
        return;
    };
    let path = path.to_str().expect("plain");
    let line = "--- SIGUSR1 (User defined signal 1) ---";
    let output = started(&["-x", "h_round"], &[path, "signals", "5"]);
    assert_eq!(output.code(), 7, "{}", output.stderr);
    assert_eq!(output.stderr.matches(line).count(), 20, "{}", output.stderr);
    assert_eq!(output.stderr.matches("h_round(").count(), 25);
    let output = started(&["-b", "-x", "h_round"], &[path, "signals", "5"]);
    assert_eq!(output.stderr.matches("---").count(), 0, "{}", output.stderr);
}

/// A program that execs another is followed, and one that cannot goes on.
#[test]
fn what_it_runs_next_is_followed() {
    let Some(path) = program("family.cpp") else {
        return;
    };
    let path = path.to_str().expect("plain");
    for (mode, times) in [("exec", 2), ("exec_thread", 2), ("exec_fails", 2)] {
        let output = started(&["-x", "h_round"], &[path, mode, &rounds()]);
        assert_eq!(output.code(), 7, "{mode}: {}", output.stderr);
        let told = output.stderr.matches("h_round(").count() as u64;
        assert_eq!(told, times * ROUNDS, "{mode}: {}", output.stderr);
        let output = started(&["-c", "-x", "h_round"], &[path, mode, &rounds()]);
        let count = counted(&output.stderr, "h_round");
        assert_eq!(count, times * ROUNDS, "{mode}: {}", output.stderr);
    }
}

/// The script's line is known from the first call that the script makes.
#[test]
fn a_script_is_followed_by_line() {
    for ruby in rubies("calls started") {
        let mut command = lancet();
        command.args(["calls", "--max-wait", "30s", "-x", "write", "--"]);
        let own = ruby.command();
        command.arg(own.get_program()).args(own.get_args());
        for (name, value) in own.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command.args([
            "-e",
            "$stdout.sync = true\ndef show(i) = $stdout.write(\"hello #{i}\\n\")\n3.times { |i| show(i) }\nexit! 4",
        ]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 4, "{ruby}: {}", output.stderr);
        let told = output.stderr.lines().filter(|line| {
            line.contains("write(1, \"hello ") && line.contains(" ← -e:") && line.contains("show")
        });
        assert_eq!(told.count(), 3, "{ruby}: {}", output.stderr);
    }
}

#[test]
fn what_cannot_be_started_is_refused_in_one_line() {
    let folder = TempDir::new("refused");
    let (text, mute) = (folder.join("text"), folder.join("mute"));
    std::fs::write(&text, "neither a program nor a script\n").expect("a file");
    std::fs::write(&mute, "#!/nowhere/sh\n").expect("a file");
    for file in [&text, &mute] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    for (words, said) in [
        (
            &["/nowhere/at/all"][..],
            "lancet: cannot start PROGRAM: No such file or directory (os error 2)\n",
        ),
        (
            &["/etc/passwd"],
            "lancet: cannot start PROGRAM: Permission denied (os error 13)\n",
        ),
        (
            &[mute.to_str().expect("plain")],
            "lancet: cannot start PROGRAM: No such file or directory (os error 2)\n",
        ),
        (
            &["-u", "nobody-knows-him", "true"],
            "lancet: there is no user nobody-knows-him\n",
        ),
    ] {
        let output = started(&[], words);
        assert_eq!(output.code(), 1, "{words:?}: {}", output.stderr);
        assert_shown(&output.stderr, &[(words[0], "PROGRAM")], said);
    }
}

#[test]
fn it_runs_as_whom_we_say() {
    // SAFETY: no preconditions.
    if unsafe { libc::getuid() } != 0 {
        crate::support::skip("calls -u", "not root");
        return;
    }
    let output = started(&["-u", "nobody"], &["id", "-un"]);
    assert_eq!((output.code(), output.stdout.as_str()), (0, "nobody\n"));
}
