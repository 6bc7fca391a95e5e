//! Dominators: of each object the last one that every path from the roots to it goes through. When a dominator dies, what
//! it dominates dies with it, so the bytes that it dominates are those it retains. Used by `analysis` and
//! `answers::paths`.
//!
//! The algorithm is semi-NCA (L. Georgiadis, "Linear-Time Algorithms for Dominators and Related Problems", 2005, chapter
//! 2.3): semidominators with path compression as Lengauer and Tarjan find them, then the dominator as the nearest common
//! ancestor of semidominator and parent. That ancestor is the first dominator of the parent that the search has found no later than the
//! semidominator. The paper looks at one dominator after the other, which is quadratic where a long list's values are in an index
//! as well: from each value all nodes before it are walked. Here each object has a jump to a dominator further up
//! (E. Myers, "An applicative random-access stack", 1983), so that no walk takes more than some three steps for each doubling of its length.
//!
//! All numbers have 32 bits and all steps are loops, because a list of a million elements is a path of a million steps.
//! Memory: 12 bytes an object and 4 an edge, beside the edges themselves, and 12 for each object on the longest path while the
//! search goes down it. Semidominators are found from the last number down, so that the predecessors of what is done make room for what is known of it: of
//! a graph with two edges an object no step takes more than 20 bytes an object. Parents are not kept by the search: of the edges that
//! lead to an object from smaller numbers all but the tree's begin above its parent, so the parent is the largest of these.

use std::ops::Range;

use crate::rising::Rising;

/// Stands for no object: what is not reachable has no dominator.
pub const NOBODY: u32 = u32::MAX;

/// The dominators of what can be reached from the roots.
#[derive(Debug)]
pub struct Dominators {
    /// By object: the object that dominates it; [`Dominators::ROOT`] = only all roots together do; [`NOBODY`] = it
    /// cannot be reached.
    pub of: Vec<u32>,
    /// What can be reached, in an order in which dominators come before those they dominate.
    pub order: Vec<u32>,
}

impl Dominators {
    /// Stands for all roots together.
    pub const ROOT: u32 = u32::MAX - 1;

    /// Finds the dominators in a graph.
    pub fn find(graph: &Graph) -> Self {
        let Tree { mut order, numbers } = Tree::search(graph);
        let before = Predecessors::collect(graph, &order, &numbers);
        // They are made anew at the end, because what is between is where most memory is in use.
        drop(numbers);
        let found = semi_nca(before);
        let mut of = vec![NOBODY; graph.ends.len()];
        for (object, dominator) in order.iter().zip(&found).skip(1) {
            of[*object as usize] = order[*dominator as usize];
        }
        order.remove(0);
        Self { of, order }
    }
}

/// References between objects.
pub struct Graph<'a> {
    /// Where the edges of each object end.
    pub ends: &'a Rising,
    /// What the edges lead to.
    pub targets: &'a [u32],
    /// What the roots lead to, each once.
    pub roots: &'a [u32],
}

impl Graph<'_> {
    /// What an object leads to.
    fn targets_of(&self, object: u32) -> &[u32] {
        &self.targets[to_usize(self.ends.range(object))]
    }
}

/// A depth-first search. Objects are numbered in the order in which they are found; 0 is the root of all.
struct Tree {
    /// The objects by their numbers in the search.
    order: Vec<u32>,
    /// The numbers by object; [`NOBODY`] = it cannot be reached.
    numbers: Vec<u32>,
}

impl Tree {
    fn search(graph: &Graph) -> Self {
        // As many as there can be, so that it is not moved while it grows. What is not used takes no memory.
        let mut order = Vec::with_capacity(graph.ends.len() + 1);
        order.push(Dominators::ROOT);
        let mut tree = Self {
            order,
            numbers: vec![NOBODY; graph.ends.len()],
        };
        // The edges that are not followed yet, of each object on the way down.
        let mut stack: Vec<Range<u32>> = Vec::new();
        for root in graph.roots {
            if !tree.find(*root) {
                continue;
            }
            stack.push(graph.ends.range(*root));
            while let Some(rest) = stack.last_mut() {
                let Some(edge) = rest.next() else {
                    stack.pop();
                    continue;
                };
                let target = graph.targets[edge as usize];
                if tree.find(target) {
                    stack.push(graph.ends.range(target));
                }
            }
        }
        tree
    }

