//! Reads a snapshot, finds the answers, and writes those that were asked for. Used by `commands` and `ledger`.

use std::path::Path;

use anyhow::{Context, bail};
use heap::answers::Answers;
use heap::answers::diff::Diff;
use heap::{Analysis, Error, Snapshot};
use report::heap::{FORMATS, Format, Options, diff, owner, path};
use report::losses::{Loss, What};

use super::args::Question;
use super::{HeapArgs, browse, ledger, live, when};
use crate::cli::format::require_first_or_records;
use crate::exit::EXCEEDED;
use crate::losses::Losses;
use crate::ui::file::{WholeFile, require_writable};
use crate::ui::sink::{Sink, require_room};
use crate::ui::terminal::Stream;

/// Where the snapshot comes from.
enum Source<'a> {
    /// A file that lancet has written.
    File(&'a Path),
    /// A core file, and what is wanted of it.
    Core(&'a Path, dump::core::Options<'a>),
    /// A process, and what is wanted of it.
    Process(live::Wanted),
}

fn source(args: &HeapArgs) -> anyhow::Result<Source<'_>> {
    match (args.file.as_deref(), args.pid) {
        (Some(file), _) => of_file(args, file),
        (None, Some(pid)) => Ok(Source::Process(live::Wanted {
            pid,
            options: args.wanted(),
            births: args.births,
            // A file is looked at later, in any format.
            memory: args.save.is_some() || args.format().shows_memory,
        })),
        (None, None) => bail!(
            "no snapshot is named: give a file of --save, a core file, or a process with -p PID"
        ),
    }
}

/// A core file, or a snapshot.
fn of_file<'a>(args: &'a HeapArgs, file: &'a Path) -> anyhow::Result<Source<'a>> {
    if dump::core::is_core(file) {
        return Ok(Source::Core(file, args.wanted_of_core()));
    }
    let name = file.display();
    if args.executable.is_some() {
        bail!("--exe is the program of a core file, and {name} is none: leave it away");
    }
    if args.save.is_some() {
        bail!(
            "--save writes the snapshot of a process (-p) or of a core file, and {name} is none: copy it"
        );
    }
    Ok(Source::File(file))
}

/// Runs `lancet heap` and returns the exit code.
pub fn run(args: HeapArgs) -> anyhow::Result<u8> {
    // What is wrong is said before a process is opened or waited for.
    if let Some(path) = &args.output {
        require_writable(path)?;
    }
    if let Some([earlier, later]) = args.diff.as_deref() {
        let (earlier, later) = (of_file(&args, earlier)?, of_file(&args, later)?);
        return compare(&args, &earlier, &later);
    }
    if args.rss {
        ledger::check(&args)?;
    }
    if args.question() != Question::All {
        require_first_or_records(args.chosen(), FORMATS, "--path")?;
    }
    if args.save.is_none() {
        require_room(
            args.chosen().is_text(),
            args.output.as_deref(),
            Stream::Stdout,
        )?;
    }
    if args.live {
        browse::require_terminal()?;
    }
    let to = args.save.as_deref().map(WholeFile::begin).transpose()?;
    if let (Some(when), Some(pid)) = (args.when, args.pid) {
        if args.copies() {
            live::check(pid, args.wanted(), when)?;
        }
        when::wait(pid, when, args.wait_for)?;
    }
    if let (true, Some(pid)) = (args.rss, args.pid) {
        return ledger::run(&args, pid);
    }
    if let (Some(most), Some(pid)) = (args.max_memory, args.pid)
        && !live::may_begin(pid, most)?
    {
        return Ok(EXCEEDED);
    }
    if args.live {
        return browsed(&args);
    }
    let snapshot = take(&source(&args)?)?;
    if args.rss {
        return ledger::saved(&args, &snapshot);
    }
    let mut losses = Losses::default();
    note_missing(&mut losses, &snapshot);
    if let (Some(path), Some(to)) = (&args.save, to) {
        live::save(&snapshot, to, path)?;
        return Ok(losses.exit_code(0));
    }
    let analysis = Analysis::of(&snapshot);
    let living = analysis.living().objects;
    let most = args.format().most_objects;
    if args.question() == Question::All && living > most {
        bail!(
            "{living} objects live, and what reads this format holds {most} at most: choose another --format"
        );
    }
    let answers = Answers::of(&analysis, owner);
    let mut sink =
        Sink::open(args.output.as_deref(), Stream::Stdout)?.in_form(args.chosen().records());
    let options = args.options(sink.style);
    let format = args.format();
    match args.question() {
        Question::All => format.write(&mut sink.out, &answers, &options)?,
        Question::Object(address) => {
            let object = snapshot.at(address).with_context(|| {
                format!("there is no object at {address:#x} in the snapshot: take an address that lancet heap shows")
            })?;
            path::object(&mut sink.out, &answers, object, format, &options)?;
        }
        Question::Class(name) => class(&mut sink, &answers, name, format, &options)?,
    }
    finish(sink, &losses)
}

