//! `lancet calls`: which line calls this C function, with what, and how long does it take?

pub mod debug;
mod family;
mod guest;
mod printer;
mod select;
mod signals;
mod signatures;
mod stacks;
mod summary;

use super::LOST;
use crate::cli::CallsArgs;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;
use debug::Debug;
use family::Family;
use process::tracee::wait_for_any;
use signatures::Signatures;
use std::time::{Duration, Instant};

/// Ctrl-C reaches the program that we started too; it has this long to end by it.
const GRACE: Duration = Duration::from_secs(2);
/// As shells say "ended by SIGINT".
const INTERRUPTED: u8 = 130;
/// Longest wait for the end of a program that goes on alone, before we look whether we are to end.
const LOOK: Duration = Duration::from_millis(50);

/// Opens the guests, or starts a program, prints what they call, leaves.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    if args.debug == Some(Debug::Help) {
        print!("{}", debug::HELP);
        return Ok(0);
    }
    interrupt::catch();
    let signatures = Signatures::read(&args.prototypes)?;
    let starts = !args.program.is_empty();
    let stream = match starts {
        // Standard output is the program's.
        true => Stream::Stderr,
        false => Stream::Stdout,
    };
    let sink = Sink::open(args.output.as_deref(), stream)?;
    let mut family = Family::new(&args, &signatures, sink)?;
    if starts {
        family.start()?;
    }
    for pid in &args.pids {
        match family.open(*pid) {
            Ok(()) => {}
            Err(error) if args.pids.len() == 1 && !starts => return Err(error),
            Err(error) => {
                eprintln!("lancet: {error:#}");
                family.note_loss();
            }
        }
    }
    if args.pids.is_empty() && !starts {
        anyhow::bail!("there is nothing to watch: name a PROGRAM, or a process with -p PID");
    }
    if family.is_empty() {
        anyhow::bail!("none of the processes could be opened");
    }
    let watched = watch(&args, &mut family, starts);
    let left = family.leave();
    let interrupted = watched?;
    left?;
    let code = match (starts, interrupted) {
        (false, _) => 0,
        (true, true) => family.code().map_or(INTERRUPTED, |code| code as u8),
        (true, false) => await_end(&mut family),
    };
    Ok(match (code, family.has_lost()) {
        (0, true) => LOST,
        (code, _) => code,
    })
}

/// Reads until it is over; whether by Ctrl-C.
fn watch(args: &CallsArgs, family: &mut Family, starts: bool) -> anyhow::Result<bool> {
    let started = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        family.turn()?;
        if family.is_empty() {
            return Ok(false);
        }
        if args
            .watch_for
            .is_some_and(|length| started.elapsed() >= length)
        {
            return Ok(false);
        }
        if interrupt::asked() {
            let since = *asked.get_or_insert_with(Instant::now);
            if !starts || since.elapsed() > GRACE {
                return Ok(true);
            }
        }
    }
}

/// The exit code of the program, which goes on alone.
fn await_end(family: &mut Family) -> u8 {
    loop {
        if let Some(code) = family.code() {
            return code as u8;
        }
        if interrupt::asked() {
            return INTERRUPTED;
        }
        wait_for_any(LOOK);
    }
}