    /// Gives an object the next number, if it has none; whether it had none.
    fn find(&mut self, object: u32) -> bool {
        let number = &mut self.numbers[object as usize];
        if *number != NOBODY {
            return false;
        }
        *number = self.order.len() as u32;
        self.order.push(object);
        true
    }
}

/// The objects with edges to each object, all by their numbers in the order of the search.
struct Predecessors {
    ends: Vec<u32>,
    all: Vec<u32>,
}

impl Predecessors {
    fn collect(graph: &Graph, order: &[u32], numbers: &[u32]) -> Self {
        // Counts first, then the places behind them: the end of each becomes its begin while it is filled from behind.
        let mut places = vec![0_u32; order.len()];
        let reached = || {
            let objects = order.iter().enumerate().skip(1);
            let edges = objects.flat_map(|(number, object)| {
                let targets = graph.targets_of(*object).iter();
                targets.map(move |target| (number as u32, *target))
            });
            edges.chain(graph.roots.iter().map(|root| (0, *root)))
        };
        for (_, target) in reached() {
            places[numbers[target as usize] as usize] += 1;
        }
        let mut sum = 0;
        for place in &mut places {
            sum += *place;
            *place = sum;
        }
        let mut all = vec![0; sum as usize];
        for (number, target) in reached() {
            let place = &mut places[numbers[target as usize] as usize];
            *place -= 1;
            all[*place as usize] = number;
        }
        // Now each place is the begin of its own, which is the end of the one before.
        places.push(sum);
        places.remove(0);
        Self { ends: places, all }
    }

    fn of(&self, number: u32) -> &[u32] {
        let begin = match number {
            0 => 0,
            number => self.ends[number as usize - 1],
        };
        &self.all[to_usize(begin..self.ends[number as usize])]
    }

    /// Puts something in the place of where those of a number end. They and those of larger numbers are asked for no more.
    fn replace(&mut self, number: u32, semi: u32) {
        let begin = match number {
            0 => 0,
            number => self.ends[number as usize - 1],
        };
        self.all.truncate(begin as usize);
        if self.all.capacity() - self.all.len() > GIVEN_BACK {
            self.all.shrink_to_fit();
        }
        self.ends[number as usize] = semi;
    }
}

/// So many numbers that are needed no more are given back to the system at once.
const GIVEN_BACK: usize = 1 << 20;

