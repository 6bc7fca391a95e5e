//! What is there more than once: equal texts, and classes of the same name. Used by `answers` and `suspects::mass`.

use std::collections::HashMap;

use crate::analysis::Analysis;
use crate::names::Role;
use crate::snapshot::Site;
use crate::text::TextId;

/// Texts with equal contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualTexts {
    /// Number of the one at the lowest address.
    pub object: u32,
    /// Number of texts with these contents.
    pub objects: u64,
    /// The bytes of all but the largest: what one for all would save.
    pub wasted: u64,
    /// How many of them are frozen.
    pub frozen: u64,
    /// The line that made most of them, if lines are known, and how many it made.
    pub site: Option<(Site, u64)>,
}

/// Classes that have the same name: after a reload the earlier ones should have died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SameName {
    /// Name that the classes share, as a text of the snapshot.
    pub name: TextId,
    /// How many classes have it.
    pub classes: u64,
    /// Bytes that those classes retain together.
    pub retained: u64,
}

/// The texts are looked at in so many parts, by their fingerprints: to have all in one order would take 24 bytes a text.
const PARTS: u64 = 16;

/// Living texts that are equal by length and fingerprint, those that waste most first.
#[must_use]
pub fn texts(analysis: &Analysis) -> Vec<EqualTexts> {
    let mut equal = Vec::new();
    let mut part = Vec::new();
    for number in 0..PARTS {
        equal_in(analysis, number, &mut part, &mut equal);
    }
    equal.sort_by_key(|texts| (std::cmp::Reverse(texts.wasted), texts.object));
    equal
}

/// A text: fingerprint and length, by which equal ones are found, and its number.
type Text = ((u64, u64), u32);

/// Adds to `equal` those whose fingerprints are of this part. What `all` has is not used.
fn equal_in(analysis: &Analysis, part: u64, all: &mut Vec<Text>, equal: &mut Vec<EqualTexts>) {
    let snapshot = analysis.snapshot();
    all.clear();
    for (object, fingerprint) in snapshot.columns.fingerprints.iter() {
        if fingerprint % PARTS == part
            && analysis.is_living(object)
            && snapshot.role(object) == Role::Text
        {
            let length = snapshot.length(object).unwrap_or(0);
            all.push(((fingerprint, length), object));
        }
    }
    all.sort_unstable();
    let alike = all.chunk_by(|one, other| one.0 == other.0);
    let alike = alike.filter(|texts| texts.len() > 1);
    equal.extend(alike.map(|texts| {
        let bytes = texts.iter().map(|text| snapshot.bytes(text.1));
        let (sum, most) = bytes.fold((0_u64, 0), |(sum, most), bytes| {
            (sum.saturating_add(bytes), bytes.max(most))
        });
        let frozen = texts.iter().filter(|text| snapshot.flags(text.1).frozen);
        EqualTexts {
            object: texts[0].1,
            objects: texts.len() as u64,
            wasted: sum - most,
            frozen: frozen.count() as u64,
            site: commonest(texts.iter().filter_map(|text| snapshot.site(text.1))),
        }
    }));
}

/// Living classes of the same name, those of which there are most first. Names in angle brackets are no names but
/// descriptions (`#<Class:0x…>`).
#[must_use]
pub fn classes(analysis: &Analysis) -> Vec<SameName> {
    let snapshot = analysis.snapshot();
    let mut names: HashMap<TextId, (u64, u64)> = HashMap::new();
    for object in 0..snapshot.len() as u32 {
        if snapshot.role(object) != Role::Class || !analysis.is_living(object) {
            continue;
        }
        let Some(label) = snapshot.label(object) else {
            continue;
        };
        let text = snapshot.text(label);
        if text.is_empty() || text.contains(&b'<') {
            continue;
        }
        let sum = names.entry(label).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(analysis.retained(object));
    }
    let same = names.into_iter().filter(|(_, sum)| sum.0 > 1);
    let mut same: Vec<SameName> = same
        .map(|(name, (classes, retained))| SameName {
            name,
            classes,
            retained,
        })
        .collect();
    same.sort_by_key(|one| (std::cmp::Reverse((one.classes, one.retained)), one.name));
    same
}

/// The site that occurs most often, and how often.
pub(crate) fn commonest(sites: impl Iterator<Item = Site>) -> Option<(Site, u64)> {
    let mut counts: HashMap<Site, u64> = HashMap::new();
    sites.for_each(|site| *counts.entry(site).or_default() += 1);
    most(counts)
}

/// The site that counts most, and how much.
pub(crate) fn most(counts: HashMap<Site, u64>) -> Option<(Site, u64)> {
    counts
        .into_iter()
        .max_by_key(|(site, count)| (*count, std::cmp::Reverse(*site)))
}
