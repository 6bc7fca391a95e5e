//! Dominators: of each object the last one that every path from the roots to it goes through. When a dominator dies, what
//! it dominates dies with it, so the bytes that it dominates are those it retains.
//!
//! The algorithm is semi-NCA (L. Georgiadis, "Linear-Time Algorithms for Dominators and Related Problems", 2005, chapter
//! 2.3): semidominators with path compression as Lengauer and Tarjan find them, then the dominator as the nearest common
//! ancestor of semidominator and parent. That ancestor is the first dominator of the parent that the search has found no later than the
//! semidominator. The paper looks at one dominator after the other, which is quadratic where a long list's values are in an index
//! as well: from each value all nodes before it are walked. Here each object has a jump to a dominator further up
//! (E. Myers, "An applicative random-access stack", 1983), so that no walk takes more than some three steps for each doubling of its length.
//!
//! All numbers have 32 bits and all steps are loops, because a list of a million elements is a path of a million steps.
//! Memory: 20 bytes an object and 4 an edge, beside the edges themselves, and 12 for each object on the longest path while the
//! search goes down it. The jumps take 8 bytes an object when 8 an object and 4 an edge are free again.

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

    /// Finds the dominators in a graph: where the edges of each object end, what they lead to, and what the roots lead
    /// to, each once.
    pub fn find(ends: &[u32], targets: &[u32], roots: &[u32]) -> Self {
        let Tree {
            mut order,
            parents,
            numbers,
        } = Tree::search(ends, targets, roots);
        let before = Predecessors::collect(ends, targets, roots, &order, &numbers);
        // They are made anew at the end, because what is between is where most memory is in use.
        drop(numbers);
        let found = semi_nca(before, parents);
        let mut of = vec![NOBODY; ends.len()];
        for (object, dominator) in order.iter().zip(&found).skip(1) {
            of[*object as usize] = order[*dominator as usize];
        }
        order.remove(0);
        Self { of, order }
    }
}

/// A depth-first search. Objects are numbered in the order in which they are found; 0 is the root of all.
struct Tree {
    /// The objects by their numbers in the search.
    order: Vec<u32>,
    /// The number of the parent, by number.
    parents: Vec<u32>,
    /// The numbers by object; [`NOBODY`] = it cannot be reached.
    numbers: Vec<u32>,
}

/// The numbers of an object's edges.
pub fn edges(ends: &[u32], object: u32) -> std::ops::Range<u32> {
    let begin = match object {
        0 => 0,
        object => ends[object as usize - 1],
    };
    begin..ends[object as usize]
}

impl Tree {
    fn search(ends: &[u32], targets: &[u32], roots: &[u32]) -> Self {
        // As many as there can be, so that none of both is moved while it grows. What is not used takes no memory.
        let with_room = |first| {
            let mut all = Vec::with_capacity(ends.len() + 1);
            all.push(first);
            all
        };
        let mut tree = Self {
            order: with_room(Dominators::ROOT),
            parents: with_room(0),
            numbers: vec![NOBODY; ends.len()],
        };
        // Objects by number, and the edges of theirs that are not followed yet.
        let mut stack: Vec<(u32, std::ops::Range<u32>)> = Vec::new();
        for root in roots {
            if tree.numbers[*root as usize] != NOBODY {
                continue;
            }
            stack.push((tree.find(*root, 0), edges(ends, *root)));
            while let Some((number, rest)) = stack.last_mut() {
                let Some(edge) = rest.next() else {
                    stack.pop();
                    continue;
                };
                let target = targets[edge as usize];
                if tree.numbers[target as usize] == NOBODY {
                    let parent = *number;
                    stack.push((tree.find(target, parent), edges(ends, target)));
                }
            }
        }
        tree
    }

    fn find(&mut self, object: u32, parent: u32) -> u32 {
        let number = self.order.len() as u32;
        self.order.push(object);
        self.parents.push(parent);
        self.numbers[object as usize] = number;
        number
    }
}

/// The objects with edges to each object, all by their numbers in the order of the search.
struct Predecessors {
    ends: Vec<u32>,
    all: Vec<u32>,
}

impl Predecessors {
    fn collect(
        ends: &[u32],
        targets: &[u32],
        roots: &[u32],
        order: &[u32],
        numbers: &[u32],
    ) -> Self {
        // Counts first, then the places behind them: the end of each becomes its begin while it is filled from behind.
        let mut places = vec![0_u32; order.len()];
        let reached = || {
            let objects = order.iter().enumerate().skip(1);
            let edges = objects.flat_map(|(number, object)| {
                let targets = &targets[to_usize(edges(ends, *object))];
                targets.iter().map(move |target| (number as u32, *target))
            });
            edges.chain(roots.iter().map(|root| (0, *root)))
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
        &self.all[to_usize(edges(&self.ends, number))]
    }
}

fn to_usize(range: std::ops::Range<u32>) -> std::ops::Range<usize> {
    range.start as usize..range.end as usize
}

/// Finds the dominators of all numbers of a search. `parents` becomes the result.
fn semi_nca(mut before: Predecessors, parents: Vec<u32>) -> Vec<u32> {
    let count = parents.len() as u32;
    let mut forest = Forest {
        ancestors: parents.clone(),
        smallest: (0..count).collect(),
        path: Vec::new(),
    };
    // The semidominator of an object is the smallest number from which a path leads to it whose inner numbers are all
    // larger than its own.
    for number in (1..count).rev() {
        let mut semi = parents[number as usize];
        for from in before.of(number) {
            semi = semi.min(forest.smallest(*from, number + 1));
        }
        forest.smallest[number as usize] = semi;
        // Where the predecessors of this number end is asked for no more: its semidominator takes that place.
        before.ends[number as usize] = semi;
    }
    // Most of what was needed so far is given back before the jumps are made.
    drop(forest);
    let semis = std::mem::take(&mut before.ends);
    drop(before);
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
    ancestors: Vec<u32>,
    /// The smallest semidominator on the shortened path; of a number that is not done, itself.
    smallest: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// The smallest semidominator between this number and the root of its part; of one that is not done, itself. Numbers from
    /// `linked` on are done.
    fn smallest(&mut self, number: u32, linked: u32) -> u32 {
        let mut at = number as usize;
        if self.ancestors[at] < linked {
            return self.smallest[at];
        }
        while self.ancestors[at] >= linked {
            self.path.push(at as u32);
            at = self.ancestors[at] as usize;
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
