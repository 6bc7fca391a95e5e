//! lancet that is stopped, and readers that stop: the guest goes on, and what is missing is said.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::machine::{program, start};
use crate::support::{Guest, LIMIT, TempDir, is_release, lancet, losses, run, wait};
use crate::watch::{calls, counted, hooked};

/// Longer than the agent waits for a silent command, with the second look that it takes then.
const SILENCE: Duration = Duration::from_millis(7500);

/// `h_paced` is called by a guest that says how often, once for each line it is told.
fn paced() -> Option<Guest> {
    let path = program("paced.cpp")?;
    let guest = Guest::start("paced", std::process::Command::new(path));
    guest.expect("ready");
    Some(guest)
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn a_lancet_that_was_stopped_says_what_it_has_missed_and_goes_on() {
    stopped(false);
}

/// The same for programs.
#[test]
fn a_gap_is_in_the_json() {
    stopped(true);
}

fn stopped(json: bool) {
    let Some(mut guest) = paced() else {
        return;
    };
    let mut command = calls(guest.pid, &["-c", "-x", "h_paced"]);
    command.args(json.then_some("--json"));
    let mut watch = hooked(command);
    // For so many milliseconds it calls, and says how often.
    guest.tell("100");
    let before = number(&guest.find("calls "));
    watch.ask(Signal::SIGSTOP);
    let stopped = Instant::now();
    while stopped.elapsed() < SILENCE + Duration::from_millis(500) {
        guest.tell("250");
        guest.find("calls ");
    }
    watch.ask(Signal::SIGCONT);
    let line = watch.until(&format!(
        "lancet: process {}: lancet stood still",
        guest.pid
    ));
    assert!(line.contains("calls from "), "{line}");
    guest.tell("100");
    let after = number(&guest.find("calls "));
    let output = watch.interrupt();
    assert_eq!(output.code(), 4, "{}", output.stderr);
    if json {
        let lost = losses(&output.stdout);
        assert!(lost.contains(&("gap".to_owned(), None)), "{lost:?}");
        return guest.ends_with_nothing("stopped");
    }
    let all = counted(&output.stdout, "h_paced");
    assert!(
        all >= before + after,
        "{all} of {before} and {after}: {}",
        output.stderr
    );
    guest.ends_with_nothing("stopped");
}

/// Calls in half a second.
fn pace(guest: &mut Guest) -> u64 {
    guest.tell("500");
    number(&guest.find("calls "))
}

#[test]
fn a_reader_that_pauses_does_not_hold_the_guest() {
    let Some((shown, said)) = paused(&["-x", "h_paced"]) else {
        return;
    };
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.starts_with("h_paced("), "lines");
    assert!(
        said.contains(" lines of output that nobody has read"),
        "{said}"
    );
}

/// A disk that takes nothing is a pipe that nobody reads. What was taken before is a recording.
#[test]
fn a_disk_that_is_slow_does_not_hold_the_guest() {
    let what = [
        "-x",
        "h_paced",
        "--record",
        "/dev/stdout",
        "--max-wait",
        "100ms",
    ];
    let Some((recorded, said)) = paused(&what) else {
        return;
    };
    assert!(
        said.contains(" calls and returns are not in the recording"),
        "{said}"
    );
    let folder = TempDir::new("slow");
    let file = folder.join("calls");
    std::fs::write(&file, recorded).expect("a file");
    let shown = run(lancet().arg("calls").arg(&file), LIMIT);
    assert!(shown.stdout.starts_with("h_paced("), "{}", shown.stderr);
}

/// Opens a guest and reads nothing of what lancet writes until it has ended by Ctrl-C: that, and what lancet said.
fn paused(what: &[&str]) -> Option<(Vec<u8>, String)> {
    let mut guest = paced()?;
    // The same hook whose lines are read: what a guest with a healthy reader does.
    let healthy = {
        let folder = TempDir::new("paced");
        let out = folder.join("out").display().to_string();
        let mut other = paced()?;
        let watch = hooked(calls(other.pid, &["-x", "h_paced", "-o", &out]));
        let healthy = pace(&mut other);
        watch.interrupt();
        healthy
    };
    let mut lancet = calls(guest.pid, what);
    lancet.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut lancet = lancet.spawn().expect("lancet runs");
    let mut stderr = BufReader::new(lancet.stderr.take().expect("a pipe"));
    let mut stdout = lancet.stdout.take().expect("a pipe");
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it is hooked");
    assert!(line.starts_with("lancet: process "), "{line}");
    // Nobody reads. The queue fills, and one wait is in vain.
    let mut slowest = u64::MAX;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        slowest = pace(&mut guest);
    }
    assert!(
        slowest >= healthy / if is_release() { 5 } else { 10 },
        "{slowest} of {healthy} calls in half a second"
    );
    let asked = Instant::now();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(lancet.id() as i32),
        Signal::SIGINT,
    )
    .expect("our child");
    let status = wait(&mut lancet, LIMIT).expect("it ends");
    let bound = Duration::from_secs(if is_release() { 1 } else { 5 });
    assert!(asked.elapsed() < bound, "{:?}", asked.elapsed());
    assert_eq!(status.code(), Some(4), "{status}");
    let (mut shown, mut said) = (Vec::new(), String::new());
    stdout.read_to_end(&mut shown).expect("what there is");
    stderr.read_to_string(&mut said).expect("what it says");
    guest.ends_with_nothing("paused");
    Some((shown, said))
}

/// Under overload every record is told or counted as lost.
#[test]
fn what_is_told_and_what_is_lost_are_all() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let folder = TempDir::new("overload");
    for round in 0..4 {
        let out = folder.join(&round.to_string());
        let name = out.display().to_string();
        let mut guest = start(&path, "many");
        let watch = hooked(calls(
            guest.pid,
            &["-x", "h_numbered", "--max-wait", "0", "-o", &name],
        ));
        guest.tell("100000");
        guest.find("answer ");
        let output = watch.interrupt();
        guest.ends_with_nothing("overload");
        let text = std::fs::read_to_string(&out).expect("what was told");
        let told = |what: &str| text.lines().filter(|line| line.contains(what)).count() as u64;
        let records = told("h_numbered(") + told(" = ");
        let lost = output.stderr.lines().find_map(|line| {
            let (before, _) = line.split_once(" calls and returns are not shown, ")?;
            before
                .rsplit(' ')
                .next()?
                .replace(',', "")
                .parse::<u64>()
                .ok()
        });
        let lost = lost.unwrap_or(0);
        assert_eq!(
            records + lost,
            800_000,
            "{records} told, {lost} lost: {}",
            output.stderr
        );
        assert_eq!(
            output.code(),
            if lost == 0 { 0 } else { 4 },
            "{}",
            output.stderr
        );
    }
}
