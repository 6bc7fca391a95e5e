//! Decides from the targets what is meant: running processes, core files, or files to be ranked. Used by `commands`.

use std::path::Path;

use frames::Scan;
use frames::difference::{Difference, Wanted};
use frames::live::core::Core;
use report::losses::{Loss, What};
use report::stack::chains::{self, Chains};
use report::stack::difference::{json as json_of_difference, table as table_of_difference};
use report::stack::folded::FORMATS;
use report::stack::ranking::{json, table};

use super::{StackArgs, files, live};
use crate::cli::format::require_first_or_records;
use crate::exit::EXCEEDED;
use crate::losses::Losses;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Runs `lancet stack` and returns the exit code.
pub fn run(args: StackArgs) -> anyhow::Result<u8> {
    if !args.looks_again() {
        let what = "one look at stacks (without --for 10s or --every 10ms), or a file,";
        require_first_or_records(args.chosen(), FORMATS, what)?;
    }
    if !args.pids.is_empty() || !args.program.is_empty() {
        return live::run(&args);
    }
    if let Some([old, new]) = args.diff.as_deref() {
        return compare(&args, old, new);
    }
    let cores = args.files.iter().filter(|path| Core::is_one(path)).count();
    if cores > 0 && args.chains {
        anyhow::bail!("--chains is about programs and libraries, not about core files");
    }
    if cores > 0 {
        if cores < args.files.len() || !args.gems.is_empty() || args.process.is_some() {
            anyhow::bail!("cores and other files together: name the core files alone");
        }
        return live::cores(&args);
    }
    if args.gc {
        anyhow::bail!("--gc is about stacks: name a process (-p PID) or a core file");
    }
    if args.fibers {
        anyhow::bail!("--fibers is about stacks: name a process (-p PID) or a core file");
    }
    of_files(&args)
}

/// Ranks the frames of files, or shows their chains of calls.
fn of_files(args: &StackArgs) -> anyhow::Result<u8> {
    let ranking = files::rank(args)?;
    let mut sink =
        Sink::open(args.output.as_deref(), Stream::Stdout)?.in_form(args.chosen().records());
    let chains = args
        .chains
        .then(|| Chains::of(&ranking.scans, args.rows(), args.max));
    match (&chains, args.has_records()) {
        (Some(chains), true) => chains::json::write(&mut sink.out, chains)?,
        (Some(chains), false) => chains::table::write(&mut sink.out, chains)?,
        (None, true) => json::write(&mut sink.out, &ranking)?,
        (None, false) => table::write(&mut sink.out, &ranking)?,
    }
    let mut losses = Losses::default();
    for (what, why) in &ranking.refused {
        let text = format!("{}: {why}", what.display());
        losses.say(Loss::new(None, What::Files, None, text));
    }
    // The table says it behind the file's name.
    for loss in ranking.scans.iter().filter_map(damage) {
        losses.note_in_report(loss);
    }
    losses.end(&mut sink)?;
    let (larger, words) = match &chains {
        Some(chains) => (
            chains.larger,
            ["chain of calls takes", "chains of calls take"],
        ),
        None => (ranking.larger, ["frame is larger", "frames are larger"]),
    };
    let than = if chains.is_some() {
        "more than"
    } else {
        "than"
    };
    if let Some(max) = args.max
        && larger > 0
    {
        let words = report::figures::plural(larger, words[0], words[1]);
        tell!("{larger} {words} {than} {max} bytes");
        return Ok(EXCEEDED);
    }
    Ok(losses.exit_code(0))
}

/// Returns what of a file's call frame information could not be read.
fn damage(scan: &Scan) -> Option<Loss> {
    let count = scan.damaged() as u64;
    let text = format!(
        "{}: {count} damaged {} of the call frame information left out",
        scan.image().path().display(),
        report::figures::plural(count, "entry", "entries")
    );
    (count > 0).then(|| Loss::new(None, What::Frames, Some(count), text))
}

/// Returns the loss of the functions that have no name and may be those that `max` is about.
fn not_compared(difference: &Difference, max: u64) -> Option<Loss> {
    let count = difference.larger_unnamed;
    let text = format!(
        "{}: {count} {} no name and cannot be compared, and {} larger than {max} bytes",
        difference.new.image().path().display(),
        report::figures::plural(count, "function has", "functions have"),
        report::figures::plural(count, "its frame is", "their frames are"),
    );
    (count > 0).then(|| Loss::new(None, What::Frames, Some(count), text))
}

/// Compares the frames of two builds of a file.
fn compare(args: &StackArgs, old: &Path, new: &Path) -> anyhow::Result<u8> {
    let wanted = Wanted {
        rows: args.rows(),
        max: args.max,
    };
    let difference = Difference::new(
        files::scan(old, args.decode())?,
        files::scan(new, args.decode())?,
        wanted,
    );
    let mut sink =
        Sink::open(args.output.as_deref(), Stream::Stdout)?.in_form(args.chosen().records());
    let mut losses = Losses::default();
    for scan in [&difference.old, &difference.new] {
        if let Some(loss) = damage(scan) {
            losses.say(loss);
        }
    }
    if let Some(loss) = args.max.and_then(|max| not_compared(&difference, max)) {
        losses.say(loss);
    }
    if args.has_records() {
        json_of_difference::write(&mut sink.out, &difference)?;
    } else {
        table_of_difference::write(&mut sink.out, &difference)?;
    }
    losses.end(&mut sink)?;
    if let Some(max) = args.max
        && difference.larger > 0
    {
        let count = difference.larger;
        let frames = report::figures::plural(
            count,
            "frame that grew or is new is",
            "frames that grew or are new are",
        );
        tell!("{count} {frames} larger than {max} bytes");
        return Ok(EXCEEDED);
    }
    Ok(losses.exit_code(0))
}
