//! Looks at running processes again and again, and folds what was seen.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use frames::live::open::Wanted;
use inject::lifecycle::{INTERRUPTED, await_end};
use report::figures::{grouped, pause, plural};
use report::losses::{Loss, What};
use report::stack::folded::Stacks;

use super::StackArgs;
use super::live::some_missed;
use super::watched::Watched;
use crate::losses::Losses;
use crate::ui::interrupt;
use crate::ui::sink::Sink;

/// Unless `--every` says how often to look, the process is left alone for so many times as long as the look stopped it.
const BETWEEN: u32 = 9;

/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// An error of a share, in points, that need not be told.
const SMALL_ERROR: u64 = 5;

/// Returns by how many points the share of a place of one thread may differ from its share of the time, after so many looks, in 19 of 20
/// runs: 1.96 times the standard deviation of a share of a half, which has the largest one.
fn error(looks: u64) -> u64 {
    (98.0 / (looks.max(1) as f64).sqrt()).round() as u64
}

/// Looks until the time is over, Ctrl-C comes or no process is left; then writes what was seen.
pub fn run(args: &StackArgs, interval: Duration, sink: &mut Sink) -> anyhow::Result<u8> {
    interrupt::catch();
    let mut watched = if args.program.is_empty() {
        Watched::open(&args.pids, args.children)?
    } else {
        Watched::start(&args.program, args.children)?
    };
    let format = args.folded();
    let wanted = Wanted {
        fibers: args.fibers,
        // Who sleeps need not be read again at each look.
        states: true,
        others: false,
        ..Wanted::default()
    };
    let mut losses = Losses::default();
    let mut sampling = Sampling::default();
    let started = Instant::now();
    let end = args.look_for.map(|length| started + length);
    let is_over = || interrupt::asked() || end.is_some_and(|end| Instant::now() >= end);
    let mut due = started;
    while !watched.is_empty() && !is_over() {
        let stopped = sampling.look(&mut watched, wanted, &mut losses, &is_over);
        let now = Instant::now();
        due = match args.every {
            Some(_) => sampling.next_due(due, now, interval),
            // Threads that we stopped need a processor before they sleep again; looked at too early, they seem to run.
            None => now + (interval.saturating_sub(now - due)).max(stopped * BETWEEN),
        };
        rest_until(due, &is_over);
    }
    let title = sampling.title(started.elapsed());
    let interrupted = interrupt::asked();
    format.write(&sampling.stacks, &mut sink.out, &title)?;
    sink.out.flush()?;
    tell!("{title}; stood still for {} in all", pause(sampling.stood));
    sampling.tell(&mut losses);
    watched.say_unopened(&mut losses);
    if format.is_json {
        losses.write(&mut sink.out)?;
        sink.out.flush()?;
    }
    let code = match (watched.starts(), interrupted) {
        (false, _) => 0,
        // Ctrl-C reached the program too.
        (true, true) => watched.code().unwrap_or(INTERRUPTED),
        (true, false) => await_end(interrupt::asked, || watched.code().map(i32::from)),
    };
    Ok(losses.exit_code(code))
}

/// Sleeps until then, or until it is over: a signal does not end a sleep of the standard library's.
fn rest_until(due: Instant, is_over: &dyn Fn() -> bool) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over() {
            return;
        }
        sleep(left.min(LOOK));
    }
}

/// What was seen until now.
#[derive(Default)]
struct Sampling {
    stacks: Stacks,
    /// How often a process was looked at.
    looks: u64,
    /// How long all of them stood still for that.
    stood: Duration,
    /// The processes of which some look has not seen every thread.
    missed: BTreeSet<i32>,
    /// Rounds of looks that should have begun and ended while an earlier one was made.
    late: u64,
}

impl Sampling {
    /// Looks at each process once, until it is over; returns how long they stood still for it.
    fn look(
        &mut self,
        watched: &mut Watched,
        wanted: Wanted,
        losses: &mut Losses,
        is_over: &dyn Fn() -> bool,
    ) -> Duration {
        let before = self.stood;
        self.stacks.looks += 1;
        watched.look(wanted, losses, is_over, |pid, live, look| {
            self.looks += 1;
            self.stood += look.stopped;
            if !look.all {
                self.missed.insert(pid);
            }
            self.stacks.add_look(pid, live.modules(), look);
        });
        self.stood - before
    }

    /// Says how many looks there were in so long a time, and where they were few, what that means.
    fn title(&self, length: Duration) -> String {
        let looks = format!(
            "{} {} in {:.1} s",
            grouped(self.looks),
            plural(self.looks, "look", "looks"),
            length.as_secs_f64()
        );
        match error(self.stacks.looks) {
            points if points < SMALL_ERROR => looks,
            points => format!("{looks} (so few that a share may be {points} points off)"),
        }
    }

    /// When the round after the one of `due`, which has ended `now`, is to begin: rounds are `interval` apart. Those that
    /// should have ended meanwhile do not take place; one that should only have begun is begun at once.
    fn next_due(&mut self, due: Instant, now: Instant, interval: Duration) -> Instant {
        let next = due + interval;
        let behind = now.saturating_duration_since(next);
        let late = behind.as_nanos() / interval.as_nanos().max(1);
        self.late += late as u64;
        next + Duration::from_nanos((late * interval.as_nanos()) as u64)
    }

    /// Says what was missed.
    fn tell(&self, losses: &mut Losses) {
        for pid in &self.missed {
            losses.say(some_missed(*pid));
        }
        if self.late != 0 {
            let text = format!(
                "{} {} did not take place, because others took longer than --every says: ask for fewer",
                grouped(self.late),
                plural(self.late, "look", "looks")
            );
            losses.say(Loss::new(None, What::Looks, Some(self.late), text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rounds are told as late when there is to be one each 10 ms and each takes so long.
    fn late(took: u64) -> (u64, u64) {
        let (start, interval) = (Instant::now(), Duration::from_millis(10));
        let end = start + Duration::from_secs(1);
        let mut sampling = Sampling::default();
        let (mut due, mut now, mut rounds) = (start, start, 0);
        while now < end {
            rounds += 1;
            now += Duration::from_millis(took);
            due = sampling.next_due(due, now, interval);
            now = now.max(due);
        }
        (rounds, sampling.late)
    }

    #[test]
    fn few_looks_say_what_they_are_worth() {
        let title = |looks| {
            let mut sampling = Sampling {
                looks,
                ..Sampling::default()
            };
            sampling.stacks.looks = looks;
            sampling.title(Duration::from_secs(5))
        };
        assert_eq!(
            title(17),
            "17 looks in 5.0 s (so few that a share may be 24 points off)"
        );
        assert_eq!(title(500), "500 looks in 5.0 s");
    }

    #[test]
    fn rounds_that_do_not_take_place_are_counted() {
        assert_eq!(late(4), (100, 0));
        assert_eq!(late(10), (100, 0));
        // 53 rounds of 19 ms take the time of 100.
        let (rounds, late) = late(19);
        assert_eq!(rounds, 53);
        assert!((46..=48).contains(&late), "{late}");
    }
}
