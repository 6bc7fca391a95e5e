//! The records of `lancet mem`. Used by `page`, and by `report::mem::json`.
//!
//! Of one look at one process: `process`, `look`, `verdict` and `leak`…, then of who holds the memory `row`… and `before`… in
//! the order asked for, `total`, `own`…, `resident`; of what grew (`--every`; for a started program, or a process
//! that has come meanwhile, from its second look on) `growth`…, `growth_total`; last `loss`….
//! Several processes follow one another: first all of them added up (when there are two or more), then each. Every record
//! has the `pid` of its process, null for those added up. The last record of the run is `losses`.
//!
//! Counts are objects, and exact; `allocated` is an estimate.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::{Loss, Losses};
use crate::place::Place;
use crate::process::Process;

/// A record of `lancet mem --format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// A process, before all else of it.
    Process(Process<'a>),
    /// The look that the following records tell, and what it cost the process. Of processes added up the pauses are the
    /// longest of any.
    Look {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// How long it had been watched when the count was taken.
        watched_ns: u64,
        /// Of what grew: the time since the look before; else null.
        interval_ns: Option<u64>,
        /// What makes a row: `line`, `method`, `file`, `gem`, `type` or `stack`.
        by: &'static str,
        /// How long the garbage collection before the count held the process; null: none was run.
        collection_pause_ns: Option<u64>,
        /// How long the count itself held the process.
        walk_pause_ns: u64,
        /// How many looks there have been, those that were not reported too; 0 for a program that was started.
        looks: u32,
        /// How long all of them together held the process.
        paused_ns: u64,
        /// `live` may count objects that nothing refers to any more.
        garbage_included: bool,
        /// The intervals by which births are told apart, the earliest first; the last one ended with this look. Left out
        /// where no verdict on leaks is given.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        intervals_ns: Vec<u64>,
    },
    /// Whether a line leaks; not given for a program that is started without `--every`.
    Verdict {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// `leak`, `perhaps` (rows grew as those of a leak do, but no garbage collection was run before the count, and cycles that nobody
        /// holds may be among them), `none`, `too_early` (watched for less than 10 s, or looked at fewer than four times), `garbage` (no
        /// garbage collection before the count) or `incomplete` (no row leaks, but 20 births or more were not counted).
        verdict: &'static str,
        /// The same as the table has it.
        text: String,
        /// The program has switched the collector off (`GC.disable`), so nothing is freed; `verdict` is `garbage` then.
        collector_off: bool,
        /// There were enough looks, spread over the time, to see what single objects come to hold; if not, `none` speaks of
        /// their number alone.
        followed: bool,
        /// By how many bytes the resident memory has grown steadily, where the objects explain less than half of it; else
        /// left out. It stands beside any `verdict`.
        #[serde(skip_serializing_if = "Option::is_none")]
        resident_grown: Option<u64>,
    },
    /// One row that leaks; those with most memory come first.
    Leak {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// What the row is about.
        #[serde(flatten)]
        of: Subject<'a>,
        /// Its objects are from before lancet came. The row is then about a `type`, whatever the grouping.
        before: bool,
        /// `number`: objects of each interval still live, about as many of the later ones as of the earlier ones, and none,
        /// or nearly none, died that had outlived its interval. `size`: single objects hold more and more.
        grows: &'static str,
        /// How many there are.
        #[serde(flatten)]
        counts: Figures,
        /// By how many bytes what its large objects hold has grown steadily.
        grown: u64,
        /// How many objects that are.
        growing: u64,
        /// The living by the interval of their birth: as many numbers as `look.intervals_ns` has; left out where that is.
        #[serde(skip_serializing_if = "is_empty")]
        alive: &'a [u64],
    },
    /// Objects born while lancet watched.
    Row {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// What the row is about.
        #[serde(flatten)]
        of: Subject<'a>,
        /// How many there are.
        #[serde(flatten)]
        counts: Figures,
        /// The living by the interval of their birth: as many numbers as `look.intervals_ns` has; left out where that is.
        #[serde(skip_serializing_if = "is_empty")]
        alive: &'a [u64],
    },
    /// Objects from before lancet came, of one type: nobody saw where they were made.
    Before {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// Their type.
        #[serde(rename = "type")]
        kind: &'a str,
        /// How many live.
        live: u64,
        /// The memory they hold.
        bytes: u64,
    },
    /// Everything the look lets through: all `row` and `before` records and `rest`.
    Total {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// The sums.
        #[serde(flatten)]
        counts: Figures,
        /// The rows that `--min` and `--top` cut off, added up; null when none was.
        rest: Option<Cut<Figures>>,
        /// How much of the total is from before lancet came.
        before: Earlier,
        /// The VM's own objects, which are not in the total without `--internal`.
        hidden: Figures,
    },
    /// One row that changed since the look before.
    Growth {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// What the row is about.
        #[serde(flatten)]
        of: Subject<'a>,
        /// Its objects are from before lancet came. The row is then about a `type`, whatever the grouping.
        before: bool,
        /// How the figures have changed.
        #[serde(flatten)]
        change: Change,
        /// How many live now.
        now_live: u64,
        /// The memory they hold now.
        now_bytes: u64,
        /// The living by the interval of their birth: as many numbers as `look.intervals_ns` has; left out where that is.
        #[serde(skip_serializing_if = "is_empty")]
        alive: &'a [u64],
    },
    /// The changes of everything: all `growth` records and `rest`.
    GrowthTotal {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// The sums.
        #[serde(flatten)]
        change: Change,
        /// The rows that `--min` and `--top` cut off, added up; null when none was.
        rest: Option<Cut<Change>>,
        /// The change of the VM's own objects, which is not in the total without `--internal`.
        hidden: Change,
    },
    /// The VM's own objects of one type, with or without `--internal`, those that hold most first; of objects from before
    /// lancet came and of later ones.
    Own {
        /// The id of the process that the record is of; null: several, added up.
        pid: Option<i32>,
        /// Their type, as `__imemo:iseq__` (compiled code).
        #[serde(rename = "type")]
        kind: &'a str,
        /// How many live.
        live: u64,
        /// The memory they hold.
        bytes: u64,
    },
    /// Where the resident memory of the process is; not of processes added up.
    Resident {
        /// The id of the process that the record is of.
        pid: Option<i32>,
        /// The resident memory, as the kernel counts it.
        bytes: u64,
        /// Bytes by what they are for: `objects` and `vm_objects` (as the VM counts them, slots with what they allocated),
        /// `empty_slots` of its heap, `files` that are mapped, `stacks` of threads that sleep, `jit` (code that no file has),
        /// `lancet`, and `other`, the rest. A part that is 0 is left out.
        parts: BTreeMap<&'static str, u64>,
    },
    /// Something that was lost or refused up to this look.
    Loss(Loss),
    /// The last record of the run, after the last look.
    Losses(Losses<'a>),
}

/// Whether a list is left out.
#[allow(
    clippy::ptr_arg,
    reason = "serde hands on a reference to the field, which is a reference"
)]
fn is_empty<T>(list: &&[T]) -> bool {
    list.is_empty()
}

