//! Classes, modules and packages with many names that differ in nothing but their numbers: a program that defines a method, a class or a
//! package for each template, request or job, and never takes it away. The VM's table of all modules is such a one, too.
//! Used by `suspects`.
//!
//! Neither those that have the names nor what they lead to is suspected otherwise, because all of that is in every process. What nobody
//! writes by hand is five hundred names as `_inline_template_12_9f3c`, `_inline_template_13_08aa`.
//!
//! What they retain is what no root would lead to without what has these names (and the VM's other entries for the same code). Finding that out is a walk over all references, so it is
//! done of few such families only: the memory of this is twelve bytes for each name of the largest class, four for each name of those
//! families, and a bit for each object.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::analysis::{Analysis, Dominator};
use crate::names::{EdgeName, Role};

/// So many names are told of.
const MANY: usize = 500;
/// So many families are walked for: those that retain most as far as each name alone retains something.
const MOST: usize = 8;

/// Names of one holder that are alike.
pub(super) struct Family {
    /// The class, module or package.
    pub holder: u32,
    /// How many names there are.
    pub names: u64,
    /// What the one of them leads to that retains most by itself.
    pub example: u32,
    /// The bytes that would be free without what they lead to.
    pub retained: u64,
}

/// The same before it is known what they retain.
struct Members {
    holder: u32,
    /// What the names lead to, each once.
    all: Vec<u32>,
    /// What each of them retains by itself, together: at most what they retain together.
    apart: u64,
}

/// Those whose names retain so many bytes or more. What one of `points` retains, which are suspects themselves, is left to it.
pub(super) fn families(analysis: &Analysis, least: u64, points: &[u32]) -> Vec<Family> {
    let members = largest(analysis).into_iter();
    let apart = members.filter(|of| !is_below(analysis, of.holder, points));
    let families = apart.map(|of| {
        let all = of.all.iter().copied();
        let example = all.max_by_key(|one| (analysis.retained(*one), std::cmp::Reverse(*one)));
        Family {
            holder: of.holder,
            names: of.all.len() as u64,
            example: example.unwrap_or(of.holder),
            retained: retained(analysis, &with_copies(analysis, &of.all), points),
        }
    });
    families.filter(|of| of.retained >= least).collect()
}

/// The families of [`MANY`] names or more, at most [`MOST`] of them.
fn largest(analysis: &Analysis) -> Vec<Members> {
    let snapshot = analysis.snapshot();
    let hashes = RandomState::new();
    let mut largest: Vec<Members> = Vec::new();
    // The names without their numbers, as a hash: a process chooses how long its names are, and how many are alike. And what they lead to.
    let mut alike: Vec<(u64, u32)> = Vec::new();
    for holder in 0..snapshot.len() as u32 {
        let has_names = matches!(snapshot.role(holder), Role::Class | Role::Module);
        if !has_names || !analysis.is_living(holder) || snapshot.edge_range(holder).len() < MANY {
            continue;
        }
        let named = snapshot.edges(holder).filter_map(|edge| {
            let text = name_of(edge.name).filter(|_| is_of_names(analysis, edge.target))?;
            let key = without_numbers(snapshot.text(text), hashes.build_hasher());
            Some((key, edge.target))
        });
        alike.clear();
        alike.extend(named);
        alike.sort_unstable();
        alike.dedup();
        let families = alike.chunk_by(|one, next| one.0 == next.0);
        for members in families.filter(|members| members.len() >= MANY) {
            let apart = members.iter().map(|(_, one)| analysis.retained(*one));
            largest.push(Members {
                holder,
                apart: apart.fold(0, u64::saturating_add),
                all: members.iter().map(|(_, one)| *one).collect(),
            });
        }
        // What is told must not hang on the hashes, which are others each time.
        largest.sort_by_key(|of| {
            let most = std::cmp::Reverse((of.apart, of.all.len()));
            (most, of.holder, of.all.first().copied())
        });
        largest.truncate(MOST);
    }
    largest
}

