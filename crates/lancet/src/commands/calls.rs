//! `lancet calls`: which line calls this C function, with what, and how long does it take?

mod groups;
mod guest;
mod known;
mod pace;
mod printer;
mod recorder;
mod replay;
mod select;
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
use printer::Printer;
use process::lanes::Losses;
use recorder::Recorder;
use replay::Replay;
use signatures::Signatures;
use sink::{End, Sink};
use source::{Flow, Live, Source};
use std::thread::sleep;
use std::time::{Duration, Instant};
use summary::Summary;

/// Between two looks at lanes that were empty.
const LOOK: Duration = Duration::from_millis(1);

/// Opens the guests or the recording, shows what is told, leaves.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    interrupt::catch();
    if let (Some(read), Some(written)) = (&args.file, &args.record)
        && read.canonicalize().ok() == written.canonicalize().ok()
    {
        anyhow::bail!(
            "{} is what is read: record into another file",
            written.display()
        );
    }
    let signatures = Signatures::read(&args.prototypes)?;
    let mut sink = sink(&args, &signatures)?;
    let mut source: Box<dyn Source> = match &args.file {
        Some(path) => Box::new(Replay::open(path, &args, &signatures)?),
        None => Box::new(Live::open(&args, &signatures)?),
    };
    let watched = watch(&args, &mut *source, &mut *sink);
    let mut lost = !source.leave();
    watched?;
    if args.file.is_none() {
        // What was told while we left.
        while source.read(&mut *sink)? == Flow::More {}
    }
    let losses = source.losses();
    for (pid, losses) in losses.iter().filter(|(_, losses)| losses.sum() != 0) {
        say(*pid, losses);
        lost = true;
    }
    sink.finish(End {
        counted: source.counted(),
        losses,
    })?;
    Ok(if lost { LOST } else { 0 })
}

/// Who takes what is told.
fn sink<'a>(args: &'a CallsArgs, signatures: &'a Signatures) -> anyhow::Result<Box<dyn Sink + 'a>> {
    let shows = args.record.is_none() || args.count || args.output.is_some();
    let shown: Option<Box<dyn Sink>> = match shows {
        false => None,
        true => {
            let stream = match args.ltrace {
                true => Stream::Stderr,
                false => Stream::Stdout,
            };
            let out = Output::open(args.output.as_deref(), stream)?.out;
            Some(match args.count {
                true => Box::new(Summary::new(args, out)),
                false => Box::new(Printer::new(args, signatures, out)),
            })
        }
    };
    Ok(match (&args.record, shown) {
        (Some(path), shown) => Box::new(Recorder::create(path, signatures, shown)?),
        (None, Some(shown)) => shown,
        (None, None) => unreachable!("what is not recorded is shown"),
    })
}

/// Says what got lost.
fn say(pid: i32, losses: &Losses) {
    eprintln!(
        "lancet: process {pid}: lost: {} records that found no room in time, {} calls of threads without a lane, {} counts",
        losses.records, losses.unlaned, losses.uncounted
    );
}

/// Reads until it is over.
fn watch(args: &CallsArgs, source: &mut dyn Source, sink: &mut dyn Sink) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let flow = source.read(sink)?;
        let over = args
            .watch_for
            .is_some_and(|length| started.elapsed() >= length);
        if over || interrupt::asked() || flow == Flow::Over {
            return Ok(());
        }
        if flow == Flow::Idle {
            sink.rest()?;
            sleep(LOOK);
        }
    }
}
