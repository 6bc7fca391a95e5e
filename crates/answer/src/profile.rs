//! The records of `lancet profile`: `process`…, `verdict`, `profile`, then `function`…, those with most own samples first, `wait`… and `lock`…; with `--diff`
//! `verdict`, `profile_difference` and `function_difference`… in their place; last `losses`. Used by `page`, and by
//! `report::profile::json` and `report::profile::difference`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;
use crate::place::Place;
use crate::process::Process;

/// A record of `lancet profile --format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// A process that was looked at, before all else.
    Process(Process<'a>),
    /// Where most of the time goes, or what takes more of it than before.
    Verdict {
        /// The same as the table has it.
        text: String,
    },
    /// What was sampled.
    Profile {
        /// Which processes were looked at, as text.
        who: &'a str,
        /// When the first look was.
        began_at_ns: u64,
        /// How long was looked.
        took_ns: u64,
        /// What the functions are: `function`, `file`, `class`, `package` or `thread` (`--by`).
        by: &'static str,
        /// What the samples are (`--mode`): `cpu`, threads that ran; `wait`, those that waited for what they had begun; `wall`, both.
        mode: &'static str,
        /// How many looks there were.
        looks: u64,
        /// How often a thread was seen that did what `mode` says.
        samples: u64,
        /// How often a thread was seen on a processor.
        ran: u64,
        /// Samples of which it is not known whether the thread was on a processor or waited for one.
        unsure: u64,
        /// How often one was seen that waited for a processor.
        queued: u64,
        /// How often a thread was seen that slept, was stopped or waited for another.
        slept: u64,
        /// How often one was seen that waited for what it had begun.
        waited: u64,
        /// How often one was seen that had nothing to do: in no line of the program, as in a pool, or waiting for a connection or another thread's
        /// end.
        idle: u64,
        /// Samples of which only the innermost function is known, because there were too many different stacks (a million
        /// frames together).
        cut: u64,
    },
    /// A function in which threads ran. With `--function` those of that name and what they call are all, without waits and locks.
    Function {
        /// The function; the path of its script, or the name of its program or library. With `--by file` only this, with `--by class`,
        /// `package` and `thread` the name of that in the place of the function's.
        place: Place<'a>,
        /// It is native code.
        native: bool,
        /// It is no code, but what was waited for by the function that has called it.
        waits: bool,
        /// It belongs to a library or to the interpreter.
        library: bool,
        /// Samples in which it was innermost.
        own: u64,
        /// Samples in which it was anywhere.
        total: u64,
        /// Of the samples in which it was innermost: the lines.
        lines: Vec<OfLine>,
        /// Who called it; of a recursion the outermost caller.
        callers: Vec<Caller<'a>>,
    },
    /// What threads waited for at one line, behind the functions.
    Wait {
        /// The innermost function of the program, else of a library, and its line.
        place: Place<'a>,
        /// What it was, in words: `asleep in IO#gets`, `waits for a mutex`.
        doing: &'a str,
        /// It was nothing to do, as of [`Record::Profile`].
        idle: bool,
        /// How often a thread was seen that did.
        samples: u64,
        /// Which ones: locks with their holders, peers.
        on: Vec<On<'a>>,
    },
    /// A lock for which threads waited, all lines together.
    Lock {
        /// The process that it is in.
        pid: u32,
        /// What tells it apart from others: `mutex 0x7f5c5c012a40`.
        name: &'a str,
        /// As of [`Record::Wait`].
        doing: &'a str,
        /// How often a thread was seen that waited for it.
        samples: u64,
        /// The lines at which it was waited for.
        at: Vec<Caller<'a>>,
        /// The lines at which the thread was that had it.
        holders: Vec<Caller<'a>>,
    },
    /// What two profiles were made of.
    ProfileDifference {
        /// The old one.
        old: Run<'a>,
        /// The new one.
        new: Run<'a>,
    },
    /// A function in two profiles.
    FunctionDifference {
        /// The function, and its file.
        place: Place<'a>,
        /// It is machine code.
        native: bool,
        /// Samples in which it was innermost, old and new.
        own: [u64; 2],
        /// Samples in which it was anywhere, old and new.
        total: [u64; 2],
        /// The shares of `own` differ by more than chance explains.
        own_changed: bool,
        /// The shares of `total` differ by more than chance explains.
        total_changed: bool,
    },
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}

/// One of two profiles that are compared.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Run<'a> {
    /// Which processes were looked at, as text.
    pub who: &'a str,
    /// As of [`Record::Profile`].
    pub by: &'static str,
    /// How many looks there were.
    pub looks: u64,
    /// How often a thread was seen on a processor.
    pub samples: u64,
}

/// A line of a function of a profile.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct OfLine {
    /// The line; 0: not known.
    pub line: u32,
    /// Samples in which it ran.
    pub own: u64,
}

/// One of those that were waited for at one line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct On<'a> {
    /// Which one, to be read behind `doing`.
    pub text: &'a str,
    /// How often it was seen.
    pub samples: u64,
}

/// Who called a function.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Caller<'a> {
    /// The calling function, and the line of the call.
    pub place: Place<'a>,
    /// In how many samples.
    pub samples: u64,
}
