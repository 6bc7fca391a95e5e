//! One audit, or one after the other until something ends it. Used by `change` and `commands`.

use std::time::{Duration, Instant};

use anyhow::bail;
use report::losses::{Loss, What};
use report::tune::{explain, json, table};
use tune::events::Exits;
use tune::machine::Machine;
use tune::rules::{self, Finding, RULES, Rule};
use tune::tree::Cannot;

use super::{TuneArgs, change, events};
use crate::exit::{EXCEEDED, Usage};
use crate::losses::Losses;
use crate::ui::interrupt;
use crate::ui::sink::{Sink, require_room};
use crate::ui::terminal::Stream;

/// The time between two looks of `--watch`, in addition to the time the counters are sampled for.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs `lancet tune` and returns the exit code.
pub fn run(args: TuneArgs) -> anyhow::Result<u8> {
    if args.events {
        return events::run(&args);
    }
    if args.pids.len() > 1 {
        return Err(Usage("an audit is about one process: give -p once".into()).into());
    }
    if args.undo.is_some() {
        return change::undo(&args);
    }
    if !args.apply.is_empty() {
        return change::apply(&args);
    }
    let only = args.explain.as_deref().map(find).transpose()?;
    let rules = match only {
        Some(rule) => vec![rule],
        None => RULES.to_vec(),
    };
    if args.watch {
        return watch(&args, &rules);
    }
    require_room(args.chosen().is_text(), None, Stream::Stdout)?;
    let (machine, findings) = audit(&args, &rules)?;
    let mut sink = Sink::open(None, Stream::Stdout)?.in_form(args.chosen().records());
    match only {
        _ if args.has_records() => json::write(&mut sink.out, &machine, &findings)?,
        Some(rule) => explain::write(&mut sink.out, &machine, rule, &findings[0], &sink.style)?,
        None => write_table(&mut sink, &args, &machine, &findings)?,
    }
    let mut losses = Losses::default();
    note_unread(&mut losses, &findings);
    losses.end(&mut sink)?;
    Ok(losses.exit_code(verdict(&args, &findings)))
}

/// Notes checks that could not be made because something could not be read. The audit says so in their lines.
fn note_unread(losses: &mut Losses, findings: &[Finding]) {
    for finding in findings.iter().filter(|finding| finding.outcome.unread) {
        let text = format!("{}: {}", finding.id, finding.outcome.says);
        losses.note_in_report(Loss::new(None, What::Files, None, text));
    }
}

fn write_table(
    sink: &mut Sink,
    args: &TuneArgs,
    machine: &Machine,
    findings: &[Finding],
) -> std::io::Result<()> {
    let options = table::Options {
        verbose: args.verbose,
        again: &args.again(),
        style: sink.style,
    };
    table::write(&mut sink.out, machine, findings, &options)
}

/// Finds a check by its id, or says which ids there are.
pub fn find(id: &str) -> anyhow::Result<&'static Rule> {
    Rule::find(id).ok_or_else(|| {
        let last = RULES.iter().map(|rule| rule.id).max().unwrap_or_default();
        let says = format!("there is no check `{id}`: lancet tune lists them, T01 to {last}");
        Usage(says).into()
    })
}

/// Looks at the machine with these checks.
pub fn audit(args: &TuneArgs, rules: &[&'static Rule]) -> anyhow::Result<(Machine, Vec<Finding>)> {
    let counts = rules.iter().any(|rule| rule.counts);
    let try_events = rules.iter().any(|rule| rule.id == "T03");
    let machine = Machine::open(&args.options(counts, try_events)).map_err(explained)?;
    let findings = rules::audit(&machine, rules);
    Ok((machine, findings))
}

/// Returns the error with the next step.
pub fn explained(cannot: Cannot) -> anyhow::Error {
    match &cannot {
        Cannot::Denied { .. } => anyhow::anyhow!("{cannot}: run lancet as root"),
        Cannot::Missing(what) if what.starts_with("process ") || what.starts_with("/proc/") => {
            anyhow::anyhow!("{cannot}: look the process up again, for instance with pgrep -af NAME")
        }
        _ => anyhow::Error::new(cannot),
    }
}

fn verdict(args: &TuneArgs, findings: &[Finding]) -> u8 {
    let worst = findings.iter().map(|finding| finding.outcome.verdict).min();
    match (worst, args.fail_on()) {
        (Some(worst), Some(threshold)) if worst <= threshold => EXCEEDED,
        _ => 0,
    }
}

/// Writes the table once, then a line for each verdict that changes. Ends with the process it is about.
fn watch(args: &TuneArgs, rules: &[&'static Rule]) -> anyhow::Result<u8> {
    interrupt::catch();
    let begin = Instant::now();
    let mut sink = Sink::open(None, Stream::Stdout)?.in_form(args.chosen().records());
    let mut guest = Exits::of(&args.pids).map_err(explained)?;
    let mut before: Option<Vec<Finding>> = None;
    let (mut code, mut losses) = (0, Losses::default());
    while !interrupt::asked() && args.watch_for.is_none_or(|limit| begin.elapsed() < limit) {
        // Each look in a thread of its own: it may go into the guest's network and not come back.
        let looked = std::thread::scope(|scope| scope.spawn(|| audit(args, rules)).join());
        let Ok(looked) = looked else {
            bail!("the look has failed: this is a bug of lancet, and the lines above say where")
        };
        // What was seen while it ended is half of it, or an error.
        if let Some(pid) = guest.receive(PAUSE)?.first() {
            tell!("process {pid} has ended");
            break;
        }
        let (machine, findings) = looked?;
        code = code.max(verdict(args, &findings));
        note_unread(&mut losses, &findings);
        let out = &mut sink.out;
        match &before {
            None if args.has_records() => json::write(out, &machine, &findings)?,
            None => write_table(&mut sink, args, &machine, &findings)?,
            Some(before) if args.has_records() => {
                json::write_changes(out, &machine, before, &findings)?
            }
            Some(before) => table::write_changes(out, before, &findings, &sink.style)?,
        }
        sink.out.flush()?;
        before = Some(findings);
    }
    losses.end(&mut sink)?;
    Ok(losses.exit_code(code))
}
