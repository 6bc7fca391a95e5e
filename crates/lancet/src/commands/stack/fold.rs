//! Many looks, folded into one picture.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use export::figures::{grouped, pause, plural};
use export::stacks::Stacks;
use frames::live::open::Live;
use frames::live::scripts::Script;
use frames::live::stack::Stack;
use frames::live::unwind::End;

use super::super::LOST;
use super::live::{attach, plain, some_missed};
use crate::cli::StackArgs;
use crate::cli::stack::Folded;
use crate::ui::interrupt;
use crate::ui::sink::Sink;

/// Looks until it is time or nobody is left, and writes.
pub fn run(args: &StackArgs, interval: Duration, sink: &mut Sink) -> anyhow::Result<u8> {
    interrupt::catch();
    let mut open = args
        .pids
        .iter()
        .map(|&pid| Ok((pid, attach(pid)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut stacks = Stacks::default();
    let (started, mut looks, mut stood, mut lost) = (Instant::now(), 0u64, Duration::ZERO, false);
    let mut missed = BTreeSet::new();
    let over = |started: Instant| {
        args.look_for
            .is_some_and(|length| started.elapsed() >= length)
    };
    while !open.is_empty() && !interrupt::asked() && !over(started) {
        let due = Instant::now() + interval;
        open.retain_mut(|(pid, live)| match live.look(false, args.fibers) {
            Ok(look) => {
                looks += 1;
                stood += look.stopped;
                if !look.all {
                    missed.insert(*pid);
                }
                for stack in &look.stacks {
                    stacks.add(folded(live, stack));
                }
                true
            }
            Err(error) => {
                eprintln!("lancet: process {pid}: {:#}", plain(error));
                lost = true;
                false
            }
        });
        sleep(due.saturating_duration_since(Instant::now()));
    }
    let title = format!(
        "{} {} in {:.1} s",
        grouped(looks),
        plural(looks, "look", "looks"),
        started.elapsed().as_secs_f64()
    );
    match args.format.unwrap_or(Folded::Collapsed) {
        Folded::Collapsed => stacks.collapsed(&mut sink.out)?,
        Folded::Speedscope => stacks.speedscope(&mut sink.out, &title)?,
        Folded::Svg => stacks.svg(&mut sink.out, &title)?,
    }
    sink.out.flush()?;
    eprintln!("lancet: {title}; stood still for {} in all", pause(stood));
    for pid in &missed {
        eprintln!("lancet: {}", some_missed(*pid));
    }
    let lost = lost || !missed.is_empty();
    Ok(if lost { LOST } else { 0 })
}

/// Frames from the outermost to the innermost. Each native frame is followed by the script frames it runs; those of which the
/// native frame is not known stand at the end that they belong to. What is parked is one by its kind: a thousand
/// fibers that wait at one place are one stack, a thousand times.
fn folded(live: &Live, stack: &Stack) -> Vec<String> {
    let mut frames = vec![match &stack.parked {
        None => format!("thread {} {}", stack.thread.tid, stack.thread.name),
        Some(one) => format!("{}, parked", one.kind),
    }];
    let homeless = stack.homeless.iter().rev().map(script);
    if stack.end != End::Whole {
        frames.extend(homeless.clone());
    }
    for line in stack.lines.iter().rev() {
        let loaded = line.module.and_then(|module| live.modules().get(module));
        let name = line
            .function
            .as_ref()
            .and_then(|function| function.name.clone());
        frames.push(match (name, loaded, &line.function) {
            (Some(name), ..) => name,
            (None, Some(loaded), Some(function)) => {
                format!(
                    "{}+{:#x}",
                    loaded.name(),
                    function.start.wrapping_sub(loaded.bias)
                )
            }
            _ => "?".to_owned(),
        });
        frames.extend(line.scripts.iter().rev().map(script));
    }
    if stack.end == End::Whole {
        frames.extend(homeless);
    }
    frames
}

fn script(script: &Script) -> String {
    match script.path.as_str() {
        "" => script.name.clone(),
        path => format!("{} ({path}:{})", script.name, script.line),
    }
}
