//! What nothing keeps alive, by type: how much of it is in cycles, and for how much code of the program runs when it is freed.
//! Used by `answers` and `suspects`.
//!
//! Where a VM counts references, garbage that a snapshot sees is what cycles of references keep: those in a cycle, and what
//! hangs on these. Where it does not, garbage is whatever no collection has freed yet.

use std::collections::{HashMap, VecDeque};

use super::paths::{Step, Via};
use crate::analysis::Analysis;
use crate::names::EdgeName;
use crate::snapshot::Snapshot;
use crate::text::TextId;

/// Garbage of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type, as a text of the snapshot.
    pub name: TextId,
    /// Number of objects of the type that nothing keeps alive.
    pub objects: u64,
    /// The bytes they take themselves.
    pub bytes: u64,
    /// How many of them are part of a cycle of references.
    pub in_cycles: u64,
    /// For how many of them a finalizer runs.
    pub finalizers: u64,
    /// One of them: the first in memory.
    pub example: u32,
}

/// Everything that no root leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Types, those of most bytes first.
    pub types: Vec<Type>,
    /// Number of cycles of references; those that have an object in common count as one.
    pub cycles: u64,
    /// Bytes of what is in cycles, and of what hangs on them. Where that is little, it is not cycles that keep the garbage.
    pub in_cycles: u64,
    /// A cycle: it begins with an object of the type of most bytes that is in cycles, and its last step leads to that again. Empty if none was
    /// found.
    pub circle: Vec<Step>,
}

/// Looks at everything that no root leads to. Takes 18 bytes for each object of garbage, and 12 for each on the longest path while the search goes down it.
#[must_use]
pub fn garbage(analysis: &Analysis) -> Garbage {
    let snapshot = analysis.snapshot();
    let all = 0..snapshot.len() as u32;
    let objects: Vec<u32> = all.filter(|one| !analysis.is_living(*one)).collect();
    if objects.is_empty() {
        return Garbage::default();
    }
    let mut search = Search::new(snapshot, &objects);
    for number in 0..objects.len() as u32 {
        search.from(number);
    }
    let mut types: HashMap<TextId, Type> = HashMap::new();
    for (object, in_cycle) in objects.iter().zip(&search.in_cycle) {
        let name = snapshot.type_name(*object);
        let of = types.entry(name).or_insert(Type {
            name,
            objects: 0,
            bytes: 0,
            in_cycles: 0,
            finalizers: 0,
            example: *object,
        });
        of.objects += 1;
        of.bytes = of.bytes.saturating_add(snapshot.bytes(*object));
        of.in_cycles += u64::from(*in_cycle);
        of.finalizers += u64::from(snapshot.flags(*object).finalizer);
    }
    let mut types: Vec<Type> = types.into_values().collect();
    types.sort_by_key(|of| (std::cmp::Reverse(of.bytes), of.name));
    let circle = types.iter().find(|of| of.in_cycles > 0).and_then(|of| {
        let mut members = objects.iter().zip(&search.in_cycle);
        let is_of = |(object, in_cycle): &(&u32, &bool)| {
            **in_cycle && snapshot.type_name(**object) == of.name
        };
        search.circle(*members.find(is_of)?.0)
    });
    Garbage {
        types,
        cycles: search.cycles,
        in_cycles: search.held_by_cycles(),
        circle: circle.unwrap_or_default(),
    }
}

/// So many objects are looked at for the shortest way around.
const MOST_AROUND: usize = 10_000;

/// For so many objects of the snapshot at a time it is noted where those of them that are garbage begin.
const STRIDE: usize = 256;

/// Tarjan's search for strongly connected components (SIAM J. Comput. 1, 1972) among garbage, without recursion. Objects have
/// their places in the list of garbage as numbers here.
struct Search<'a> {
    snapshot: &'a Snapshot,
    objects: &'a [u32],
    /// How many objects of garbage come before each [`STRIDE`] objects of the snapshot, and how many there are in all.
    before: Vec<u32>,
    /// When each was met, counted from 1, and the earliest one on the stack that it leads to.
    met: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    /// Those that are looked at, and how many of their references are done.
    open: Vec<(u32, usize)>,
    time: u32,
    in_cycle: Vec<bool>,
    cycles: u64,
}

impl<'a> Search<'a> {
    fn new(snapshot: &'a Snapshot, objects: &'a [u32]) -> Self {
        let mut before = vec![0; snapshot.len() / STRIDE + 2];
        for object in objects {
            before[*object as usize / STRIDE + 1] += 1;
        }
        for at in 1..before.len() {
            before[at] += before[at - 1];
        }
        Self {
            snapshot,
            objects,
            before,
            met: vec![0; objects.len()],
            low: vec![0; objects.len()],
            on_stack: vec![false; objects.len()],
            stack: Vec::new(),
            open: Vec::new(),
            time: 0,
            in_cycle: vec![false; objects.len()],
            cycles: 0,
        }
    }

