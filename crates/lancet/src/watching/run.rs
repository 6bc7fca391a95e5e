//! Opens the guests, a program or a recording, hands events to a format until it is over, leaves. Used by
//! `commands::companion::watches`, `commands::calls::run`, `commands::mem::run` and others.

use super::messages::Heard;
use super::{Asked, losses};
use crate::agent::AGENT;
use crate::exit::{LOST, Usage};
use crate::failure;
use crate::losses::Losses;
use crate::ui::advice::next_step;
use crate::ui::file::private_file;
use crate::ui::interrupt;
use crate::ui::progress::Progress;
use crate::ui::queued::{Kind, Written, queued};
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::filter::RecordFilter;
use calls::in_function::InFunction;
use calls::message::Messages;
use calls::never_occurred::NeverOccurred;
use calls::options::Options;
use calls::recorder::{Recorder, Recording};
use calls::recorder::{Store, not_recorded};
use calls::replay::Replay;
use calls::signatures::Signatures;
use calls::source::{Flow, Source};
use calls::{Error, Family};
use inject::Embedded;
use inject::lifecycle::{INTERRUPTED, Interruption, await_end};
use inject::tracee::hold_child_signal;
use report::losses::{Loss, What};
use report::syscalls::SharedOutput;
use report::text::printable;
use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What is said with `--companion` when every process is open; `lancet mem` says it, too.
pub const READY: &str = "ready";
/// What a line on standard error begins with, with `--companion`, that is about calls which are not told: of functions that are not hooked.
pub const LACKS: &str = "lacks: ";
/// What one begins with that says how many calls were lost until then.
pub const LOST_UNTIL_NOW: &str = "lost: ";
/// Between two looks at how many were lost.
const LOOK_AT_LOSSES: Duration = Duration::from_millis(10);

/// Does what is asked; the answer is the exit code.
pub fn run(args: &dyn Asked) -> anyhow::Result<u8> {
    check(args)?;
    interrupt::catch();
    // Before there is a thread that writes what is shown.
    hold_child_signal();
    if let Some(companion) = args.common().companion {
        interrupt::end_with(companion)?;
    }
    let heard = Rc::new(Heard::new(args));
    let hears = heard.clone();
    let mut options = args.options(Messages::to(move |message| hears.hear(message)));
    let signatures = Signatures::read(args.prototypes(), options.ltrace).map_err(explain)?;
    let signatures = Rc::new(signatures);
    let is_replay = args.recording().is_some();
    let starts = !options.program.is_empty() && !is_replay;
    let recording = args
        .record()
        .map(|path| record(path, &options, signatures.clone()));
    let (recording, recorded) = recording.transpose()?.unzip();
    options.recording = recording
        .clone()
        .filter(|_| !args.shows() && !is_replay && options.within.is_empty());
    let (shown, written) = shown(args, &options, &signatures, starts)?;
    let mut consumer = consumer(recording, shown, &options, &signatures, is_replay);
    let Some(mut source) = open(args, &options, &signatures, starts)? else {
        return Ok(LOST);
    };
    if starts && args.lets_streams_go() {
        let_streams_go();
    }
    let attached = attached(args, &options, &heard);
    for pid in &attached {
        tell!("Process {pid} attached");
    }
    if args.common().companion.is_some() {
        tell!("{READY}");
    }
    let began = Instant::now();
    let told = failure::catch(|| watch(args, starts, (&mut *source, &mut *consumer)));
    // Several are opened one after the other, and each ends when it does.
    let is_one = options.pids.len() + usize::from(starts) == 1 && !options.follow;
    heard
        .watched
        .set((is_one && !is_replay).then(|| began.elapsed()));
    source.leave();
    let told = told.and_then(|interrupted| {
        for pid in attached.iter().filter(|_| interrupted) {
            tell!("Process {pid} detached");
        }
        let files = (recorded, written);
        end(
            args,
            (&options, &heard),
            &mut *source,
            &mut *consumer,
            files,
        )?;
        Ok(interrupted)
    });
    // Where the table was not written.
    heard.say_later();
    let interrupted = match told {
        // The program goes on alone, and its code is what counts.
        Err(error) if starts && is_of_output(&error) => {
            heard.losses.borrow_mut().say(unwritten(&error));
            interrupt::asked()
        }
        told => told?,
    };
    if interrupted && !attached.is_empty() && !starts {
        interrupt::end();
    }
    let code = match (starts, interrupted) {
        (false, _) => 0,
        (true, true) => source.code().map_or(INTERRUPTED, |code| code as u8),
        (true, false) => await_end(interrupt::asked, || source.code()),
    };
    if let Some(signal) = source.killed_by().filter(|_| args.ends_as_program()) {
        interrupt::end_by(signal);
    }
    if args.common().companion.is_some_and(interrupt::has_ended) {
        // Nobody is told any more what was lost, and the command may have found that out before it was asked to end. A program that is process
        // 1 of its container is our parent now, and may take the code for one of its workers' (gunicorn ends as a whole on 3 and 4).
        return Ok(0);
    }
    // With --ltrace whatever the program ended with.
    let losses = heard.losses.borrow();
    Ok(losses.exit_code(if options.ltrace { 0 } else { code }))
}

