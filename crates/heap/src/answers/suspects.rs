//! Which objects are suspected of keeping too much alive. Used by `answers`, and by the crates `report` and `lancet`.
//!
//! As in Eclipse's Memory Analyzer there are two classes of suspects. One is a single object that retains a large part of
//! all bytes. From the roots on, the search follows the tree of dominators to the *accumulation point*: the last
//! object that still retains most of what its dominators do, below which the bytes are spread over many. The other is a
//! group: objects of one type, or made by one line, that are each small and dominated by nobody in particular.
//!
//! A chain (a linked list, nested tuples) has no such point: each of its objects retains nearly all that the one
//! before it does. The first of them is the suspect. Its objects are of one type, or of several types in turn: a node, its
//! dict, the next node.
//!
//! Classes, modules with the table of their names, threads, compiled code and what else the VM keeps for itself are never
//! suspects: everything hangs on them in every process. The search goes through them to what they hold.
//!
//! Garbage that nothing frees is a suspect, too: a single object is the better answer than a group, so groups come last.

use std::collections::HashMap;

mod mass;
mod names;

pub use mass::{Holder, Mass};

use super::garbage::Garbage;
use super::paths::PERIOD;
use crate::analysis::Analysis;
use crate::names::Role;
use crate::snapshot::Site;
use crate::text::TextId;
use mass::{Alike, Roots, key, masses, roots};
use names::Family;

/// The object or the group of objects that is suspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspected {
    /// The object of this number.
    Object(u32),
    /// Objects of one type that no single object holds.
    Type(TextId),
    /// Objects made by one line, of several types, that no single object holds.
    Site(Site),
    /// What no root leads to, and nothing frees.
    Garbage,
    /// A class, module or package with many names that are alike but for their numbers: what it has under them is made again and again.
    Names(u32),
}

impl Suspected {
    /// Whether it is a group of objects of which nothing is known but that they are alike.
    fn is_group(self) -> bool {
        matches!(self, Suspected::Type(_) | Suspected::Site(_))
    }
}

/// A suspect and the bytes that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The object or the group that is suspected.
    pub what: Suspected,
    /// Bytes that it retains; of a group, those that its objects retain together.
    pub retained: u64,
    /// What that is for the most part; `None` = its own bytes.
    pub mass: Option<Mass>,
}

/// The part of all living bytes, in hundredths, from which on somebody is suspected.
pub const PART: u64 = 10;
/// How much of a holder's bytes one object must retain for the search to go on to it, in hundredths: Eclipse's default.
const DROP: u64 = 70;
/// A group of which nothing is known but its type must retain so many times as much: in a small process the texts of a program are a tenth.
const UNNAMED: u64 = 2;
/// So many threads, fibers or coroutines of one kind are a group that may be suspected. A server has fewer threads.
const MANY_STACKS: u64 = 50;
/// So many objects of a C library's are told of.
const MANY_UNSIZED: u64 = 100;
/// So many objects of one type, or groups of objects of the same types, each held by the one before it, are a chain.
const CHAIN: usize = 16;

/// The suspects that retain a tenth of the living bytes or more: single objects, names and garbage first, then groups, of each those that
/// retain most first.
#[must_use]
pub fn suspects(analysis: &Analysis, garbage: &Garbage) -> Vec<Suspect> {
    let mut search = Search {
        analysis,
        least: least(analysis),
        roots: roots(analysis),
        points: Vec::new(),
        rest: Vec::new(),
        stacks: Vec::new(),
    };
    search.follow();
    let mut found: Vec<Suspect> = search.points.iter().map(|at| search.object(*at)).collect();
    found.extend(lost(analysis, garbage));
    let families = names::families(analysis, search.least, &search.points);
    found.extend(families.iter().map(|of| of_names(analysis, of)));
    found.extend(search.groups());
    found.sort_by_key(|suspect| (suspect.what.is_group(), std::cmp::Reverse(suspect.retained)));
    found
}

/// Garbage, if nothing frees it and it is a tenth of all or more.
fn lost(analysis: &Analysis, garbage: &Garbage) -> Option<Suspect> {
    let dead = analysis.garbage().bytes;
    let largest = garbage.types.first()?;
    let frees_nothing = analysis.snapshot().about().collector.frees_nothing();
    (frees_nothing && dead >= least(analysis)).then_some(Suspect {
        what: Suspected::Garbage,
        retained: dead,
        mass: Some(Mass {
            name: largest.name,
            label: None,
            objects: largest.objects,
            retained: largest.bytes,
            site: None,
            example: largest.example,
            holder: None,
            root: None,
        }),
    })
}

/// Objects for which C libraries have memory of unknown size, by type: those of most objects first, of types with a hundred or more.
#[must_use]
pub fn unsized_by_c(analysis: &Analysis) -> Vec<Mass> {
    let snapshot = analysis.snapshot();
    let all = 0..snapshot.len() as u32;
    let objects = all.filter(|one| analysis.is_living(*one) && snapshot.flags(*one).unsized_by_c);
    let mut found = masses(analysis, &roots(analysis), objects, Alike::Type);
    found.retain(|mass| mass.objects >= MANY_UNSIZED);
    found.sort_by_key(|mass| (std::cmp::Reverse(mass.objects), mass.name));
    found
}

