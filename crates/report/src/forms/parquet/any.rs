//! The table of an answer that says nothing. Used by `form`.

use std::sync::LazyLock;

use super::schema::{Column, TABLES, Table};

/// The table of an answer without rows that does not say which table they would be in: it has all columns that any has, so a question to many files,
/// read by name, finds its columns in this one too.
pub(super) static ANY: LazyLock<Table> = LazyLock::new(|| {
    let mut columns: Vec<Column> = Vec::new();
    for column in TABLES.iter().flat_map(|table| table.columns) {
        if !columns.iter().any(|known| known.name == column.name) {
            columns.push(*column);
        }
    }
    columns.sort_by_key(|column| column.kind.is_list());
    Table {
        name: "any",
        about: "No row: the answer does not say which table its rows would be in.",
        rows: &[],
        marks: &[],
        columns: columns.leak(),
    }
});
