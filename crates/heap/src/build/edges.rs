//! The edges of all objects, when the numbers of their targets are known. Used by `build`.

use super::targets::NOWHERE;
use crate::about::Losses;
use crate::edge_names::EdgeNames;
use crate::rising::Rising;

/// Edges as they were given: where those of each object end, and each one's target and packed name.
pub struct Given {
    pub ends: Rising,
    pub targets: Vec<u32>,
    pub names: Vec<u32>,
}

/// Edges as a snapshot has them.
pub struct Edges {
    pub ends: Rising,
    pub targets: Vec<u32>,
    pub names: EdgeNames,
}

impl Given {
    /// The edges of the objects in another order, of which each has its old number in `order` (`None`: in this one). Those of objects that
    /// are not in it, and those that lead to no object, are counted as lost.
    pub fn in_order(self, order: Option<&[u32]>, losses: &mut Losses) -> Edges {
        let Self {
            ends: given,
            targets,
            names,
        } = self;
        let objects = order.map_or(given.len(), <[u32]>::len);
        let ranges = given.ranges();
        let range = |object: usize| {
            let old = order.map_or(object, |order| order[object] as usize);
            let range = ranges(old as u32);
            range.start as usize..range.end as usize
        };
        let is_kept = |edge: &usize| targets[*edge] != NOWHERE;
        let kept = |object: usize| range(object).filter(is_kept);
        let (mut seen, mut count) = (0, 0);
        let ends = (0..objects).map(|object| {
            seen += range(object).len();
            count += kept(object).count();
            count as u64
        });
        let ends: Rising = ends.collect();
        losses.edges += (targets.len() - seen) as u64;
        losses.dangling_edges += (seen - count) as u64;
        let placed = (0..objects).flat_map(|object| (0..).zip(kept(object)));
        let short = EdgeNames::of(placed.map(|(place, edge)| (names[edge], place)), count);
        // Most memory is in use where the targets are there twice.
        drop(names);
        let is_whole = order.is_none() && count == targets.len();
        let targets = if is_whole {
            targets
        } else {
            let mut of_kept = Vec::with_capacity(count);
            let edges = (0..objects).flat_map(kept);
            of_kept.extend(edges.map(|edge| targets[edge]));
            of_kept
        };
        Edges {
            ends,
            targets,
            names: short,
        }
    }
}
