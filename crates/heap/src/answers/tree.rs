//! The tree of dominators with objects of one type put together: what holds what, from the roots down, as flame graphs and
//! treemaps show it.

use std::collections::HashMap;

use crate::analysis::Analysis;
use crate::text::TextId;

/// Objects of one type that are dominated by the objects of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Their type.
    pub name: TextId,
    /// How many they are.
    pub objects: u64,
    /// What they retain.
    pub retained: u64,
    /// The part of that which is in none of `below`: their own bytes, and those of nodes that are too small to be shown.
    pub own: u64,
    /// The one that retains most.
    pub largest: u32,
    /// What they dominate, the largest first.
    pub below: Vec<Node>,
}

/// How far the tree is followed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nodes that retain less, in bytes, are left to the node above.
    pub least: u64,
    /// So many levels are shown.
    pub levels: u32,
}

/// What the roots dominate, by type; the largest first. What is too small is in no node.
#[must_use]
pub fn nodes(analysis: &Analysis, limits: Limits) -> Vec<Node> {
    below(analysis, &[None], limits)
}

/// The nodes below these objects; `None` stands for the roots.
fn below(analysis: &Analysis, holders: &[Option<u32>], limits: Limits) -> Vec<Node> {
    if limits.levels == 0 {
        return Vec::new();
    }
    let snapshot = analysis.snapshot();
    let mut types: HashMap<TextId, Vec<Option<u32>>> = HashMap::new();
    for holder in holders {
        for object in analysis.dominated(*holder) {
            let name = snapshot.type_name(*object);
            types.entry(name).or_default().push(Some(*object));
        }
    }
    let nodes = types.into_iter().filter_map(|(name, objects)| {
        let retained = |object: &Option<u32>| object.map_or(0, |object| analysis.retained(object));
        let sum = objects.iter().map(retained).fold(0, u64::saturating_add);
        if sum < limits.least {
            return None;
        }
        let largest = objects.iter().copied().flatten();
        let largest =
            largest.max_by_key(|one| (analysis.retained(*one), std::cmp::Reverse(*one)))?;
        let next = Limits {
            levels: limits.levels - 1,
            ..limits
        };
        let below = below(analysis, &objects, next);
        let shown = below.iter().map(|node| node.retained);
        let shown = shown.fold(0, u64::saturating_add);
        Some(Node {
            name,
            objects: objects.len() as u64,
            retained: sum,
            own: sum - shown.min(sum),
            largest,
            below,
        })
    });
    let mut nodes: Vec<Node> = nodes.collect();
    nodes.sort_by_key(|node| (std::cmp::Reverse(node.retained), node.name));
    nodes
}
