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
    let mut stacks = Stacks::default();
    let (started, mut looks, mut stood) = (Instant::now(), 0u64, Duration::ZERO);
    let mut losses = Losses::default();
    let mut missed = BTreeSet::new();
    let mut late = 0;
    let over = |started: Instant| {
        args.look_for
            .is_some_and(|length| started.elapsed() >= length)
    };
    let format = args.folded();
    let wanted = Wanted {
        fibers: args.fibers,
        states: format.needs_states,
        ..Wanted::default()
    };
    while !watched.is_empty() && !interrupt::asked() && !over(started) {
        let due = Instant::now() + interval;
        let stood_before = stood;
        stacks.looks += 1;
        watched.look(wanted, &mut losses, |pid, live, look| {
            looks += 1;
            stood += look.stopped;
            if !look.all {
                missed.insert(pid);
            }
            stacks.add_look(live.modules(), &look.stacks);
        });
        let now = Instant::now();
        if args.every.is_some() {
            // Looks that should have begun while this one was made.
            late +=
                (now.saturating_duration_since(due).as_nanos() / interval.as_nanos().max(1)) as u64;
            sleep(due.saturating_duration_since(now));
        } else {
            // Threads that we stopped need a processor before they sleep again; looked at too early, they seem to run.
            let rest = (stood - stood_before) * BETWEEN;
            sleep(due.saturating_duration_since(now).max(rest));
        }
    }
    let title = format!(
        "{} {} in {:.1} s",
        grouped(looks),
        plural(looks, "look", "looks"),
        started.elapsed().as_secs_f64()
    );
    let interrupted = interrupt::asked();
    format.write(&stacks, &mut sink.out, &title)?;
    sink.out.flush()?;
    tell!("{title}; stood still for {} in all", pause(stood));
    for pid in &missed {
        losses.say(some_missed(*pid));
    }
    if late > looks {
        let text = format!(
            "{} {} did not take place: each took longer than --every says; ask for fewer",
            grouped(late),
            plural(late, "look", "looks")
        );
        losses.say(Loss::new(None, What::Looks, Some(late), text));
    }
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