    /// Looks at everything that an object leads to.
    fn from(&mut self, number: u32) {
        if self.met[number as usize] == 0 {
            self.enter(number);
        }
        while let Some((number, done)) = self.open.last_mut() {
            let (number, at) = (*number, *done);
            *done += 1;
            let edges = self.snapshot.edge_range(self.objects[number as usize]);
            match self.snapshot.targets.get(edges.start + at) {
                Some(target) if edges.start + at < edges.end => {
                    // What lives, garbage refers to as well.
                    if let Some(next) = self.place(*target) {
                        self.refer(number, next);
                    }
                }
                _ => {
                    self.open.pop();
                    self.leave(number);
                }
            }
        }
    }

    /// The place in `objects` of an object of the snapshot, if it is garbage.
    fn place(&self, object: u32) -> Option<u32> {
        let at = object as usize / STRIDE;
        let (begin, end) = (self.before[at], self.before[at + 1]);
        let near = &self.objects[begin as usize..end as usize];
        let found = near.binary_search(&object).ok()?;
        Some(begin + found as u32)
    }

    fn enter(&mut self, number: u32) {
        self.time += 1;
        self.met[number as usize] = self.time;
        self.low[number as usize] = self.time;
        self.on_stack[number as usize] = true;
        self.stack.push(number);
        self.open.push((number, 0));
    }

    fn refer(&mut self, number: u32, next: u32) {
        if self.met[next as usize] == 0 {
            self.enter(next);
        } else if self.on_stack[next as usize] {
            let low = &mut self.low[number as usize];
            *low = (*low).min(self.met[next as usize]);
        }
    }

    /// All references of an object are done: if it leads to nobody before it, what is above it on the stack is a component.
    fn leave(&mut self, number: u32) {
        let low = self.low[number as usize];
        if let Some((holder, _)) = self.open.last() {
            let of_holder = &mut self.low[*holder as usize];
            *of_holder = (*of_holder).min(low);
        }
        if low != self.met[number as usize] {
            return;
        }
        let from = self.stack.iter().rposition(|one| *one == number);
        let component = self.stack.split_off(from.unwrap_or(self.stack.len()));
        let is_cycle = component.len() > 1 || self.refers_to_itself(number);
        self.cycles += u64::from(is_cycle);
        for one in component {
            self.on_stack[one as usize] = false;
            self.in_cycle[one as usize] = is_cycle;
        }
    }

    /// The shortest way from an object in a cycle back to it; `None` if it is very long.
    fn circle(&self, first: u32) -> Option<Vec<Step>> {
        // How each object was reached: from which one, and by which reference.
        let mut reached: HashMap<u32, (u32, EdgeName)> = HashMap::new();
        let mut open = VecDeque::from([first]);
        while let Some(object) = open.pop_front() {
            for edge in self.snapshot.edges(object) {
                let in_cycle = self.place(edge.target).map(|at| self.in_cycle[at as usize]);
                if in_cycle != Some(true) || reached.contains_key(&edge.target) {
                    continue;
                }
                reached.insert(edge.target, (object, edge.name));
                if edge.target == first {
                    return Some(way_around(first, &reached));
                }
                open.push_back(edge.target);
            }
            if reached.len() > MOST_AROUND {
                return None;
            }
        }
        None
    }

    /// Bytes of what cycles lead to, and of themselves.
    fn held_by_cycles(&self) -> u64 {
        let mut reached = self.in_cycle.clone();
        let all = 0..self.objects.len() as u32;
        let mut open: Vec<u32> = all.filter(|one| reached[*one as usize]).collect();
        let mut bytes = 0_u64;
        while let Some(number) = open.pop() {
            let object = self.objects[number as usize];
            bytes = bytes.saturating_add(self.snapshot.bytes(object));
            for target in &self.snapshot.targets[self.snapshot.edge_range(object)] {
                if let Some(next) = self.place(*target)
                    && !std::mem::replace(&mut reached[next as usize], true)
                {
                    open.push(next);
                }
            }
        }
        bytes
    }

    fn refers_to_itself(&self, number: u32) -> bool {
        let object = self.objects[number as usize];
        let edges = self.snapshot.edge_range(object);
        self.snapshot.targets[edges].contains(&object)
    }
}

/// The steps from an object back to it.
fn way_around(first: u32, reached: &HashMap<u32, (u32, EdgeName)>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = first;
    while let Some((from, name)) = reached.get(&at).filter(|_| steps.is_empty() || at != first) {
        steps.push(Step {
            via: Via::Edge(*name),
            object: at,
        });
        at = *from;
    }
    steps.reverse();
    steps
}