/// Tells what only the end can tell, when all processes are over or left.
fn end(
    args: &dyn Asked,
    (options, heard): (&Options, &Heard),
    source: &mut dyn Source,
    consumer: &mut dyn Consumer,
    (recorded, written): (Option<Written>, Option<Told>),
) -> anyhow::Result<()> {
    let is_replay = args.recording().is_some();
    if !is_replay {
        // What was reported while we left.
        while source.read(&mut *consumer).map_err(explain)? == Flow::More {}
    }
    for line in heard.repeated.take() {
        tell!("{line}");
    }
    // ltrace's words are asked for, and it says nothing of its hooks.
    if !is_replay && !options.ltrace && !heard.is_hooked() {
        losses::say_nothing_hooked(&mut heard.losses.borrow_mut(), options);
    }
    let use_of = match args.counts() && args.record().is_none() {
        true => losses::Use::Counted,
        false => losses::Use::Shown,
    };
    finish(source, consumer, heard, use_of)?;
    let done = finish_files(args, recorded, written, &mut heard.losses.borrow_mut());
    // The table has been written.
    heard.say_later();
    done
}

/// Whether the output or the recording could not be written, but for a pipe that nobody reads any more, which is no failure.
fn is_of_output(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.any(|error: &std::io::Error| error.kind() != std::io::ErrorKind::BrokenPipe)
}

/// What is lost where the output of a program that was started cannot be written.
fn unwritten(error: &anyhow::Error) -> Loss {
    let text =
        format!("{error:#}: what the program does from there on is not told; it runs to its end");
    Loss::new(None, What::Output, None, text)
}

/// Refuses what cannot be asked together, and to record into the recording that is read, before anything is done.
fn check(args: &dyn Asked) -> anyhow::Result<()> {
    if let Some(flaw) = args.flaw() {
        return Err(Usage(flaw).into());
    }
    if let (Some(read), Some(written)) = (args.recording(), args.record())
        && read.canonicalize().ok() == written.canonicalize().ok()
    {
        anyhow::bail!(
            "{} is what is read: record into another file",
            written.display()
        );
    }
    Ok(())
}

/// What takes the events: a recording, a format, or both, behind the filters that the source does not apply itself.
fn consumer<'a>(
    recording: Option<Recording>,
    shown: Option<Shown<'a>>,
    options: &Options,
    signatures: &'a Signatures,
    is_replay: bool,
) -> Box<dyn Consumer + 'a> {
    let consumer: Box<dyn Consumer> = match (recording, shown) {
        (Some(recording), shown) => Box::new(Recorder::new(recording, shown)),
        (None, Some(shown)) => shown,
        (None, None) => unreachable!("what is not recorded is shown"),
    };
    let consumer = InFunction::before(consumer, &options.within, options.messages.clone());
    let consumer = NeverOccurred::before(consumer, options);
    if is_replay {
        RecordFilter::before(consumer, options, signatures)
    } else {
        // A running guest decides for itself.
        consumer
    }
}

