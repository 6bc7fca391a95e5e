//! Process events for programs: an `event` each, and `end` with the losses. Used by `lancet::commands::tune::events`.

use std::io::{self, Write};

use answer::tune::{Ended, Record};
use tune::events::{Event, Losses, What};

use crate::json::line;

/// Writes one event of a process whose name is `command`.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn event(out: &mut dyn Write, event: &Event, command: &str) -> io::Result<()> {
    let (what, parent, name, end) = match &event.what {
        What::Fork { parent } => ("fork", Some(*parent), None, None),
        What::Exec => ("exec", None, None, None),
        What::Name { name } => ("name", None, Some(name.as_str()), None),
        What::Exit { end, parent } => ("exit", Some(*parent), None, Some(ended(*end))),
    };
    let record: Record = Record::Event {
        event: what,
        pid: event.pid,
        tid: Some(event.thread),
        monotonic_ns: Some(event.nanos),
        command: Some(command),
        parent,
        name,
        end,
    };
    line(out, &record)
}

fn ended(end: tune::events::End) -> Ended {
    match end {
        tune::events::End::Code(code) => Ended {
            code: Some(code),
            signal: None,
            core: false,
        },
        tune::events::End::Signal { number, core } => Ended {
            code: None,
            signal: Some(number),
            core,
        },
    }
}

/// Writes that a process ended, where nothing else is known.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn end(out: &mut dyn Write, pid: i32) -> io::Result<()> {
    let record: Record = Record::Event {
        event: "exit",
        pid,
        tid: None,
        monotonic_ns: None,
        command: None,
        parent: None,
        name: None,
        end: None,
    };
    line(out, &record)
}

/// Writes how many events were written and how many were lost.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn summary(out: &mut dyn Write, events: u64, losses: &Losses) -> io::Result<()> {
    let record: Record = Record::End {
        events,
        lost: losses.missing(),
        lost_is_lower_bound: losses.is_lower_bound(),
        overruns: losses.overruns(),
    };
    line(out, &record)
}
