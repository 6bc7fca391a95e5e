//! Opens running processes, and reports until it is time to leave; or starts a program. Used by `commands` and
//! `started`.

use std::time::Instant;

use report::mem::Reporter;

use super::attached::Guests;
use super::{MemArgs, live, started};
use crate::exit::{EXCEEDED, Usage};
use crate::failure;
use crate::losses::Losses;
use crate::ui::interrupt;
use crate::ui::sink::{Sink, require_room};
use crate::ui::terminal::Stream;
use crate::watching::READY;

/// Runs `lancet mem` and returns the exit code.
pub fn run(args: MemArgs) -> anyhow::Result<u8> {
    if let Some(flaw) = args.flaw() {
        return Err(Usage(flaw).into());
    }
    require_room(
        args.chosen().is_text(),
        args.output.as_deref(),
        args.stream(),
    )?;
    interrupt::catch();
    if args.program.is_empty() {
        attach(args)
    } else {
        started::run(&args)
    }
}

/// Opens running processes, reports on them until it is time to leave, and returns the exit code.
fn attach(args: MemArgs) -> anyhow::Result<u8> {
    if let Some(companion) = args.companion {
        interrupt::end_with(companion)?;
    }
    let on_screen = args.live && Stream::Stdout.is_terminal();
    let sink = Sink::open(args.output.as_deref(), args.stream())?;
    let sink = sink.in_form(args.chosen().records());
    let mut reporter = args.reporter(sink);
    let mut guests = Guests::open(&args, on_screen)?;
    if args.companion.is_some() {
        tell!("{READY}");
    }
    let watched = failure::catch(|| {
        if on_screen {
            show(&args, &mut guests, &mut reporter)
        } else {
            report(&args, &mut guests, &mut reporter)
        }
    });
    let losses = guests.leave();
    let exceeded = watched?;
    finish(&args, &mut reporter, &losses)?;
    Ok(losses.exit_code(if exceeded { EXCEEDED } else { 0 }))
}

/// Ends the report, and says what it has no place for.
pub fn finish(args: &MemArgs, reporter: &mut Reporter, losses: &Losses) -> anyhow::Result<()> {
    if !args.format().says_losses {
        losses.say_reported();
    }
    reporter.finish(|out| match args.chosen().records() {
        Some(form) => losses.end_records(out, form),
        None => Ok(()),
    })?;
    Ok(())
}

/// Shows the screen until it is time to leave, and then writes the last look as a report: the screen is gone. Returns
/// whether a limit was exceeded.
fn show(args: &MemArgs, guests: &mut Guests, reporter: &mut Reporter) -> anyhow::Result<bool> {
    let started = Instant::now();
    let every = args.interval().unwrap_or_default();
    let last = live::run(args.view(), || {
        // Asked first, so that a child that was forked before it is counted.
        let asked = interrupt::asked();
        guests.refresh(true);
        let over = asked || guests.is_empty() || is_over(args, started);
        Ok((!over).then(|| {
            let found = guests.census();
            (found, guests.until_next(every))
        }))
    })?;
    if last.is_empty() {
        return Ok(false);
    }
    Ok(reporter.report(last)?)
}

/// Reports until it is time to leave; whether a limit was exceeded.
fn report(args: &MemArgs, guests: &mut Guests, reporter: &mut Reporter) -> anyhow::Result<bool> {
    let started = Instant::now();
    let mut exceeded = false;
    if args.interval().is_some() {
        reporter.start(guests.census());
    }
    loop {
        let wait = args.interval().map(|every| guests.until_next(every));
        let due = wait.map(|wait| Instant::now() + wait);
        let end = args.watch_for.map(|length| started + length);
        let until = match (due, end) {
            (Some(due), Some(end)) => Some(due.min(end)),
            (due, end) => due.or(end),
        };
        guests.watch_until(until);
        let over = interrupt::asked() || guests.is_empty() || is_over(args, started);
        let censuses = guests.census();
        if !censuses.is_empty() {
            exceeded |= reporter.report(censuses)?;
        }
        // A look takes its time: it may have been the last one.
        if over || is_over(args, started) {
            return Ok(exceeded);
        }
    }
}

fn is_over(args: &MemArgs, started: Instant) -> bool {
    args.watch_for
        .is_some_and(|length| started.elapsed() >= length)
}
