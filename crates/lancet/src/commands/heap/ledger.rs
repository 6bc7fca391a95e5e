//! `lancet heap -p PID --rss`: what resident memory is used for. Used by `run`.

use anyhow::bail;
use dump::Opened;
use heap::Snapshot;
use inject::Image;
use report::heap::FORMATS;
use report::losses::{Loss, What};
use rss::{Budget, Figures, Finding, Ledger};

use super::HeapArgs;
use super::run::finish;
use crate::agent::AGENT;
use crate::cli::format::require_first_or_records;
use crate::losses::Losses;
use crate::ui::advice::explain;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Refuses what cannot be written so, and what means nothing with `--rss`.
pub fn check(args: &HeapArgs) -> anyhow::Result<()> {
    require_first_or_records(args.chosen(), FORMATS, "--rss")?;
    if args.despite_limit && !args.copies() {
        bail!(
            "--despite-limit is for a copy, and --rss alone makes none: give it with --compact or --ask-malloc, or leave it away"
        );
    }
    Ok(())
}

/// Writes the ledger that a snapshot has kept, and returns the exit code.
pub fn saved(args: &HeapArgs, snapshot: &Snapshot) -> anyhow::Result<u8> {
    let about = snapshot.about();
    if about.memory.rows.is_empty() {
        bail!(
            "the snapshot does not say what its memory was used for: lancet heap -p {} --rss looks at the process, if it still runs",
            about.pid
        );
    }
    let mut sink =
        Sink::open(args.output.as_deref(), Stream::Stdout)?.in_form(args.chosen().records());
    let options = args.ledger_options(sink.style);
    report::rss::saved(&mut sink.out, about, &options)?;
    finish(sink, &Losses::default())
}

/// Measures what a compaction of its heap would give back.
fn compact(args: &HeapArgs, pid: i32) -> anyhow::Result<Finding> {
    let image = Image::parse(AGENT)?;
    let opened = Opened::open(pid, &image, args.wanted()).map_err(explain)?;
    let found = opened.compact().map_err(explain)?;
    tell!(
        "process {pid} stood still for {:.1} ms to be copied; its copy compacted its heap in {:.2} s",
        found.pause.as_secs_f64() * 1e3,
        found.took.as_secs_f64(),
    );
    let freed = found.before.all.saturating_sub(found.after.all);
    Ok(Finding::Compaction {
        language: found.language,
        freed,
        bytes: freed * found.page,
        pages: found.before.all,
        empty: found.after.empty,
        empty_before: found.before.empty,
        took: found.took.as_millis() as u64,
    })
}

/// Asks the allocator that has taken malloc's place, and divides its memory by what it says.
fn ask_malloc(args: &HeapArgs, pid: i32, ledger: &mut Ledger) -> anyhow::Result<()> {
    let Some(other) = &ledger.other else {
        bail!("no library of the process has taken malloc's place: leave --ask-malloc away");
    };
    let name = other.name;
    let Some((asked, function)) = other.asked else {
        bail!("{name} has no function that lancet could ask");
    };
    let image = Image::parse(AGENT)?;
    let opened = Opened::open(pid, &image, args.wanted()).map_err(explain)?;
    let answers = opened.ask_allocator(asked, function).map_err(explain)?;
    let milliseconds = answers.pause.as_secs_f64() * 1e3;
    tell!("process {pid} stood still for {milliseconds:.1} ms to be copied; its copy asked {name}");
    match Figures::of(asked, &answers.values) {
        Some(figures) => ledger.divide(figures),
        None => bail!("{name} was built without statistics"),
    }
    Ok(())
}

/// Writes the ledger of a process and returns the exit code.
pub fn run(args: &HeapArgs, pid: i32) -> anyhow::Result<u8> {
    let mut ledger = rss::look(pid, Budget::default()).map_err(explain)?;
    if args.ask_malloc
        && let Err(error) = ask_malloc(args, pid, &mut ledger)
    {
        let missing = format!("what the allocator has in use: {error:#}");
        ledger.missing.push(missing);
    }
    if args.compact {
        // Afterwards, because the process shares its pages with the copy as long as that lives.
        match compact(args, pid) {
            Ok(finding) => ledger.findings.push(finding),
            Err(error) => ledger
                .missing
                .push(format!("what GC.compact would give back: {error:#}")),
        }
    }
    let mut losses = Losses::default();
    for text in report::rss::losses(&ledger) {
        losses.note_in_report(Loss::new(Some(pid), What::Heap, None, text));
    }
    let mut sink =
        Sink::open(args.output.as_deref(), Stream::Stdout)?.in_form(args.chosen().records());
    let options = args.ledger_options(sink.style);
    report::rss::write(&mut sink.out, &ledger, &options)?;
    finish(sink, &losses)
}
