//! What stays mapped in a guest, and in children of it that nobody followed, is small.

use std::process::Command;

use crate::support::Guest;
use crate::watch::{calls, hooked, left};

/// Allocates at a line, and makes a child at the line `fork`, which comes back through hooked functions and does the same
/// at SIGUSR1.
const FORKS: &str = "$| = 1; my @kept; print qq(ready\\n);
    sub work { push @kept, map { 'x' x $_ } 1 .. 1000; @kept = () }
    while (my $line = <STDIN>) {
        if ($line =~ /fork/) {
            my $pid = fork;
            if (!$pid) { $SIG{USR1} = sub { work; print qq(child works\\n) }; work; sleep 1 while 1 }
            print qq(child $pid\\n);
        } else { work; print qq(answer\\n) }
    }";

/// MiB of address space.
fn size(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse::<u64>().ok()).expect("KiB") / 1024
}

/// KiB of files in memory, which is where rings are, that a process holds.
fn shared_memory(pid: i32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it lives");
    let mut ours = false;
    let mut sum = 0;
    for line in maps.lines() {
        if line
            .split('-')
            .next()
            .is_some_and(|word| u64::from_str_radix(word, 16).is_ok())
        {
            ours = line.contains("memfd:lancet");
        } else if let (true, Some(rest)) = (ours, line.strip_prefix("Pss:")) {
            let word = rest.split_whitespace().next();
            sum += word.and_then(|word| word.parse::<u64>().ok()).expect("KiB");
        }
    }
    sum
}

#[test]
fn what_stays_mapped_is_small() {
    let mut command = Command::new("perl");
    command.args(["-e", FORKS]);
    let mut guest = Guest::start("forks", command);
    guest.expect("ready");
    let before = size(guest.pid);
    let most = before + 64;
    let mut children: Vec<i32> = Vec::new();
    for round in 0..3 {
        let watch = hooked(calls(guest.pid, &["-c", "-x", "malloc", "-x", "Perl_pp_*"]));
        assert_eq!(guest.answer_to("work"), "answer");
        guest.tell("fork");
        let child = guest.find("child ").parse().expect("a number");
        children.push(child);
        assert!(
            size(child) < most,
            "round {round}: the child has {} MiB",
            size(child)
        );
        left(watch, "forks");
        let now = size(guest.pid);
        assert!(now < most, "round {round}: {before} MiB, then {now}");
        for child in &children {
            assert_eq!(shared_memory(*child), 0, "round {round}");
        }
        // One that is killed leaves it for the next to clear up.
        hooked(calls(guest.pid, &["-c", "-x", "malloc"])).kill();
        assert_eq!(guest.answer_to("work"), "answer");
    }
    left(hooked(calls(guest.pid, &["-c", "-x", "malloc"])), "forks");
    assert!(
        size(guest.pid) < most,
        "{before} MiB, then {}",
        size(guest.pid)
    );
    for child in children {
        let watch = hooked(calls(child, &["-c", "-x", "malloc"]));
        let pid = nix::unistd::Pid::from_raw(child);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).expect("it lives");
        guest.expect("child works");
        let output = left(watch, "a child");
        assert!(output.stdout.contains("malloc"), "{output:?}");
        assert!(size(child) < most, "the child has {} MiB", size(child));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it lives");
    }
}
