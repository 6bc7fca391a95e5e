//! What a pool counts.

/// Counts of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Slabs that are mapped.
    pub slabs: usize,
    /// Bytes of address space in them.
    pub mapped: usize,
    /// Stacks in use now.
    pub live: usize,
    /// The most that were in use at once. Of the process's own pool up to eight more for each thread, because a thread may
    /// keep so many for itself when others ask the pool.
    pub peak: usize,
    /// Stacks that were used before and wait.
    pub free: usize,
    /// Stacks given out, ever.
    pub given: u64,
    /// Of these, how many had been used before.
    pub reused: u64,
    /// Stacks, used at least once, whose guard is one of `MADV_GUARD_INSTALL`.
    pub light_guards: usize,
    /// Stacks, used at least once, whose guard was made by `mprotect`.
    pub mprotect_guards: usize,
    /// Stacks lost for good: a suspended coroutine was dropped and could not be unwound.
    pub abandoned: usize,
}
