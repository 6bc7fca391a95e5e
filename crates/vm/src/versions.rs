//! A version's table among those that are known.

/// Where a version that has no table lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// Before the oldest table.
    Before,
    /// Behind the newest, or between two.
    Behind,
}

/// The table for a version, of tables by rising version.
pub(crate) fn find<T, V: Ord>(
    tables: &'static [T],
    version: V,
    of: impl Fn(&T) -> V,
) -> Result<&'static T, Outside> {
    let found = tables.iter().find(|table| of(table) == version);
    found.ok_or_else(|| {
        let is_before = tables.first().is_some_and(|oldest| version < of(oldest));
        if is_before {
            Outside::Before
        } else {
            Outside::Behind
        }
    })
}
