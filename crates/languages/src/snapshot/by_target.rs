//! Gives names to the references of one object, by the addresses that they lead to. Used by `python::snapshot::names`
//! and `ruby::snapshot::names`.
//!
//! The VM reports the references of most objects in the order in which `vm` reads their names, so each name is first compared with the next
//! reference. From the first mismatch on, the remaining names are sorted and searched by target.

/// The names of the references of the object that [`ByTarget::fill`] was called for last; a walk uses one value for all its objects. `N` is a
/// name. Each name is given out once, so references must be asked for in the order in which the VM tells them.
pub struct ByTarget<N> {
    names: Vec<Named<N>>,
    /// Names before this index were used in order.
    next: usize,
    /// The names from `next` on are sorted by their targets.
    sorted: bool,
}

struct Named<N> {
    target: u64,
    name: N,
    /// How many names with this target were used since sorting; kept in the first of them.
    used: usize,
}

impl<N> Default for ByTarget<N> {
    fn default() -> Self {
        ByTarget {
            names: Vec::new(),
            next: 0,
            sorted: false,
        }
    }
}

impl<N: Copy> ByTarget<N> {
    /// Replaces the names by those of the next object: `names` calls its argument with each name and the address that the reference leads
    /// to.
    pub fn fill(&mut self, names: impl FnOnce(&mut dyn FnMut(u64, N))) {
        self.names.clear();
        (self.next, self.sorted) = (0, false);
        names(&mut |target, name| {
            self.names.push(Named {
                target,
                name,
                used: 0,
            });
        });
    }

    /// The next unused name of a reference to this target. Of several with one target the first comes first.
    #[inline]
    pub fn next(&mut self, target: u64) -> Option<N> {
        if !self.sorted {
            let next = self.names.get(self.next)?;
            if next.target == target {
                self.next += 1;
                return Some(next.name);
            }
        }
        self.search(target)
    }

    fn search(&mut self, target: u64) -> Option<N> {
        let left = self.names.get_mut(self.next..)?;
        if !self.sorted {
            // A stable sort: names of one target stay in their order.
            left.sort_by_key(|named| named.target);
            self.sorted = true;
        }
        let first = left.partition_point(|named| named.target < target);
        let used = left.get(first)?.used;
        let next = left.get(first + used);
        let name = next.filter(|named| named.target == target)?.name;
        left[first].used += 1;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same without the fast path: the first unused name of this target.
    fn plain(names: &mut Vec<(u64, usize)>, target: u64) -> Option<usize> {
        let found = names.iter().position(|named| named.0 == target)?;
        Some(names.remove(found).1)
    }

    proptest! {
        #[test]
        fn each_reference_gets_the_first_name_that_is_left(
            targets in prop::collection::vec(0u64..6, 0..12),
            mut told in prop::collection::vec(0u64..7, 0..16),
            in_order in 0usize..12,
        ) {
            // As the VM mostly reports them: some in the order of the names, then others.
            told.splice(0..0, targets.iter().take(in_order).copied());
            let mut names: Vec<(u64, usize)> = targets.iter().copied().zip(0..).collect();
            let mut found = ByTarget::default();
            found.fill(|note| names.iter().for_each(|(target, name)| note(*target, *name)));
            for target in told {
                prop_assert_eq!(found.next(target), plain(&mut names, target));
            }
        }
    }
}
