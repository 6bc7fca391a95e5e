//! Opens the guests, a program or a recording, hands events to a format until it is over, leaves.

use super::CallsArgs;
use super::missed::Missed;
use crate::agent::AGENT;
use crate::failure;
use crate::ui::advice::next_step;
use crate::ui::file::private_file;
use crate::ui::interrupt;
use crate::ui::queued::Written;
use crate::ui::sink::Sink as Output;
use crate::ui::terminal::Stream;
use calls::consumer::{Consumer, End};
use calls::debug::{self, Debug};
use calls::filter::RecordFilter;
use calls::summary::Rows;
use calls::{
    Error, Family, Flow, Message, Messages, Options, Recorder, Replay, Signatures, Source,
};
use inject::Image;
use inject::lifecycle::{INTERRUPTED, Interruption, await_end};
use report::calls::Summary;
use std::io::Write;
use std::time::Instant;

/// Runs the command; the answer is the exit code.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    if args.debug == Some(Debug::Help) {
        std::io::stdout().write_all(debug::HELP.as_bytes())?;
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
    let options = args.options(Messages::to(print));
    let signatures = Signatures::read(&args.prototypes, options.ltrace).map_err(explain)?;
    let starts = !args.program.is_empty() && file.is_none();
    let (mut consumer, written) = consumer(&args, &options, &signatures, starts)?;
    let mut source: Box<dyn Source> = match file {
        Some(path) => Box::new(Replay::open(path, &options, &signatures).map_err(explain)?),
        None if args.pids.is_empty() && !starts => {
            anyhow::bail!("there is nothing to watch: name a PROGRAM, or a process with -p PID")
        }
        None => {
            let image = Image::parse(AGENT)?;
            Box::new(Family::open(&options, &signatures, image).map_err(explain)?)
        }
    };
    let watched = failure::catch(|| watch(&args, starts, &mut *source, &mut *consumer));
    let mut missed = Missed::default();
    missed.note(!source.leave());
    let interrupted = watched?;
    if file.is_none() {
        // What was reported while we left.
        while source.read(&mut *consumer).map_err(explain)? == Flow::More {}
    }
    missed.note(source.has_missed());
    let losses = source.losses();
    for (pid, losses) in &losses {
        missed.in_process(*pid, losses);
    }
    consumer.finish(End {
        counted: source.counted(),
        losses,
    })?;
    if let Some(written) = written {
        missed.in_output(written.finish()?);
    }
    let code = match (starts, interrupted) {
        (false, _) => 0,
        (true, true) => source.code().map_or(INTERRUPTED, |code| code as u8),
        (true, false) => await_end(interrupt::asked, || source.code()),
    };
    // With --ltrace whatever the program ended with.
    Ok(missed.exit_code(if options.ltrace { 0 } else { code }))
}

/// Who takes the events: a format, the recorder, or both; before them, of a recording, the filter by condition. Beside
/// it, where a guest would have to wait for who reads our output: what becomes of that.
fn consumer<'a>(
    args: &'a CallsArgs,
    options: &'a Options,
    signatures: &'a Signatures,
    starts: bool,
) -> anyhow::Result<(Box<dyn Consumer + 'a>, Option<Written>)> {
    let mut written = None;
    let shown: Option<Box<dyn Consumer>> = if args.shows() {
        let stream = if starts || options.ltrace {
            // Standard output is the program's.
            Stream::Stderr
        } else {
            Stream::Stdout
        };
        let file = args.output.as_deref();
        let mut out = if args.recording().is_some() {
            Output::open(file, stream)?.out
        } else {
            let (out, end) = Output::queued(file, stream, options.most_wait)?;
            written = Some(end);
            out
        };
        for error in signatures.wrong() {
            // Where and how ltrace says it.
            let prototypes::Error {
                file,
                line,
                problem,
                ..
            } = error;
            writeln!(out, "{file}:{line}: error: {problem}")?;
        }
        Some(if args.count {
            let rows = Rows::new(&args.presets, options.strings, args.demangle);
            Box::new(Summary::new(rows, args.format(), out))
        } else {
            (args.format().events)(args.layout(), signatures, out)
        })
    } else {
        None
    };
    let consumer: Box<dyn Consumer> = match (&args.record, shown) {
        (Some(path), shown) => {
            let file = private_file(path)?;
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
            Box::new(Recorder::create(
                path,
                file,
                words.collect(),
                signatures,
                shown,
            )?)
        }
        (None, Some(shown)) => shown,
        (None, None) => unreachable!("what is not recorded is shown"),
    };
    // A running guest decides for itself.
    let consumer = match args.recording() {
        Some(_) => RecordFilter::before(consumer, options, signatures),
        None => consumer,
    };
    Ok((consumer, written))
}

/// Prints a message, with the next step where one is known.
fn print(message: &Message) {
    match message.remediable().and_then(next_step) {
        Some(step) => tell!("{message}: {step}"),
        None => tell!("{message}"),
    }
}

/// The same for what ends the command.
fn explain(error: Error) -> anyhow::Error {
    match (error.of_process().and_then(next_step), error) {
        (Some(step), error) => anyhow::anyhow!("{error}: {step}"),
        // Kept as it is, because a broken pipe is no failure.
        (None, Error::Output(error)) => anyhow::Error::new(error),
        (None, error) => anyhow::Error::new(error),
    }
}

/// Reads until it is over; whether by Ctrl-C.
fn watch(
    args: &CallsArgs,
    starts: bool,
    source: &mut dyn Source,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<bool> {
    let started = Instant::now();
    let mut interruption = Interruption::default();
    loop {
        let flow = source.read(consumer).map_err(explain)?;
        let over = args
            .watch_for
            .is_some_and(|length| started.elapsed() >= length);
        if over || flow == Flow::Over {
            return Ok(false);
        }
        if interruption.is_over(interrupt::asked(), starts) {
            return Ok(true);
        }
        if flow == Flow::Idle {
            consumer.rest()?;
            source.rest();
        }
    }
}
