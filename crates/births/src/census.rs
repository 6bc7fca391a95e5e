//! Converts a guest's tally, as the agent has counted it, to a census, as the analysis takes it. Used by `attached` and
//! `tracked`, and by `lancet::commands::mem::started`.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::analysis::{
    Alive, Census, Counts, Loss, Lost, Memory, SiteCount, TypeCount, Uncollected, Unit,
};
use crate::intervals::OfGuest;
use crate::ledger::Tally;
use wire::ledger::INTERVALS;

/// The guest that a tally is of.
pub struct Source<'a> {
    /// Its process id, in the PID namespace of lancet.
    pub pid: i32,
    /// The number of the watch; see [`Census::watch`].
    pub watch: u64,
    /// Its command line, as it was when it was opened.
    pub command: &'a [String],
    /// The directory that it works in.
    pub root: String,
    /// The name of its language.
    pub language: &'static str,
    /// The version of its VM.
    pub version: &'a str,
    /// Seconds for which it has been watched.
    pub seconds: f64,
    /// Its intervals; empty if no verdict on leaks is wanted.
    pub intervals: OfGuest,
}

/// How the intervals of the guest map to those of the census. The guest's first one may have begun shortly before
/// the next, and its last one shortly before the count; such a short interval is joined to its neighbour.
struct Joined {
    lengths: Vec<f64>,
    /// For each interval of the guest, by its number, the index of the census's interval that it belongs to.
    to: [usize; INTERVALS],
}

impl Joined {
    fn of(OfGuest { first, lengths, .. }: OfGuest) -> Self {
        let mut joined = Joined {
            lengths,
            to: std::array::from_fn(|at| at.saturating_sub(first)),
        };
        if let [short, next, ..] = joined.lengths[..]
            && short < next / 2.0
        {
            joined.lengths[1] += short;
            joined.lengths.remove(0);
            joined.to = joined.to.map(|at| at.saturating_sub(1));
        }
        if let [.., previous, short] = joined.lengths[..]
            && short < previous / 2.0
        {
            joined.lengths.pop();
            if let Some(last) = joined.lengths.last_mut() {
                *last += short;
            }
        }
        let last = joined.lengths.len().saturating_sub(1);
        joined.to = joined.to.map(|at| at.min(last));
        joined
    }

    fn alive(&self, found: &[u32; INTERVALS]) -> Alive {
        let mut alive = Alive::default();
        for (count, to) in found.iter().zip(self.to) {
            alive.0[to] += u64::from(*count);
        }
        alive
    }
}

/// Translates a tally into a census. Its figures of earlier looks (`looks`, `paused`, `gone`, `died_late`, `grown`, `resident`) are
/// left empty.
pub fn census_of(source: Source, tally: &Tally) -> Census {
    let joined = Joined::of(source.intervals);
    let sites = tally.sites.iter().map(|site| SiteCount {
        frames: site.path.clone(),
        kind: site.kind.clone(),
        internal: site.internal,
        counts: Counts {
            alive: joined.alive(&site.counts.alive),
            allocated: site.allocated,
            ..Counts::of_births(site.counts.born, site.counts.live, site.counts.bytes)
        },
    });
    let before = tally
        .before
        .iter()
        .map(|(kind, internal, counts)| TypeCount {
            kind: kind.clone(),
            internal: *internal,
            counts: Counts {
                live: counts.live,
                bytes: counts.bytes,
                ..Counts::default()
            },
        });
    Census {
        pid: source.pid,
        watch: source.watch,
        command: source.command.to_owned(),
        root: source.root,
        language: source.language,
        version: source.version.to_owned(),
        seconds: source.seconds,
        taken_at: Some(SystemTime::now()),
        sites: sites.collect(),
        before: before.collect(),
        looks: 0,
        paused: Duration::ZERO,
        gone: HashMap::new(),
        threads: tally.threads.clone(),
        memory: tally.rss.map(|rss| Memory {
            rss,
            empty: tally.empty,
            agent: tally.mapped,
        }),
        resident: None,
        followed: false,
        unit: Unit::Object,
        collector_off: tally.collector_off,
        intervals: joined.lengths.clone(),
        gc_pause: tally.gc,
        walk_pause: tally.walk,
        losses: losses(tally, source.language),
        uncollected: match (tally.gc, tally.uncollected) {
            (Some(_), _) => Uncollected::Ran,
            (None, Uncollected::Ran) => Uncollected::Unasked,
            (None, why) => why,
        },
    }
}

/// Describes the losses of a count of this language's births.
pub(crate) fn losses(tally: &Tally, language: &str) -> Vec<Loss> {
    let [unlocked, misplaced, unreadable] = tally.not_counted;
    let mut losses = Vec::new();
    let mut add = |what: Lost, count: u64, words: &str| {
        if count != 0 {
            losses.push(Loss {
                what,
                count: Some(count),
                text: format!("{count} {words}"),
            });
        }
    };
    add(
        Lost::Births,
        tally.lost_memory,
        "births are not counted: the books had their part of the memory that its limits and the machine leave it, or none could be mapped",
    );
    add(
        Lost::BirthsInCount,
        tally.unbooked,
        "births during a count are not counted",
    );
    add(
        Lost::Births,
        tally.elsewhere,
        "births are not counted: they were in other interpreters, which may have locks of their own",
    );
    add(
        Lost::BirthsAndDeaths,
        unlocked,
        &format!(
            "births and deaths are not counted: their threads called {language}'s allocators without its lock"
        ),
    );
    add(
        Lost::Births,
        misplaced,
        "births are not counted: their block, or the code that took it, is not at a multiple of 16 bytes (another tool's allocator)",
    );
    add(
        Lost::Births,
        unreadable,
        "births are not counted: the frame that took the block could not be read",
    );
    add(
        Lost::Rows,
        tally.cut,
        "rows are not told apart: there are more than lancet keeps of one process",
    );
    add(
        Lost::Sizes,
        tally.unsized_objects,
        "objects count with the size of their heap slot: their extension's own function for it failed",
    );
    if tally.unfinished {
        losses.push(Loss {
            what: Lost::Heap,
            count: None,
            text: "the heap was not counted to its end: that took too long".into(),
        });
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_loss_is_a_sentence() {
        let tally = Tally {
            lost_memory: 1,
            unbooked: 2,
            cut: 3,
            unsized_objects: 4,
            elsewhere: 5,
            not_counted: [6, 7, 8],
            unfinished: true,
            ..Tally::default()
        };
        let counts: Vec<_> = losses(&tally, "Lua")
            .iter()
            .map(|loss| (loss.what, loss.count))
            .collect();
        let expected = [
            (Lost::Births, Some(1)),
            (Lost::BirthsInCount, Some(2)),
            (Lost::Births, Some(5)),
            (Lost::BirthsAndDeaths, Some(6)),
            (Lost::Births, Some(7)),
            (Lost::Births, Some(8)),
            (Lost::Rows, Some(3)),
            (Lost::Sizes, Some(4)),
            (Lost::Heap, None),
        ];
        assert_eq!(counts, expected);
        assert!(losses(&Tally::default(), "Lua").is_empty());
    }
}
