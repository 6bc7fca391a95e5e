//! Values, and what the counted things that they lead to refer to. Used by `collections`, `objects` and others here,
//! and by crate `languages`.

use super::super::table::{
    BUCKET, DATA, FLAGS, HASH, KEY, MASK, PACKED, UNINITIALIZED, USED, string,
};
use super::super::{Error, Php, Text};
use super::Places;
use crate::{Fault, Memory};

/// `u1.v.type` and `u1.v.type_flags` in a zval, whose size this is; `IS_TYPE_REFCOUNTED`.
pub(super) const ZVAL: u64 = 16;
const TYPE: u64 = 8;
const TYPE_FLAGS: u64 = 9;
const REFCOUNTED: u8 = 1;

/// `gc.u.type_info` in what is counted: a type in the low four bits; `GC_IMMUTABLE`, which of a string means that it is interned.
const INFO: u64 = 4;
const INFO_TYPE: u32 = 0xf;
const IMMUTABLE: u32 = 1 << 6;

/// `IS_STRING` to `IS_REFERENCE`.
const STRING: u8 = 6;
const ARRAY: u8 = 7;
const OBJECT: u8 = 8;
const RESOURCE: u8 = 9;
const REFERENCE: u8 = 10;

/// Offset of `val` in `zend_reference`.
const REFERENCED: u64 = 8;
/// Offset of `nTableSize` in `zend_array`.
const TABLE_SIZE: u64 = 32;

/// Types of what counts its references, in the order of `IS_STRING` to `IS_REFERENCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sort {
    /// A string, a `zend_string`.
    Text,
    /// An array or a table of variables, a `zend_array`.
    Array,
    /// An object of any class, a `zend_object`.
    Object,
    /// A file, a connection.
    Resource,
    /// A variable that several share (`&$x`).
    Reference,
}

/// Something that values refer to and that counts its references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thing {
    /// Address of its `zend_refcounted`, with which each of these begins.
    pub address: u64,
    /// Its type, as the value that refers to it says.
    pub sort: Sort,
}

/// The key of an element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A number; a negative one as its two's complement.
    Index(u64),
    /// Address of a `zend_string`.
    Name(u64),
}

/// What a reference of one thing to another is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A value of an array.
    Value(Key),
    /// A string that is a key of an array.
    Key,
    /// A property of an object: its place in the object, counted from 0.
    Property(u64),
    /// The properties that an object's class does not declare, an array.
    Properties,
    /// What a reference refers to.
    Referent,
    /// The `$this` of a closure or a frame.
    This,
    /// The variables that a closure has captured or that are static in it, an array.
    Captured,
    /// A variable of a generator, with the `zend_string` of its name.
    Variable(u64),
    /// What an `SplObjectStorage` keeps beside an object that is in it.
    Data,
    /// What an object of a class written in C holds.
    Internal,
}

