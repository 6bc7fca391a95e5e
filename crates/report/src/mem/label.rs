//! What a row is called where people read it.

use births::analysis::{Key, Row};

use crate::text::printable;

/// The mark of objects that were made before lancet came, so that nobody saw which line made them.
pub const BEFORE: &str = "(before lancet)";

/// Returns the name of a row, safe to print.
pub fn label(row: &Row) -> String {
    label_of_key(&row.key, row.before)
}

/// Returns the name of a key, safe to print; `before` adds the mark.
pub(crate) fn label_of_key(key: &Key, before: bool) -> String {
    let name = key.to_string();
    let name = printable(&name);
    if before {
        format!("{name} {BEFORE}")
    } else {
        name.into_owned()
    }
}
