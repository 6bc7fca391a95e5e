//! `tune --watch`: when it ends, and that its table comes once.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tune::rules::RULES;

use crate::harness::{text, tune};
use crate::support::{await_handler, tool};

/// How the last line of a table begins.
fn checks() -> String {
    format!("{} checks", RULES.len())
}

#[test]
fn watching_ends_with_the_process_or_with_a_signal() {
    use nix::sys::signal::{Signal, kill};
    let mut guest = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = guest.id().to_string();
    let watch = |args: &[&str]| {
        let mut command = Command::new(tool());
        command.args(["tune", "--watch"]).args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    // The table is there when it goes on to watch.
    let mut watching = watch(&["--sample", "50ms", "-p", &pid]);
    let mut out = BufReader::new(watching.stdout.take().unwrap());
    let mut line = String::new();
    let last = checks();
    while !line.starts_with(&last) {
        line.clear();
        assert!(
            out.read_line(&mut line).unwrap() > 0,
            "it ended before the table did"
        );
    }
    guest.kill().unwrap();
    guest.wait().unwrap();
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(
        text(&output).contains(&format!("process {pid} has ended")),
        "{}",
        text(&output)
    );

    // An hour between two looks is no reason to wait for it. The handler is there when the status says so.
    let watching = watch(&["--sample", "1h"]);
    let pid = nix::unistd::Pid::from_raw(watching.id() as i32);
    let begin = Instant::now();
    await_handler(pid.as_raw(), libc::SIGINT);
    kill(pid, Signal::SIGINT).unwrap();
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn watching_ends_by_itself() {
    let begin = Instant::now();
    let output = tune(&["--watch", "--for", "500ms", "--sample", "50ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(
        text(&output).matches(&checks()).count(),
        1,
        "the table comes once"
    );
    assert!(begin.elapsed() < Duration::from_secs(60));
}
