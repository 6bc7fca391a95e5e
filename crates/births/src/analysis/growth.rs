//! What grew between two looks at the same guest: the leak view. Used by the crates `report` and `lancet`.
//!
//! Growth is computed for rows, because single objects are not followed. The difference of two looks does not show
//! which row leaks; that follows from the intervals in which its living objects were born (see `leak`).

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::analysis::census::{Census, Counts, Delta};
use crate::analysis::leak::{Trend, Verdict};
use crate::analysis::report::{Identity, folded, group, split};
use crate::analysis::view::{By, Key, Order, View};

/// Why two censuses cannot be compared.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// They are of different processes.
    #[error("these are two processes ({older} and {newer}): growth is between two looks at one")]
    DifferentGuests {
        /// Process id of the guest of the older census.
        older: i32,
        /// Process id of the guest of the newer census.
        newer: i32,
    },
    /// The second was taken before the first.
    #[error("the second look was taken before the first ({newer} s and {older} s after opening)")]
    Backwards {
        /// Seconds after the guest was opened at which the older census was taken.
        older: f64,
        /// Seconds after the guest was opened at which the newer census was taken.
        newer: f64,
    },
}

/// One line of a growth.
#[derive(Clone, Debug, PartialEq)]
pub struct GrowthRow {
    /// The place, type or gem that the row is about.
    pub key: Key,
    /// The difference between the row's figures now and those of the older census.
    pub delta: Delta,
    /// The row's figures in the newer census; all 0 if it has no such row.
    pub now: Counts,
    /// Whether the row counts objects from before we came.
    pub before: bool,
}

/// The rows a view cut off, added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthRest {
    /// Number of rows that were cut off.
    pub rows: usize,
    /// By how much they changed together.
    pub delta: Delta,
}

/// Two looks at one guest, the older taken from the newer. Rows and `rest` add up to `total`.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// What makes a row.
    pub by: By,
    /// Seconds between the two looks.
    pub seconds: f64,
    /// The rows, largest growth first.
    pub rows: Vec<GrowthRow>,
    /// What was cut; `None` when nothing was. Rows that did not change are no rows at all.
    pub rest: Option<GrowthRest>,
    /// The change of everything the view lets through.
    pub total: Delta,
    /// The change of the VM's own objects, when the view leaves them out; not in `total`.
    pub hidden: Delta,
    /// The largest increase of living objects in one row of objects that we saw born, cut or not: a limit is compared
    /// with it.
    pub largest: i64,
    /// Which rows leak, cut or not; `None` if births were not told apart by intervals.
    pub verdict: Option<Verdict>,
}

impl Growth {
    /// Computes what changed from `older` to `newer`.
    pub fn new(older: &Census, newer: &Census, view: &View) -> Result<Self, Error> {
        if older.pid != newer.pid {
            return Err(Error::DifferentGuests {
                older: older.pid,
                newer: newer.pid,
            });
        }
        if newer.seconds < older.seconds {
            return Err(Error::Backwards {
                older: older.seconds,
                newer: newer.seconds,
            });
        }
        let (old_groups, old_hidden) = group(older, view);
        let (new_groups, new_hidden) = group(newer, view);
        let verdict = Verdict::of(newer, new_groups.iter());
        let intervals = newer.intervals.len();
        let largest = changed(old_groups.clone(), new_groups.clone())
            .iter()
            .filter(|row| !row.before)
            .map(|row| row.delta.live)
            .max()
            .unwrap_or(0);
        let old_groups = folded(old_groups, view, verdict.as_ref());
        let new_groups = folded(new_groups, view, verdict.as_ref());
        let mut rows = changed(old_groups, new_groups);
        rows.sort_by_cached_key(|row| {
            (
                Reverse(rank(row, view.order, intervals)),
                row.before,
                row.key.to_string(),
            )
        });
        let total = rows.iter().map(|row| row.delta).sum();
        let cut = split(&mut rows, view.top, |row| worth_a_row(&row.delta, view.min));
        Ok(Self {
            by: view.by,
            seconds: newer.seconds - older.seconds,
            rest: (!cut.is_empty()).then(|| GrowthRest {
                rows: cut.len(),
                delta: cut.iter().map(|row| row.delta).sum(),
            }),
            rows,
            total,
            hidden: new_hidden - old_hidden,
            largest,
            verdict,
        })
    }
}

/// The rows that differ. A row that is gone from the newer census shrank to nothing.
fn changed(mut old: HashMap<Identity, Counts>, new: HashMap<Identity, Counts>) -> Vec<GrowthRow> {
    let both = new
        .into_iter()
        .map(|(identity, now)| {
            let then = old.remove(&identity).unwrap_or_default();
            (identity, now, now - then)
        })
        .collect::<Vec<_>>();
    let gone = old
        .into_iter()
        .map(|(identity, then)| (identity, Counts::default(), Counts::default() - then));
    both.into_iter()
        .chain(gone)
        .filter(|(_, _, delta)| *delta != Delta::default())
        .map(|((key, before), now, delta)| GrowthRow {
            key,
            delta,
            now,
            before,
        })
        .collect()
}

/// Whether a row changed by at least `min` objects. An object that only got bigger (an array that
/// is appended to) is a leak as well, so a minimum of one also lets such rows through.
fn worth_a_row(delta: &Delta, min: u64) -> bool {
    delta.live.unsigned_abs() >= min || (min <= 1 && delta.bytes != 0)
}

fn rank(row: &GrowthRow, order: Order, intervals: usize) -> (Trend, [i64; 3]) {
    let Delta {
        born,
        live,
        bytes,
        allocated,
    } = row.delta;
    let none = Trend::default();
    match order {
        Order::Growth => (Trend::of(&row.now, intervals), [live, bytes, born]),
        Order::Live => (none, [live, bytes, born]),
        Order::Bytes => (none, [bytes, live, born]),
        Order::Born => (none, [born, live, bytes]),
        Order::Allocated => (none, [allocated, born, live]),
        Order::Dead => (none, [born.saturating_sub(live), allocated, born]),
    }
}
