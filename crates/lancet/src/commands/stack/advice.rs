//! What the stacks cost each garbage collection, and which frames are to blame.
//!
//! A conservative collector looks at every word of every stack, whatever the frame it lies in is for. Words that look
//! like references cost about seven times as much as others, and keep alive what they point to.
//!
//! ```text
//! ruby app.rb (PID 4242), Ruby 3.1.2: each collection, minor or full, takes about 1.07 ms for its stacks
//!
//!      time      bytes  references  thread
//!   1.07 ms    802,816      98,411    4242 ruby
//!   1.07 ms    786,816      98,346      bigframe.so: 0x1140+0x5a, calls rb_yield
//! ```

use std::cmp::Reverse;
use std::io::Write;
use std::time::Duration;

use export::figures::{grouped, pause, plural};
use export::text::printable;
use frames::live::stack::{Line, Stack};
use serde_json::json;

use super::listing::{Subject, parked, place, tid, whose};
use super::measure::Marked;
use crate::cli::StackArgs;

/// Frames below this share of their stack's cost are no one's fault.
const SHARE: u32 = 20;
/// Stacks below this share of all are told together.
const HARDLY: u32 = 100;
/// So many of one stack are named, and so many stacks at least.
const NAMED: usize = 5;

/// Writes it, for people or with `--json` for programs; and what was measured, if it was.
pub fn write(
    out: &mut dyn Write,
    subject: &Subject,
    args: &StackArgs,
    marked: Option<&Marked>,
) -> anyhow::Result<()> {
    let mut scanned: Vec<(&Stack, Duration)> = subject
        .look
        .stacks
        .iter()
        .filter_map(|stack| Some((stack, cost(stack)?)))
        .collect();
    let total: Duration = scanned.iter().map(|(_, cost)| *cost).sum();
    if scanned.is_empty() {
        anyhow::bail!(
            "process {}: no stack of it is scanned by a collector that lancet knows (Ruby's is); --gc has nothing to say",
            subject.pid
        );
    }
    if args.json {
        for (stack, cost) in &scanned {
            let line = json!({
                "record": "scan",
                "pid": subject.pid,
                "tid": tid(stack),
                "parked": parked(stack),
                "bytes": stack.used(),
                "objects": references(stack),
                "predicted_us": cost.as_secs_f64() * 1e6,
            });
            writeln!(out, "{line}")?;
        }
        if let Some(marked) = marked {
            marked.write(out, subject.pid, total, true)?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{} (PID {}), {}: each collection, minor or full, takes about {} for its stacks (predicted)\n\n\
         {:>10} {:>10} {:>11}  thread",
        printable(subject.command),
        subject.pid,
        subject.languages.join(", "),
        pause(total),
        "time",
        "bytes",
        "references"
    )?;
    // The costly ones first; what hardly counts, together.
    scanned.sort_by_key(|(_, cost)| Reverse(*cost));
    let counts = |(_, cost): &(&Stack, Duration)| *cost * HARDLY >= total;
    let at_least = NAMED.min(scanned.len());
    let (shown, rest) = scanned.split_at(scanned.partition_point(counts).max(at_least));
    for (stack, cost) in shown {
        let thread = whose(stack);
        row(out, *cost, stack.used(), references(stack), &thread)?;
        let mut blamed: Vec<(&Line, Duration)> = stack
            .lines
            .iter()
            .filter_map(|line| Some((line, stack.scan_cost?.of(line.bytes(), line.objects?))))
            .filter(|(_, own)| *own * SHARE >= *cost)
            .collect();
        blamed.sort_by_key(|(_, own)| Reverse(*own));
        for (line, own) in blamed.into_iter().take(NAMED) {
            row(
                out,
                own,
                line.bytes(),
                line.objects.unwrap_or(0),
                &format!("  {}", place(subject, line)),
            )?;
        }
    }
    if !rest.is_empty() {
        let count = rest.len() as u64;
        row(
            out,
            rest.iter().map(|(_, cost)| *cost).sum(),
            rest.iter().map(|(stack, _)| stack.used()).sum(),
            rest.iter().map(|(stack, _)| references(stack)).sum(),
            &format!(
                "{} more {}",
                grouped(count),
                plural(count, "stack", "stacks")
            ),
        )?;
    }
    if let Some(marked) = marked {
        marked.write(out, subject.pid, total, false)?;
    }
    Ok(())
}

fn row(
    out: &mut dyn Write,
    time: Duration,
    bytes: u64,
    references: u64,
    what: &str,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{:>10} {:>10} {:>11}  {what}",
        pause(time),
        grouped(bytes),
        grouped(references)
    )
}

fn references(stack: &Stack) -> u64 {
    stack.lines.iter().filter_map(|line| line.objects).sum()
}

fn cost(stack: &Stack) -> Option<Duration> {
    stack.scanned()?;
    Some(stack.scan_cost?.of(stack.used(), references(stack)))
}
