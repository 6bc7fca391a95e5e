//! `--budget`: hooks that take too much of the guest's processor time are taken out, and the others go on counting.

use crate::support::{Guest, chosen};
use crate::watch::{calls, counted, hooked};

/// Rounds that are looked at after the hot functions are out.
const AFTER: usize = 5;
/// What such a round may take of one without hooks. With the budget of 20 % that the test gives, 1.25 and what hooks cost
/// outside themselves (caches) are expected; the default of 50 % would allow 2 and that, and a test cannot tell them apart.
const FAST: f64 = 2.0;

fn milliseconds(guest: &Guest) -> f64 {
    let line = guest.line().expect("it goes on");
    line.parse().unwrap_or_else(|_| panic!("{line}"))
}

/// Everything hot of a Ruby, and one function that is not: the guest is as fast as before within a moment, the rare function was
/// counted exactly, and what happened is said.
fn hot(options: &[&str], counts: bool) {
    for ruby in chosen("ruby", "budget") {
        let mut guest = ruby.start("hot", &[]);
        let base = milliseconds(&guest);
        let what = ["-x", "rb_*", "-x", "malloc", "-x", "umask"];
        let arguments = [options, &what].concat();
        let mut watch = hooked(calls(guest.pid, &arguments));
        guest.tell("");
        let said = watch.until(&format!("lancet: process {}: hooks took ", guest.pid));
        assert!(
            said.contains(" calls/s)") && said.contains("--budget allows 20 %"),
            "{said}"
        );
        // What was in the pipe by then, and the round under way, may be slow still.
        let mut slowest: f64 = 0.0;
        let fast = crate::support::until(crate::support::LIMIT, "it is fast again", || {
            let mut times: Vec<f64> = (0..AFTER).map(|_| milliseconds(&guest)).collect();
            times.sort_by(f64::total_cmp);
            slowest = slowest.max(times[AFTER - 1]);
            (times[AFTER / 2] < base * FAST).then_some(times[AFTER / 2])
        });
        assert!(slowest > fast * 1.5, "{ruby}: {base} {slowest} {fast}");
        guest.tell("");
        let answer = guest.find("answer ");
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{ruby}: {}", output.stderr);
        if counts {
            let umask = counted(&output.stdout, "umask");
            let rows = output
                .stdout
                .lines()
                .filter(|line| line.contains(" umask ← "));
            let of_lines: u64 = rows
                .filter_map(|row| {
                    row.split(" umask ")
                        .next()?
                        .split_whitespace()
                        .last()?
                        .parse::<u64>()
                        .ok()
                })
                .sum();
            // Ruby asks by setting it and setting it back.
            let rounds: u64 = answer.trim().parse().expect("a number");
            assert_eq!(umask + of_lines, 2 * rounds, "{ruby}: {}", output.stderr);
            assert!(
                output.stdout.contains(" rb_"),
                "{ruby}: what was counted until then is shown"
            );
        }
        guest.tell("");
        guest.ends_with_nothing(&ruby.to_string());
    }
}

#[test]
fn counted_in_the_process() {
    hot(&["-c", "--budget", "20"], true);
}

#[test]
fn told_one_by_one() {
    hot(
        &["--budget", "20", "-o", "/dev/null", "--max-wait", "0"],
        false,
    );
}
