//! Blocked in a system call that Ruby does not begin again when it is interrupted.
//!
//! To be asked something, a guest that sleeps is woken. Ruby code must not see that: not as
//! `Errno::EINTR` from `File.open` of a FIFO, not as a short read. Where that cannot be done without
//! harm, lancet has to refuse; that it does so is right here too, the guest's answer is what counts.

use std::time::Duration;

use crate::support::{Guest, mem, rubies, run, say};

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
