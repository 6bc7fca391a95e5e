//! A process that runs another program again and again while it is opened: it lives, and is opened at one of its programs.

use std::process::Command;

use crate::support::{Guest, LIMIT, installed, lancet, run, skip};

/// Runs itself every `$1` microseconds, as long as it is not killed.
const AGAIN: &str =
    "select undef, undef, undef, $ARGV[0] / 1e6; exec $^X, '-e', $ENV{AGAIN}, $ARGV[0]; die";

fn again(micros: u32) -> Guest {
    let mut perl = Command::new("perl");
    perl.env("AGAIN", AGAIN);
    let first = format!("$| = 1; print qq(ready\\n); {AGAIN}");
    let guest = Guest::start("again", perl.args(["-e", &first, &micros.to_string()]));
    guest.expect("ready");
    guest
}

/// No command says that it has ended. What else is in the way, as a VM that is not made yet, may be said.
#[test]
fn what_runs_another_program_is_not_called_ended() {
    if !installed("perl") {
        return skip("execs", "no perl");
    }
    let commands = [
        "calls -c -x malloc --for 100ms",
        "syscalls -c --for 100ms",
        "stack",
        "heap",
        "patch --list",
    ];
    for command in commands {
        for micros in [1000, 20_000, 100_000] {
            let guest = again(micros);
            let mut lancet = lancet();
            lancet.args(command.split(' '));
            lancet.args(["-p", &guest.pid.to_string()]);
            let output = run(&mut lancet, LIMIT);
            let what = format!(
                "{command}, every {micros} µs: {} {}",
                output.code(),
                output.stderr
            );
            assert!(!output.stderr.contains("ended"), "{what}");
            assert!(!output.stderr.contains("there is no process"), "{what}");
            assert!(
                !matches!(guest.state(), None | Some('Z' | 't' | 'T')),
                "{what}"
            );
            guest.signal(nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// With time enough between two programs it is opened at one of them.
#[test]
fn a_process_is_opened_at_its_next_program() {
    if !installed("perl") {
        return skip("execs", "no perl");
    }
    let mut opened = 0;
    for round in 0..8 {
        let guest = again(300_000 + round * 37_000);
        let mut lancet = lancet();
        lancet.args(["calls", "-c", "-x", "malloc", "--for", "50ms"]);
        lancet.args(["-p", &guest.pid.to_string()]);
        let output = run(&mut lancet, LIMIT);
        assert!(
            !output.stderr.contains("ended"),
            "round {round}: {output:?}"
        );
        opened += u32::from(output.code() == 0);
        guest.signal(nix::sys::signal::Signal::SIGKILL);
    }
    assert!(opened > 0, "it was never opened");
}

/// One that has no time between two programs is given up in one line, or its calls are counted in another way.
#[test]
fn a_process_without_rest_is_given_up_in_one_line() {
    if !installed("perl") {
        return skip("execs without rest", "no perl");
    }
    let guest = again(0);
    for command in [
        "calls -c -x malloc --for 100ms",
        "syscalls -c --for 100ms -U calls,name",
    ] {
        let mut lancet = lancet();
        lancet.args(command.split(' '));
        lancet.args(["-p", &guest.pid.to_string()]);
        let output = run(&mut lancet, LIMIT);
        let why = "runs one program after the other (exec), and none long enough to be opened";
        let was_said = output.stderr.lines().filter(|line| line.contains(why));
        // On a quiet machine it may be opened at one of its programs, and is over with that.
        assert!(was_said.count() <= 1, "{command}: {output:?}");
        if output.stderr.contains(why) && command.starts_with("syscalls") {
            assert!(output.stdout.contains("execve"), "{output:?}");
        }
        let is_well = [0, 1, 4].contains(&output.code());
        assert!(is_well, "{command}: {output:?}");
    }
    guest.signal(nix::sys::signal::Signal::SIGKILL);
}
