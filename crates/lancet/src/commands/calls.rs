//! `lancet calls`: which line calls this C function, with what, and how long does it take?

mod guest;
mod printer;
mod select;
mod signatures;
mod stacks;
mod summary;

use super::LOST;
use crate::cli::CallsArgs;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;
use guest::Guest;
use printer::Printer;
use signatures::Signatures;
use std::thread::sleep;
use std::time::{Duration, Instant};
use summary::Summary;

/// Between two looks at lanes that were empty.
const LOOK: Duration = Duration::from_millis(1);

/// Opens the guests, prints what they call, leaves.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    interrupt::catch();
    let signatures = Signatures::read(&args.prototypes)?;
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    let mut guests = Vec::new();
    let mut lost = false;
    for pid in &args.pids {
        match Guest::open(*pid, &args, &signatures) {
            Ok(guest) => guests.push(guest),
            Err(error) if args.pids.len() == 1 => return Err(error),
            Err(error) => {
                eprintln!("lancet: {error:#}");
                lost = true;
            }
        }
    }
    if guests.is_empty() {
        anyhow::bail!("none of the processes could be opened");
    }
    let mut printer = Printer::new(&args, &signatures);
    if guests.len() > 1 {
        printer.say_threads();
    }
    let started = Instant::now();
    let printed = watch(
        &args,
        &signatures,
        &mut guests,
        &mut printer,
        &mut sink,
        started,
    );
    for guest in &mut guests {
        if guest.is_alive()
            && let Err(error) = guest.leave()
        {
            eprintln!("lancet: {error}");
            lost = true;
        }
    }
    printed?;
    // What was told while we left.
    read(&mut guests, &mut printer, &mut sink)?;
    printer.finish(&mut sink.out)?;
    if args.count {
        summarise(&mut guests, &mut sink)?;
    }
    sink.out.flush()?;
    for guest in &mut guests {
        lost |= say_losses(guest);
    }
    Ok(if lost { LOST } else { 0 })
}

/// Reads until it is over.
fn watch(
    args: &CallsArgs,
    signatures: &Signatures,
    guests: &mut [Guest],
    printer: &mut Printer,
    sink: &mut Sink,
    started: Instant,
) -> anyhow::Result<()> {
    loop {
        let alive: Vec<bool> = guests.iter().map(Guest::is_alive).collect();
        for guest in guests.iter_mut().filter(|guest| guest.is_alive()) {
            if let Err(error) = guest.follow(signatures) {
                eprintln!("lancet: {error}");
            }
        }
        let any = read(guests, printer, sink)?;
        let over = args
            .watch_for
            .is_some_and(|length| started.elapsed() >= length);
        if over || interrupt::asked() || !alive.contains(&true) {
            return Ok(());
        }
        if !any {
            sink.out.flush()?;
            sleep(LOOK);
        }
    }
}

/// Prints what the lanes hold; whether they held anything.
fn read(guests: &mut [Guest], printer: &mut Printer, sink: &mut Sink) -> anyhow::Result<bool> {
    let mut any = false;
    for guest in guests {
        let mut told = Vec::new();
        any |= guest.read(&mut |one| told.push(one));
        if guest.has_threads() {
            printer.say_threads();
        }
        for one in told {
            printer.print(&mut sink.out, one)?;
        }
    }
    Ok(any)
}

fn summarise(guests: &mut [Guest], sink: &mut Sink) -> anyhow::Result<()> {
    let mut summary = Summary::default();
    let mut period = 1.0;
    for guest in guests {
        match guest.counted() {
            Ok((rows, of_guest)) => {
                period = of_guest;
                for (function, line, counted) in rows {
                    summary.add(function, line, &counted);
                }
            }
            Err(error) => eprintln!(
                "lancet: what process {} had counted is lost: {error}",
                guest.pid()
            ),
        }
    }
    Ok(summary.print(&mut sink.out, period)?)
}

/// Says what got lost; whether anything did.
fn say_losses(guest: &mut Guest) -> bool {
    let Ok(losses) = guest.losses() else {
        return false;
    };
    if losses.sum() == 0 {
        return false;
    }
    eprintln!(
        "lancet: process {}: lost: {} records that found no room in time, {} calls of threads without a lane, {} counts",
        guest.pid(),
        losses.records,
        losses.unlaned,
        losses.uncounted
    );
    true
}