/// Opens the recording, or the processes and the program. `None`: nothing that was asked for is in any of them, which was said.
fn open<'a>(
    args: &'a dyn Asked,
    options: &'a Options,
    signatures: &'a Rc<Signatures>,
    starts: bool,
) -> anyhow::Result<Option<Box<dyn Source + 'a>>> {
    if let Some(path) = args.recording() {
        let replay = Replay::open(path, options, signatures).map_err(explain)?;
        return Ok(Some(Box::new(replay)));
    }
    if options.pids.is_empty() && !starts {
        anyhow::bail!("there is nothing to watch: name a PROGRAM, or a process with -p PID");
    }
    match Family::open(options, signatures, Embedded::new(AGENT)) {
        Err(
            error @ (Error::NothingHooked(_)
            | Error::NoPlaceHooked { .. }
            | Error::FewPlacesHooked { .. }
            | Error::NothingMeets(_)),
        ) => {
            tell!("{error}");
            Ok(None)
        }
        family => Ok(Some(Box::new(family.map_err(explain)?))),
    }
}

/// The running processes that are said to be attached to and left, where that is told as strace tells it.
fn attached(args: &dyn Asked, options: &Options, heard: &Heard) -> Vec<i32> {
    if !args.ends_as_strace() || args.recording().is_some() {
        return Vec::new();
    }
    let opened = options.pids.iter().filter(|pid| !heard.is_refused(**pid));
    opened.copied().collect()
}

/// Hands the consumer what only the end can tell, and notes what was lost on the way to it. The consumer may have messages of its own, so
/// no loss is borrowed while it works.
fn finish(
    source: &mut dyn Source,
    consumer: &mut dyn Consumer,
    heard: &Heard,
    use_of: losses::Use,
) -> anyhow::Result<()> {
    let lost = source.losses();
    losses::say_rings(&mut heard.losses.borrow_mut(), &lost, use_of);
    consumer.finish(SourceEnd {
        counted: source.counted(),
        losses: lost,
        descriptors: source.descriptors(),
        given_up: heard.given_up(),
        recorded: source.is_recording(),
        watched: heard.watched.get(),
    })?;
    let forgotten = Forgotten::open(source.forgotten()) + consumer.forgotten();
    losses::say_forgotten(&mut heard.losses.borrow_mut(), forgotten);
    Ok(())
}

/// Waits until the recording and the output are written, and notes what is missing in them.
fn finish_files(
    args: &dyn Asked,
    recorded: Option<Written>,
    told: Option<Told>,
    losses: &mut Losses,
) -> anyhow::Result<()> {
    if let (Some(recorded), Some(path)) = (recorded, args.record()) {
        let dropped = recorded
            .finish()
            .map_err(|error| not_recorded(path, &error))?;
        losses::say_recording(losses, dropped);
    }
    let Some(Told { written, records }) = told else {
        return Ok(());
    };
    let missing = written.finish()?;
    losses::say_output(losses, missing);
    match (records, args.form()) {
        (Some(mut records), Some(form)) => {
            losses.end_records(&mut records, form)?;
            records.flush()?;
            // A form that writes only now loses lines only now.
            losses::say_output(losses, written.finish()? - missing);
        }
        (_, Some(form)) => {
            let mut last = Vec::new();
            losses.end_records(&mut last, form)?;
            written.end_with(last)?;
        }
        (_, None) => {}
    }
    Ok(())
}

/// Has our standard input and output lead nowhere: a program that we started has its own.
fn let_streams_go() {
    let nowhere = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    let Ok(nowhere) = nowhere else {
        return;
    };
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: takes two numbers; what was open under the second is ours.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&nowhere), stream) };
    }
}

/// Begins a recording. Beside it: what becomes of its file.
fn record(
    path: &Path,
    options: &Options,
    signatures: Rc<Signatures>,
) -> anyhow::Result<(Recording, Written)> {
    let file = private_file(path)?;
    // The recorder names the file.
    let explain = |error: &std::io::Error| error.to_string();
    let (file, end) = queued(file, Kind::Whole, options.most_wait, explain);
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let store = Store::create(path, Box::new(file), words.collect(), signatures)?;
    // A file that cannot be written is refused before any process is opened.
    end.finish().map_err(|error| not_recorded(path, &error))?;
    Ok((Rc::new(RefCell::new(store)), end))
}

