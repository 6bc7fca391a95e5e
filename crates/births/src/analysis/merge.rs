//! Several guests as one: a preforking server's workers run the same code, and a leak that is
//! small in each is plain in their sum.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::analysis::census::{Census, Frame, Loss, SiteCount, TypeCount};

/// The `pid` of a merged census; no process has it.
pub const MERGED_PID: i32 = 0;

/// The censuses of several guests added up, or `None` for no guests.
///
/// Sites are the same when call path and type are. The pauses are the longest of any guest, since
/// the guests are not held together; losses say whose they are.
pub fn merge(censuses: &[Census]) -> Option<Census> {
    let first = censuses.first()?;
    let longest = |pause: fn(&Census) -> Option<Duration>| censuses.iter().filter_map(pause).max();
    Some(Census {
        pid: MERGED_PID,
        command: format!(
            "{} {}: {}",
            censuses.len(),
            if censuses.len() == 1 {
                "process"
            } else {
                "processes"
            },
            joined(censuses, |c| &c.command)
        ),
        ruby: joined(censuses, |c| &c.ruby),
        seconds: censuses
            .iter()
            .map(|c| c.seconds)
            .fold(first.seconds, f64::max),
        sites: merged_sites(censuses),
        before: merged_before(censuses),
        gc_pause: longest(|c| c.gc_pause),
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
        garbage_included: censuses.iter().any(|c| c.garbage_included),
    })
}

/// The different values of a field, in the order they first appear.
fn joined(censuses: &[Census], field: fn(&Census) -> &String) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for value in censuses.iter().map(field) {
        if !seen.contains(&value.as_str()) {
            seen.push(value);
        }
    }
    seen.join(", ")
}

fn merged_sites(censuses: &[Census]) -> Vec<SiteCount> {
    let mut merged: Vec<SiteCount> = Vec::new();
    let mut places: HashMap<(&[Arc<Frame>], &str, bool), usize> = HashMap::new();
    for site in censuses.iter().flat_map(|census| &census.sites) {
        match places.get(&(site.frames.as_slice(), &*site.kind, site.internal)) {
            Some(&at) => {
                let sum = &mut merged[at];
                sum.born = sum.born.saturating_add(site.born);
                sum.live = sum.live.saturating_add(site.live);
                sum.bytes = sum.bytes.saturating_add(site.bytes);
            }
            None => {
                places.insert((&site.frames, &site.kind, site.internal), merged.len());
                merged.push(site.clone());
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
            Some(&at) => {
                let sum = &mut merged[at];
                sum.live = sum.live.saturating_add(before.live);
                sum.bytes = sum.bytes.saturating_add(before.bytes);
            }
            None => {
                places.insert((&before.kind, before.internal), merged.len());
                merged.push(before.clone());
            }
        }
    }
    merged
}
