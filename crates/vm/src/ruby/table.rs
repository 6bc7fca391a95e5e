//! The VM's two hash tables, walked in order of their entries. Used by `collection`, `thread`, `finalizers` and others.
//!
//! `struct st_table` (`include/ruby/st.h`, `st.c`, the same in all seven versions) keeps entries in an
//! array in order of insertion; an entry whose hash is all ones is deleted. Tables searched here are
//! small (a class's hidden instance variables), so a walk does for a lookup and needs no knowledge of
//! the hash function. A large Hash of the program's is shown only by its first entries.
//!
//! `struct rb_id_table` (`id_table.c`) is an open table from IDs to values. Its keys are not IDs but
//! their serial numbers (`rb_id_to_serial`, `symbol.h`): an ID that names an identifier has four
//! scope bits below the serial number, an operator's ID is its own serial number.

use super::layout::Methods;
use super::{Error, Ruby};
use crate::{Fault, Memory};

/// `entries_start`, `entries_bound` and `entries` of `struct st_table`.
const ST_START: u64 = 32;
const ST_BOUND: u64 = 40;
const ST_ENTRIES: u64 = 48;
/// `struct st_table_entry`: hash, key, record.
pub(super) const ST_ENTRY: u64 = 24;
const ST_DELETED: u64 = u64::MAX;

/// `capa` and `items` of `struct rb_id_table`, and `item_t`: key, collision, value.
const ID_CAPACITY: u64 = 0;
const ID_ITEMS: u64 = 16;
const ID_ITEM: u64 = 16;

/// Entries of a Hash that are looked at to show it, deleted ones included.
pub(super) const MOST_HASH_ENTRIES: u64 = 1 << 12;

/// Entries of a table; one with more is taken for garbage, because no class has so many instance variables or
/// constants.
const MOST_ST_ENTRIES: u64 = 1 << 16;
const MOST_ID_ITEMS: u64 = 1 << 20;

/// Scope bits below the serial number in an ID, `ID_SCOPE_SHIFT`.
const SCOPE_SHIFT: u32 = 4;

/// Iterates over an `st_table`: key and value of each entry.
pub struct StTable<'a, M> {
    memory: &'a M,
    entry: u64,
    left: u64,
}

impl<'a, M: Memory> StTable<'a, M> {
    /// The table at `table`; a null pointer is an empty table.
    pub fn new(memory: &'a M, table: u64) -> Result<StTable<'a, M>, Error> {
        if table == 0 {
            return Ok(StTable {
                memory,
                entry: 0,
                left: 0,
            });
        }
        let start = memory.u64(table.wrapping_add(ST_START))?;
        let bound = memory.u64(table.wrapping_add(ST_BOUND))?;
        let entries = memory.u64(table.wrapping_add(ST_ENTRIES))?;
        if bound > MOST_ST_ENTRIES {
            return Err(Error::garbled("st_table", table));
        }
        StTable::between(memory, table, start, bound, entries)
    }

    /// The entries in the first so many places of a Hash's table.
    pub(super) fn of_hash(memory: &'a M, table: u64, most: u64) -> Result<StTable<'a, M>, Error> {
        let start = memory.u64(table.wrapping_add(ST_START))?;
        let bound = memory.u64(table.wrapping_add(ST_BOUND))?;
        let entries = memory.u64(table.wrapping_add(ST_ENTRIES))?;
        let bound = bound.min(start.saturating_add(most));
        StTable::between(memory, table, start, bound, entries)
    }

    /// Leaves out all behind the next so many places; whether there are some.
    pub(super) fn cut(&mut self, most: u64) -> bool {
        let is_longer = self.left > most;
        self.left = self.left.min(most);
        is_longer
    }

    fn between(
        memory: &'a M,
        table: u64,
        start: u64,
        bound: u64,
        entries: u64,
    ) -> Result<StTable<'a, M>, Error> {
        if start > bound {
            return Err(Error::garbled("st_table", table));
        }
        let entry = entries.wrapping_add(start.wrapping_mul(ST_ENTRY));
        Ok(StTable {
            memory,
            entry,
            left: bound - start,
        })
    }
}

impl<M: Memory> Iterator for StTable<'_, M> {
    type Item = Result<(u64, u64), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let entry = self.entry;
            self.entry = entry.wrapping_add(ST_ENTRY);
            self.left -= 1;
            let read = (|| {
                let hash = self.memory.u64(entry)?;
                let key = self.memory.u64(entry.wrapping_add(8))?;
                Ok((hash, key, self.memory.u64(entry.wrapping_add(16))?))
            })();
            match read {
                Ok((ST_DELETED, ..)) => {}
                Ok((_, key, value)) => return Some(Ok((key, value))),
                Err(fault) => {
                    self.left = 0;
                    return Some(Err(fault));
                }
            }
        }
        None
    }
}

/// Iterates over an `rb_id_table`: serial number and value of each item.
pub struct IdTable<'a, M> {
    memory: &'a M,
    item: u64,
    left: u64,
}

impl<'a, M: Memory> IdTable<'a, M> {
    /// The table at `table`; a null pointer is an empty table.
    pub fn new(memory: &'a M, table: u64) -> Result<IdTable<'a, M>, Error> {
        if table == 0 {
            return Ok(IdTable {
                memory,
                item: 0,
                left: 0,
            });
        }
        let capacity = u64::from(memory.u32(table.wrapping_add(ID_CAPACITY))?);
        if capacity > MOST_ID_ITEMS {
            return Err(Error::garbled("id_table", table));
        }
        let item = memory.u64(table.wrapping_add(ID_ITEMS))?;
        Ok(IdTable {
            memory,
            item,
            left: capacity,
        })
    }
}

impl<M: Memory> Iterator for IdTable<'_, M> {
    type Item = Result<(u32, u64), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let item = self.item;
            self.item = item.wrapping_add(ID_ITEM);
            self.left -= 1;
            let read = self
                .memory
                .u32(item)
                .and_then(|key| Ok((key, self.memory.u64(item.wrapping_add(8))?)));
            match read {
                // Key 0 is a free item.
                Ok((0, _)) => {}
                Ok(found) => return Some(Ok(found)),
                Err(fault) => {
                    self.left = 0;
                    return Some(Err(fault));
                }
            }
        }
        None
    }
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns the serial number of an ID, which is its key in an [`IdTable`].
    pub fn serial(&self, id: u64) -> u32 {
        if id > self.layout.class.last_operator {
            (id >> SCOPE_SHIFT) as u32
        } else {
            id as u32
        }
    }

    /// Returns the methods of a class, module or iclass alone: serial number of the name, `rb_method_entry_t *`.
    pub fn methods(&self, class: u64) -> Result<IdTable<'_, M>, Error> {
        let at = match self.layout.class.methods {
            Methods::Class(at) => class.wrapping_add(at),
            Methods::Extension(at) => self.extension(class)?.wrapping_add(at),
        };
        IdTable::new(self.memory, self.memory.u64(at)?)
    }

    /// Returns the constants of a class or module: serial number of the name, `rb_const_entry_t *`.
    pub fn constants(&self, class: u64) -> Result<IdTable<'_, M>, Error> {
        let extension = self.extension(class)?;
        let table = self
            .memory
            .u64(extension.wrapping_add(self.layout.class.constants))?;
        IdTable::new(self.memory, table)
    }
}
