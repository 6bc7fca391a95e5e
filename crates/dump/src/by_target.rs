//! The names of one object's references, joined by their targets to the references that the VM tells.

/// See the module's text. `N`: a name.
pub struct ByTarget<N>(Vec<Named<N>>);

struct Named<N> {
    target: u64,
    name: N,
    /// How many of those with this target were used; counted at the first of them.
    used: usize,
}

impl<N> Default for ByTarget<N> {
    fn default() -> Self {
        ByTarget(Vec::new())
    }
}

impl<N: Copy> ByTarget<N> {
    /// Forgets those of the last object, and takes those that `note` is called with.
    pub fn fill(&mut self, names: impl FnOnce(&mut dyn FnMut(u64, N))) {
        self.0.clear();
        names(&mut |target, name| {
            self.0.push(Named {
                target,
                name,
                used: 0,
            });
        });
        // Those of one target stay in their order.
        self.0.sort_by_key(|named| named.target);
    }

    /// The next name of a reference to this target.
    pub fn next(&mut self, target: u64) -> Option<N> {
        let first = self.0.partition_point(|named| named.target < target);
        let used = self.0.get(first)?.used;
        let next = self.0.get(first + used);
        let name = next.filter(|named| named.target == target)?.name;
        self.0[first].used += 1;
        Some(name)
    }
}
