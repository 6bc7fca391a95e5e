//! Objects together by what they have in common: their type, their kind, the line that made them. Used by `answers` and
//! `diff`, and by the crates `report` and `lancet`.

use crate::analysis::Analysis;
use crate::snapshot::Site;
use crate::text::TextId;

/// Objects that have something in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<K> {
    /// What they have in common.
    pub key: K,
    /// Number of objects of the group.
    pub objects: u64,
    /// The bytes they take themselves.
    pub bytes: u64,
    /// The bytes that they retain: of an object that another of the group dominates, nothing more. What only several of
    /// them hold together is not in it, so it is the least that would be free without them.
    pub retained: u64,
}

/// Living objects by type: the name of their class, or of their kind where they have no class.
#[must_use]
pub fn by_type(analysis: &Analysis) -> Vec<Group<TextId>> {
    let snapshot = analysis.snapshot();
    let groups = grouped(analysis, snapshot.texts.len(), |object| {
        Some(snapshot.type_name(object).0)
    });
    keyed(groups, |number| Some(TextId(number)))
}

/// Living objects by kind.
#[must_use]
pub fn by_kind(analysis: &Analysis) -> Vec<Group<TextId>> {
    let snapshot = analysis.snapshot();
    let groups = grouped(analysis, snapshot.kinds.len(), |object| {
        Some(snapshot.kind(object).0.into())
    });
    keyed(groups, |number| Some(snapshot.kinds[number as usize].name))
}

/// Living objects by the line that made them; `None` = unknown.
#[must_use]
pub fn by_site(analysis: &Analysis) -> Vec<Group<Option<Site>>> {
    let snapshot = analysis.snapshot();
    let unknown = snapshot.sites.len() as u32;
    let groups = grouped(analysis, snapshot.sites.len() + 1, |object| {
        Some(site_number(analysis, object).unwrap_or(unknown))
    });
    keyed(groups, |number| {
        Some(snapshot.sites.get(number as usize).copied())
    })
}

/// Living objects by whose code made them: `owner` says of a file's path whose it is (a gem's, the application's). `None` =
/// the line is unknown.
#[must_use]
pub fn by_owner(
    analysis: &Analysis,
    owner: impl Fn(&[u8]) -> String,
) -> Vec<Group<Option<String>>> {
    let snapshot = analysis.snapshot();
    let mut owners: Vec<String> = Vec::new();
    let numbers = snapshot.sites.iter().map(|site| {
        let name = owner(snapshot.text(site.file));
        let known = owners.iter().position(|owner| *owner == name);
        known.unwrap_or_else(|| {
            owners.push(name);
            owners.len() - 1
        }) as u32
    });
    let numbers: Vec<u32> = numbers.collect();
    let unknown = owners.len() as u32;
    let groups = grouped(analysis, owners.len() + 1, |object| {
        let site = site_number(analysis, object);
        Some(site.map_or(unknown, |site| numbers[site as usize]))
    });
    keyed(groups, |number| Some(owners.get(number as usize).cloned()))
}

fn site_number(analysis: &Analysis, object: u32) -> Option<u32> {
    let number = analysis.snapshot().columns.sites.get(object)?;
    u32::try_from(number).ok()
}

/// Puts living objects together whose key is the same number below `keys`. Those without a key are left out.
pub(crate) fn grouped(
    analysis: &Analysis,
    keys: usize,
    key: impl Fn(u32) -> Option<u32>,
) -> Vec<Group<u32>> {
    let snapshot = analysis.snapshot();
    let mut groups: Vec<Group<u32>> = (0..keys as u32)
        .map(|key| Group {
            key,
            objects: 0,
            bytes: 0,
            retained: 0,
        })
        .collect();
    // How many of a group dominate what is looked at.
    let mut above = vec![0_u32; keys];
    let mut stack: Vec<(Option<u32>, &[u32])> = vec![(None, analysis.dominated(None))];
    while let Some((key_above, rest)) = stack.last_mut() {
        let Some((object, others)) = rest.split_first() else {
            if let Some(key) = *key_above {
                above[key as usize] -= 1;
            }
            stack.pop();
            continue;
        };
        *rest = others;
        let key = key(*object).filter(|key| (*key as usize) < keys);
        if let Some(key) = key {
            let group = &mut groups[key as usize];
            group.objects += 1;
            group.bytes = group.bytes.saturating_add(snapshot.bytes(*object));
            if above[key as usize] == 0 {
                group.retained = group.retained.saturating_add(analysis.retained(*object));
            }
            above[key as usize] += 1;
        }
        stack.push((key, analysis.dominated(Some(*object))));
    }
    groups
}

/// The groups that have objects, those that retain most first.
pub(crate) fn keyed<K>(groups: Vec<Group<u32>>, key: impl Fn(u32) -> Option<K>) -> Vec<Group<K>> {
    let mut groups = groups;
    groups.retain(|group| group.objects > 0);
    groups.sort_by_key(|group| (std::cmp::Reverse(group.retained), group.key));
    let named = groups.into_iter().filter_map(|group| {
        Some(Group {
            key: key(group.key)?,
            objects: group.objects,
            bytes: group.bytes,
            retained: group.retained,
        })
    });
    named.collect()
}
