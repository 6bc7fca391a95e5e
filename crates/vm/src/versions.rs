//! Searching the table of a version among those that are known. Used by `python::version`, `ruby::version` and
//! `perl::layout`.

use core::fmt;

/// The relation of a version without a table to those that have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// It is older than the oldest table.
    Before,
    /// It is newer than the newest table, or between two.
    Behind,
}

/// Finds the table of a version, among tables by rising version.
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

/// A minor version, in the form in which messages name it.
pub(crate) struct Series(pub(crate) (u8, u8));

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.0, self.0.1)
    }
}
