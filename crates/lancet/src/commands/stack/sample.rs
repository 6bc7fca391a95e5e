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
        states: format.needs_states,
        ..Wanted::default()
    };
    let mut losses = Losses::default();
    let mut sampling = Sampling::default();
    let started = Instant::now();
    let is_over = || {
        args.look_for
            .is_some_and(|length| started.elapsed() >= length)
    };
    while !watched.is_empty() && !interrupt::asked() && !is_over() {
        let due = Instant::now() + interval;
        let stopped = sampling.look(&mut watched, wanted, &mut losses);
        match args.every {
            Some(_) => sampling.rest_until(due, interval),
            // Threads that we stopped need a processor before they sleep again; looked at too early, they seem to run.
            None => sleep(
                due.saturating_duration_since(Instant::now())
                    .max(stopped * BETWEEN),
            ),
        }
    }
    let title = format!(
        "{} {} in {:.1} s",
        grouped(sampling.looks),
        plural(sampling.looks, "look", "looks"),
        started.elapsed().as_secs_f64()
    );
    let interrupted = interrupt::asked();
    format.write(&sampling.stacks, &mut sink.out, &title)?;
    sink.out.flush()?;
    tell!("{title}; stood still for {} in all", pause(sampling.stood));
    sampling.tell(&mut losses);
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
    /// Looks that should have begun while an earlier one was made.
    late: u64,
}

impl Sampling {
    /// Looks at each process once; returns how long they stood still for it.
    fn look(&mut self, watched: &mut Watched, wanted: Wanted, losses: &mut Losses) -> Duration {
        let before = self.stood;
        self.stacks.looks += 1;
        watched.look(wanted, losses, |pid, live, look| {
            self.looks += 1;
            self.stood += look.stopped;
            if !look.all {
                self.missed.insert(pid);
            }
            self.stacks.add_look(live.modules(), &look.stacks);
        });
        self.stood - before
    }

    /// Sleeps until the next look is due, of which there is one in each interval.
    fn rest_until(&mut self, due: Instant, interval: Duration) {
        let now = Instant::now();
        let behind = now.saturating_duration_since(due);
        self.late += (behind.as_nanos() / interval.as_nanos().max(1)) as u64;
        sleep(due.saturating_duration_since(now));
    }

    /// Says what was missed.
    fn tell(&self, losses: &mut Losses) {
        for pid in &self.missed {
            losses.say(some_missed(*pid));
        }
        if self.late > self.looks {
            let text = format!(
                "{} {} did not take place: each took longer than --every says; ask for fewer",
                grouped(self.late),
                plural(self.late, "look", "looks")
            );
            losses.say(Loss::new(None, What::Looks, Some(self.late), text));
        }
    }
}
