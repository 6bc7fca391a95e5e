//! Lists by their names, and the longest text. Used by `types`, `arguments`, `attributes` and others.

use crate::layout::types::Tables;

/// Bytes of the longest text or path (`PATH_MAX` in include/uapi/linux/limits.h).
pub const LONGEST_TEXT: u32 = 4096;

pub fn find_list(tables: &Tables, name: &str) -> Result<usize, String> {
    tables
        .list_names
        .get(name)
        .copied()
        .ok_or_else(|| format!("there is no list {name}"))
}
