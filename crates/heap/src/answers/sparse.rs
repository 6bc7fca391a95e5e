//! Lists and maps with room for much more than is in them. Used by `answers`.

use std::collections::HashMap;

use crate::analysis::Analysis;
use crate::names::Role;
use crate::text::TextId;

/// A list or map that has room for fewer elements is never sparse.
const LEAST: u64 = 16;
/// A list or map is sparse if it has room for at least this many times the elements that are in it.
const RATIO: u64 = 4;

/// Sparse lists and maps of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sparse {
    /// Their type, as a text of the snapshot.
    pub name: TextId,
    /// Number of lists and maps of the type that are sparse.
    pub objects: u64,
    /// The elements or entries in them.
    pub length: u64,
    /// Number of elements or entries that they have room for.
    pub capacity: u64,
    /// Bytes of theirs that fall to unused room, in proportion to the capacity.
    pub wasted: u64,
    /// Number of the object that wastes most.
    pub worst: u32,
}

/// Living lists and maps that have room for 16 elements or more and use a quarter of it at most, by type, those that
/// waste most first.
#[must_use]
pub fn sparse(analysis: &Analysis) -> Vec<Sparse> {
    let snapshot = analysis.snapshot();
    let mut found: HashMap<TextId, (Sparse, u64)> = HashMap::new();
    for object in 0..snapshot.len() as u32 {
        if !matches!(snapshot.role(object), Role::List | Role::Map) || !analysis.is_living(object) {
            continue;
        }
        let (Some(length), Some(capacity)) = (snapshot.length(object), snapshot.capacity(object))
        else {
            continue;
        };
        if capacity < LEAST || length > capacity / RATIO {
            continue;
        }
        let unused = u128::from(snapshot.bytes(object)) * u128::from(capacity - length);
        let wasted = (unused / u128::from(capacity)) as u64;
        let name = snapshot.type_name(object);
        let (sum, most) = found.entry(name).or_insert((
            Sparse {
                name,
                objects: 0,
                length: 0,
                capacity: 0,
                wasted: 0,
                worst: object,
            },
            0,
        ));
        sum.objects += 1;
        sum.length = sum.length.saturating_add(length);
        sum.capacity = sum.capacity.saturating_add(capacity);
        sum.wasted = sum.wasted.saturating_add(wasted);
        if wasted > *most {
            (*most, sum.worst) = (wasted, object);
        }
    }
    let mut found: Vec<Sparse> = found.into_values().map(|(sum, _)| sum).collect();
    found.sort_by_key(|sparse| (std::cmp::Reverse(sparse.wasted), sparse.name));
    found
}
