//! The memory that a Ruby has allocated for objects in addition to their slots, by kind: `rb_obj_memsize_of` of each minus its slot.
//! Used by `snapshot`.
//!
//! All of it comes from malloc, except the stacks of fibers. malloc adds eight bytes to each piece and rounds up to a multiple of 16 and to
//! 32 at least (`request2size`, `malloc/malloc.c` of glibc). Each object is taken to have one piece. That holds for Strings, Arrays, plain
//! objects and Structs; a large Hash has two or three pieces, and an object of a C type an unknown number.
//! Structs; a large Hash has two or three, and of a C type nobody knows.

use foldhash::HashMap;
use heap::{Allocated, Builder, KindId};

/// malloc's bytes before a piece; below, the multiple to which it rounds up and its minimum.
const HEAD: u64 = 8;
const MULTIPLE: u64 = 16;
const LEAST: u64 = 32;

/// For each kind of object, what was allocated beside the slots of those objects of one snapshot that were read so far.
#[derive(Default)]
pub struct Malloced {
    kinds: HashMap<KindId, Sum>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    objects: u64,
    bytes: u64,
    in_malloc: u64,
}

/// The bytes that malloc uses for a piece.
fn taken(bytes: u64) -> u64 {
    let with_head = bytes.saturating_add(HEAD).max(LEAST);
    with_head
        .checked_next_multiple_of(MULTIPLE)
        .unwrap_or(bytes)
}

impl Malloced {
    /// Adds an object of a kind: its size in all, and the part of it that lies in its slot.
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

    /// Returns the sums, largest first.
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
        let mut beside = Malloced::default();
        // In the slot; 24 and 25 bytes, for which malloc takes 32 and 48; 1 byte, for which it takes 32.
        for bytes in [40, 64, 65, 41] {
            beside.add(text, bytes, 40);
        }
        beside.add(list, 40 + 4096, 40);
        // A size function that returns less than the slot.
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
