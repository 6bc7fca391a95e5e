//! What a suspect holds, or what a group is: objects of one type, and who holds most of them. Used by `suspects`, and
//! by `report::heap::suspects`.

use std::collections::HashMap;

use super::{DROP, part};
use crate::analysis::{Analysis, Dominator};
use crate::answers::duplicates::most;
use crate::names::{Role, RootKind, RootName};
use crate::snapshot::Site;
use crate::text::TextId;

/// So many dominators of a group are looked at, one above the other.
const HIGHEST: usize = 64;

/// Most of what a suspect holds: objects of one type that it dominates directly, or that are the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mass {
    /// Their type; of a line's group, the commonest.
    pub name: TextId,
    /// The label that they have in common: the name of the function of which they are closures, methods or coroutines.
    pub label: Option<TextId>,
    /// How many they are.
    pub objects: u64,
    /// What they retain together.
    pub retained: u64,
    /// The line that made most of them, if lines are known, and how many of them.
    pub site: Option<(Site, u64)>,
    /// One of them: the one that retains most, and of several the first in memory; of a group with a holder one of those that it holds.
    pub example: u32,
    /// Of a group: the object of the VM's own on which most of it hangs.
    pub holder: Option<Holder>,
    /// Of a group that no object holds: the root that leads to most of it, and to how many.
    pub root: Option<(RootName, u64)>,
}

impl Mass {
    /// Whether a root leads to it that has a name of its own: C code has none.
    pub(super) fn is_at_named_root(&self) -> bool {
        self.root
            .is_some_and(|(name, _)| name.kind != RootKind::Native)
    }
}

/// An object of the VM's own, a thread for instance, that holds most of a group. It is not suspected itself, because much hangs on it in
/// every process; but it is false then that nobody holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number of the object.
    pub object: u32,
    /// How many of the group it holds.
    pub objects: u64,
}

/// The names of the roots that lead to each object.
pub(super) type Roots = HashMap<u32, Vec<RootName>>;

/// The names of all roots of a snapshot, each once for an object.
pub(super) fn roots(analysis: &Analysis) -> Roots {
    let mut roots = Roots::new();
    for root in &analysis.snapshot().roots {
        let names = roots.entry(root.target).or_default();
        if !names.contains(&root.name) {
            names.push(root.name);
        }
    }
    roots
}

/// What is known so far of objects of one type.
#[derive(Default)]
struct Gathered {
    objects: u64,
    retained: u64,
    /// The one that retains most, and how much that is.
    example: (u32, u64),
    /// How many of them each line has made.
    sites: HashMap<Site, u64>,
    /// Those of them that hang directly on an object.
    holders: HashMap<u32, Hanging>,
    /// Those of them to which a root leads, and that no object holds.
    roots: HashMap<RootName, Hanging>,
}

/// Those of a group that hang on one object.
#[derive(Clone, Copy, Default)]
struct Hanging {
    objects: u64,
    retained: u64,
    /// The one that retains most, and how much that is.
    example: (u32, u64),
}

impl Hanging {
    fn add(&mut self, more: Hanging) {
        if self.objects == 0 || more.example.1 > self.example.1 {
            self.example = more.example;
        }
        self.objects += more.objects;
        self.retained = self.retained.saturating_add(more.retained);
    }
}

impl Gathered {
    fn add(&mut self, analysis: &Analysis, roots: &Roots, object: u32) {
        let retained = analysis.retained(object);
        if self.objects == 0 || retained > self.example.1 {
            self.example = (object, retained);
        }
        self.objects += 1;
        self.retained = self.retained.saturating_add(retained);
        let one = Hanging {
            objects: 1,
            retained,
            example: (object, retained),
        };
        match analysis.dominator(object) {
            Dominator::Object(holder) => self.holders.entry(holder).or_default().add(one),
            _ => {
                for name in roots.get(&object).into_iter().flatten() {
                    self.roots.entry(*name).or_default().add(one);
                }
            }
        }
        if let Some(site) = analysis.snapshot().site(object) {
            *self.sites.entry(site).or_default() += 1;
        }
    }

    /// The object nearest to them on which most of them hang, by what they retain, and those that do.
    fn holder(&self, analysis: &Analysis) -> Option<(u32, Hanging)> {
        let mut above: HashMap<u32, Hanging> = HashMap::new();
        // In the order of memory, so that of several examples the same one is taken each time.
        let mut direct: Vec<(&u32, &Hanging)> = self.holders.iter().collect();
        direct.sort_by_key(|(object, _)| **object);
        for (direct, hanging) in direct {
            let mut next = Some(*direct);
            for _ in 0..HIGHEST {
                let Some(holder) = next else { break };
                above.entry(holder).or_default().add(*hanging);
                next = match analysis.dominator(holder) {
                    Dominator::Object(holder) => Some(holder),
                    Dominator::Roots | Dominator::Garbage => None,
                };
            }
        }
        let least = part(self.retained, DROP).max(1);
        above
            .into_iter()
            .filter(|(_, hanging)| hanging.retained >= least)
            .min_by_key(|(object, _)| (analysis.retained(*object), *object))
    }

    /// The root that leads to most of them, by what they retain and by their number.
    fn root(&self) -> Option<(RootName, Hanging)> {
        let least = part(self.retained, DROP).max(1);
        let half = self.objects.div_ceil(2);
        let roots = self.roots.iter();
        roots
            .map(|(name, hanging)| (*name, *hanging))
            .filter(|(_, hanging)| hanging.retained >= least && hanging.objects >= half)
            .max_by_key(|(name, hanging)| (hanging.retained, std::cmp::Reverse(*name)))
    }

    fn finish(self, analysis: &Analysis, (name, label): (TextId, Option<TextId>)) -> Mass {
        let holder = self.holder(analysis);
        let root = self.root().filter(|_| holder.is_none());
        let held = holder.map(|(_, hanging)| hanging);
        let held = held.or(root.map(|(_, hanging)| hanging));
        Mass {
            name,
            label,
            objects: self.objects,
            retained: self.retained,
            holder: holder.map(|(object, hanging)| Holder {
                object,
                objects: hanging.objects,
            }),
            root: root.map(|(name, hanging)| (name, hanging.objects)),
            site: most(self.sites),
            example: held.map_or(self.example, |hanging| hanging.example).0,
        }
    }
}

/// By what objects are put together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alike {
    /// Their type.
    Type,
    /// Their type, and of functions and coroutines the name of the code, too.
    Label,
}

/// The key of an object.
pub(super) fn key(analysis: &Analysis, object: u32, alike: Alike) -> (TextId, Option<TextId>) {
    let snapshot = analysis.snapshot();
    let has_code = matches!(snapshot.role(object), Role::Function | Role::Fiber);
    let label = snapshot.label(object);
    let label = label.filter(|_| has_code && alike == Alike::Label);
    (snapshot.type_name(object), label)
}

/// Objects together, those that retain most first.
pub(super) fn masses(
    analysis: &Analysis,
    roots: &Roots,
    objects: impl Iterator<Item = u32>,
    alike: Alike,
) -> Vec<Mass> {
    let mut types: HashMap<(TextId, Option<TextId>), Gathered> = HashMap::new();
    for object in objects {
        let gathered = types.entry(key(analysis, object, alike)).or_default();
        gathered.add(analysis, roots, object);
    }
    let masses = types.into_iter();
    let masses = masses.map(|(key, gathered)| gathered.finish(analysis, key));
    let mut masses: Vec<Mass> = masses.collect();
    masses.sort_by_key(|mass| (std::cmp::Reverse(mass.retained), mass.name, mass.label));
    masses
}