/// The text of a name by which a class, module or package holds something.
fn name_of(name: EdgeName) -> Option<crate::text::TextId> {
    match name {
        EdgeName::Method(text)
        | EdgeName::Constant(text)
        | EdgeName::Attribute(text)
        | EdgeName::Global(text)
        | EdgeName::Value(text) => text,
        _ => None,
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

/// Whether an object is one of these, or would be free without one of them.
fn is_below(analysis: &Analysis, object: u32, points: &[u32]) -> bool {
    let mut at = Some(object);
    while let Some(object) = at {
        if points.contains(&object) {
            return true;
        }
        at = match analysis.dominator(object) {
            Dominator::Object(holder) => Some(holder),
            Dominator::Roots | Dominator::Garbage => None,
        };
    }
    false
}

/// The kind of a method's entry in Ruby.
const ENTRY: &[u8] = b"IMEMO:ment";

/// These objects, and Ruby's entries that lead to the same code as theirs: it makes one of its own for a method in each class that includes
/// its module. Other VMs make no copies: functions of the same code (closures, decorators of Python) are the program's.
fn with_copies(analysis: &Analysis, members: &[u32]) -> Vec<u32> {
    let snapshot = analysis.snapshot();
    let mut codes: Vec<u32> = Vec::new();
    let code_of = |object: u32| {
        let targets = snapshot.targets[snapshot.edge_range(object)].iter();
        let targets = targets.copied();
        targets.filter(|target| snapshot.role(*target) == Role::Code)
    };
    let is_entry = |object: u32| snapshot.kind_name(snapshot.kind(object)) == ENTRY;
    let entries = members.iter().filter(|one| is_entry(**one));
    entries.for_each(|one| codes.extend(code_of(*one)));
    codes.sort_unstable();
    let is_copy = |object: &u32| {
        is_entry(*object)
            && analysis.is_living(*object)
            && code_of(*object).any(|code| codes.binary_search(&code).is_ok())
    };
    let mut all = members.to_vec();
    if !codes.is_empty() {
        all.extend((0..snapshot.len() as u32).filter(is_copy));
        all.sort_unstable();
        all.dedup();
    }
    all
}

/// The bytes that would be free if these objects were, without what one of `points` retains of them.
fn retained(analysis: &Analysis, members: &[u32], points: &[u32]) -> u64 {
    let snapshot = analysis.snapshot();
    // Those that are reached, and the members, which are not to be entered.
    let mut reached = vec![0_u64; snapshot.len().div_ceil(64)];
    let mut mark = |object: u32| {
        let (word, bit) = (&mut reached[object as usize / 64], 1 << (object % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    };
    for member in members {
        mark(*member);
    }
    let mut open: Vec<u32> = Vec::new();
    let roots = snapshot.roots().iter().map(|root| root.target);
    open.extend(roots.filter(|target| mark(*target)));
    let mut bytes = 0_u64;
    while let Some(object) = open.pop() {
        bytes = bytes.saturating_add(snapshot.bytes(object));
        let targets = snapshot.targets[snapshot.edge_range(object)].iter();
        open.extend(targets.copied().filter(|target| mark(*target)));
    }
    let is_reached = |one: &u32| {
        let bit = reached[*one as usize / 64] >> (*one % 64) & 1;
        bit == 1 && members.binary_search(one).is_err()
    };
    let theirs = points.iter().filter(|point| !is_reached(point));
    let theirs = theirs.map(|point| analysis.retained(*point));
    let rest = analysis.living().bytes.saturating_sub(bytes);
    rest.saturating_sub(theirs.fold(0, u64::saturating_add))
}

/// The hash of a name with one sign for each run of hexadecimal digits that has a decimal one: counters, checksums and addresses are such.
fn without_numbers(name: &[u8], mut hash: impl Hasher) -> u64 {
    let is_alike = |one: &u8, next: &u8| one.is_ascii_hexdigit() == next.is_ascii_hexdigit();
    for run in name.chunk_by(is_alike) {
        match run.iter().any(u8::is_ascii_digit) {
            true => hash.write(b"#"),
            false => hash.write(run),
        }
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_numbers_are_alike() {
        let hashes = RandomState::new();
        let of = |name: &str| without_numbers(name.as_bytes(), hashes.build_hasher());
        let views = ["_view___12_95028", "_view___13_1", "_view___1_0af"];
        assert!(views.iter().all(|name| of(name) == of(views[0])));
        assert_eq!(of("P17::"), of("P18::"));
        assert_eq!(of("view_9f3c_render"), of("view_08aa_render"));
        assert_ne!(of("added"), of("faced"));
        assert_ne!(of("utf8"), of("utf_16"));
    }
}
