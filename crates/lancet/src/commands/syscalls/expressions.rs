//! The expressions of `-e`: what each of strace's qualifiers says. Used by `args`, `asks`, `shown` and others.

use super::inject::{self, Of};
use super::shown::{ProcessKinds, descriptor_kinds, process_kinds};
use calls::signals::{SIGNALS, signal_of};
use calls::tamper::Inject;
use report::syscalls::{Exceptions, NamingKinds, Numbers, Statuses};
use syscalls::Trace;

/// One `-e`, by the word before its `=`.
#[derive(Clone, Debug)]
pub enum Expression {
    /// `trace=`: the calls that are shown.
    Trace(Trace),
    /// `status=`: what calls must have come to, to be shown.
    Status(Statuses),
    /// `signal=`: the numbers of the signals that are shown.
    Signals(Vec<i32>),
    /// `raw=`: the calls whose arguments are written as numbers.
    Raw(Trace),
    /// `abbrev=`: the calls whose structs are shortened.
    Shortened(Trace),
    /// `verbose=`: the calls whose structs are written, and not only their addresses.
    Structs(Trace),
    /// `read=`: the descriptors of which all bytes that are read are shown.
    Read(Numbers),
    /// `write=`: the descriptors of which all bytes that are written are shown.
    Written(Numbers),
    /// `quiet=`: what no line is written about.
    Quiet(Hidden),
    /// `decode-fds=`: what is written of descriptors beside their numbers.
    Descriptors(NamingKinds),
    /// `decode-pids=`: what is written of processes beside their ids.
    Processes(ProcessKinds),
    /// `namespace=new`: the namespaces that calls lead into are shown.
    Namespaces,
    /// `inject=` and `fault=`: what is injected into which calls.
    Inject(Box<Inject>),
}

/// What no line is written about (`-q`, `-e quiet=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// Which processes are attached to and left.
    pub attaching: bool,
    /// Ends of threads and processes.
    pub ends: bool,
    /// A thread in the place of which another runs a program.
    pub superseded: bool,
}

impl Hidden {
    /// Returns what either of two hides.
    pub fn or(self, other: Self) -> Self {
        Hidden {
            attaching: self.attaching || other.attaching,
            ends: self.ends || other.ends,
            superseded: self.superseded || other.superseded,
        }
    }
}

/// The words that may stand before the `=`.
const WORDS: &str = "trace, status, signal, raw, abbrev, verbose, read, write, quiet, decode-fds, decode-pids, namespace, inject, fault";

/// Parses what stands behind `-e`.
pub fn expression(text: &str) -> Result<Expression, String> {
    let (word, set) = match text.split_once('=') {
        Some((word, set)) => (word, set),
        None => ("trace", text),
    };
    let calls =
        |of: fn(Trace) -> Expression| Trace::parse(set).map(of).map_err(|error| error.to_string());
    match word {
        "trace" | "t" => calls(Expression::Trace),
        "raw" | "x" => calls(Expression::Raw),
        "abbrev" | "a" => calls(Expression::Shortened),
        "verbose" | "v" => calls(Expression::Structs),
        "status" | "st" => statuses(set).map(Expression::Status),
        "signal" | "signals" | "s" => signal_set(set).map(Expression::Signals),
        "read" | "reads" | "r" => numbers(set).map(Expression::Read),
        "write" | "writes" | "w" => numbers(set).map(Expression::Written),
        "quiet" | "silent" | "silence" | "q" => quiet(set).map(Expression::Quiet),
        "decode-fds" | "decode-fd" => descriptor_kinds(set).map(Expression::Descriptors),
        "decode-pids" | "decode-pid" => process_kinds(set).map(Expression::Processes),
        "namespace" if set == "new" => Ok(Expression::Namespaces),
        "namespace" => Err(format!("there is no namespace={set}: new is understood")),
        "inject" => injected(set, Of::Inject),
        "fault" => injected(set, Of::Fault),
        "kvm" => Err(format!("{word}= is not understood yet: {WORDS} are")),
        word => Err(format!("there is no {word}=: {WORDS} are understood")),
    }
}

fn injected(set: &str, of: Of) -> Result<Expression, String> {
    inject::parse(set, of).map(|inject| Expression::Inject(inject.into()))
}

/// Parses what stands behind the long form of a word.
pub fn word(word: &'static str) -> impl Fn(&str) -> Result<Expression, String> + Clone {
    move |set| expression(&format!("{word}={set}"))
}

/// What stands behind `-I`: strace's number of when signals may end it.
pub fn interruptible(text: &str) -> Result<u8, String> {
    match text {
        "1" | "anywhere" | "always" => Ok(1),
        "2" | "waiting" => Ok(2),
        "3" | "never" => Ok(3),
        "4" | "never_tstp" => Ok(4),
        _ => Err("anywhere, waiting, never and never_tstp (1 to 4) are understood".into()),
    }
}

