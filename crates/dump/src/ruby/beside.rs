//! What a Ruby has allocated for objects beside their slots, by kind: what `rb_obj_memsize_of` says of each, less its slot.
//!
//! All of it comes from malloc, but for the stacks of fibers. malloc takes more than it is asked for: eight bytes before each piece, and what fills it up to a
//! multiple of 16 and to 32 at least (`request2size`, `malloc/malloc.c` of glibc). An object is taken for one piece, which is so of Strings, Arrays, plain objects and
//! Structs; a large Hash has two or three, and of a C type nobody knows.

use foldhash::HashMap;
use heap::{Allocated, Builder, KindId};

/// malloc's bytes before a piece, the multiple that it is filled up to, and the least that it takes.
const HEAD: u64 = 8;
const MULTIPLE: u64 = 16;
const LEAST: u64 = 32;

/// For each kind of object, what was allocated beside the slots of those objects of one snapshot that were read so far.
#[derive(Default)]
pub struct Beside {
    kinds: HashMap<KindId, Sum>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    objects: u64,
    bytes: u64,
    in_malloc: u64,
}

/// What malloc takes for a piece.
fn taken(bytes: u64) -> u64 {
    let with_head = bytes.saturating_add(HEAD).max(LEAST);
    with_head
        .checked_next_multiple_of(MULTIPLE)
        .unwrap_or(bytes)
}

impl Beside {
    /// Adds an object of a kind that has so much in all, and so much of that in its slot.
    #[inline]
    pub fn add(&mut self, kind: KindId, bytes: u64, slot: u64) {
        let Some(beside @ 1..) = bytes.checked_sub(slot) else {
            return;
        };
        let sum = self.kinds.entry(kind).or_default();
        sum.objects += 1;
        sum.bytes = sum.bytes.saturating_add(beside);
        sum.in_malloc = sum.in_malloc.saturating_add(taken(beside));
    }

    /// Returns the sums, those that take most of malloc first.
    pub fn sums(&self, builder: &Builder) -> Vec<Allocated> {
        let sums = self.kinds.iter().map(|(kind, sum)| Allocated {
            kind: String::from_utf8_lossy(builder.kind_name(*kind)).into_owned(),
            objects: sum.objects,
            bytes: sum.bytes,
            in_malloc: sum.in_malloc,
        });
        let mut sums: Vec<Allocated> = sums.collect();
        sums.sort_by(|one, other| {
            let bytes = other.in_malloc.cmp(&one.in_malloc);
            bytes.then_with(|| one.kind.cmp(&other.kind))
        });
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::{About, Role};

    #[test]
    fn what_lies_beside_slots_is_summed_by_kind() {
        let mut builder = Builder::new(About::default());
        let (text, list) = (
            builder.kind(b"STRING", Role::Text),
            builder.kind(b"ARRAY", Role::List),
        );
        let mut beside = Beside::default();
        // In its slot; 24 and 25 bytes, which are 32 and 48 of malloc's; 1 byte, which is 32.
        for bytes in [40, 64, 65, 41] {
            beside.add(text, bytes, 40);
        }
        beside.add(list, 40 + 4096, 40);
        // A size function that says less than the slot has.
        beside.add(list, 8, 40);
        let sums = beside.sums(&builder);
        let figures: Vec<_> = sums
            .iter()
            .map(|one| (one.kind.as_str(), one.objects, one.bytes, one.in_malloc))
            .collect();
        assert_eq!(figures, [("ARRAY", 1, 4096, 4112), ("STRING", 3, 50, 112)]);
        assert_eq!(taken(u64::MAX), u64::MAX);
    }
}
