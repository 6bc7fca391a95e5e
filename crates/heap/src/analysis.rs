//! What follows from a snapshot as a whole: what can be reached from the roots, who dominates what, and how many bytes
//! each object retains. Used by `answers::holders`, `answers::diff` and others here, and by the crates `lancet` and
//! `report`.

use std::cell::OnceCell;

use crate::dominators::{Dominators, Graph, NOBODY};
use crate::sizes::Sizes;
use crate::snapshot::Snapshot;

/// A number of objects and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of objects that are counted.
    pub objects: u64,
    /// The bytes they take themselves.
    pub bytes: u64,
}

/// Who dominates an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dominator {
    /// This object: when it dies, the other dies too.
    Object(u32),
    /// No object alone: a root leads to it, or several objects do.
    Roots,
    /// Nobody keeps it: it is garbage that the next collection frees.
    Garbage,
}

/// A snapshot with its dominators.
#[derive(Debug)]
pub struct Analysis<'a> {
    snapshot: &'a Snapshot,
    dominators: Vec<u32>,
    retained: Sizes,
    living: Total,
    garbage: Total,
    tree: OnceCell<Tree>,
}

impl<'a> Analysis<'a> {
    /// Computes what is reachable, dominators and retained sizes.
    ///
    /// Takes 12 bytes an object and 4 an edge while it computes (`Dominators::find`), of which 8 an object stay.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut roots: Vec<u32> = snapshot.roots.iter().map(|root| root.target).collect();
        roots.sort_unstable();
        roots.dedup();
        let found = Dominators::find(&Graph {
            ends: &snapshot.ends,
            targets: &snapshot.targets,
            roots: &roots,
        });
        let mut analysis = Self {
            snapshot,
            retained: Sizes::new(snapshot.len()),
            dominators: found.of,
            living: Total::default(),
            garbage: Total::default(),
            tree: OnceCell::new(),
        };
        for object in 0..snapshot.len() as u32 {
            let bytes = snapshot.bytes(object);
            let total = match analysis.is_living(object) {
                true => &mut analysis.living,
                false => &mut analysis.garbage,
            };
            total.objects += 1;
            total.bytes = total.bytes.saturating_add(bytes);
            analysis.retained.add(object, bytes);
        }
        // Whoever dominates comes earlier in the search: from its end on each adds its whole sum to its dominator's.
        for object in found.order.iter().rev() {
            let dominator = analysis.dominators[*object as usize];
            if dominator != Dominators::ROOT {
                let retained = analysis.retained.get(*object);
                analysis.retained.add(dominator, retained);
            }
        }
        analysis
    }

    /// Returns the snapshot that was analysed.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// What can be reached from the roots.
    #[must_use]
    pub fn living(&self) -> Total {
        self.living
    }

    /// What cannot be reached: the next collection frees it.
    #[must_use]
    pub fn garbage(&self) -> Total {
        self.garbage
    }

    /// Whether an object can be reached from a root.
    #[must_use]
    pub fn is_living(&self, object: u32) -> bool {
        self.dominators[object as usize] != NOBODY
    }

    /// Who dominates an object.
    #[must_use]
    pub fn dominator(&self, object: u32) -> Dominator {
        match self.dominators[object as usize] {
            NOBODY => Dominator::Garbage,
            Dominators::ROOT => Dominator::Roots,
            dominator => Dominator::Object(dominator),
        }
    }

    /// What an object dominates directly: what dies with it and with nothing that it holds. `None` = what no object
    /// dominates.
    #[must_use]
    pub fn dominated(&self, object: Option<u32>) -> &[u32] {
        let tree = self.tree.get_or_init(|| Tree::of(&self.dominators));
        let at = object.map_or(self.dominators.len(), |object| object as usize);
        let begin = at.checked_sub(1).map_or(0, |before| tree.ends[before]);
        &tree.all[begin as usize..tree.ends[at] as usize]
    }

    /// The bytes that would be free if an object were: its own, and those of all that it dominates. Of garbage, its own.
    #[must_use]
    pub fn retained(&self, object: u32) -> u64 {
        self.retained.get(object)
    }
}

/// What each object dominates directly, in the order of their numbers; behind the last object that of the roots.
#[derive(Debug)]
struct Tree {
    ends: Vec<u32>,
    all: Vec<u32>,
}

impl Tree {
    fn of(dominators: &[u32]) -> Self {
        let place = |dominator: u32| match dominator {
            NOBODY => None,
            Dominators::ROOT => Some(dominators.len()),
            object => Some(object as usize),
        };
        let mut places = vec![0_u32; dominators.len() + 1];
        let living = dominators.iter().filter_map(|one| place(*one));
        living.for_each(|place| places[place] += 1);
        let mut sum = 0;
        for place in &mut places {
            (*place, sum) = (sum, sum + *place);
        }
        let mut all = vec![0; sum as usize];
        for (object, dominator) in dominators.iter().enumerate() {
            if let Some(place) = place(*dominator) {
                all[places[place] as usize] = object as u32;
                places[place] += 1;
            }
        }
        Self { ends: places, all }
    }
}
