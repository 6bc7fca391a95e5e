//! The tree of dominators with objects of one type put together: what holds what, from the roots down, as flame graphs and
//! treemaps show it. Used by the crates `report` and `lancet`.

use std::collections::HashMap;

use crate::analysis::{Analysis, Total};
use crate::snapshot::Site;
use crate::text::TextId;

/// Objects of one type that are dominated by the objects of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Their type, as a text of the snapshot.
    pub name: TextId,
    /// How many they are.
    pub objects: u64,
    /// Bytes that they retain together.
    pub retained: u64,
    /// The part of that which is in none of `below`: their own bytes, and those of nodes that are too small to be shown.
    pub own: u64,
    /// These objects themselves by the line that made them, where it is known; those with the most bytes first.
    pub made: Vec<(Site, Total)>,
    /// Number of the object that retains most of them.
    pub largest: u32,
    /// What they dominate, the largest first.
    pub below: Vec<Node>,
}

/// How far the tree is followed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nodes that retain less, in bytes, are left to the node above.
    pub least: u64,
    /// Number of levels that are shown.
    pub levels: u32,
}

/// What the roots dominate, by type; the largest first. What is too small is in no node.
#[must_use]
pub fn nodes(analysis: &Analysis, limits: Limits) -> Vec<Node> {
    below(analysis, &[None], limits)
}

/// One level of the tree: what these objects dominate directly, by type, with what each type retains; the largest first.
/// `None` stands for the roots.
#[must_use]
pub fn level(analysis: &Analysis, holders: &[Option<u32>]) -> Vec<(TextId, u64, Vec<u32>)> {
    let snapshot = analysis.snapshot();
    let mut types: HashMap<TextId, (u64, Vec<u32>)> = HashMap::new();
    for holder in holders {
        for object in analysis.dominated(*holder) {
            let (sum, objects) = types.entry(snapshot.type_name(*object)).or_default();
            *sum = sum.saturating_add(analysis.retained(*object));
            objects.push(*object);
        }
    }
    let types = types.into_iter();
    let mut level: Vec<_> = types
        .map(|(name, (sum, objects))| (name, sum, objects))
        .collect();
    level.sort_by_key(|(name, sum, _)| (std::cmp::Reverse(*sum), *name));
    level
}

/// The nodes below these objects; `None` stands for the roots.
fn below(analysis: &Analysis, holders: &[Option<u32>], limits: Limits) -> Vec<Node> {
    if limits.levels == 0 {
        return Vec::new();
    }
    let level = level(analysis, holders).into_iter();
    let nodes = level.take_while(|(_, sum, _)| *sum >= limits.least);
    let nodes = nodes.filter_map(|(name, retained, objects)| {
        let largest = objects.iter().copied();
        let largest =
            largest.max_by_key(|one| (analysis.retained(*one), std::cmp::Reverse(*one)))?;
        let next = Limits {
            levels: limits.levels - 1,
            ..limits
        };
        let count = objects.len() as u64;
        let made = made(analysis, &objects);
        let objects: Vec<Option<u32>> = objects.into_iter().map(Some).collect();
        let below = below(analysis, &objects, next);
        let shown = below.iter().map(|node| node.retained);
        let shown = shown.fold(0, u64::saturating_add);
        Some(Node {
            name,
            objects: count,
            retained,
            own: retained - shown.min(retained),
            made,
            largest,
            below,
        })
    });
    nodes.collect()
}

/// Objects by the line that made them.
fn made(analysis: &Analysis, objects: &[u32]) -> Vec<(Site, Total)> {
    let snapshot = analysis.snapshot();
    let mut sites: HashMap<Site, Total> = HashMap::new();
    for object in objects {
        if let Some(site) = snapshot.site(*object) {
            let sum = sites.entry(site).or_default();
            sum.objects += 1;
            sum.bytes = sum.bytes.saturating_add(snapshot.bytes(*object));
        }
    }
    let mut made: Vec<(Site, Total)> = sites.into_iter().collect();
    made.sort_by_key(|(site, sum)| (std::cmp::Reverse(sum.bytes), *site));
    made
}
