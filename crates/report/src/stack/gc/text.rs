//! The cost of stacks for people. Used by `lancet::commands::stack::live`.
//!
//! ```text
//! ruby app.rb (PID 4242), Ruby 3.1.2: each collection, minor or full, takes 1.07 ms in the cache, 1.08 ms not in the cache, for its stacks (predicted)
//!
//!      time      bytes  references  thread
//!   1.07 ms    802,816      98,411    4242 ruby
//!   1.07 ms    786,816      98,346      bigframe.so: 0x1140+0x5a, calls rb_yield
//! ```

use std::cmp::Reverse;
use std::io::{self, Write};
use std::time::Duration;

use frames::live::stack::{Line, Stack};

use super::{Collections, Scanned, total};
use crate::figures::{grouped, pause, plural};
use crate::stack::Subject;
use crate::stack::names::{location, whose};
use crate::text::printable;

/// Frames that cost less than one part in so many of their stack's cost are not named.
const SHARE: u32 = 20;
/// Stacks that cost less than one part in so many of the whole are added up in one line.
const HARDLY: u32 = 100;
/// So many frames of one stack are named at most, and so many stacks at least.
const NAMED: usize = 5;

/// Writes the costly stacks first, each with its costly frames, then what collections took if any were timed.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(
    out: &mut dyn Write,
    subject: &Subject<'_>,
    mut scanned: Vec<Scanned<'_>>,
    timed: Option<&Collections>,
) -> io::Result<()> {
    let [total, uncached] = total(&scanned);
    let times = match (pause(total), pause(uncached)) {
        (cached, uncached) if cached == uncached => cached,
        (cached, uncached) => format!("{cached} in the cache, {uncached} not in the cache,"),
    };
    writeln!(
        out,
        "{} (PID {}), {}: each collection, minor or full, takes {times} for its stacks (predicted)\n\n\
         {:>10} {:>10} {:>11}  thread",
        printable(&subject.command.join(" ")),
        subject.pid,
        printable(&subject.languages.join(", ")),
        "time",
        "bytes",
        "references"
    )?;
    scanned.sort_by_key(|one| Reverse(one.cost));
    let counts = |one: &Scanned<'_>| one.cost * HARDLY >= total;
    let at_least = NAMED.min(scanned.len());
    let (shown, rest) = scanned.split_at(scanned.partition_point(counts).max(at_least));
    for Scanned { stack, cost, .. } in shown {
        let bytes = stack.scanned().unwrap_or(0);
        row(out, *cost, bytes, stack.references(), &whose(stack))?;
        for (line, own) in blamed(stack, *cost) {
            let name = format!("  {}", location(subject, line));
            row(
                out,
                own,
                stack.scanned_of(line),
                line.objects.unwrap_or(0),
                &name,
            )?;
        }
    }
    if !rest.is_empty() {
        let count = rest.len() as u64;
        row(
            out,
            rest.iter().map(|one| one.cost).sum(),
            rest.iter().filter_map(|one| one.stack.scanned()).sum(),
            rest.iter().map(|one| one.stack.references()).sum(),
            &format!(
                "{} more {}",
                grouped(count),
                plural(count, "stack", "stacks")
            ),
        )?;
    }
    match timed {
        Some(timed) => measured(out, timed, total),
        None => Ok(()),
    }
}

/// The frames of a stack that make up a good part of its cost, the costly ones first.
fn blamed(stack: &Stack, cost: Duration) -> impl Iterator<Item = (&Line, Duration)> {
    let own = |line: &Line| Some(stack.scan_cost?.of(stack.scanned_of(line), line.objects?));
    let mut blamed: Vec<(&Line, Duration)> = stack
        .lines
        .iter()
        .filter_map(|line| Some((line, own(line)?)))
        .filter(|(_, own)| *own * SHARE >= cost)
        .collect();
    blamed.sort_by_key(|(_, own)| Reverse(*own));
    blamed.into_iter().take(NAMED)
}

fn row(
    out: &mut dyn Write,
    time: Duration,
    bytes: u64,
    references: u64,
    what: &str,
) -> io::Result<()> {
    writeln!(
        out,
        "{:>10} {:>10} {:>11}  {what}",
        pause(time),
        grouped(bytes),
        grouped(references)
    )
}

/// Writes what collections took behind the prediction, which is `stacks`.
fn measured(out: &mut dyn Write, timed: &Collections, stacks: Duration) -> io::Result<()> {
    writeln!(out)?;
    if timed.minor.is_empty() && timed.full.is_empty() {
        return writeln!(
            out,
            "measured: no collection came; wait longer (--measure=60s), or have some made (--collect N)"
        );
    }
    for timed in timed.kinds() {
        let share = 100.0 * stacks.as_secs_f64() / timed.least.as_secs_f64().max(1e-9);
        let verdict = match share {
            // Nothing is quicker than a part of it.
            101.0.. => format!(
                "less than the {} predicted for the stacks alone: the prediction is wrong for this process",
                pause(stacks)
            ),
            share => format!("the stacks' share of the least is {share:.0}%"),
        };
        writeln!(
            out,
            "measured: {} {} {} marked for {} at least, {} in the median, {} at most; {verdict}",
            timed.count,
            timed.kind,
            plural(timed.count as u64, "collection", "collections"),
            pause(timed.least),
            pause(timed.median),
            pause(timed.most),
        )?;
    }
    Ok(())
}
