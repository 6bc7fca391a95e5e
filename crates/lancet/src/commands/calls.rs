//! `lancet calls`: which line calls this C function, with what, and how long does it take?

mod groups;
mod guest;
mod printer;
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
use signatures::Signatures;
use sink::Sink;
use source::{Flow, Live, Source};
use std::thread::sleep;
use std::time::{Duration, Instant};
use summary::Summary;

/// Between two looks at lanes that were empty.
const LOOK: Duration = Duration::from_millis(1);

/// Opens the guests, prints what they call, leaves.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    interrupt::catch();
    let signatures = Signatures::read(&args.prototypes)?;
    let stream = match args.ltrace {
        true => Stream::Stderr,
        false => Stream::Stdout,
    };
    let out = Output::open(args.output.as_deref(), stream)?.out;
    let mut source = Live::open(&args, &signatures)?;
    let mut sink: Box<dyn Sink> = match args.count {
        true => Box::new(Summary::new(&args, out)),
        false => Box::new(Printer::new(&args, &signatures, out)),
    };
    let watched = watch(&args, &mut source, &mut *sink);
    let mut lost = !source.leave();
    watched?;
    // What was told while we left.
    source.read(&mut *sink)?;
    sink.finish(source.counted())?;
    lost |= source.say_losses();
    Ok(if lost { LOST } else { 0 })
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