/// What a row is about, by the grouping asked for (`look.by`).
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Subject<'a> {
    /// Of `line`, `method` and `file`: where the objects were made. Null: by the VM outside any code of a script, or the
    /// grouping is another.
    pub place: Option<Place<'a>>,
    /// With `--native --lines`: the script's line that was running, where that is known; `place` is then the native function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<Place<'a>>,
    /// Of `line`, `type` and `stack`: the type of the objects.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
    /// Of `gem`: `NAME-VERSION`, a bare name for Debian's packages, `ruby stdlib`, `ruby core` or `app`; `(vm)` when no code of
    /// a script was running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gem: Option<&'a str>,
    /// Of `stack` (with `--stacks`): the frames, the innermost first; one that was cut ends in a frame without path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<Place<'a>>>,
}

/// Objects by what became of them.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Figures {
    /// How many were made.
    pub born: u64,
    /// How many of them live.
    pub live: u64,
    /// How many are gone: `born` − `live`.
    pub dead: u64,
    /// The memory the living ones hold.
    pub bytes: u64,
    /// The memory that all that were made used soon after their birth, living and dead, by a sample of each line
    /// (docs/mem.md, "allocated").
    pub allocated: u64,
}

/// Changes of the figures, which may be negative.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Change {
    /// How many were made in the interval.
    pub born: i64,
    /// The change of the living.
    pub live: i64,
    /// The change of the memory that they hold.
    pub bytes: i64,
    /// What those that were made in the interval used.
    pub allocated: i64,
}

/// Objects whose births nobody counted.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Earlier {
    /// How many live.
    pub live: u64,
    /// The memory they hold.
    pub bytes: u64,
}

/// The rows that were cut off.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "CutOf{F}"))]
pub struct Cut<F> {
    /// How many rows.
    pub rows: usize,
    /// Their sum.
    #[serde(flatten)]
    pub figures: F,
}