/// Names that are alike as a suspect.
fn of_names(analysis: &Analysis, family: &Family) -> Suspect {
    Suspect {
        what: Suspected::Names(family.holder),
        retained: family.retained,
        mass: Some(Mass {
            name: analysis.snapshot().type_name(family.example),
            label: None,
            objects: family.names,
            retained: family.retained,
            site: None,
            example: family.example,
            holder: None,
            root: None,
        }),
    }
}

/// The bytes from which on somebody is suspected: a tenth of what lives, and of the garbage that nothing frees.
fn least(analysis: &Analysis) -> u64 {
    let living = analysis.living().bytes;
    let stays = analysis.snapshot().about().collector.frees_nothing();
    let dead = if stays { analysis.garbage().bytes } else { 0 };
    part(living.saturating_add(dead), PART).max(1)
}

fn part(bytes: u64, hundredths: u64) -> u64 {
    (u128::from(bytes) * u128::from(hundredths) / 100) as u64
}

struct Search<'a> {
    analysis: &'a Analysis<'a>,
    least: u64,
    /// Numbers of the objects that were found to be suspects themselves: accumulation points, and the first objects of chains.
    points: Vec<u32>,
    /// The names of the roots that lead to each object.
    roots: Roots,
    /// Objects that retain less than is suspected and are dominated by nobody who is, without those of the VM.
    rest: Vec<u32>,
    /// Threads, fibers and coroutines of that kind, and what else the VM has around a thread.
    stacks: Vec<u32>,
}

/// Whether an object is never a suspect itself.
fn is_of_vm(analysis: &Analysis, object: u32) -> bool {
    matches!(
        analysis.snapshot().role(object),
        Role::Class
            | Role::Module
            | Role::Internal
            | Role::Code
            | Role::Thread
            | Role::Fiber
            | Role::Symbol
    )
}

/// Whether a thread hangs on an object and on nothing else.
fn has_thread(analysis: &Analysis, object: u32) -> bool {
    let mut held = analysis.dominated(Some(object)).iter();
    held.any(|one| analysis.snapshot().role(*one) == Role::Thread)
}

/// The dominators that lead to an object, and how their types repeat themselves.
#[derive(Clone, Copy, Default)]
struct Run {
    /// How many there are, with the object itself.
    length: usize,
    /// The last of them, each at its number modulo [`PERIOD`].
    last: [u32; PERIOD],
    /// By period: how many of them in a row, up to the last one, are of the same type as the one that is a period before, and the first
    /// of all that are compared.
    repeats: [(usize, u32); PERIOD],
}

impl Run {
    /// With one more object.
    fn with(mut self, object: u32, is_alike: impl Fn(u32, u32) -> bool) -> Self {
        for (at, (count, first)) in self.repeats.iter_mut().enumerate() {
            let before = self.length.checked_sub(at + 1);
            let before = before.map(|number| self.last[number % PERIOD]);
            match before.filter(|before| is_alike(*before, object)) {
                Some(before) if *count == 0 => (*count, *first) = (1, before),
                Some(_) => *count += 1,
                None => *count = 0,
            }
        }
        self.last[self.length % PERIOD] = object;
        self.length += 1;
        self
    }

    /// The first objects of the chains that end here.
    fn chains(&self) -> impl Iterator<Item = u32> {
        let long = |(at, (count, _)): &(usize, &(usize, u32))| *count >= (CHAIN - 1) * (at + 1);
        let repeats = self.repeats.iter().enumerate().filter(long);
        repeats.map(|(_, (_, first))| *first)
    }
}

