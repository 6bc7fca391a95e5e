//! Results of earlier looks at each guest, which the verdict on leaks needs. Used by `attached`, and by
//! `lancet::commands::mem::started`.
//!
//! - **Late deaths**: objects that had outlived the interval of their birth and died nevertheless. A thread that waits for
//!   its next request keeps objects of the last one, and several threads have such objects of several intervals; a full
//!   cache replaces what it holds. Both look like a leak for a while, but lose objects late, which a leak does not.
//! - **Deaths of old objects**: objects from before lancet came, by type. While a full cache replaces objects from
//!   before, none of its objects that were born since dies.
//! - **Objects that grow**: a String or an Array that is appended to for ever is one object, whose number tells nothing. The
//!   large ones are followed one by one ([`crate::ledger::Holder`]).
//! - **Resident memory that the objects do not explain**: what a C library has allocated is no object.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::ledger::INTERVALS;

use crate::analysis::{Census, Resident, TypeCount};
use crate::intervals::OfGuest;
use crate::ledger::{Holder, Tally};
use crate::steady::{Series, shows};

/// Number of living objects of each type at one look.
type Living = HashMap<Arc<str>, u64>;

/// Limit of the looks that are kept of each guest; with more, every second one is dropped.
const MOST: usize = 16;
/// The least growth of the resident memory that is told, and the least part of it (as in one 20th) that it must be.
const LEAST_RESIDENT: u64 = 4 << 20;
const LEAST_PART: u64 = 20;
/// The part of its growth by which the resident memory may fall between two looks: the C library gives some back now and then.
const MAY_FALL: u64 = 8;

/// Results of earlier looks at each guest, by process id. Every census must pass through [`Earlier::join`], which compares it with the one
/// before.
#[derive(Default)]
pub struct Earlier(BTreeMap<i32, Guest>);

#[derive(Default)]
struct Guest {
    /// Living objects from before lancet came, at each look.
    looks: Vec<(Instant, Living)>,
    /// The intervals of the last look, and for each site the living objects that had outlived theirs, if there are any.
    intervals: OfGuest,
    old: HashMap<u32, [u32; INTERVALS]>,
    /// How many objects of each site have died late, by the number of the site.
    late: HashMap<u32, u64>,
    /// What each large object of the last look held at the looks until then, by its identity.
    large: HashMap<(u64, u32), Series>,
    /// The resident memory without lancet's own, and the objects of the first look and their bytes.
    resident: Series,
    objects: Option<u64>,
}

impl Earlier {
    /// Forgets a process that is no longer watched: another one may get its id, and its sites have other numbers.
    pub fn forget(&mut self, pid: i32) {
        self.0.remove(&pid);
    }

    /// Adds to the census of a look what is known from earlier ones, and notes this one for those that follow.
    pub fn join(&mut self, census: &mut Census, tally: &Tally, intervals: &OfGuest, now: Instant) {
        let guest = self.0.entry(census.pid).or_default();
        census.gone = guest.gone(intervals.second, &census.before);
        guest.note_deaths(tally, intervals);
        for (site, of) in census.sites.iter_mut().zip(&tally.sites) {
            site.counts.died_late = guest.late.get(&of.number).copied().unwrap_or(0);
        }
        let watched = Duration::from_secs_f64(census.intervals.iter().sum::<f64>().max(0.0));
        guest.note_large(&tally.large, now);
        guest.tell_growing(census, tally, watched);
        census.resident = guest.note_resident(census, watched, now);
        guest.looks.push((now, living(&census.before)));
        let looks: Vec<Instant> = guest.looks.iter().map(|(at, _)| *at).collect();
        census.followed = shows(&looks, watched);
        if guest.looks.len() > MOST {
            let mut number = 0;
            guest.looks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }
}

impl Guest {
    /// Returns how many objects of each type have died since the last look that was not later than `until`, or since the first one.
    fn gone(&self, until: Option<Instant>, now: &[TypeCount]) -> Living {
        let early = |look: &&(Instant, Living)| until.is_some_and(|until| look.0 <= until);
        let looks = &self.looks;
        let Some((_, then)) = looks.iter().rev().find(early).or(looks.first()) else {
            return Living::new();
        };
        let now = living(now);
        let died = then.iter().map(|(kind, then)| {
            let now = now.get(kind).copied().unwrap_or(0);
            (kind.clone(), then.saturating_sub(now))
        });
        died.filter(|(_, died)| *died != 0).collect()
    }

