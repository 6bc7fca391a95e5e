//! The records of `lancet tune`: of an audit `check`…, the worst first, `summary` and `losses`; with `--events` `event`…, `end` and `losses`.
//! Used by `page`, and by `report::tune::json` and `report::tune::events::json`.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;

/// A record of `lancet tune --format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// What one check found.
    Check(Box<Check<'a>>),
    /// How many checks there were, and how many of each verdict.
    Summary {
        /// How many there were.
        checks: usize,
        /// How many of each verdict.
        verdicts: BTreeMap<&'static str, usize>,
    },
    /// Something that happened to a process, with `--events`.
    Event {
        /// `fork`, `exec`, `name`, `exit`.
        event: &'static str,
        /// The id of the process that the record is of.
        pid: i32,
        /// The thread; null: not known.
        tid: Option<i32>,
        /// When, by CLOCK_MONOTONIC; null: not known.
        monotonic_ns: Option<u64>,
        /// The name of the process; null: not known.
        command: Option<&'a str>,
        /// Of a fork and an exit: the parent.
        parent: Option<i32>,
        /// Of a change of its name: the new one.
        name: Option<&'a str>,
        /// Of an exit: how it ended.
        end: Option<Ended>,
    },
    /// How many events there were; behind them.
    End {
        /// How many were told.
        events: u64,
        /// How many were lost.
        lost: u64,
        /// There may be more.
        lost_is_lower_bound: bool,
        /// How often the kernel said that it had no room.
        overruns: u64,
    },
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}

/// What one check found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Check<'a> {
    /// `T21`.
    pub id: &'a str,
    /// What it is about.
    pub title: &'a str,
    /// `harmful`, `bad`, `consider`, `obsolete`, `cannot_tell`, `good`, `not_applicable`.
    pub verdict: &'static str,
    /// What was found, as the line has it.
    pub says: &'a str,
    /// The values that the verdict rests on.
    pub evidence: Vec<Evidence<'a>>,
    /// What `--apply` would write, in this order.
    pub changes: Vec<Write<'a>>,
    /// The changes as a person would type them.
    pub commands: Vec<String>,
    /// What is left to do behind them; null: nothing.
    pub then: Option<&'a str>,
    /// Something fails now: a counter of failures rose, or nothing is left of what is handed out.
    pub fails: bool,
    /// The check is of the list of 2009.
    pub of_2009: bool,
    /// The reason.
    pub why: &'a str,
    /// Who says so.
    pub source: &'a str,
    /// Of when that is.
    pub dated: &'a str,
    /// Files of the kernel's source in which it was read.
    pub checked: Vec<&'a str>,
    /// The version of that source.
    pub kernel: &'a str,
    /// How it is taken back.
    pub undo: &'a str,
    /// `low`, `medium` or `high`.
    pub risk: &'static str,
    /// Whether it takes a reboot.
    pub reboot: bool,
}

/// Something that was read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Evidence<'a> {
    /// The file, request or counter.
    pub from: &'a str,
    /// The value as it stands there, white space made single.
    pub value: &'a str,
}

/// One write that would change the verdict.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Write<'a> {
    /// The setting.
    pub setting: Setting<'a>,
    /// The value to write.
    pub value: &'a str,
}

/// A setting: the interface of the kernel that has it, and what names it there.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Setting<'a> {
    /// `file` (in /proc or /sys); of a network device `feature`, `coalesce`, `ring`, `channels` or `qdisc`; of a process `descriptors` (its
    /// soft limit) or `affinity`.
    pub interface: &'static str,
    /// The file; null: the interface is another.
    pub path: Option<&'a str>,
    /// The network device; null: it is none's.
    pub device: Option<&'a str>,
    /// What of the device, as the kernel or ethtool(8) calls it; null: there is one alone.
    pub name: Option<&'a str>,
    /// The process; null: it is none's.
    pub pid: Option<i32>,
}

/// How a process ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Ended {
    /// The exit code; null: a signal ended it.
    pub code: Option<u32>,
    /// The signal that ended it; null: it exited.
    pub signal: Option<u32>,
    /// It left a core file.
    pub core: bool,
}
