//! Who holds what is new: what has come since another snapshot, or since births were watched. Used by `answers` and
//! `diff`, and by the crates `report` and `lancet`.

use std::collections::HashMap;

use crate::analysis::{Analysis, Dominator, Total};
use crate::snapshot::Site;
use crate::text::TextId;

/// An old object that holds new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Number of the object that dominates the new ones directly; `None` = no single object does.
    pub object: Option<u32>,
    /// Number of new objects that it dominates directly.
    pub objects: u64,
    /// Bytes that those `objects` retain together.
    pub retained: u64,
    /// The type that retains most among them.
    pub name: TextId,
    /// Number of one of the new objects of that type.
    pub example: u32,
    /// The line that made those which retain most, if one is known.
    pub site: Option<Site>,
}

/// What was made while births were watched, and lives.
#[derive(Debug)]
pub struct Born {
    /// Since when births were watched, in nanoseconds since 1970.
    pub since: u64,
    /// Number and bytes of all that was made since then and lives.
    pub all: Total,
    /// Who holds it, whoever holds most first.
    pub holders: Vec<Holder>,
}

/// What was made while births were watched; `None` where they were not, or nothing was.
pub fn born(analysis: &Analysis) -> Option<Born> {
    let snapshot = analysis.snapshot();
    let since = snapshot.first_birth()?;
    let objects = 0..snapshot.len() as u32;
    let is_new: Vec<bool> = objects
        .map(|one| analysis.is_living(one) && snapshot.birth(one) != 0)
        .collect();
    let mut all = Total::default();
    for object in (0..snapshot.len() as u32).filter(|one| is_new[*one as usize]) {
        all.objects += 1;
        all.bytes = all.bytes.saturating_add(snapshot.bytes(object));
    }
    Some(Born {
        since,
        all,
        holders: holders(analysis, &is_new),
    })
}

/// What one holder holds.
#[derive(Default)]
struct Held {
    objects: u64,
    retained: u64,
    /// What is retained by type, with one of each.
    types: HashMap<TextId, (u64, u32)>,
    /// The same by line.
    sites: HashMap<Site, u64>,
}

/// Who holds the living objects that are new, whoever holds most first.
pub(super) fn holders(analysis: &Analysis, is_new: &[bool]) -> Vec<Holder> {
    let snapshot = analysis.snapshot();
    let mut held: HashMap<Option<u32>, Held> = HashMap::new();
    for object in (0..snapshot.len() as u32).filter(|one| is_new[*one as usize]) {
        let holder = match analysis.dominator(object) {
            Dominator::Object(holder) if is_new[holder as usize] => continue,
            Dominator::Object(holder) => Some(holder),
            _ => None,
        };
        let held = held.entry(holder).or_default();
        let own = analysis.retained(object);
        held.objects += 1;
        held.retained = held.retained.saturating_add(own);
        let of_type = held.types.entry(snapshot.type_name(object));
        let (sum, _) = of_type.or_insert((0, object));
        *sum = sum.saturating_add(own);
        if let Some(site) = snapshot.site(object) {
            let sum = held.sites.entry(site).or_default();
            *sum = sum.saturating_add(own);
        }
    }
    let holders = held.into_iter().filter_map(|(object, held)| {
        let types = held.types.into_iter();
        let (name, (_, example)) =
            types.max_by_key(|(name, sum)| (sum.0, std::cmp::Reverse(*name)))?;
        let sites = held.sites.into_iter();
        let site =
            sites.max_by_key(|(site, sum)| (*sum, std::cmp::Reverse((site.file, site.line))));
        Some(Holder {
            object,
            objects: held.objects,
            retained: held.retained,
            name,
            example,
            site: site.map(|(site, _)| site),
        })
    });
    let mut holders: Vec<Holder> = holders.collect();
    holders.sort_by_key(|holder| (std::cmp::Reverse(holder.retained), holder.object));
    holders
}
