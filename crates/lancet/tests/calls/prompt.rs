//! Calls that are rare are on the screen soon.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{LIMIT, say, wait};
use crate::watch::calls;

/// From a call to its line, where a call comes now and then.
const SOON: Duration = Duration::from_millis(50);
/// Between two calls: lancet looks more seldom where there was nothing for a tenth of a second.
const PAUSE: Duration = Duration::from_millis(200);

/// Each time is that of the whole way: our line to `cat`, its call of `write`, lancet's line to us. Half of them are
/// soon enough; the others may be late because the machine is busy.
#[test]
fn the_line_of_a_rare_call_is_there_soon() {
    let mut cat = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("cat runs");
    let mut stdin = cat.stdin.take().expect("a pipe");
    let mut command = calls(cat.id() as i32, &["-x", "write"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut lancet = command.spawn().expect("lancet runs");
    let mut stderr = BufReader::new(lancet.stderr.take().expect("a pipe"));
    let mut hooked = String::new();
    stderr.read_line(&mut hooked).expect("it is hooked");
    assert!(hooked.contains("1 of 1 functions hooked"), "{hooked}");
    let stdout = BufReader::new(lancet.stdout.take().expect("a pipe"));
    let (send, lines) = channel();
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let mut times: Vec<Duration> = (0..15)
        .map(|round| {
            thread::sleep(PAUSE);
            let began = Instant::now();
            // At once, so that it is one call.
            let text = format!("round {round}\n");
            stdin.write_all(text.as_bytes()).expect("cat reads");
            let line = lines.recv_timeout(LIMIT).expect("a line");
            assert!(line.contains(&format!("round {round}")), "{line}");
            began.elapsed()
        })
        .collect();
    say(format!("from a call to its line: {times:?}"));
    times.sort_unstable();
    assert!(times[times.len() / 2] <= SOON, "{times:?}");
    kill(Pid::from_raw(lancet.id() as i32), Signal::SIGINT).expect("our child");
    assert_eq!(
        wait(&mut lancet, LIMIT).and_then(|status| status.code()),
        Some(0)
    );
    drop(stdin);
    assert!(wait(&mut cat, LIMIT).is_some_and(|status| status.success()));
}
