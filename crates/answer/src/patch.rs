//! The records of `lancet patch`: `process`, then with `--dry-run` `plan`… and `file`…, `setting`… or `script`…; else `patch`…,
//! `setting`…, `script`…, `once` of what was applied, is listed or was undone, then `stop`. With `--remedies`: `remedy`…. Last `losses`:
//! what could not be done in one of several processes, and what could not be undone. Used by `page`, and by
//! `report::patch::json`.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;
use crate::place::{Address, Place};
use crate::process::Process;

/// A record of `lancet patch --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// A process, before all else of it.
    Process(Process<'a>),
    /// With `--dry-run`: a function that would be replaced.
    Plan {
        /// The id of the process that the record is of.
        pid: i32,
        /// The name of the function that would be replaced.
        function: &'a str,
        /// The path of the file it is in.
        module: &'a str,
        /// Where it begins.
        address: Address,
        /// Its size.
        size: u64,
        /// The build-id of the file it is in; null: it has none.
        build_id: Option<&'a str>,
        /// Where the jump would be.
        jump: Address,
        /// How many bytes would run elsewhere.
        moved: usize,
        /// The file with the new function.
        file: Cow<'a, str>,
        /// Its name there.
        new: &'a str,
        /// The threads that stand in it.
        inside: Vec<i32>,
    },
    /// With `--dry-run`: a file that would be loaded.
    File {
        /// The id of the process that the record is of.
        pid: i32,
        /// Its path.
        file: Cow<'a, str>,
        /// The memory that it takes.
        bytes: u64,
        /// What it uses of others.
        imports: Vec<Import<'a>>,
    },
    /// A function that is, or was, replaced.
    Patch(Patch<'a>),
    /// A setting that a remedy changes.
    Setting {
        /// The id of the process that the record is of.
        pid: i32,
        /// Its number, by which it is undone.
        id: u64,
        /// `planned`, `in_force`, `changed`, `undone`.
        state: &'a str,
        /// The remedy.
        remedy: &'a str,
        /// What it sets.
        what: &'a str,
        /// Its values before.
        old: [u64; 2],
        /// Its values since.
        new: [u64; 2],
    },
    /// A function of the script.
    Script {
        /// The id of the process that the record is of.
        pid: i32,
        /// Its number, `s1`, by which it is undone; of a plan `s0`.
        id: String,
        /// `planned`, `in_force`, `changed`, `ends`, `undone`.
        state: &'a str,
        /// The function, as its language names it.
        function: &'a str,
        /// The file with the new one.
        file: &'a str,
        /// Where the old one is.
        old: Place<'a>,
        /// How many definitions the file has changed.
        definitions: u64,
    },
    /// What came of something that is done once (`trim`).
    Once {
        /// The id of the process that the record is of.
        pid: i32,
        /// What the process answered.
        answer: Option<&'a str>,
        /// Resident memory before; null: not known.
        resident_before: Option<u64>,
        /// Resident memory after; null: not known.
        resident_after: Option<u64>,
    },
    /// How long the process stood still; last, of what was applied or undone.
    Stop {
        /// The id of the process that the record is of.
        pid: i32,
        /// How long.
        stopped_ns: u64,
    },
    /// With `--remedies`: what lancet brings along.
    Remedy {
        /// The name by which the remedy is asked for.
        name: &'a str,
        /// Its arguments, as they are written behind the name.
        arguments: &'a str,
        /// What it mends.
        mends: &'a str,
        /// What it risks, and when it refuses.
        risks: &'a str,
    },
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}

/// A function that is, or was, replaced.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Patch<'a> {
    /// The id of the process that the record is of.
    pub pid: i32,
    /// Its number, by which it is undone.
    pub id: u64,
    /// `in_force`, `over`, `undone`, `changed`.
    pub state: &'a str,
    /// In how long it ends by itself; null: never.
    pub ends_in_ns: Option<u64>,
    /// The name of the function that is replaced.
    pub function: &'a str,
    /// The path of the file it is in.
    pub module: &'a str,
    /// Where it begins.
    pub address: Address,
    /// The file with the new function.
    pub file: &'a str,
    /// Its name there.
    pub new: &'a str,
    /// Of what was undone: the threads that are still in the new code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<Vec<i32>>,
    /// Of what was undone: what answers unwinders about the new code stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwinders_stay: Option<bool>,
}

/// What a file uses of another.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Import<'a> {
    /// The name.
    pub name: &'a str,
    /// The file that has it.
    pub from: &'a str,
}