impl Search<'_> {
    fn follow(&mut self) {
        let (analysis, least) = (self.analysis, self.least);
        let is_large = |object: &u32| analysis.retained(*object) >= least;
        // What has a name of its own, as the dict of a module, is a type of its own.
        let snapshot = analysis.snapshot();
        let kind = |object| (snapshot.type_name(object), snapshot.label(object));
        let is_alike = |one, other| kind(one) == kind(other);
        let mut open = vec![(None, Run::default())];
        while let Some((at, run)) = open.pop() {
            let run = at.map_or(run, |object| run.with(object, is_alike));
            let mut chains = run.chains();
            if let Some(first) = chains.find(|first| !is_of_vm(analysis, *first)) {
                if !self.points.contains(&first) {
                    self.points.push(first);
                }
                continue;
            }
            let dominated = analysis.dominated(at).iter().copied();
            let large: Vec<u32> = dominated.clone().filter(is_large).collect();
            let goes_on = match at {
                None => true,
                Some(object) if is_of_vm(analysis, object) => true,
                Some(object) => {
                    let retained = large.iter().map(|one| self.analysis.retained(*one));
                    let sum = retained.fold(0, u64::saturating_add);
                    sum >= part(self.analysis.retained(object), DROP)
                }
            };
            if goes_on {
                open.extend(large.into_iter().map(|one| (Some(one), run)));
                for small in dominated.filter(|one| !is_large(one)) {
                    match snapshot.role(small) {
                        Role::Thread | Role::Fiber => self.stacks.push(small),
                        // What the VM has around a thread: a Ractor.
                        Role::Internal if has_thread(analysis, small) => self.stacks.push(small),
                        _ if is_of_vm(analysis, small) => {}
                        _ => self.rest.push(small),
                    }
                }
            } else {
                self.points.extend(at);
            }
        }
    }

    /// The suspect at an accumulation point.
    fn object(&self, object: u32) -> Suspect {
        let dominated = self.analysis.dominated(Some(object)).iter().copied();
        let most = self.masses(dominated.clone(), Alike::Type);
        let mass = most.into_iter().next().map(|mass| {
            let of_type = dominated.filter(|one| self.is_of(*one, mass.name));
            let labelled = self.masses(of_type, Alike::Label).into_iter().next();
            let least = part(mass.retained, DROP);
            let labelled = labelled.filter(|of| of.label.is_some() && of.retained >= least);
            labelled.unwrap_or(mass)
        });
        Suspect {
            what: Suspected::Object(object),
            retained: self.analysis.retained(object),
            mass,
        }
    }

    fn is_of(&self, object: u32, name: TextId) -> bool {
        self.analysis.snapshot().type_name(object) == name
    }

    fn masses(&self, objects: impl Iterator<Item = u32>, alike: Alike) -> Vec<Mass> {
        masses(self.analysis, &self.roots, objects, alike)
    }

    /// Types and lines whose objects retain so much together.
    fn groups(&self) -> Vec<Suspect> {
        let snapshot = self.analysis.snapshot();
        let mut found: Vec<Suspect> = Vec::new();
        for of_type in self.masses(self.rest.iter().copied(), Alike::Type) {
            if of_type.retained >= self.least {
                found.extend(self.of_type(of_type));
            }
        }
        let stacks = self.masses(self.stacks.iter().copied(), Alike::Label);
        let stacks = stacks
            .into_iter()
            .filter(|mass| mass.objects >= MANY_STACKS && mass.retained >= self.least);
        found.extend(stacks.map(group));
        let told: Vec<Suspected> = found.iter().map(|suspect| suspect.what).collect();
        // What is suspected by its type is not told again by its line.
        let site = |object: u32| {
            let site = snapshot.site(object)?;
            let by_type = Suspected::Type(snapshot.type_name(object));
            (!told.contains(&by_type)).then_some(site)
        };
        let mut sums: HashMap<Site, u64> = HashMap::new();
        for object in &self.rest {
            if let Some(site) = site(*object) {
                let sum = sums.entry(site).or_default();
                *sum = sum.saturating_add(self.analysis.retained(*object));
            }
        }
        sums.retain(|_, sum| *sum >= self.least);
        for (of, retained) in sums {
            let rest = self.rest.iter().copied();
            let made = rest.filter(|object| site(*object) == Some(of));
            found.push(Suspect {
                what: Suspected::Site(of),
                retained,
                mass: self.masses(made, Alike::Type).into_iter().next(),
            });
        }
        found
    }

    /// The suspects among objects of one type: those of one function, if they are enough by themselves, and the others.
    fn of_type(&self, of_type: Mass) -> Vec<Suspect> {
        let objects = self.rest.iter().copied();
        let objects: Vec<u32> = objects
            .filter(|one| self.is_of(*one, of_type.name))
            .collect();
        let mut found = self.masses(objects.iter().copied(), Alike::Label);
        found.retain(|mass| mass.label.is_some() && mass.retained >= self.least);
        let told: Vec<_> = found.iter().map(|mass| mass.label).collect();
        let label = |one: &u32| key(self.analysis, *one, Alike::Label).1;
        let others = objects
            .into_iter()
            .filter(|one| !told.contains(&label(one)));
        let others = match told.is_empty() {
            true => vec![of_type],
            false => self.masses(others, Alike::Type),
        };
        let is_large = |mass: &Mass| {
            // Texts and numbers that a root leads to are those that the VM keeps for ever.
            let role = self.analysis.snapshot().role(mass.example);
            let is_kept = matches!(role, Role::Text | Role::Number);
            let is_rooted = mass.is_at_named_root() && !is_kept;
            let is_named = mass.holder.is_some() || mass.site.is_some() || is_rooted;
            let parts = if is_named { 1 } else { UNNAMED };
            mass.retained >= self.least.saturating_mul(parts)
        };
        found.extend(others.into_iter().filter(is_large));
        found.into_iter().map(group).collect()
    }
}

/// A group as a suspect.
fn group(mass: Mass) -> Suspect {
    Suspect {
        what: Suspected::Type(mass.name),
        retained: mass.retained,
        mass: Some(mass),
    }
}