fn to_usize(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// Finds the dominators of all numbers of a search.
fn semi_nca(mut before: Predecessors) -> Vec<u32> {
    let count = before.ends.len() as u32;
    let mut forest = Forest::new(count);
    let mut parents = Vec::with_capacity(count as usize);
    // The semidominator of an object is the smallest number from which a path leads to it whose inner numbers are all
    // larger than its own.
    for number in (1..count).rev() {
        let earlier = before.of(number).iter().filter(|from| **from < number);
        let parent = earlier.max().copied().unwrap_or(0);
        let mut semi = parent;
        for from in before.of(number) {
            semi = semi.min(forest.smallest(*from, number + 1));
        }
        parents.push(parent);
        forest.add(parent, semi);
        before.replace(number, semi);
    }
    // Most of what was needed so far is given back before the jumps are made.
    drop(forest);
    let semis = std::mem::take(&mut before.ends);
    drop(before);
    // The root of all is its own.
    parents.push(0);
    parents.reverse();
    let mut dominators = parents;
    let mut jumps = Jumps::with_capacity(count as usize);
    for number in 1..count as usize {
        let parent = dominators[number];
        let mut dominator = parent;
        for next in jumps.walk(&dominators, parent, semis[number]) {
            dominator = next;
        }
        dominators[number] = dominator;
        jumps.add(dominator);
    }
    dominators
}

/// By number, ways up the tree of dominators as far as it is known.
struct Jumps(Vec<Jump>);

#[derive(Clone, Copy)]
struct Jump {
    /// The number of the dominator to which it leads.
    to: u32,
    /// How many dominators further up that is.
    length: u32,
}

impl Jumps {
    fn with_capacity(count: usize) -> Self {
        let mut all = Vec::with_capacity(count);
        // The root of all has no dominator.
        all.push(Jump { to: 0, length: 0 });
        Self(all)
    }

    /// Adds the jump of the next number, whose dominator is given: two jumps of the same length that follow each other become one.
    fn add(&mut self, dominator: u32) {
        let first = self.0[dominator as usize];
        let second = self.0[first.to as usize];
        let jump = if first.length == second.length {
            Jump {
                to: second.to,
                length: first.length + second.length + 1,
            }
        } else {
            Jump {
                to: dominator,
                length: 1,
            }
        };
        self.0.push(jump);
    }

    /// The steps from a number to the first of its dominators that is not larger than `most`.
    fn walk(&self, dominators: &[u32], from: u32, most: u32) -> impl Iterator<Item = u32> {
        let step = move |at: &u32| {
            if *at <= most {
                return None;
            }
            // What is jumped over is larger than where the jump ends.
            let jump = self.0[*at as usize].to;
            Some(if jump >= most {
                jump
            } else {
                dominators[*at as usize]
            })
        };
        std::iter::successors(step(&from), step)
    }
}

/// The part of the search tree whose semidominators are known: each number from the last one that was done on is linked to
/// its parent. Paths to the root of a part are shortened as they are walked.
struct Forest {
    /// The largest number.
    last: u32,
    /// By number from the last one down.
    ancestors: Vec<u32>,
    /// The smallest semidominator on the shortened path, by number from the last one down.
    smallest: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// No number is done.
    fn new(count: u32) -> Self {
        Self {
            last: count.saturating_sub(1),
            ancestors: Vec::with_capacity(count as usize),
            smallest: Vec::with_capacity(count as usize),
            path: Vec::new(),
        }
    }

    /// Adds the number before the one that was added last.
    fn add(&mut self, parent: u32, semi: u32) {
        self.ancestors.push(parent);
        self.smallest.push(semi);
    }

    /// The smallest semidominator between this number and the root of its part; of one that is not done, itself. Numbers from
    /// `linked` on are done.
    fn smallest(&mut self, number: u32, linked: u32) -> u32 {
        if number < linked {
            return number;
        }
        let place = |number: u32| (self.last - number) as usize;
        let mut at = place(number);
        while self.ancestors[at] >= linked {
            self.path.push(at as u32);
            at = place(self.ancestors[at]);
        }
        let mut best = self.smallest[at];
        let root = self.ancestors[at];
        while let Some(below) = self.path.pop() {
            let below = below as usize;
            self.ancestors[below] = root;
            best = best.min(self.smallest[below]);
            self.smallest[below] = best;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A walk up a path of dominators takes some steps for each doubling of its length, wherever it begins and ends.
    #[test]
    fn walks_are_short() {
        const COUNT: u32 = 1 << 20;
        let dominators: Vec<u32> = (0..COUNT).map(|number| number.saturating_sub(1)).collect();
        let mut jumps = Jumps::with_capacity(COUNT as usize);
        dominators[1..].iter().for_each(|one| jumps.add(*one));
        for number in (1..COUNT).step_by(997) {
            for most in [0, number / 3, number / 2, number - 1] {
                let steps: Vec<u32> = jumps.walk(&dominators, number, most).collect();
                assert_eq!(steps.last(), Some(&most), "from {number}");
                assert!(steps.len() <= 60, "{} from {number} to {most}", steps.len());
            }
        }
    }
}
