//! `kill -9` of lancet at any instant of a snapshot: the program goes on and sees no child, the copy ends, the next one works.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use process::guest::Status;

use super::taken::taken;
use super::unseen::{children, waited};
use crate::support::{
    Guest, Interpreter, LIMIT, Random, TempDir, chosen, lancet, rounds, rubies, run, say, soak,
    until,
};

/// A copy may live so long without the lancet that wanted it, and a little longer on a busy machine.
pub const ALONE: Duration = Duration::from_secs(7);
/// Between the ends of two kills, so that some meet the copy of the one before.
const COURSE: u64 = 400_000;

/// The children that run: a copy that has ended waits to be waited for.
pub fn running(pid: i32) -> Vec<i32> {
    let pids = children(pid);
    let pids = pids
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok());
    let runs =
        |pid: &i32| Status::read(*pid).is_ok_and(|status| !matches!(status.state, 'Z' | 'X'));
    pids.filter(runs).collect()
}

/// Starts a lancet and kills it after so many microseconds; whether it had ended before.
pub fn start_and_kill(command: &mut Command, micros: u64) -> bool {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("lancet starts");
    let end = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    let ended = child.try_wait().expect("our child").is_some();
    let _ = child.kill();
    let _ = child.wait();
    ended
}

#[test]
fn a_kill_at_any_instant_leaves_the_program_alone_and_no_copy() {
    for ruby in rubies("killed") {
        killed(&ruby, "heap/waits.rb");
    }
    for python in chosen("python", "killed") {
        killed(&python, "heap/waits.py");
    }
    // Both are copied where they stand; one of them will do.
    for perl in chosen("perl", "killed") {
        killed(&perl, "heap/waits.pl");
    }
    if soak() {
        for php in chosen("php", "killed") {
            killed(&php, "heap/waits.php");
        }
    }
}

fn killed(interpreter: &Interpreter, script: &str) {
    let count = rounds(12, 1_000);
    let folder = TempDir::new(&format!("killed-{interpreter}"));
    let mut random = Random::new("heap killed");
    let guest = Guest::script(interpreter, script, &[]);
    guest.expect("ready");
    let (mut too_late, mut left) = (0, 0);
    for kill in 0..count {
        let micros = random.below(COURSE);
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "--save"]);
        command.arg(folder.join("cut"));
        too_late += u32::from(start_and_kill(&mut command, micros));
        assert!(
            !matches!(guest.state(), None | Some('Z' | 't' | 'T')),
            "{interpreter}, kill {kill} after {micros} µs: the guest is {:?}: {}",
            guest.state(),
            guest.complaints()
        );
        left += u32::from(!running(guest.pid).is_empty());
        if random.below(4) == 0 {
            taken(guest.pid, &folder.join("whole"));
        }
    }
    until(ALONE, "every copy to end", || {
        running(guest.pid).is_empty().then_some(())
    });
    // The next command of any kind has the program wait for the copies that nobody else waits for, once it knows that their lancet is gone.
    until(ALONE, "the copies to be waited for", || {
        let mut stack = lancet();
        stack.args(["stack", "-p", &guest.pid.to_string()]);
        assert_eq!(run(&mut stack, LIMIT).code(), 0, "{interpreter}");
        children(guest.pid).is_empty().then_some(())
    });
    taken(guest.pid, &folder.join("last"));
    assert_eq!(
        children(guest.pid),
        "",
        "{interpreter}: none is left to be waited for"
    );
    waited(interpreter, guest);
    let _ = fs::remove_file(folder.join("cut"));
    say(format_args!(
        "{interpreter}: {count} kills, {too_late} after its end, {left} that left a copy alone"
    ));
    assert!(too_late < count, "every kill came too late to matter");
}
