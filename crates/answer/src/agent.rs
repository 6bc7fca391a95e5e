//! The records of `lancet agent`, which it writes of itself for its own table: `used`, then `captures`…, and `losses`. Used by `page`, and by
//! `report::agent`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;

/// A record of what an agent has done.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// What it has used since it told last.
    Used(Used),
    /// What has become of captures of one kind since then.
    Captures(Captures<'a>),
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}

/// What an agent has used, with what it has started.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Used {
    /// When that begins of which it tells: what it told before is not in it, nor is time in which it did not run.
    pub began_at_ns: u64,
    /// How long it has run since.
    pub took_ns: u64,
    /// The processor time that was used.
    pub cpu_ns: u64,
    /// The processor time of its budget.
    pub budget_ns: u64,
    /// Its own resident memory.
    pub memory: u64,
    /// The memory of its budget.
    pub memory_budget: u64,
    /// The size of this host's tables.
    pub stored: u64,
}

/// Captures of one command.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Captures<'a> {
    /// Of which processes, by the name in the configuration; null: of the machine.
    pub watch: Option<&'a str>,
    /// The command.
    pub command: &'a str,
    /// How many have given an answer.
    pub done: u64,
    /// How many have given none.
    pub failed: u64,
    /// How many did not take place for want of processor time.
    pub shed_for_cpu: u64,
    /// How many did not, or were cut short, for want of memory.
    pub shed_for_memory: u64,
    /// How many did not for want of room on the disk.
    pub shed_for_disk: u64,
    /// Their processor time.
    pub cpu_ns: u64,
    /// The most resident memory of one, with the agent's.
    pub memory: u64,
}
