//! A table of the format: an object of columns, and how many rows there are. Used by `firefox`.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

/// A cell of a table, by its row.
type Cell<'a> = Box<dyn Fn(usize) -> Value + 'a>;

/// A table of so many rows. Its cells are made as they are written.
pub(super) struct Table<'a> {
    length: usize,
    columns: Vec<(&'static str, Cell<'a>)>,
}

impl<'a> Table<'a> {
    pub fn new(length: usize) -> Self {
        Table {
            length,
            columns: Vec::new(),
        }
    }

    /// One without rows.
    pub fn empty(columns: &[&'static str]) -> Self {
        let columns = columns.iter();
        columns.fold(Table::new(0), |table, name| {
            table.constant(name, Value::Null)
        })
    }

    pub fn column(mut self, name: &'static str, cell: impl Fn(usize) -> Value + 'a) -> Self {
        self.columns.push((name, Box::new(cell)));
        self
    }

    /// A column that is the same in each row.
    pub fn constant(self, name: &'static str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.column(name, move |_| value.clone())
    }
}

impl Serialize for Table<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("length", &self.length)?;
        for (name, cell) in &self.columns {
            map.serialize_entry(name, &Cells(self.length, cell))?;
        }
        map.end()
    }
}

/// A column that is written.
struct Cells<'a>(usize, &'a Cell<'a>);

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Cells(length, cell) = self;
        serializer.collect_seq((0..*length).map(cell))
    }
}
