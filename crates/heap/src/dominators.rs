//! Dominators: of each object the last one that every path from the roots to it goes through. When a dominator dies, what
//! it dominates dies with it, so the bytes that it dominates are those it retains.
//!
//! The algorithm is semi-NCA (L. Georgiadis, "Linear-Time Algorithms for Dominators and Related Problems", 2005, chapter
//! 2.3): semidominators with path compression as Lengauer and Tarjan find them, then the dominator as the nearest common
//! ancestor of semidominator and parent. It is quadratic in theory, linear on what programs build, and simple.
//!
//! All numbers have 32 bits and all steps are loops, because a list of a million elements is a path of a million steps.
//! Memory: 20 bytes an object and 4 an edge, beside the edges themselves, and 12 for each object on the longest path while the
//! search goes down it.

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
        let mut tree = Self {
            order: vec![Dominators::ROOT],
            parents: vec![0],
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
    drop(forest);
    let semis = before.ends;
    let mut dominators = parents;
    for number in 1..count as usize {
        let mut dominator = dominators[number];
        while dominator > semis[number] {
            dominator = dominators[dominator as usize];
        }
        dominators[number] = dominator;
    }
    dominators
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
