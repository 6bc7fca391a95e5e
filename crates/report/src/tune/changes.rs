//! What `--apply` and `--undo` did to a machine, or would do, a line each. Used by `lancet::commands::tune::change`.

use std::io::{self, Write};
use std::path::Path;

use tune::apply::{Applied, Undone, Wish};
use tune::journal::Step;
use tune::owners::Owner;
use tune::rules::Finding;

use crate::text::printable;

/// Writes that a check has no change to propose, and why.
///
/// # Errors
///
/// Like all functions here, returns the errors of `out`.
pub fn nothing(out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
    let words = finding.outcome.verdict.words();
    let says = printable(&finding.outcome.says);
    writeln!(out, "{}  nothing to change: {words}: {says}", finding.id)
}

/// Writes one change that was made.
pub fn applied(out: &mut dyn Write, wish: &Wish, applied: &Applied) -> io::Result<()> {
    let (rule, setting, value) = (&wish.rule, &wish.setting, &wish.value);
    let line = match applied {
        Applied::Already => format!("{rule}  {setting}: {value} already"),
        Applied::From(before) => format!("{rule}  {setting}: {} → {value}", before.trim()),
    };
    writeln!(out, "{}", printable(&line))
}

/// Writes one change that would be made: what the setting reads now, and the command that makes it; and if it belongs
/// to another program, that it would be refused.
pub fn rehearsed(
    out: &mut dyn Write,
    wish: &Wish,
    before: &str,
    command: &str,
    owner: Option<&Owner>,
) -> io::Result<()> {
    let line = format!(
        "{}  {}: {before} → {}    {command}",
        wish.rule, wish.setting, wish.value
    );
    writeln!(out, "{}", printable(&line))?;
    if let Some(owner) = owner {
        let line = format!(
            "     would be refused: it belongs to {}; {}",
            owner.who, owner.instead
        );
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(())
}

/// Writes what became of each step of a journal, the last line a sum; `left` steps are not as before.
pub fn undone(
    out: &mut dyn Write,
    results: &[(Step, Undone)],
    left: usize,
    journal: &Path,
) -> io::Result<()> {
    for (step, undone) in results {
        let intent = &step.intent;
        let before = intent.before.trim();
        let what = match undone {
            Undone::Restored => format!("back to {before}"),
            Undone::Untouched => format!("reads {before} as before"),
            Undone::Gone(why) => format!("left alone: {why}"),
            Undone::Doubtful => format!(
                "left alone: its device has another address than then, and may be another one; --force sets it to {before}"
            ),
            Undone::Foreign { reads } => {
                format!("left alone: somebody else made it {reads}; --force sets it to {before}")
            }
            Undone::Failed(why) => format!("NOT back to {before}: {why}"),
        };
        let line = format!("{}  {}: {what}", intent.rule, intent.setting);
        writeln!(out, "{}", printable(&line))?;
    }
    match left {
        0 => writeln!(out, "all {} as before", results.len()),
        left => writeln!(
            out,
            "{left} of {} not as before; the journal stays: {}",
            results.len(),
            journal.display()
        ),
    }
}
