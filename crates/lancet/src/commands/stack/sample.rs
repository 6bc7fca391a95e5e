//! Looks at running processes again and again, and folds what was seen.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use frames::live::open::Wanted;
use report::figures::{grouped, pause, plural};
use report::losses::{Loss, What};
use report::stack::folded::{Stacks, collapsed};

use super::StackArgs;
use super::live::{attach, plain, some_missed};
use crate::losses::Losses;
use crate::ui::interrupt;
use crate::ui::sink::Sink;

/// Looks until the time is over, Ctrl-C comes or no process is left; then writes what was seen.
pub fn run(args: &StackArgs, interval: Duration, sink: &mut Sink) -> anyhow::Result<u8> {
    interrupt::catch();
    let mut open = args
        .pids
        .iter()
        .map(|&pid| Ok((pid, attach(pid)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut stacks = Stacks::default();
    let (started, mut looks, mut stood) = (Instant::now(), 0u64, Duration::ZERO);
    let mut losses = Losses::default();
    let mut missed = BTreeSet::new();
    let mut late = 0;
    let over = |started: Instant| {
        args.look_for
            .is_some_and(|length| started.elapsed() >= length)
    };
    let wanted = Wanted {
        fibers: args.fibers,
        ..Wanted::default()
    };
    while !open.is_empty() && !interrupt::asked() && !over(started) {
        let due = Instant::now() + interval;
        open.retain_mut(|(pid, live)| match live.look(wanted) {
            Ok(look) => {
                looks += 1;
                stood += look.stopped;
                if !look.all {
                    missed.insert(*pid);
                }
                for stack in &look.stacks {
                    stacks.add_stack(live.modules(), stack);
                }
                true
            }
            Err(error) => {
                let text = format!("process {pid}: {:#}", plain(error));
                losses.say(Loss::new(Some(*pid), What::Process, None, text));
                false
            }
        });
        let now = Instant::now();
        sleep(due.saturating_duration_since(now));
        // Looks that should have begun while this one was made.
        late += (now.saturating_duration_since(due).as_nanos() / interval.as_nanos().max(1)) as u64;
    }
    let title = format!(
        "{} {} in {:.1} s",
        grouped(looks),
        plural(looks, "look", "looks"),
        started.elapsed().as_secs_f64()
    );
    let format = args.format.unwrap_or(&collapsed::FORMAT);
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
    Ok(losses.exit_code(0))
}
