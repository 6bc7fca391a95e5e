//! Merges several guests into one: a preforking server's workers run the same code, and a leak that is small in
//! each is visible in their sum. Used by the crates `report` and `lancet`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use wire::ledger::Uncollected;

use crate::analysis::census::{Census, Counts, Frame, Loss, Resident, SiteCount, TypeCount};

/// The `pid` of a merged census; no process has it.
pub const MERGED_PID: i32 = 0;

/// Adds up the censuses of several guests; `None` for no guests.
///
/// Sites are the same when call path and type are. The pauses are the longest of any guest, since
/// the guests are not held together; losses say whose they are.
pub fn merge(censuses: &[Census]) -> Option<Census> {
    let first = censuses.first()?;
    let longest = |pause: fn(&Census) -> Option<Duration>| censuses.iter().filter_map(pause).max();
    let is_one = censuses.iter().all(|c| c.language == first.language);
    Some(Census {
        pid: MERGED_PID,
        watch: 0,
        command: vec![format!(
            "{} {}: {}",
            censuses.len(),
            if censuses.len() == 1 {
                "process"
            } else {
                "processes"
            },
            joined(censuses, |c| c.command.join(" "))
        )],
        root: if censuses.iter().all(|c| c.root == first.root) {
            first.root.clone()
        } else {
            String::new()
        },
        language: if is_one { first.language } else { "" },
        version: joined(censuses, |c| match is_one {
            true => c.version.clone(),
            false => format!("{} {}", c.language, c.version),
        }),
        seconds: censuses
            .iter()
            .map(|c| c.seconds)
            .fold(first.seconds, f64::max),
        taken_at: censuses.iter().filter_map(|census| census.taken_at).max(),
        sites: merged_sites(censuses),
        before: merged_before(censuses),
        gone: merged_gone(censuses),
        threads: censuses.iter().flat_map(|c| c.threads.clone()).collect(),
        intervals: longest_watched(censuses).map_or_else(Vec::new, |c| c.intervals.clone()),
        gc_pause: longest(|c| c.gc_pause),
        looks: censuses.iter().map(|c| c.looks).max().unwrap_or(0),
        paused: longest(|c| Some(c.paused)).unwrap_or_default(),
        walk_pause: longest(|c| Some(c.walk_pause)).unwrap_or_default(),
        losses: censuses
            .iter()
            .flat_map(|c| {
                c.losses.iter().map(move |loss| Loss {
                    text: format!("PID {}: {loss}", c.pid),
                    ..loss.clone()
                })
            })
            .collect(),
        memory: match censuses {
            [one] => one.memory,
            _ => None,
        },
        resident: merged_resident(censuses),
        followed: censuses.iter().all(|c| c.followed),
        collector_off: censuses.iter().any(|c| c.collector_off),
        uncollected: merged_uncollected(censuses),
        unit: first.unit,
    })
}

/// Of several reasons that which says least counts, for there is no verdict then.
fn merged_uncollected(censuses: &[Census]) -> Uncollected {
    let all = censuses.iter().map(|census| census.uncollected);
    let why = all.filter(|why| *why != Uncollected::Ran);
    why.min_by_key(|why| *why as u64)
        .unwrap_or(Uncollected::Ran)
}

/// Adds up the growth that objects do not explain.
fn merged_resident(censuses: &[Census]) -> Option<Resident> {
    let all = censuses.iter().filter_map(|census| census.resident);
    all.reduce(|sum, one| Resident {
        grown: sum.grown.saturating_add(one.grown),
        objects: sum.objects.saturating_add(one.objects),
    })
}

/// Returns the different values of a field, in the order in which they first appear, joined by commas.
fn joined(censuses: &[Census], field: impl Fn(&Census) -> String) -> String {
    let mut seen: Vec<String> = Vec::new();
    for value in censuses.iter().map(field) {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen.join(", ")
}

fn merged_gone(censuses: &[Census]) -> HashMap<Arc<str>, u64> {
    let mut merged: HashMap<Arc<str>, u64> = HashMap::new();
    for (kind, gone) in censuses.iter().flat_map(|census| &census.gone) {
        let sum = merged.entry(kind.clone()).or_default();
        *sum = sum.saturating_add(*gone);
    }
    merged
}

/// Returns the guest with the most intervals. All guests' intervals end at the same moments, so those of a guest
/// that came later correspond to its last ones.
fn longest_watched(censuses: &[Census]) -> Option<&Census> {
    censuses
        .iter()
        .rev()
        .max_by_key(|census| census.intervals.len())
}

fn merged_sites(censuses: &[Census]) -> Vec<SiteCount> {
    let mut merged: Vec<SiteCount> = Vec::new();
    let mut places: HashMap<(&[Arc<Frame>], &str, bool), usize> = HashMap::new();
    let most = longest_watched(censuses).map_or(0, |census| census.intervals.len());
    let sites = censuses.iter().flat_map(|census| {
        let later = most - census.intervals.len();
        census.sites.iter().map(move |site| (site, later))
    });
    for (site, later) in sites {
        let counts = Counts {
            alive: site.counts.alive.later_by(later),
            ..site.counts
        };
        match places.get(&(site.frames.as_slice(), &*site.kind, site.internal)) {
            Some(&at) => merged[at].counts += counts,
            None => {
                places.insert((&site.frames, &site.kind, site.internal), merged.len());
                merged.push(SiteCount {
                    counts,
                    ..site.clone()
                });
            }
        }
    }
    merged
}

fn merged_before(censuses: &[Census]) -> Vec<TypeCount> {
    let mut merged: Vec<TypeCount> = Vec::new();
    let mut places: HashMap<(&str, bool), usize> = HashMap::new();
    for before in censuses.iter().flat_map(|census| &census.before) {
        match places.get(&(&*before.kind, before.internal)) {
            Some(&at) => merged[at].counts += before.counts,
            None => {
                places.insert((&before.kind, before.internal), merged.len());
                merged.push(before.clone());
            }
        }
    }
    merged
}
