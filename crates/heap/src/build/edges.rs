//! The edges of all objects, when the numbers of their targets are known.

use super::targets::NOWHERE;
use crate::about::Losses;

/// Where those of each object end, and each one's target and name.
pub struct Edges {
    pub ends: Vec<u32>,
    pub targets: Vec<u32>,
    pub names: Vec<u32>,
}

impl Edges {
    /// Without those that lead to no object, and how many these were.
    pub fn whole(mut self) -> (Self, u64) {
        if !self.targets.contains(&NOWHERE) {
            return (self, 0);
        }
        let before = self.targets.len();
        let (mut read, mut kept) = (0, 0);
        for end in &mut self.ends {
            while read < *end as usize {
                if self.targets[read] != NOWHERE {
                    (self.targets[kept], self.names[kept]) = (self.targets[read], self.names[read]);
                    kept += 1;
                }
                read += 1;
            }
            *end = kept as u32;
        }
        self.targets.truncate(kept);
        self.names.truncate(kept);
        (self, (before - kept) as u64)
    }

    /// The same for objects in another order, of which each has its old number in `order`. Edges of objects that are not in it are
    /// counted as lost.
    pub fn reordered(self, order: &[u32], losses: &mut Losses) -> (Self, u64) {
        let count = self.targets.len();
        let mut edges = Edges {
            ends: Vec::with_capacity(order.len()),
            targets: Vec::with_capacity(count),
            names: Vec::with_capacity(count),
        };
        let mut seen = 0;
        for old in order {
            let old = *old as usize;
            let begin = old.checked_sub(1).map_or(0, |before| self.ends[before]);
            let range = begin as usize..self.ends[old] as usize;
            seen += range.len();
            let targets = self.targets[range.clone()].iter();
            for (target, name) in targets.zip(&self.names[range]) {
                if *target != NOWHERE {
                    edges.targets.push(*target);
                    edges.names.push(*name);
                }
            }
            edges.ends.push(edges.targets.len() as u32);
        }
        losses.edges += (count - seen) as u64;
        let dangling = seen - edges.targets.len();
        (edges, dangling as u64)
    }
}