    /// Counts the deaths among the objects that were old at the last look, and notes which are old now.
    fn note_deaths(&mut self, tally: &Tally, intervals: &OfGuest) {
        let folds = intervals.joins.saturating_sub(self.intervals.joins);
        let mut old = std::mem::take(&mut self.old);
        let mut next = HashMap::new();
        for site in &tally.sites {
            let alive = site.counts.alive;
            if let Some(then) = old.remove(&site.number) {
                self.count(site.number, &folded(&then, folds), &alive);
            }
            let mut kept = alive;
            kept[intervals.current.min(INTERVALS - 1)..].fill(0);
            if kept != [0; INTERVALS] {
                next.insert(site.number, kept);
            }
        }
        for (number, then) in old {
            self.count(number, &then, &[0; INTERVALS]);
        }
        self.old = next;
        self.intervals = intervals.clone();
    }

    /// Notes what the large objects hold. One that is no longer among them is forgotten.
    fn note_large(&mut self, large: &[Holder], now: Instant) {
        let mut before = std::mem::take(&mut self.large);
        for holder in large {
            let mut series = before.remove(&holder.identity).unwrap_or_default();
            series.note(now, holder.used);
            self.large.insert(holder.identity, series);
        }
    }

    /// Adds to the rows of a census by how much their large objects have grown.
    fn tell_growing(&self, census: &mut Census, tally: &Tally, watched: Duration) {
        let mut sites: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut kinds: HashMap<(&str, bool), (u64, u64)> = HashMap::new();
        for holder in &tally.large {
            let series = self.large.get(&holder.identity);
            let Some(grown) = series.and_then(|series| series.grown(watched, 0)) else {
                continue;
            };
            let (bytes, objects) = match holder.site {
                0 => kinds.entry((&holder.kind, holder.internal)).or_default(),
                site => sites.entry(site).or_default(),
            };
            *bytes = bytes.saturating_add(grown);
            *objects += 1;
        }
        for (site, of) in census.sites.iter_mut().zip(&tally.sites) {
            let grown = sites.get(&of.number).copied();
            (site.counts.grown, site.counts.growing) = grown.unwrap_or_default();
        }
        for before in &mut census.before {
            let found = kinds.get(&(&*before.kind, before.internal));
            (before.counts.grown, before.counts.growing) = found.copied().unwrap_or_default();
        }
    }

    /// Notes the resident memory, and returns its growth if the objects explain less than half of it.
    fn note_resident(
        &mut self,
        census: &Census,
        watched: Duration,
        now: Instant,
    ) -> Option<Resident> {
        let memory = census.memory?;
        let sites = census.sites.iter().map(|site| site.counts.bytes);
        let before = census.before.iter().map(|before| before.counts.bytes);
        let bytes = sites.chain(before).fold(memory.empty, u64::saturating_add);
        let resident = memory.rss.total.saturating_sub(memory.agent);
        self.resident.note(now, resident);
        let objects = bytes.saturating_sub(*self.objects.get_or_insert(bytes));
        let grown = self.resident.grown(watched, MAY_FALL)?;
        let much = grown >= LEAST_RESIDENT.max(resident / LEAST_PART);
        (much && objects < grown / 2).then_some(Resident { grown, objects })
    }

    fn count(&mut self, number: u32, then: &[u32; INTERVALS], now: &[u32; INTERVALS]) {
        let died = then
            .iter()
            .zip(now)
            .map(|(then, now)| u64::from(then.saturating_sub(*now)));
        let died: u64 = died.sum();
        if died != 0 {
            *self.late.entry(number).or_default() += died;
        }
    }
}

/// Returns the same objects with each two intervals joined, `times` times.
fn folded(alive: &[u32; INTERVALS], times: u32) -> [u32; INTERVALS] {
    let mut folded = [0u32; INTERVALS];
    for (at, count) in alive.iter().enumerate() {
        let sum = &mut folded[at >> times.min(INTERVALS as u32)];
        *sum = sum.saturating_add(*count);
    }
    folded
}

fn living(counts: &[TypeCount]) -> Living {
    let mut living = Living::new();
    for count in counts {
        *living.entry(count.kind.clone()).or_default() += count.counts.live;
    }
    living
}
