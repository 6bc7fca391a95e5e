//! Who is suspected of keeping too much.
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

use super::duplicates::most;
use super::garbage::Garbage;
use super::paths::PERIOD;
use crate::analysis::{Analysis, Dominator};
use crate::names::Role;
use crate::snapshot::Site;
use crate::text::TextId;

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
}

impl Suspected {
    /// Whether it is a group of objects of which nothing is known but that they are alike.
    fn is_group(self) -> bool {
        matches!(self, Suspected::Type(_) | Suspected::Site(_))
    }
}

/// Most of what a suspect holds: objects of one type that it dominates directly, or that are the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mass {
    /// Their type; of a line's group, the commonest.
    pub name: TextId,
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
/// So many dominators of a group are looked at, one above the other.
const HIGHEST: usize = 64;
/// So many objects of one type, or groups of objects of the same types, each held by the one before it, are a chain.
const CHAIN: usize = 16;

/// The suspects that retain a tenth of the living bytes or more: single objects and garbage first, then groups, of each those that retain
/// most first.
#[must_use]
pub fn suspects(analysis: &Analysis, garbage: &Garbage) -> Vec<Suspect> {
    let least = part(analysis.living().bytes, PART).max(1);
    let mut search = Search {
        analysis,
        least,
        points: Vec::new(),
        rest: Vec::new(),
    };
    search.follow();
    let mut found: Vec<Suspect> = search.points.iter().map(|at| search.object(*at)).collect();
    found.extend(lost(analysis, garbage));
    found.extend(search.groups());
    found.sort_by_key(|suspect| (suspect.what.is_group(), std::cmp::Reverse(suspect.retained)));
    found
}

/// Garbage, if nothing frees it and it is a tenth of all or more.
fn lost(analysis: &Analysis, garbage: &Garbage) -> Option<Suspect> {
    let (living, dead) = (analysis.living().bytes, analysis.garbage().bytes);
    let least = part(living.saturating_add(dead), PART).max(1);
    let largest = garbage.types.first()?;
    let snapshot = analysis.snapshot();
    let frees_nothing = snapshot.about().collector.frees_nothing();
    (frees_nothing && dead >= least).then(|| Suspect {
        what: Suspected::Garbage,
        retained: dead,
        mass: Some(Mass {
            name: largest.name,
            objects: largest.objects,
            retained: largest.bytes,
            site: None,
            example: garbage
                .circle
                .last()
                .map_or(largest.example, |step| step.object),
            holder: None,
        }),
    })
}

fn part(bytes: u64, hundredths: u64) -> u64 {
    (u128::from(bytes) * u128::from(hundredths) / 100) as u64
}

struct Search<'a> {
    analysis: &'a Analysis<'a>,
    least: u64,
    /// Numbers of the objects that were found to be suspects themselves: accumulation points, and the first objects of chains.
    points: Vec<u32>,
    /// Objects that retain less than is suspected and are dominated by nobody who is, without those of the VM.
    rest: Vec<u32>,
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
                let is_small = |one: &u32| !is_large(one) && !is_of_vm(analysis, *one);
                self.rest.extend(dominated.filter(is_small));
            } else {
                self.points.extend(at);
            }
        }
    }

    /// The suspect at an accumulation point.
    fn object(&self, object: u32) -> Suspect {
        let dominated = self.analysis.dominated(Some(object));
        Suspect {
            what: Suspected::Object(object),
            retained: self.analysis.retained(object),
            mass: self.masses(dominated.iter().copied()).into_iter().next(),
        }
    }

    /// Objects by type, those that retain most first.
    fn masses(&self, objects: impl Iterator<Item = u32>) -> Vec<Mass> {
        let snapshot = self.analysis.snapshot();
        let mut types: HashMap<TextId, Gathered> = HashMap::new();
        for object in objects {
            let gathered = types.entry(snapshot.type_name(object)).or_default();
            let retained = self.analysis.retained(object);
            if gathered.objects == 0 || retained > gathered.example.1 {
                gathered.example = (object, retained);
            }
            gathered.objects += 1;
            gathered.retained = gathered.retained.saturating_add(retained);
            if let Dominator::Object(holder) = self.analysis.dominator(object) {
                gathered.holders.entry(holder).or_default().add(Hanging {
                    objects: 1,
                    retained,
                    example: (object, retained),
                });
            }
            if let Some(site) = snapshot.site(object) {
                *gathered.sites.entry(site).or_default() += 1;
            }
        }
        let masses = types.into_iter().map(|(name, gathered)| {
            let holder = gathered.holder(self.analysis);
            Mass {
                name,
                objects: gathered.objects,
                retained: gathered.retained,
                holder: holder.map(|(object, hanging)| Holder {
                    object,
                    objects: hanging.objects,
                }),
                site: most(gathered.sites),
                example: holder
                    .map_or(gathered.example, |(_, hanging)| hanging.example)
                    .0,
            }
        });
        let mut masses: Vec<Mass> = masses.collect();
        masses.sort_by_key(|mass| (std::cmp::Reverse(mass.retained), mass.name));
        masses
    }

    /// Types and lines whose objects retain so much together.
    fn groups(&self) -> Vec<Suspect> {
        let snapshot = self.analysis.snapshot();
        let masses = self.masses(self.rest.iter().copied()).into_iter();
        let mut found: Vec<Suspect> = masses
            .filter(|mass| mass.retained >= self.least)
            .map(|mass| Suspect {
                what: Suspected::Type(mass.name),
                retained: mass.retained,
                mass: Some(mass),
            })
            .collect();
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
                mass: self.masses(made).into_iter().next(),
            });
        }
        found
    }
}
