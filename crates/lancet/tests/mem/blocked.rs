//! Blocked in a system call that Ruby does not begin again when it is interrupted.
//!
//! To be asked something, a guest that sleeps is woken. Ruby code must not see that: not as
//! `Errno::EINTR` from `File.open` of a FIFO, not as a short read. Where that cannot be done without
//! harm, lancet has to refuse; that it does so is right here too, the guest's answer is what counts.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Guest, mem, rubies, run, say, until};

/// See `fixtures/ruby/live/blocked.rb`.
const CALLS: [&str; 20] = [
    "open_read",
    "open_write",
    "gets",
    "read",
    "readpartial",
    "sysread",
    "write",
    "recv",
    "sock_sysread",
    "recv_timeout",
    "read_timeout",
    "accept",
    "sysaccept",
    "select",
    "wait_readable",
    "copy_stream",
    "flock",
    "fcntl",
    "wait",
    "backtick",
];

#[test]
fn a_blocking_call_does_not_notice() {
    let mut wrong = Vec::new();
    for ruby in rubies("blocked") {
        for call in CALLS {
            let mut guest = Guest::script(&ruby, "live/blocked.rb", &[call]);
            guest.expect("ready");
            guest.settle('S');
            for _ in 0..2 {
                let mut command = mem(guest.pid);
                command.args(["--no-gc", "--for", "1ms"]);
                let output = run(&mut command, Duration::from_secs(90));
                if output.status.code() != Some(0) {
                    let last = output.stderr.lines().last().unwrap_or_default().to_owned();
                    say(format_args!("{ruby}, {call}: {last}"));
                }
            }
            // One that has failed already listens no more.
            let _ = guest.try_tell("");
            let (lines, status) = guest.end();
            if lines != ["answer right"] {
                wrong.push(format!("{ruby}, {call}: {lines:?}, {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Processor time of a process in ticks of 10 ms (`utime`, field 14 of proc(5)'s stat).
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let field = fields.split(' ').nth(11).expect("utime");
    field.parse().expect("a number")
}

/// A thread keeps Ruby's lock for good (one long call of C code). lancet says so when its patience of 10 s is over, adds no second wait for
/// leaving, and lets the main thread go, which it had ask for the lock.
#[test]
fn a_lock_that_is_never_given_away_is_not_waited_for_twice() {
    const KEEPS: &str = "$stdout.sync = true; Thread.new { $stdin.gets; 'x'.crypt('$6$rounds=900000000$saltsaltsalt') }; puts 'ready'; \
                         File.open(ARGV[0]).read";
    let folder = crate::support::TempDir::new("kept-lock");
    let fifo = folder.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let mut guest = Guest::asleep(Command::new("ruby").args(["-e", KEEPS]).arg(&fifo));
    let before = ticks(guest.pid);
    guest.tell("");
    let runs = || (ticks(guest.pid) > before + 20).then_some(());
    until(Duration::from_secs(30), "the lock is kept", runs);

    let began = Instant::now();
    let output = run(
        mem(guest.pid).args(["--for", "1s"]),
        Duration::from_secs(90),
    );
    let took = began.elapsed();
    assert_eq!(output.status.code(), Some(1), "{}", output.stderr);
    assert!(
        output.stderr.contains("did not answer within"),
        "{}",
        output.stderr
    );
    assert!(
        took < Duration::from_secs(19),
        "{took:?}: {}",
        output.stderr
    );
    let status = fs::read_to_string(format!("/proc/{}/status", guest.pid)).expect("it lives");
    assert!(status.contains("TracerPid:\t0\n"), "it is still traced");
    guest.settle('S');
}
