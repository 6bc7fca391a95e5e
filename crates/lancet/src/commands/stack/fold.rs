//! Many looks, folded into one picture.

use std::thread::sleep;
use std::time::{Duration, Instant};

use export::figures::{grouped, pause};
use export::stacks::Stacks;
use frames::live::open::Live;
use frames::live::stack::Stack;

use super::super::LOST;
use super::live::{attach, plain};
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
    let over = |started: Instant| {
        args.look_for
            .is_some_and(|length| started.elapsed() >= length)
    };
    while !open.is_empty() && !interrupt::asked() && !over(started) {
        let due = Instant::now() + interval;
        open.retain_mut(|(pid, live)| match live.look(false, false) {
            Ok(look) => {
                looks += 1;
                stood += look.stopped;
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
        "{} looks in {:.1} s",
        grouped(looks),
        started.elapsed().as_secs_f64()
    );
    match args.format.unwrap_or(Folded::Collapsed) {
        Folded::Collapsed => stacks.collapsed(&mut sink.out)?,
        Folded::Speedscope => stacks.speedscope(&mut sink.out, &title)?,
        Folded::Svg => stacks.svg(&mut sink.out, &title)?,
    }
    sink.out.flush()?;
    eprintln!("lancet: {title}; stood still for {} in all", pause(stood));
    Ok(if lost { LOST } else { 0 })
}

/// Frames from the outermost to the innermost. Each native frame is followed by the script frames it runs.
fn folded(live: &Live, stack: &Stack) -> Vec<String> {
    let mut frames = vec![format!("thread {} {}", stack.thread.tid, stack.thread.name)];
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
        let scripts = line.scripts.iter().rev();
        frames.extend(scripts.map(|script| match script.path.as_str() {
            "" => script.name.clone(),
            path => format!("{} ({path}:{})", script.name, script.line),
        }));
    }
    frames
}
