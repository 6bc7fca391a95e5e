//! Paths from the roots to objects. Used by `garbage`, `answers` and others here, and by the crates `report` and
//! `lancet`.
//!
//! Of several paths the shortest is told, where a reference that has no name (something held by the VM or a C library) counts
//! as three, and a word of a machine stack as nine: `$cache`, or a thread local of a thread that only the VM names, says more than a stack word
//! that leads to the same hash.

use std::collections::HashMap;

use crate::dominators::NOBODY;
use crate::names::{EdgeName, RootKind, RootName};
use crate::snapshot::Snapshot;
use crate::text::TextId;

/// By what an object is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// A root leads to it, so it is the first on its path.
    Root(RootName),
    /// By the object before it on the path.
    Edge(EdgeName),
}

/// An object on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// By what it is held.
    pub via: Via,
    /// Number of the object.
    pub object: u32,
}

/// Objects that are held the same way: by objects of the same types, by references of the same names. Indices and keys
/// are not told apart, nor how often a step, or up to eight in a row, repeat themselves (the nodes of a linked list).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The steps from the root on: what holds, and the type of what is held, for a class with its name. Of a very long way the first
    /// [`END`] and the last [`END`].
    pub steps: Vec<(Via, TextId, Option<TextId>)>,
    /// How many steps between these are left out.
    pub left_out: usize,
    /// How many objects are held so.
    pub objects: u64,
    /// Sum of the bytes that those objects take themselves.
    pub bytes: u64,
}

/// Up to so many objects in a row may repeat themselves on a path or in a chain: a node and its dict, a promise and what it calls.
pub(super) const PERIOD: usize = 8;

/// Steps of a way that are told from each of its ends.
pub const END: usize = 500;

/// The ways in which objects are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Those of most objects, these first.
    pub told: Vec<Merged>,
    /// How many others there are.
    pub others: u64,
    /// How many objects are held so.
    pub objects: u64,
    /// Sum of the bytes that those objects take themselves.
    pub bytes: u64,
}

/// The path to each object.
#[derive(Debug)]
pub struct Paths<'a> {
    snapshot: &'a Snapshot,
    /// By object: the number of the edge that leads to it on its path; of a root its number behind those of all edges;
    /// [`NOBODY`] = there is no path.
    edges: Vec<u32>,
}

/// What a reference without a name costs; one with a name costs 1.
const NAMELESS: usize = 3;
/// What a word of a machine stack costs: it may be no reference at all.
const CHANCE: usize = 9;

impl<'a> Paths<'a> {
    /// Finds the path to each object. Takes 4 bytes an object, and up to 4 an edge while it searches.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut paths = Self {
            snapshot,
            edges: vec![NOBODY; snapshot.len()],
        };
        let count = snapshot.edge_count() as u32;
        // What is to be looked at now, and at each distance from here: the edges that lead there.
        let mut open: [Vec<u32>; CHANCE + 1] = Default::default();
        for (number, root) in snapshot.roots.iter().enumerate() {
            let cost = match root.name.kind {
                RootKind::MachineStack => CHANCE,
                RootKind::Vm | RootKind::Native => NAMELESS,
                _ => 1,
            };
            open[cost - 1].push(count + number as u32);
        }
        while open.iter().any(|some| !some.is_empty()) {
            let now = std::mem::take(&mut open[0]);
            for edge in now {
                let object = match snapshot.targets.get(edge as usize) {
                    Some(target) => *target,
                    None => snapshot.roots[(edge - count) as usize].target,
                };
                if paths.edges[object as usize] != NOBODY {
                    continue;
                }
                paths.edges[object as usize] = edge;
                for (place, edge) in (0..).zip(snapshot.edge_range(object)) {
                    let target = snapshot.targets[edge];
                    if paths.edges[target as usize] == NOBODY {
                        let name = snapshot.name(edge as u32, place);
                        open[cost(name)].push(edge as u32);
                    }
                }
            }
            open.rotate_left(1);
        }
        paths
    }

    /// The path to an object, from the root on; empty if there is none.
    #[must_use]
    pub fn to(&self, object: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = Some(object);
        while let Some(object) = at {
            let Some((via, holder)) = self.holder(object) else {
                return Vec::new();
            };
            steps.push(Step { via, object });
            at = holder;
        }
        steps.reverse();
        steps
    }

    /// By what an object is held on its path, and by whom if not by a root.
    #[must_use]
    pub fn holder(&self, object: u32) -> Option<(Via, Option<u32>)> {
        let edge = self.edges[object as usize];
        if edge == NOBODY {
            return None;
        }
        let snapshot = self.snapshot;
        if let Some(root) = (edge as usize).checked_sub(snapshot.edge_count()) {
            let root = snapshot.roots.get(root)?;
            return Some((Via::Root(root.name), None));
        }
        let (holder, place) = snapshot.holder(edge);
        Some((Via::Edge(snapshot.name(edge, place)), Some(holder)))
    }

    /// The ways in which objects are held; at most so many are told. Takes some 100 bytes for each object on a path to one of them.
    #[must_use]
    pub fn merged(&self, objects: impl Iterator<Item = u32>, most: usize) -> Ways {
        let mut merging = Merging::default();
        for object in objects {
            let Some(way) = merging.way(self, object) else {
                continue;
            };
            let sum = &mut merging.sums[way as usize];
            sum.0 += 1;
            sum.1 = sum.1.saturating_add(self.snapshot.bytes(object));
        }
        merging.finish(most)
    }
}

