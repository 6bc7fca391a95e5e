//! `lancet calls`: which line calls this C function, with what, and how long does it take?

mod callers;
mod family;
mod guest;
mod printer;
mod select;
mod signals;
mod signatures;
mod sink;
mod source;
mod stacks;
mod summary;
mod told;

use super::LOST;
use crate::cli::CallsArgs;
use crate::ui::interrupt;
use crate::ui::sink::Sink as Output;
use crate::ui::terminal::Stream;
use family::Family;
use printer::Printer;
use process::tracee::wait_for_any;
use signatures::Signatures;
use sink::Sink;
use source::{Flow, Source};
use std::time::{Duration, Instant};
use summary::Summary;

/// Ctrl-C reaches the program that we started too; it has this long to end by it.
const GRACE: Duration = Duration::from_secs(2);
/// As shells say "ended by SIGINT".
const INTERRUPTED: u8 = 130;
/// Longest wait for the end of a program that goes on alone, before we look whether we are to end.
const LOOK: Duration = Duration::from_millis(50);

/// Opens the guests, or starts a program, prints what they call, leaves.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    interrupt::catch();
    let signatures = Signatures::read(&args.prototypes, args.ltrace)?;
    let starts = !args.program.is_empty();
    let stream = match starts || args.ltrace {
        // Standard output is the program's.
        true => Stream::Stderr,
        false => Stream::Stdout,
    };
    let out = Output::open(args.output.as_deref(), stream)?.out;
    let mut source = Family::open(&args, &signatures)?;
    let mut sink: Box<dyn Sink> = match args.count {
        true => Box::new(Summary::new(&args, out)),
        false => Box::new(Printer::new(&args, &signatures, out)),
    };
    let watched = watch(&args, &mut source, &mut *sink);
    let mut lost = !source.leave();
    let interrupted = watched?;
    // What was told while we left.
    source.read(&mut *sink)?;
    sink.finish(source.counted())?;
    lost |= source.say_losses();
    let code = match (starts, interrupted) {
        (false, _) => 0,
        (true, true) => source.code().map_or(INTERRUPTED, |code| code as u8),
        (true, false) => await_end(&mut source),
    };
    Ok(match (code, lost) {
        (0, true) => LOST,
        (code, _) => code,
    })
}

/// Reads until it is over; whether by Ctrl-C.
fn watch(args: &CallsArgs, source: &mut dyn Source, sink: &mut dyn Sink) -> anyhow::Result<bool> {
    let started = Instant::now();
    let starts = !args.program.is_empty();
    let mut asked: Option<Instant> = None;
    loop {
        let flow = source.read(sink)?;
        let over = args
            .watch_for
            .is_some_and(|length| started.elapsed() >= length);
        if over || flow == Flow::Over {
            return Ok(false);
        }
        if interrupt::asked() {
            let since = *asked.get_or_insert_with(Instant::now);
            if !starts || since.elapsed() > GRACE {
                return Ok(true);
            }
        }
        if flow == Flow::Idle {
            sink.rest()?;
            source.rest();
        }
    }
}

/// The exit code of the program, which goes on alone.
fn await_end(source: &mut Family) -> u8 {
    loop {
        if let Some(code) = source.code() {
            return code as u8;
        }
        if interrupt::asked() {
            return INTERRUPTED;
        }
        wait_for_any(LOOK);
    }
}
