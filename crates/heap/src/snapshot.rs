//! A snapshot in memory, and what can be asked of one object. Used by `build`, `file::read` and others here, and by the
//! crates `report`, `languages`, `lancet` and `dump`.
//!
//! Objects have numbers from 0 on, in the order of their addresses; edges lie object by object (compressed sparse rows).

use crate::about::{About, Losses, MOST, Memory};
use crate::build::Columns;
use crate::edge_names::EdgeNames;
use crate::names::{EdgeName, Flags, KindId, Role, RootName};
use crate::rising::Rising;
use crate::text::{TextId, Texts};

/// The line of a file that made objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Path of the file, as a text of the snapshot.
    pub file: TextId,
    /// The line, counted from 1; 0 = none.
    pub line: u32,
}

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub name: TextId,
    pub role: Role,
}

/// Fingerprints of some objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    /// The objects that have one.
    pub objects: Rising,
    /// Of each of these objects, its fingerprint.
    pub values: Vec<u64>,
}

impl Fingerprints {
    /// Adds that of an object behind all that have one.
    pub fn push(&mut self, object: u32, fingerprint: u64) {
        self.objects.push(object.into());
        self.values.push(fingerprint);
    }

    /// The fingerprint of an object.
    pub fn get(&self, object: u32) -> Option<u64> {
        let found = self.objects.find(object.into())?;
        Some(self.values[found as usize])
    }

    /// Objects and their fingerprints.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let objects = self.objects.iter().map(|object| object as u32);
        objects.zip(self.values.iter().copied())
    }

    /// Those of the same objects in another order: `order` has the old number of each.
    pub fn reordered(self, order: &[u32]) -> Self {
        let mut turned = Self::default();
        if self.values.is_empty() {
            return turned;
        }
        turned.values.reserve_exact(self.values.len());
        turned.objects.reserve_exact(self.values.len());
        for (new, old) in (0..).zip(order) {
            if let Some(fingerprint) = self.get(*old) {
                turned.push(new, fingerprint);
            }
        }
        turned
    }
}

/// A reference that no object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The number of the object it leads to.
    pub target: u32,
    /// What it is called.
    pub name: RootName,
}

/// A reference between two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The number of the object it leads to.
    pub target: u32,
    /// What it is called.
    pub name: EdgeName,
}

/// The objects of a process at one moment, and their references. Made by a [`Builder`](crate::Builder).
///
/// Methods that take the number of an object panic if there is none of that number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) about: About,
    pub(crate) losses: Losses,
    pub(crate) texts: Texts,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) sites: Vec<Site>,
    pub(crate) columns: Columns,
    /// Where the edges of each object end.
    pub(crate) ends: Rising,
    pub(crate) targets: Vec<u32>,
    pub(crate) names: EdgeNames,
    pub(crate) roots: Vec<Root>,
}

impl Snapshot {
    /// Adds roots of this name, so that every object is reached that is wanted, by its address. First come those to which nothing
    /// leads, then of cycles that are still not reached one object each.
    pub fn hold_unreached(&mut self, name: RootName, wanted: impl Fn(u64) -> bool) {
        let mut reached = vec![false; self.len()];
        let mut open: Vec<u32> = self.roots.iter().map(|root| root.target).collect();
        self.reach(&mut open, &mut reached);
        let mut led_to = vec![false; self.len()];
        for object in (0..self.len() as u32).filter(|object| !reached[*object as usize]) {
            let others = self.targets_of(object).filter(|target| *target != object);
            others.for_each(|target| led_to[target as usize] = true);
        }
        for round in [false, true] {
            for object in 0..self.len() as u32 {
                let at = object as usize;
                if !reached[at] && led_to[at] == round && wanted(self.address(object)) {
                    if (self.targets.len() + self.roots.len()) as u64 >= MOST {
                        self.losses.roots += 1;
                        continue;
                    }
                    self.roots.push(Root {
                        target: object,
                        name,
                    });
                    open.push(object);
                    self.reach(&mut open, &mut reached);
                }
            }
        }
    }

    /// Marks what is reached from the objects in `open`, and empties it.
    fn reach(&self, open: &mut Vec<u32>, reached: &mut [bool]) {
        while let Some(object) = open.pop() {
            if !std::mem::replace(&mut reached[object as usize], true) {
                let targets = self.targets_of(object);
                open.extend(targets.filter(|target| !reached[*target as usize]));
            }
        }
    }

