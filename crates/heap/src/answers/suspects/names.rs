//! Classes, modules and packages with many names that differ in nothing but their numbers: a program that defines a method, a class or a
//! package for each template, request or job, and never takes it away.
//!
//! Neither those that have the names nor what they lead to is suspected otherwise, because all of that is in every process. What nobody
//! writes by hand is five hundred names as `_inline_template_12_9f3c`, `_inline_template_13_08aa`.

use std::collections::HashMap;

use super::{Mass, Suspect, Suspected, least};
use crate::analysis::Analysis;
use crate::answers::paths::{Paths, Via};
use crate::names::{EdgeName, Role};
use crate::text::TextId;

/// So many names are told of.
const MANY: u64 = 500;

/// The number of what holds names, and these without their numbers.
type Key = (u32, Vec<u8>);

/// What hangs on names that are alike.
struct Family {
    names: u64,
    /// What the first of them leads to.
    first: u32,
    /// The bytes of all objects whose paths go through them.
    bytes: u64,
}

/// Those through whose names a tenth of all is held, the most first. Of an object one path is looked at, the shortest.
pub(in crate::answers) fn families(analysis: &Analysis, paths: &Paths) -> Vec<Suspect> {
    let snapshot = analysis.snapshot();
    let mut names = Names {
        analysis,
        paths,
        skeletons: HashMap::new(),
    };
    let mut families: HashMap<Key, Family> = HashMap::new();
    let all = 0..snapshot.len() as u32;
    // Only what the VM keeps for itself is a method, a class or the glob of one.
    for object in all.clone().filter(|object| is_of_names(analysis, *object)) {
        if let Some(key) = names.key(object) {
            let family = families.entry(key).or_insert(Family {
                names: 0,
                first: object,
                bytes: 0,
            });
            family.names += 1;
        }
    }
    families.retain(|_, family| family.names >= MANY);
    if families.is_empty() {
        return Vec::new();
    }
    let mut known: HashMap<u32, Option<Key>> = HashMap::new();
    for object in all.filter(|object| analysis.is_living(*object)) {
        let Some(key) = names.above(object, &families, &mut known) else {
            continue;
        };
        if let Some(family) = families.get_mut(&key) {
            family.bytes = family.bytes.saturating_add(snapshot.bytes(object));
        }
    }
    let families = families.into_iter();
    let large = families.filter(|(_, family)| family.bytes >= least(analysis));
    let mut found: Vec<Suspect> = large
        .map(|((holder, _), family)| suspect(analysis, holder, &family))
        .collect();
    found.sort_by_key(|suspect| {
        (
            std::cmp::Reverse(suspect.retained),
            suspect.mass.map(|of| of.example),
        )
    });
    found
}

fn suspect(analysis: &Analysis, holder: u32, family: &Family) -> Suspect {
    Suspect {
        what: Suspected::Names(holder),
        retained: family.bytes,
        mass: Some(Mass {
            name: analysis.snapshot().type_name(family.first),
            label: None,
            objects: family.names,
            retained: family.bytes,
            site: None,
            example: family.first,
            holder: None,
            root: None,
        }),
    }
}

/// Whether an object may be what a name of a class or package leads to.
fn is_of_names(analysis: &Analysis, object: u32) -> bool {
    let role = analysis.snapshot().role(object);
    matches!(
        role,
        Role::Class | Role::Module | Role::Function | Role::Code | Role::Internal
    )
}

struct Names<'a> {
    analysis: &'a Analysis<'a>,
    paths: &'a Paths<'a>,
    /// Names without their numbers.
    skeletons: HashMap<TextId, Vec<u8>>,
}

impl Names<'_> {
    /// The key of the name by which a class, module or package holds an object on its path.
    fn key(&mut self, object: u32) -> Option<Key> {
        let snapshot = self.analysis.snapshot();
        let (via, holder) = self.paths.holder(object)?;
        let (Via::Edge(name), Some(holder)) = (via, holder) else {
            return None;
        };
        let text = match name {
            EdgeName::Method(text)
            | EdgeName::Constant(text)
            | EdgeName::Attribute(text)
            | EdgeName::Global(text) => text?,
            _ => return None,
        };
        if !matches!(snapshot.role(holder), Role::Class | Role::Module) {
            return None;
        }
        let skeleton = self.skeletons.entry(text);
        let skeleton = skeleton.or_insert_with(|| without_numbers(snapshot.text(text)));
        Some((holder, skeleton.clone()))
    }

    /// The key, of those of `families`, of the nearest name on the path to an object.
    fn above(
        &mut self,
        object: u32,
        families: &HashMap<Key, Family>,
        known: &mut HashMap<u32, Option<Key>>,
    ) -> Option<Key> {
        let mut way = Vec::new();
        let mut at = Some(object);
        let mut found = None;
        while let Some(object) = at {
            if let Some(known) = known.get(&object) {
                found = known.clone();
                break;
            }
            way.push(object);
            found = self.key(object).filter(|key| families.contains_key(key));
            if found.is_some() {
                break;
            }
            at = self.paths.holder(object).and_then(|(_, holder)| holder);
        }
        for object in way {
            known.insert(object, found.clone());
        }
        found
    }
}

/// A name with one sign for each run of hexadecimal digits that has a decimal one: counters, checksums and addresses are such.
fn without_numbers(name: &[u8]) -> Vec<u8> {
    let mut skeleton = Vec::with_capacity(name.len());
    let is_alike = |one: &u8, next: &u8| one.is_ascii_hexdigit() == next.is_ascii_hexdigit();
    for run in name.chunk_by(is_alike) {
        match run.iter().any(u8::is_ascii_digit) {
            true => skeleton.push(b'#'),
            false => skeleton.extend_from_slice(run),
        }
    }
    skeleton
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_numbers_are_alike() {
        let of = |name: &str| String::from_utf8(without_numbers(name.as_bytes())).expect("ASCII");
        assert_eq!(of("_inline_template___12_95028"), "_inline_template___#_#");
        assert_eq!(of("P17::"), of("P18::"));
        assert_eq!(of("view_9f3c_render"), of("view_08aa_render"));
        assert_ne!(of("added"), of("faced"));
        assert_ne!(of("utf8"), of("utf_16"));
    }
}