/// Shows the snapshot on the screen, and returns the exit code.
fn browsed(args: &HeapArgs) -> anyhow::Result<u8> {
    let source = source(args)?;
    let first = take(&source)?;
    let mut again = || take(&source);
    let can_renew = matches!(source, Source::Process(_));
    let again = can_renew.then_some(&mut again as &mut dyn FnMut() -> _);
    let last = browse::run(first, args.contents, again)?;
    let mut losses = Losses::default();
    note_missing(&mut losses, &last);
    Ok(losses.exit_code(0))
}

/// Ends the output and returns the exit code.
pub(super) fn finish(mut sink: Sink, losses: &Losses) -> anyhow::Result<u8> {
    losses.end(&mut sink)?;
    Ok(losses.exit_code(0))
}

/// Says what is new in a later snapshot, and returns the exit code.
fn compare(args: &HeapArgs, earlier: &Source, later: &Source) -> anyhow::Result<u8> {
    let format = args.format();
    require_first_or_records(args.chosen(), FORMATS, "--diff")?;
    let (earlier, later) = (take(earlier)?, take(later)?);
    let (before, now) = (Analysis::of(&earlier), Analysis::of(&later));
    let answers = Answers::of(&now, owner);
    let found = Diff::of(&before, &now);
    let mut losses = Losses::default();
    if let Some(why) = earlier.about().why_not_before(later.about()) {
        let text = format!("{why}; what is told as new or gone means nothing");
        losses.say(Loss::new(None, What::Heap, None, text));
    }
    let mut sink =
        Sink::open(args.output.as_deref(), Stream::Stdout)?.in_form(args.chosen().records());
    let options = args.options(sink.style);
    diff::write(&mut sink.out, &answers, &found, format, &options)?;
    note_missing(&mut losses, &earlier);
    note_missing(&mut losses, &later);
    finish(sink, &losses)
}

/// Reads the snapshot from its file, or makes it.
fn take(source: &Source) -> anyhow::Result<Snapshot> {
    match source {
        Source::File(path) => {
            let read = Snapshot::open(path, affordable());
            read.map_err(|error| explained(path, error))
        }
        Source::Core(path, options) => Ok(dump::core::of_core(path, *options)?),
        Source::Process(wanted) => live::take(wanted),
    }
}

/// The most memory that a snapshot may take: half of what there is for us, because the analysis takes some 12 bytes an
/// object and 4 a reference beside it, where the snapshot has 7 to 39 and 10 while it is read.
fn affordable() -> u64 {
    process::control_group::memory_for(std::process::id() as i32) / 2
}

/// Returns the error with the next step.
fn explained(path: &Path, error: Error) -> anyhow::Error {
    let name = path.display();
    let next = match &error {
        Error::Cut(_) | Error::Damaged { .. } => ": copy it again, or make it anew",
        Error::TooLarge { .. } => ": read it on a machine with more free memory",
        Error::Foreign => ": it must be a file that lancet heap has written",
        Error::Io(_) | Error::Version(_) => "",
    };
    anyhow::anyhow!("{name}: {error}{next}")
}

/// Writes how the objects of a class are held.
fn class(
    sink: &mut Sink,
    answers: &Answers,
    name: &str,
    format: &Format,
    options: &Options,
) -> anyhow::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let all = 0..snapshot.len() as u32;
    let is_of = |object: &u32| snapshot.text(snapshot.type_name(*object)) == name.as_bytes();
    let ways = answers.paths.merged(all.filter(is_of), options.top);
    if ways.told.is_empty() {
        bail!(
            "no living object is a `{name}`: take a type that lancet heap shows, as it is written there"
        );
    }
    path::class(&mut sink.out, answers, &ways, format, options)?;
    Ok(())
}

/// Notes what is missing from a snapshot. The report has said so.
fn note_missing(losses: &mut Losses, snapshot: &Snapshot) {
    let pid = Some(snapshot.about().pid);
    for text in report::heap::losses(snapshot) {
        losses.note_in_report(Loss::new(pid, What::Heap, None, text));
    }
}
