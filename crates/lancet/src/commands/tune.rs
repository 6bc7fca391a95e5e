//! `lancet tune`: is this machine set up for this process?
//!
//! | module | for |
//! |---|---|
//! | [`report`] | the table, `--explain`, `--json` |
//! | [`change`] | `--apply`, `--undo` |
//! | [`events`] | `--events` |

mod change;
mod events;
mod report;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tune::events::Exits;
use tune::machine::Machine;
use tune::rules::{self, Finding, RULES, Rule};
use tune::tree::Cannot;

use super::EXCEEDED;
use crate::cli::TuneArgs;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// The time between two looks of `--watch`, beside the sample itself.
const PAUSE: Duration = Duration::from_millis(100);

/// Audits, or does what is asked for in place of that.
pub fn run(args: TuneArgs) -> anyhow::Result<u8> {
    if args.events {
        return events::run(&args);
    }
    if args.pids.len() > 1 {
        bail!("an audit is about one process: give -p once");
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
    let (machine, findings) = audit(&args, &rules)?;
    let mut sink = Sink::open(None, Stream::Stdout)?;
    match only {
        Some(rule) => report::explain(&mut sink, &args, &machine, rule, &findings[0])?,
        None => report::table(&mut sink, &args, &machine, &findings)?,
    }
    Ok(verdict(&args, &findings))
}

fn find(id: &str) -> anyhow::Result<&'static Rule> {
    Rule::find(id)
        .with_context(|| format!("there is no check `{id}`: lancet tune lists them, T01 to T37"))
}

fn audit(args: &TuneArgs, rules: &[&'static Rule]) -> anyhow::Result<(Machine, Vec<Finding>)> {
    let counts = rules.iter().any(|rule| rule.counts);
    let try_events = rules.iter().any(|rule| rule.id == "T03");
    let machine = Machine::open(&args.options(counts, try_events)).map_err(explained)?;
    let findings = rules::audit(&machine, rules);
    Ok((machine, findings))
}

/// The error with the next step.
fn explained(cannot: Cannot) -> anyhow::Error {
    match &cannot {
        Cannot::Denied { .. } => anyhow::anyhow!("{cannot}: run lancet as root"),
        Cannot::Missing(what) if what.starts_with("process ") || what.starts_with("/proc/") => {
            anyhow::anyhow!("{cannot}: look the process up again, for instance with pgrep -a ruby")
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

/// The table once, then a line for each verdict that changes. Ends with the process it is about.
fn watch(args: &TuneArgs, rules: &[&'static Rule]) -> anyhow::Result<u8> {
    interrupt::catch();
    let begin = Instant::now();
    let mut sink = Sink::open(None, Stream::Stdout)?;
    let mut guest = Exits::of(&args.pids).map_err(explained)?;
    let mut before: Option<Vec<Finding>> = None;
    let mut code = 0;
    while !interrupt::asked() && args.watch_for.is_none_or(|limit| begin.elapsed() < limit) {
        // Each look in a thread of its own: it may go into the guest's network and not come back.
        let looked = std::thread::scope(|scope| scope.spawn(|| audit(args, rules)).join());
        let Ok(looked) = looked else {
            bail!("the look ended in a panic")
        };
        // What was seen while it ended is half of it, or an error.
        if let Some(pid) = guest.receive(PAUSE)?.first() {
            eprintln!("lancet: process {pid} has ended");
            break;
        }
        let (machine, findings) = looked?;
        code = code.max(verdict(args, &findings));
        match &before {
            None => report::table(&mut sink, args, &machine, &findings)?,
            Some(before) => report::changes(&mut sink, args, &machine, before, &findings)?,
        }
        before = Some(findings);
    }
    Ok(code)
}