/// A format that shows events.
type Shown<'a> = Box<dyn Consumer + 'a>;

/// What becomes of our output.
struct Told {
    written: Written,
    /// Where records are written to, if a form makes something else of them: it is not over before the last one.
    records: Option<SharedOutput>,
}

/// The format that shows the events, if they are shown, and what becomes of our output.
fn shown<'a>(
    args: &'a dyn Asked,
    options: &Options,
    signatures: &'a Signatures,
    starts: bool,
) -> anyhow::Result<(Option<Shown<'a>>, Option<Told>)> {
    if !args.shows() {
        return Ok((None, None));
    }
    let stream = if starts || options.ltrace {
        // Standard output is the program's.
        Stream::Stderr
    } else {
        Stream::Stdout
    };
    // No guest waits for a recording to be shown.
    let most_wait = match args.recording() {
        Some(_) => Duration::MAX,
        None => options.most_wait,
    };
    let (mut out, written) = Sink::queued(args.output(), stream, most_wait, args.form())?;
    let mut records = None;
    if let Some(form) = args.form().filter(|form| !form.is_json()) {
        let shared = SharedOutput::new(form.over(out));
        out = Box::new(shared.clone());
        records = Some(shared);
    }
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
    let shown = args.consumer(options, signatures, out);
    Ok((Some(shown), Some(Told { written, records })))
}

/// An error that ends the command, with the next step where one is known.
fn explain(error: Error) -> anyhow::Error {
    match (error.of_process().and_then(next_step), error) {
        (Some(step), error) => anyhow::anyhow!("{error}: {step}"),
        (None, error @ Error::NotExact { by_tracing, .. }) if by_tracing => {
            anyhow::anyhow!(
                "{error}: name the calls that are wanted (-e), or see all with --no-modify"
            )
        }
        // Kept as it is, because a broken pipe is no failure.
        (None, Error::Output(error)) => anyhow::Error::new(error),
        (None, error) => anyhow::Error::new(error),
    }
}

/// Tells the companion how many calls were lost, if they are more than it knows of.
fn tell_lost(lost: u64, told: u64) -> u64 {
    if lost > told {
        tell!("{LOST_UNTIL_NOW}{lost}");
    }
    lost.max(told)
}

/// Reads until it is over; whether by Ctrl-C.
fn watch(
    args: &dyn Asked,
    starts: bool,
    (source, consumer): (&mut dyn Source, &mut dyn Consumer),
) -> anyhow::Result<bool> {
    let started = Instant::now();
    let mut interruption = Interruption::default();
    // Lines that run over the terminal say themselves how far it is, and who reads a pipe (less) may have the terminal.
    let in_file = || std::fs::metadata("/proc/self/fd/1").is_ok_and(|of| of.is_file());
    let counts = args.counts() && Stream::Stdout.is_terminal();
    let is_silent = counts || args.output().is_some() || in_file();
    let file = args.recording().map(|file| file.display().to_string());
    let what = file.unwrap_or_else(|| "counting".into());
    let what = printable(&what).into_owned();
    let mut progress = Progress::new(what, is_silent);
    let mut lost = (Instant::now(), 0);
    loop {
        if args.common().companion.is_some() && lost.0.elapsed() >= LOOK_AT_LOSSES {
            lost = (Instant::now(), tell_lost(source.lost_until_now(), lost.1));
        }
        let flow = source.read(consumer).map_err(explain)?;
        if let Some(done) = source.progress() {
            progress.show(done);
        }
        let over = args
            .watch_for()
            .is_some_and(|length| started.elapsed() >= length);
        if over || flow == Flow::Over {
            return Ok(false);
        }
        if interruption.is_over(interrupt::asked(), starts) {
            return Ok(true);
        }
        if let (true, Some(length)) = (counts && !starts, args.watch_for()) {
            progress.show((started.elapsed().as_secs_f64() / length.as_secs_f64()).min(1.0));
        }
        if flow == Flow::Idle {
            consumer.rest()?;
            source.rest();
        }
    }
}