    fn targets_of(&self, object: u32) -> impl Iterator<Item = u32> + '_ {
        self.targets[self.edge_range(object)].iter().copied()
    }

    /// Returns which process the snapshot is of, and what is known of it as a whole.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Adds what the resident memory of the process was used for.
    pub fn set_memory(&mut self, memory: Memory) {
        self.about.memory = memory;
    }

    /// What was lost when it was made.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.addresses.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many references between objects there are.
    #[must_use]
    pub fn edge_count(&self) -> usize {
        self.targets.len()
    }

    /// A text by its number; empty if it is of another snapshot.
    #[must_use]
    pub fn text(&self, id: TextId) -> &[u8] {
        self.texts.get(id).unwrap_or_default()
    }

    /// The references that no object holds.
    #[must_use]
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The number of the object at an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<u32> {
        self.columns.addresses.find(address)
    }

    /// Where an object lies in the process.
    #[must_use]
    pub fn address(&self, object: u32) -> u64 {
        self.columns.addresses.get(object)
    }

    /// The kind of an object.
    #[must_use]
    pub fn kind(&self, object: u32) -> KindId {
        KindId(self.columns.kinds[object as usize])
    }

    /// The name of a kind, as the VM has it.
    #[must_use]
    pub fn kind_name(&self, kind: KindId) -> &[u8] {
        self.text(self.kinds[usize::from(kind.0)].name)
    }

    /// What an object is to us.
    #[must_use]
    pub fn role(&self, object: u32) -> Role {
        self.kinds[usize::from(self.kind(object).0)].role
    }

    /// The name of an object's class.
    #[must_use]
    pub fn class(&self, object: u32) -> Option<TextId> {
        text(self.columns.classes.get(object))
    }

    /// The name of an object's class, or of its kind where it has no class.
    #[must_use]
    pub fn type_name(&self, object: u32) -> TextId {
        let kind = usize::from(self.kind(object).0);
        self.class(object).unwrap_or(self.kinds[kind].name)
    }

    /// The bytes that an object itself takes.
    #[must_use]
    pub fn bytes(&self, object: u32) -> u64 {
        self.columns.bytes.get(object).unwrap_or(0)
    }

    /// The line that made an object.
    #[must_use]
    pub fn site(&self, object: u32) -> Option<Site> {
        let number = self.columns.sites.get(object)?;
        self.sites.get(number as usize).copied()
    }

    /// When an object was made at the earliest, in nanoseconds since 1970; 0 = unknown.
    #[must_use]
    pub fn birth(&self, object: u32) -> u64 {
        self.columns.births.get(object).unwrap_or(0)
    }

    /// The earliest of all births that are known.
    #[must_use]
    pub fn first_birth(&self) -> Option<u64> {
        let objects = 0..self.len() as u32;
        let births = objects.filter_map(|object| self.columns.births.get(object));
        births.filter(|birth| *birth != 0).min()
    }

    /// Bytes of a text, elements of a list, entries of a map.
    #[must_use]
    pub fn length(&self, object: u32) -> Option<u64> {
        self.columns.lengths.get(object)
    }

    /// For how much there is room.
    #[must_use]
    pub fn capacity(&self, object: u32) -> Option<u64> {
        self.columns.capacities.get(object)
    }

    /// The fingerprint of a text.
    #[must_use]
    pub fn fingerprint(&self, object: u32) -> Option<u64> {
        self.columns.fingerprints.get(object)
    }

    /// Facts of one bit.
    #[must_use]
    pub fn flags(&self, object: u32) -> Flags {
        Flags::unpack(self.columns.flags[object as usize]).unwrap_or_default()
    }

    /// The name of a class, method, function or thread.
    #[must_use]
    pub fn label(&self, object: u32) -> Option<TextId> {
        text(self.columns.labels.get(object))
    }

    /// The beginning of an object's contents, in snapshots made with them.
    #[must_use]
    pub fn contents(&self, object: u32) -> Option<TextId> {
        text(self.columns.contents.get(object))
    }

    /// The references of an object, in the order in which they were given.
    pub fn edges(&self, object: u32) -> impl ExactSizeIterator<Item = Edge> + '_ {
        let range = self.edge_range(object);
        let begin = range.start as u32;
        let targets = self.targets[range].iter().enumerate();
        targets.map(move |(place, target)| Edge {
            target: *target,
            name: self.name(begin + place as u32, place as u32),
        })
    }

    /// The name of an edge, which has this place among those of its object.
    pub(crate) fn name(&self, edge: u32, place: u32) -> EdgeName {
        let packed = self.names.get(edge, place);
        EdgeName::unpack(packed).unwrap_or(EdgeName::Internal)
    }

    /// The number of the object whose edge this is, and the place of the edge among its own.
    pub(crate) fn holder(&self, edge: u32) -> (u32, u32) {
        let holder = self.ends.below(u64::from(edge) + 1);
        (holder, edge - self.ends.range(holder).start)
    }

    /// The references to an object, with the number of the object that holds each in the place of the target: the first
    /// `most` in the order of addresses, and how many there are in all. Looks at every reference of the snapshot.
    #[must_use]
    pub fn referrers(&self, object: u32, most: usize) -> (Vec<Edge>, u64) {
        let (mut found, mut count) = (Vec::new(), 0);
        let edges = (0..).zip(&self.targets);
        for (edge, _) in edges.filter(|(_, target)| **target == object) {
            count += 1;
            if found.len() < most {
                let (holder, place) = self.holder(edge);
                found.push(Edge {
                    target: holder,
                    name: self.name(edge, place),
                });
            }
        }
        (found, count)
    }

    /// The numbers of an object's edges among all.
    pub(crate) fn edge_range(&self, object: u32) -> std::ops::Range<usize> {
        let range = self.ends.range(object);
        range.start as usize..range.end as usize
    }
}

fn text(number: Option<u64>) -> Option<TextId> {
    number
        .and_then(|number| u32::try_from(number).ok())
        .map(TextId)
}