fn statuses(set: &str) -> Result<Statuses, String> {
    let (set, negated) = negation(set);
    let mut chosen = Statuses::default();
    for word in set.split(',') {
        match word {
            "all" => chosen = Statuses::ALL,
            "none" => {}
            "successful" => chosen.successful = true,
            "failed" => chosen.failed = true,
            "unfinished" => chosen.unfinished = true,
            "detached" => chosen.detached = true,
            // It is always told what a call returned.
            "unavailable" => {}
            other => {
                return Err(format!(
                    "there is no status {other}: successful, failed, unfinished, detached, all, none"
                ));
            }
        }
    }
    if negated {
        chosen = Statuses {
            successful: !chosen.successful,
            failed: !chosen.failed,
            unfinished: !chosen.unfinished,
            detached: !chosen.detached,
        };
    }
    Ok(chosen)
}

/// Each `!` turns the set over, as with strace.
fn negation(set: &str) -> (&str, bool) {
    let rest = set.trim_start_matches('!');
    (rest, (set.len() - rest.len()) % 2 == 1)
}

fn signal_set(set: &str) -> Result<Vec<i32>, String> {
    let (set, negated) = negation(set);
    let mut chosen = Vec::new();
    for word in set.split(',') {
        match word {
            "all" => chosen.extend(1..=SIGNALS),
            "none" => {}
            word => chosen.push(signal_of(word).ok_or_else(|| format!("invalid signal '{word}'"))?),
        }
    }
    if negated {
        chosen = (1..=SIGNALS).filter(|one| !chosen.contains(one)).collect();
    }
    Ok(chosen)
}

fn numbers(set: &str) -> Result<Numbers, String> {
    let (set, negated) = negation(set);
    let mut chosen = Vec::new();
    let mut all = false;
    for word in set.split(',') {
        match word {
            "all" => all = true,
            "none" => {}
            word => match word.parse::<i32>() {
                Ok(number) if number >= 0 => chosen.push(number),
                _ => {
                    return Err(format!(
                        "invalid descriptor '{word}': a number, all or none"
                    ));
                }
            },
        }
    }
    Ok(match (all, negated) {
        (true, false) => Numbers::AllBut(Vec::new()),
        (true, true) => Numbers::None,
        (false, false) => Numbers::These(chosen),
        (false, true) => Numbers::AllBut(chosen),
    })
}

fn quiet(set: &str) -> Result<Hidden, String> {
    let (set, negated) = negation(set);
    let mut hidden = Hidden::default();
    for word in set.split(',') {
        match word {
            "all" => {
                hidden = Hidden {
                    attaching: true,
                    ends: true,
                    superseded: true,
                }
            }
            "attach" => hidden.attaching = true,
            "exit" | "exits" => hidden.ends = true,
            "thread-execve" | "superseded" => hidden.superseded = true,
            // Nothing is said of these.
            "none" | "path-resolution" | "path-resolve" | "personality" => {}
            other => {
                return Err(format!(
                    "there is nothing to be quiet about in {other}: attach, exit, path-resolution, personality, thread-execve, all, none"
                ));
            }
        }
    }
    Ok(match negated {
        false => hidden,
        true => Hidden {
            attaching: !hidden.attaching,
            ends: !hidden.ends,
            superseded: !hidden.superseded,
        },
    })
}

/// What the last one says that says anything of it, as with strace.
pub fn last<'a, T>(
    all: impl DoubleEndedIterator<Item = &'a Expression>,
    says: impl Fn(&'a Expression) -> Option<T>,
) -> Option<T> {
    all.rev().find_map(says)
}

/// Calls that are written otherwise.
pub fn exceptions(all: Vec<&Expression>) -> Exceptions {
    let find = |says: fn(&Expression) -> Option<&Trace>| last(all.iter().copied(), says).cloned();
    Exceptions {
        raw: find(|of| match of {
            Expression::Raw(set) => Some(set),
            _ => None,
        }),
        shortened: find(|of| match of {
            Expression::Shortened(set) => Some(set),
            _ => None,
        }),
        structs: find(|of| match of {
            Expression::Structs(set) => Some(set),
            _ => None,
        }),
    }
}

/// Descriptors whose bytes are shown whole: what is read, what is written.
pub fn dumped(all: Vec<&Expression>) -> [Numbers; 2] {
    let read = last(all.iter().copied(), |of| match of {
        Expression::Read(set) => Some(set.clone()),
        _ => None,
    });
    let written = last(all.iter().copied(), |of| match of {
        Expression::Written(set) => Some(set.clone()),
        _ => None,
    });
    [read.unwrap_or_default(), written.unwrap_or_default()]
}

/// Signals that are shown; `None` = all.
pub fn signals(all: Vec<&Expression>) -> Option<Vec<i32>> {
    last(all.iter().copied(), |of| match of {
        Expression::Signals(set) => Some(set.clone()),
        _ => None,
    })
}
