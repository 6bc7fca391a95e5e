//! Process events for programs: an `event` each, and `end` with the losses.

use std::io::{self, Write};

use serde::Serialize;
use tune::events::{Event, Losses};

use crate::json::line;

#[derive(Serialize)]
struct Ended {
    record: &'static str,
    event: &'static str,
    pid: i32,
}

#[derive(Serialize)]
struct Record<'a> {
    record: &'static str,
    #[serde(flatten)]
    event: &'a Event,
    command: &'a str,
}

#[derive(Serialize)]
struct Summary {
    record: &'static str,
    events: u64,
    lost: u64,
    lost_is_lower_bound: bool,
    overruns: u64,
}

/// Writes one event of a process whose name is `command`.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn event(out: &mut dyn Write, event: &Event, command: &str) -> io::Result<()> {
    line(
        out,
        &Record {
            record: "event",
            event,
            command,
        },
    )
}

/// Writes that a process ended, where nothing else is known.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn end(out: &mut dyn Write, pid: i32) -> io::Result<()> {
    line(
        out,
        &Ended {
            record: "event",
            event: "exit",
            pid,
        },
    )
}

/// Writes how many events were written and how many were lost.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn summary(out: &mut dyn Write, events: u64, losses: &Losses) -> io::Result<()> {
    line(
        out,
        &Summary {
            record: "end",
            events,
            lost: losses.missing(),
            lost_is_lower_bound: losses.is_lower_bound(),
            overruns: losses.overruns(),
        },
    )
}
