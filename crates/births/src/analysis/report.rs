//! The report on one census: the rows, ordered and cut, that show what holds the memory. Used by `growth`, and by the
//! crates `report` and `lancet`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::analysis::census::{Census, Counts};
use crate::analysis::leak::{Trend, Verdict, leaks};
use crate::analysis::view::{By, Fold, Key, Order, View};

/// One line of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The place, type or gem that the row is about; always a [`Key::Type`] when `before` is set.
    pub key: Key,
    /// The figures of the row, added up over its sites.
    pub counts: Counts,
    /// Whether it counts objects from before lancet came, whose place is unknown.
    pub before: bool,
}

/// The rows a view cut off, added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Number of rows that were cut off.
    pub rows: usize,
    /// The figures of those rows, added up.
    pub counts: Counts,
}

/// A census seen through a [`View`]. Rows and `rest` add up to `total`.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What makes a row.
    pub by: By,
    /// Which rows come first.
    pub order: Order,
    /// The rows, ordered and cut as asked: places first, then objects from before we came.
    pub rows: Vec<Row>,
    /// What was cut; `None` when nothing was.
    pub rest: Option<Rest>,
    /// Everything the view lets through.
    pub total: Counts,
    /// How much of `total` are objects from before we came.
    pub before: Counts,
    /// The VM's own objects, when the view leaves them out; they are not in `total`.
    pub hidden: Counts,
    /// The VM's own objects by type, whether the view shows them or not; the types with most memory come first.
    pub own: Vec<(Arc<str>, Counts)>,
    /// The largest number of living objects in one row of objects that we saw born, cut or not: a limit is compared with it.
    pub largest: u64,
    /// Which rows leak, cut or not; `None` if births were not told apart by intervals.
    pub verdict: Option<Verdict>,
}

impl Report {
    /// Makes the rows and totals that a view shows of a census.
    pub fn new(census: &Census, view: &View) -> Self {
        let (groups, hidden) = group(census, view);
        let verdict = Verdict::of(census, groups.iter());
        let lines = groups.iter().filter(|((_, before), _)| !before);
        let largest = lines.map(|(_, counts)| counts.live).max().unwrap_or(0);
        let groups = folded(groups, view, verdict.as_ref());
        let mut rows: Vec<Row> = groups
            .into_iter()
            .map(|((key, before), counts)| Row {
                key,
                counts,
                before,
            })
            .collect();
        let intervals = census.intervals.len();
        // Places come first, because they are what the user wants to see, and an old process holds more objects from before
        // than a short look can see born. A type of which old objects grow comes among those that leak.
        rows.sort_by_cached_key(|row| {
            let rank = rank(&row.counts, view.order, intervals);
            let behind = row.before && !rank.0.leaks;
            (behind, Reverse(rank), row.before, row.key.to_string())
        });
        let total = rows.iter().map(|row| row.counts).sum();
        let old = rows.iter().filter(|row| row.before);
        let before = old.map(|row| row.counts).sum();
        // What was there before has not been born meanwhile.
        rows.retain(|row| !row.before || view.order != Order::Dead);
        let cut = split(&mut rows, view.top, |row| {
            view.figure(&row.counts) >= view.min
        });
        Self {
            by: view.by,
            order: view.order,
            rest: (!cut.is_empty()).then(|| Rest {
                rows: cut.len(),
                counts: cut.iter().map(|row| row.counts).sum(),
            }),
            rows,
            total,
            before,
            hidden,
            own: own(census),
            largest,
            verdict,
        }
    }
}

/// Returns the VM's own objects by type.
fn own(census: &Census) -> Vec<(Arc<str>, Counts)> {
    let mut types: HashMap<&Arc<str>, Counts> = HashMap::new();
    for site in census.sites.iter().filter(|site| site.internal) {
        *types.entry(&site.kind).or_default() += site.counts;
    }
    for before in census.before.iter().filter(|before| before.internal) {
        *types.entry(&before.kind).or_default() += before.counts;
    }
    let mut types: Vec<_> = types
        .into_iter()
        .filter(|(_, counts)| counts.live != 0)
        .map(|(kind, counts)| (kind.clone(), counts))
        .collect();
    types.sort_by(|(a, of_a), (b, of_b)| of_b.bytes.cmp(&of_a.bytes).then(a.cmp(b)));
    types
}

/// The name of all types of objects from before lancet came together.
const ALL_TYPES: &str = "objects of all types";

/// A row's key, and whether it counts objects from before we came.
pub(crate) type Identity = (Key, bool);

/// Adds up a census by row. The second value is what the view hides.
pub(crate) fn group(census: &Census, view: &View) -> (HashMap<Identity, Counts>, Counts) {
    let mut groups: HashMap<Identity, Counts> = HashMap::new();
    let mut hidden = Counts::default();
    for site in &census.sites {
        if site.internal && !view.internal {
            hidden += site.counts;
        } else {
            *groups
                .entry((Key::of(site, view.by, census.unit), false))
                .or_default() += site.counts;
        }
    }
    for before in &census.before {
        if before.internal && !view.internal {
            hidden += before.counts;
        } else {
            let kind = before.kind.clone();
            *groups.entry((Key::Type { kind }, true)).or_default() += before.counts;
        }
    }
    (groups, hidden)
}

/// Adds up the rows of libraries to rows of gems, and those of objects from before lancet came to one row, if the view says
/// so. A row that leaks is left as it is.
pub(crate) fn folded(
    groups: HashMap<Identity, Counts>,
    view: &View,
    verdict: Option<&Verdict>,
) -> HashMap<Identity, Counts> {
    let Fold::Libraries { app } = &view.fold else {
        return groups;
    };
    let mut folded: HashMap<Identity, Counts> = HashMap::new();
    for ((key, before), counts) in groups {
        let sum = if leaks(verdict, &key, before) {
            None
        } else if before {
            Some(Key::Type {
                kind: ALL_TYPES.into(),
            })
        } else {
            key.folded(app)
        };
        *folded.entry((sum.unwrap_or(key), before)).or_default() += counts;
    }
    folded
}

/// Leaves in `rows` the first `top` of those worth keeping, and returns the others in order.
pub(crate) fn split<T>(rows: &mut Vec<T>, top: Option<usize>, keep: impl Fn(&T) -> bool) -> Vec<T> {
    let (mut kept, mut cut): (Vec<T>, Vec<T>) = rows.drain(..).partition(keep);
    if let Some(top) = top {
        // The cut rows go behind those that were kept on merit: they rank higher.
        let mut over = kept.split_off(top.min(kept.len()));
        over.append(&mut cut);
        cut = over;
    }
    *rows = kept;
    cut
}

fn rank(counts: &Counts, order: Order, intervals: usize) -> (Trend, [u64; 3]) {
    let Counts {
        born,
        live,
        bytes,
        allocated,
        dead,
        ..
    } = *counts;
    let none = Trend::default();
    match order {
        Order::Growth => (Trend::of(counts, intervals), [live, bytes, born]),
        Order::Live => (none, [live, bytes, born]),
        Order::Bytes => (none, [bytes, live, born]),
        Order::Born => (none, [born, live, bytes]),
        Order::Allocated => (none, [allocated, born, live]),
        Order::Dead => (none, [dead, allocated, born]),
    }
}