/// What a reference of this name costs.
fn cost(name: EdgeName) -> usize {
    match name {
        EdgeName::Internal | EdgeName::Stack | EdgeName::ClassOf => NAMELESS,
        _ => 1,
    }
}

/// A step of a way: the way it goes on from, and what [`Merged::steps`] says.
type Way = (Option<u32>, Via, TextId, Option<TextId>);

/// Ways found so far: each is a step behind another way.
#[derive(Default)]
struct Merging {
    ways: Vec<Way>,
    numbers: HashMap<Way, u32>,
    /// Objects and bytes by way.
    sums: Vec<(u64, u64)>,
    /// The way of each object on a path.
    known: HashMap<u32, u32>,
}

impl Merging {
    /// The number of the way to an object; `None` = there is no path to it.
    fn way(&mut self, paths: &Paths, object: u32) -> Option<u32> {
        let mut open = Vec::new();
        let mut at = Some(object);
        let mut way = None;
        while let Some(object) = at {
            if let Some(known) = self.known.get(&object) {
                way = Some(*known);
                break;
            }
            let (via, holder) = paths.holder(object)?;
            open.push((object, via));
            at = holder;
        }
        let snapshot = paths.snapshot;
        while let Some((object, via)) = open.pop() {
            let step = (
                alike(via),
                snapshot.type_name(object),
                snapshot.label(object),
            );
            let next = self.repeated(way, step).unwrap_or_else(|| {
                let next = self.ways.len() as u32;
                let key = (way, step.0, step.1, step.2);
                let number = *self.numbers.entry(key).or_insert(next);
                if number == next {
                    self.ways.push(key);
                    self.sums.push((0, 0));
                }
                number
            });
            way = Some(next);
            self.known.insert(object, next);
        }
        way
    }

    /// The way without what would be there twice in a row if it went on by this step.
    fn repeated(&self, way: Option<u32>, step: (Via, TextId, Option<TextId>)) -> Option<u32> {
        let mut last = [None; 2 * PERIOD - 1];
        let mut count = 0;
        for (place, way) in last.iter_mut().zip(self.back(way)) {
            *place = Some(way);
            count += 1;
        }
        let step_at = |at: usize| match at {
            0 => Some(step),
            at => last[at - 1].map(|way| self.step(way)),
        };
        let period = (1..=PERIOD).find(|period| {
            2 * period <= count + 1 && (0..*period).all(|at| step_at(at) == step_at(at + period))
        })?;
        last[period - 1]
    }

    /// A way, the one that it goes on from, and so on.
    fn back(&self, way: Option<u32>) -> impl Iterator<Item = u32> {
        std::iter::successors(way, |way| self.ways[*way as usize].0)
    }

    /// The last step of a way.
    fn step(&self, way: u32) -> (Via, TextId, Option<TextId>) {
        let (_, via, name, label) = self.ways[way as usize];
        (via, name, label)
    }

    fn finish(self, most: usize) -> Ways {
        let mut merged: Vec<u32> = (0..self.ways.len() as u32).collect();
        let sum = |number: &u32| self.sums[*number as usize];
        merged.retain(|number| sum(number).0 > 0);
        merged.sort_by_key(|number| (std::cmp::Reverse(sum(number).0), *number));
        let told = merged.iter().take(most).map(|number| {
            let mut ways: Vec<u32> = self.back(Some(*number)).collect();
            ways.reverse();
            let left_out = ways.len().saturating_sub(2 * END);
            if left_out > 0 {
                ways.drain(END..END + left_out);
            }
            let (objects, bytes) = sum(number);
            Merged {
                steps: ways.into_iter().map(|way| self.step(way)).collect(),
                left_out,
                objects,
                bytes,
            }
        });
        let told = told.collect();
        let others = merged.get(most..).unwrap_or_default();
        let sums = || others.iter().map(sum);
        Ways {
            told,
            others: others.len() as u64,
            objects: sums().map(|(objects, _)| objects).sum(),
            bytes: sums().fold(0, |all, (_, bytes)| all.saturating_add(bytes)),
        }
    }
}

/// Returns a `Via` that is the same for all references that differ in their index or key alone.
fn alike(via: Via) -> Via {
    match via {
        Via::Edge(EdgeName::Index(_)) => Via::Edge(EdgeName::Index(0)),
        Via::Edge(EdgeName::Value(_)) => Via::Edge(EdgeName::Value(None)),
        Via::Edge(EdgeName::ThreadLocal(_)) => Via::Edge(EdgeName::ThreadLocal(None)),
        via => via,
    }
}
