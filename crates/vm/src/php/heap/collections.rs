//! Collections of the VM's own that are no arrays: `SplObjectStorage` and `SplFixedArray`, and classes derived from them.
//! Used by `objects`.
//!
//! ```text
//!   SplObjectStorage: │ zend_array storage │ … │ zend_object │      storage: handle ▶ element { obj, inf }
//!   SplFixedArray:    │ zend_long size │ zval *elements │ … │ zend_object │
//! ```
//!
//! `struct _spl_SplObjectStorage` (`ext/spl/spl_observer.c`), `struct _spl_fixedarray` (`ext/spl/spl_fixedarray.c`).

use super::super::{Error, Php};
use super::Places;
use super::values::{Key, Reference, Sort, Thing, ZVAL};
use crate::Memory;

/// `parent` in `zend_class_entry`.
const PARENT: u64 = 16;
/// Classes above one, at most.
const DEEPEST: usize = 64;
/// Offset of the type in a zval.
const TYPE: u64 = 8;

/// A collection, by the address that it begins at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Collection {
    /// The `zend_array` of an `SplObjectStorage`, whose values lead to elements.
    Storage(u64),
    /// The size and the pointer of an `SplFixedArray`.
    Fixed(u64),
}

impl<M: Memory> Php<'_, M> {
    /// Which collection an object is, if it is one.
    pub(super) fn collection(
        &self,
        places: &Places,
        object: u64,
    ) -> Result<Option<Collection>, Error> {
        let block = self.block_of(object)?;
        // Only what a class written in C keeps lies before an object.
        if block == object {
            return Ok(None);
        }
        let mut class = self.class_of(object)?;
        for _ in 0..DEEPEST {
            match class {
                0 => break,
                class if places.storages.contains(&class) => {
                    return Ok(Some(Collection::Storage(block)));
                }
                class if class == places.fixed_array => {
                    return Ok(Some(Collection::Fixed(block)));
                }
                _ => class = self.memory.u64(class.wrapping_add(PARENT))?,
            }
        }
        Ok(None)
    }

    /// Calls `each` with what a collection holds.
    pub(super) fn of_collection(
        &self,
        collection: Collection,
        most: u64,
        each: &mut dyn FnMut(Thing, Reference),
    ) -> Result<(), Error> {
        match collection {
            Collection::Storage(table) => {
                let mut place = 0;
                self.each_element(table, most, &mut |element| {
                    let (object, data) = if self.heap_layout().stores_values {
                        (self.counted(element)?, element.wrapping_add(ZVAL))
                    } else {
                        let object = Thing {
                            address: self.memory.u64(element)?,
                            sort: Sort::Object,
                        };
                        let is_object = self.count(object)?.is_some();
                        (is_object.then_some(object), element.wrapping_add(8))
                    };
                    if let Some(object) = object {
                        each(object, Reference::Value(Key::Index(place)));
                    }
                    place += 1;
                    if let Some(data) = self.counted(data)? {
                        each(data, Reference::Data);
                    }
                    Ok(())
                })
            }
            Collection::Fixed(begin) => {
                let size = self.memory.u64(begin)?;
                if size > most {
                    return Err(Error::garbled("SplFixedArray", begin));
                }
                let elements = self.memory.u64(begin.wrapping_add(8))?;
                for index in 0..size {
                    if let Some(value) = self.counted(elements.wrapping_add(index * ZVAL))? {
                        each(value, Reference::Value(Key::Index(index)));
                    }
                }
                Ok(())
            }
        }
    }

    /// Calls `each` with the blocks that a collection takes beside its object's.
    pub(super) fn blocks_of_collection(
        &self,
        collection: Collection,
        most: u64,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        match collection {
            Collection::Storage(table) => {
                each(self.data_block(table)?);
                self.each_element(table, most, &mut |element| {
                    each(element);
                    Ok(())
                })
            }
            Collection::Fixed(begin) => {
                each(self.memory.u64(begin.wrapping_add(8))?);
                Ok(())
            }
        }
    }

    /// Calls `each` with the address of each element of an `SplObjectStorage`.
    fn each_element(
        &self,
        table: u64,
        most: u64,
        each: &mut dyn FnMut(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let pointer = self.heap_layout().pointer;
        self.each_value(table, most, &mut |zval, _| {
            if self.memory.u8(zval.wrapping_add(TYPE))? != pointer {
                return Ok(());
            }
            each(self.memory.u64(zval)?)
        })
    }
}
