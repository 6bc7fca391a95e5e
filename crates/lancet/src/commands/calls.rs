//! `lancet calls`: which line calls this C function, with what, and how long does it take?

mod asks;
mod callers;
pub mod debug;
mod family;
mod groups;
mod guest;
mod json;
mod known;
mod mapped;
mod names;
mod pace;
mod printer;
mod recorder;
mod replay;
mod select;
mod sieve;
mod signals;
mod signatures;
mod sink;
mod source;
mod stacks;
mod strays;
mod summary;
mod told;

use super::LOST;
use crate::cli::CallsArgs;
use crate::ui::interrupt;
use crate::ui::sink::Sink as Output;
use crate::ui::terminal::Stream;
use debug::Debug;
use family::Family;
use json::Json;
use printer::Printer;
use process::lanes::Losses;
use process::tracee::wait_for_any;
use prototypes::Error;
use recorder::Recorder;
use replay::Replay;
use sieve::Sieve;
use signatures::Signatures;
use sink::{End, Sink};
use source::{Flow, Source};
use std::io::Write;
use std::time::{Duration, Instant};
use summary::Summary;

/// Ctrl-C reaches the program that we started too; it has this long to end by it.
const GRACE: Duration = Duration::from_secs(2);
/// As shells say "ended by SIGINT".
const INTERRUPTED: u8 = 130;
/// Longest wait for the end of a program that goes on alone, before we look whether we are to end.
const LOOK: Duration = Duration::from_millis(50);

/// Opens the guests, a program or a recording, shows what is told, leaves.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    if args.debug == Some(Debug::Help) {
        print!("{}", debug::HELP);
        return Ok(0);
    }
    if let Some(flaw) = args.flaw() {
        anyhow::bail!(flaw);
    }
    interrupt::catch();
    let file = args.recording();
    if let (Some(read), Some(written)) = (file, &args.record)
        && read.canonicalize().ok() == written.canonicalize().ok()
    {
        anyhow::bail!(
            "{} is what is read: record into another file",
            written.display()
        );
    }
    let signatures = Signatures::read(&args.prototypes, args.ltrace)?;
    let starts = !args.program.is_empty() && file.is_none();
    let mut sink = sink(&args, &signatures, starts)?;
    let mut source: Box<dyn Source> = match file {
        Some(path) => Box::new(Replay::open(path, &args, &signatures)?),
        None => Box::new(Family::open(&args, &signatures)?),
    };
    let watched = watch(&args, starts, &mut *source, &mut *sink);
    let mut lost = !source.leave();
    let interrupted = watched?;
    if file.is_none() {
        // What was told while we left.
        while source.read(&mut *sink)? == Flow::More {}
    }
    lost |= source.has_missed();
    let losses = source.losses();
    for (pid, losses) in losses.iter().filter(|(_, losses)| losses.sum() != 0) {
        say(*pid, losses);
        lost = true;
    }
    sink.finish(End {
        counted: source.counted(),
        losses,
    })?;
    let code = match (starts, interrupted) {
        (false, _) => 0,
        (true, true) => source.code().map_or(INTERRUPTED, |code| code as u8),
        (true, false) => await_end(&mut *source),
    };
    Ok(match (code, lost) {
        (_, true) if args.ltrace => LOST,
        // Whatever the program ended with.
        _ if args.ltrace => 0,
        (0, true) => LOST,
        (code, _) => code,
    })
}

/// Who takes what is told.
fn sink<'a>(
    args: &'a CallsArgs,
    signatures: &'a Signatures,
    starts: bool,
) -> anyhow::Result<Box<dyn Sink + 'a>> {
    let shows = args.record.is_none() || args.count || args.json || args.output.is_some();
    let shown: Option<Box<dyn Sink>> = match shows {
        false => None,
        true => {
            let stream = match starts || args.ltrace {
                // Standard output is the program's.
                true => Stream::Stderr,
                false => Stream::Stdout,
            };
            let mut out = Output::open(args.output.as_deref(), stream)?.out;
            for error in signatures.wrong() {
                // Where and how ltrace says it.
                let Error {
                    file,
                    line,
                    problem,
                    ..
                } = error;
                writeln!(out, "{file}:{line}: error: {problem}")?;
            }
            Some(match (args.count, args.json) {
                (true, _) => Box::new(Summary::new(args, out)),
                (false, true) => Box::new(Json::new(args, signatures, out)),
                (false, false) => Box::new(Printer::new(args, signatures, out)),
            })
        }
    };
    let sink: Box<dyn Sink> = match (&args.record, shown) {
        (Some(path), shown) => Box::new(Recorder::create(path, signatures, shown)?),
        (None, Some(shown)) => shown,
        (None, None) => unreachable!("what is not recorded is shown"),
    };
    // A guest decides for itself.
    Ok(match args.recording() {
        Some(_) => Sieve::before(sink, args, signatures),
        None => sink,
    })
}

/// Says what got lost.
fn say(pid: i32, losses: &Losses) {
    eprintln!(
        "lancet: process {pid}: lost: {} records that found no room in time, {} calls of threads without a lane, {} counts",
        losses.records, losses.unlaned, losses.uncounted
    );
}

/// Reads until it is over; whether by Ctrl-C.
fn watch(
    args: &CallsArgs,
    starts: bool,
    source: &mut dyn Source,
    sink: &mut dyn Sink,
) -> anyhow::Result<bool> {
    let started = Instant::now();
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
fn await_end(source: &mut dyn Source) -> u8 {
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