impl<M: Memory> Php<'_, M> {
    /// Returns what a zval leads to, if that is counted. A value that lies elsewhere is looked at there.
    pub fn counted(&self, zval: u64) -> Result<Option<Thing>, Fault> {
        let at = self.direct(zval)?;
        if self.memory.u8(at.wrapping_add(TYPE_FLAGS))? & REFCOUNTED == 0 {
            return Ok(None);
        }
        let sort = match self.memory.u8(at.wrapping_add(TYPE))? {
            STRING => Sort::Text,
            ARRAY => Sort::Array,
            OBJECT => Sort::Object,
            RESOURCE => Sort::Resource,
            REFERENCE => Sort::Reference,
            _ => return Ok(None),
        };
        Ok(Some(Thing {
            address: self.memory.u64(at)?,
            sort,
        }))
    }

    /// Returns the zval itself, or the one that it says its value lies in.
    pub fn direct(&self, zval: u64) -> Result<u64, Fault> {
        let indirect = self.heap_layout().indirect;
        match self.memory.u8(zval.wrapping_add(TYPE))? {
            kind if kind == indirect => self.memory.u64(zval),
            _ => Ok(zval),
        }
    }

    /// Returns how many references a thing is counted to have; `None` if it is of another sort, or cannot change.
    pub fn count(&self, thing: Thing) -> Result<Option<u32>, Fault> {
        let info = self.memory.u32(thing.address.wrapping_add(INFO))?;
        let kind = match thing.sort {
            Sort::Text => STRING,
            Sort::Array => ARRAY,
            Sort::Object => OBJECT,
            Sort::Resource => RESOURCE,
            Sort::Reference => REFERENCE,
        };
        if info & INFO_TYPE != u32::from(kind) || info & IMMUTABLE != 0 {
            return Ok(None);
        }
        self.memory.u32(thing.address).map(Some)
    }

    /// Calls `each` with what a thing refers to, of which at most `most` elements are looked at.
    ///
    /// # Errors
    /// Something of it could not be read; what precedes was told.
    pub fn references(
        &self,
        places: &Places,
        thing: Thing,
        most: u64,
        each: &mut dyn FnMut(Thing, Reference),
    ) -> Result<(), Error> {
        match thing.sort {
            Sort::Text | Sort::Resource => Ok(()),
            Sort::Array => self.each_value(thing.address, most, &mut |zval, key| {
                if let Key::Name(name) = key
                    && let Some(key) = self.key(name)?
                {
                    each(key, Reference::Key);
                }
                if let Some(value) = self.counted(zval)? {
                    each(value, Reference::Value(key));
                }
                Ok(())
            }),
            Sort::Object => self.of_object(places, thing.address, most, each),
            Sort::Reference => {
                if let Some(value) = self.counted(thing.address.wrapping_add(REFERENCED))? {
                    each(value, Reference::Referent);
                }
                Ok(())
            }
        }
    }

    /// Returns a key that is a string of the request's own.
    fn key(&self, name: u64) -> Result<Option<Thing>, Fault> {
        let key = Thing {
            address: name,
            sort: Sort::Text,
        };
        Ok(self.count(key)?.map(|_| key))
    }

    /// Calls `each` with the zval and key of each element of an array.
    pub(super) fn each_value(
        &self,
        array: u64,
        most: u64,
        each: &mut dyn FnMut(u64, Key) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let flags = self.memory.u32(array.wrapping_add(FLAGS))?;
        let used = u64::from(self.memory.u32(array.wrapping_add(USED))?);
        if flags & UNINITIALIZED != 0 {
            return Ok(());
        }
        if used > most {
            return Err(Error::garbled("array", array));
        }
        let data = self.memory.u64(array.wrapping_add(DATA))?;
        let is_packed = flags & PACKED != 0;
        if is_packed && self.heap_layout().packs_values {
            for index in 0..used {
                each(data.wrapping_add(index * ZVAL), Key::Index(index))?;
            }
            return Ok(());
        }
        for index in 0..used {
            let bucket = data.wrapping_add(index * BUCKET);
            if self.memory.u8(bucket.wrapping_add(TYPE))? == 0 {
                continue;
            }
            let key = match self.memory.u64(bucket.wrapping_add(KEY))? {
                0 => Key::Index(self.memory.u64(bucket.wrapping_add(HASH))?),
                name => Key::Name(name),
            };
            each(bucket, key)?;
        }
        Ok(())
    }

    /// Returns how many elements an array has, and for how many there is room.
    pub fn room(&self, array: u64) -> Result<(u32, u32), Fault> {
        let flags = self.memory.u32(array.wrapping_add(FLAGS))?;
        let count = self
            .memory
            .u32(array.wrapping_add(super::super::table::COUNT))?;
        let room = self.memory.u32(array.wrapping_add(TABLE_SIZE))?;
        let has_room = flags & UNINITIALIZED == 0;
        Ok((count, if has_room { room } else { 0 }))
    }

    /// Returns the block of memory that a thing itself lies in.
    pub fn block(&self, thing: Thing) -> Result<u64, Error> {
        match thing.sort {
            Sort::Object => self.block_of(thing.address),
            _ => Ok(thing.address),
        }
    }

    /// Calls `each` with the blocks of memory that a thing takes, its own first; of its elements at most `most` are looked at. What it has
    /// none of is 0.
    ///
    /// # Errors
    /// Something of it could not be read; what precedes was told.
    pub fn each_block(
        &self,
        places: &Places,
        thing: Thing,
        most: u64,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        each(self.block(thing)?);
        match thing.sort {
            Sort::Text | Sort::Resource | Sort::Reference => Ok(()),
            Sort::Array => {
                each(self.data_block(thing.address)?);
                Ok(())
            }
            Sort::Object => self.blocks_beside(places, thing.address, most, each),
        }
    }

    /// Returns the block that the elements of an array lie in; 0 if there is none.
    pub(super) fn data_block(&self, array: u64) -> Result<u64, Fault> {
        if self.memory.u32(array.wrapping_add(FLAGS))? & UNINITIALIZED != 0 {
            return Ok(0);
        }
        // The first of each chain lie before the elements.
        let mask = self
            .memory
            .u32(array.wrapping_add(MASK))?
            .cast_signed()
            .unsigned_abs();
        let data = self.memory.u64(array.wrapping_add(DATA))?;
        Ok(data.wrapping_sub(u64::from(mask) * 4))
    }

    /// Returns the text of a string.
    pub fn text(&self, at: u64) -> Result<Text, Error> {
        string(self.memory, at)
    }
}
