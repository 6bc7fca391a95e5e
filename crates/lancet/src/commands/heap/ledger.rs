//! `lancet heap -p PID --rss`: what resident memory is used for.

use anyhow::bail;
use heap::Snapshot;
use report::losses::{Loss, What};
use rss::Budget;

use super::HeapArgs;
use super::run::{finish, require_table_or_json};
use crate::losses::Losses;
use crate::ui::advice::explain;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Writes the ledger that a snapshot has kept, and returns the exit code.
pub fn saved(args: &HeapArgs, snapshot: &Snapshot) -> anyhow::Result<u8> {
    let format = args.format();
    require_table_or_json(format, "--rss")?;
    let about = snapshot.about();
    if about.memory.rows.is_empty() {
        bail!(
            "the snapshot does not say what its memory was used for: lancet heap -p {} --rss looks at the process, if it still runs",
            about.pid
        );
    }
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    let options = args.ledger_options(sink.style);
    report::rss::saved(&mut sink.out, about, &options)?;
    finish(sink, &Losses::default(), format)
}

/// Writes the ledger of a process and returns the exit code.
pub fn run(args: &HeapArgs, pid: i32) -> anyhow::Result<u8> {
    let format = args.format();
    require_table_or_json(format, "--rss")?;
    let ledger = rss::look(pid, Budget::default()).map_err(explain)?;
    let mut losses = Losses::default();
    for text in report::rss::losses(&ledger) {
        losses.note(Loss::new(Some(pid), What::Heap, None, text));
    }
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    let options = args.ledger_options(sink.style);
    report::rss::write(&mut sink.out, &ledger, &options)?;
    finish(sink, &losses, format)
}
