//! A VM of a version without a table: how it is read all the same, and what is said of that.

use std::fmt::Display;
use std::time::{Duration, Instant};

use vm::Language;

use super::evidence::{Evidence, Verdict};

/// How often a process is read, because it may change meanwhile, and for how long at most.
const TRIES: u32 = 20;
const LIMIT: Duration = Duration::from_millis(300);
/// How often it is read where lines could not be proven: one that sleeps shows the same each time, one that works may call something.
const ENOUGH: u32 = 4;
/// Functions of which more must be known than that they fit together ([`Evidence::functions`]), where one thread alone is evidence.
const OF_ONE_THREAD: usize = 3;

/// A layout that was derived and proven.
pub(crate) struct Derived<F> {
    /// What the reader must know of the process.
    pub facts: F,
    /// What is said of it.
    pub without_table: WithoutTable,
}

/// What is said of a VM without a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutTable {
    /// By what it is read, and what that was held against.
    pub note: String,
    /// Why lines are not shown; `None` where they are proven.
    pub no_lines: Option<String>,
    /// Whether a later look may prove more: lines that are not shown, or threads beside the only one.
    pub may_be_more: bool,
}

impl WithoutTable {
    /// Returns a line, if lines are proven, and 0 otherwise, which stands for one that is not known.
    pub(crate) fn line(&self, line: u32) -> u32 {
        match self.no_lines {
            None => line,
            Some(_) => 0,
        }
    }
}

/// Reads a process of a version without a table until enough is proven. `once` reads it, and returns its facts, how many threads and
/// frames its layout holds in, and the evidence for lines, or why it could not be read. `why` says that there is no table, `by` what the
/// layout is.
pub(crate) fn settle<'s, F, E: Display>(
    why: &dyn Display,
    by: &str,
    once: &dyn Fn() -> Result<(F, [u32; 2], Evidence<'s>), E>,
) -> Result<Derived<F>, String> {
    let end = Instant::now() + LIMIT;
    let mut best: Option<(Verdict, F, [u32; 2])> = None;
    let mut failed = format!("{why}, and no thread of it could be read {by}");
    let mut read = 0;
    for _ in 0..TRIES {
        match once() {
            Err(error) => failed = format!("{why}, and it cannot be read {by}: {error}"),
            Ok((_, _, evidence)) if !evidence.are_files_there() => {
                failed = format!("{why}, and what is read {by} names files that are not there");
            }
            Ok((_, [1, _], evidence)) if evidence.functions() < OF_ONE_THREAD => {
                failed = format!(
                    "{why}, and only one thread runs scripts, with too few functions to prove that it is read right {by}"
                );
            }
            Ok((facts, held, evidence)) => {
                let lines = evidence.lines();
                let is_better = |(known, ..): &(Verdict, F, [u32; 2])| known.proven < lines.proven;
                if lines.is_enough() || best.as_ref().is_none_or(is_better) {
                    best = Some((lines, facts, held));
                }
                read += 1;
                if lines.is_enough() || read == ENOUGH {
                    break;
                }
            }
        }
        if Instant::now() >= end {
            break;
        }
    }
    let (lines, facts, held) = best.ok_or(failed)?;
    Ok(Derived {
        facts,
        without_table: said(&format!("{why}; it is read {by}"), lines, held),
    })
}

/// Returns what is said of how a process `is_read`.
fn said(is_read: &str, lines: Verdict, [threads, frames]: [u32; 2]) -> WithoutTable {
    let of_threads = match threads {
        1 => "the only thread that runs scripts".to_owned(),
        threads => format!("{threads} threads"),
    };
    let read = format!("{is_read}, proven on {frames} frames of {of_threads}");
    let Verdict {
        proven,
        against,
        needed,
        is_any_text,
    } = lines;
    let no_lines = match (lines.is_enough(), is_any_text) {
        (true, _) => None,
        (false, false) => Some("none of its source text could be read".to_owned()),
        (false, true) => Some(format!(
            "source text proves lines of {proven} functions and contradicts {against}, and {needed} proven ones are needed"
        )),
    };
    WithoutTable {
        may_be_more: no_lines.is_some() || threads == 1,
        note: match no_lines {
            None => format!(
                "{read}, and by source text on lines of {proven} functions; the lines of innermost frames are not proven by it"
            ),
            Some(_) => read.clone(),
        },
        no_lines: no_lines.map(|why| format!("{read}; its lines are not shown: {why}")),
    }
}

/// Whether a test has taken away the tables of a language: `LANCET_WITHOUT_TABLE=python,ruby`. There is none in a release build.
#[cfg(debug_assertions)]
pub(crate) fn is_taken_away(language: Language) -> bool {
    let names = std::env::var("LANCET_WITHOUT_TABLE").unwrap_or_default();
    let mut names = names.split(',');
    names.any(|name| name == language.description().prefix)
}

/// Tables are there in a release build.
#[cfg(not(debug_assertions))]
pub(crate) fn is_taken_away(_: Language) -> bool {
    false
}
