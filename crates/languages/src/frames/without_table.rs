//! A VM of a version without a table: how it is read all the same, and what is said of that.

use std::fmt::Display;
use std::time::{Duration, Instant};

use vm::Language;

use super::evidence::{Evidence, NEEDED};

/// How often a process is read, because it may change meanwhile, and for how long at most.
const TRIES: u32 = 20;
const LIMIT: Duration = Duration::from_millis(300);
/// How often it is read where lines could not be proven: one that sleeps shows the same each time, one that works may call something.
const ENOUGH: u32 = 4;

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
    let mut best: Option<(Result<usize, usize>, F, [u32; 2])> = None;
    let mut failed = format!("{why}, and no thread of it could be read {by}");
    let mut read = 0;
    for _ in 0..TRIES {
        match once() {
            Err(error) => failed = format!("{why}, and it cannot be read {by}: {error}"),
            Ok((_, _, evidence)) if !evidence.are_files_there() => {
                failed = format!("{why}, and what is read {by} names files that are not there");
            }
            Ok((facts, held, evidence)) => {
                let lines = evidence.lines();
                let proven = |lines: &Result<usize, usize>| lines.unwrap_or_else(|few| few);
                if best
                    .as_ref()
                    .is_none_or(|(known, ..)| proven(known) < proven(&lines))
                {
                    best = Some((lines, facts, held));
                }
                read += 1;
                if lines.is_ok() || read == ENOUGH {
                    break;
                }
            }
        }
        if Instant::now() >= end {
            break;
        }
    }
    let (lines, facts, [threads, frames]) = best.ok_or(failed)?;
    let read = format!("{why}; it is read {by}, proven on {frames} frames of {threads} threads");
    let without_table = match lines {
        Ok(lines) => WithoutTable {
            note: format!("{read}, and {lines} lines of source text"),
            no_lines: None,
        },
        Err(lines) => WithoutTable {
            no_lines: Some(format!(
                "{read}; its lines are not shown: source text proves {lines} of them, and {NEEDED} or more are needed"
            )),
            note: read,
        },
    };
    Ok(Derived {
        facts,
        without_table,
    })
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
