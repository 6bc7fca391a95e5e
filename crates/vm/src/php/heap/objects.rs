//! Objects: what their properties are called, and what those of the VM's own classes hold. Used by `roots`, and by
//! `languages::php::snapshot::walk`.
//!
//! ```text
//!   block ▶ │ what a class written in C keeps │ zend_object: refcount, handle, class, handlers, properties │ zval │ zval │ …
//!           └────────── handlers->offset ────────┘                                                         properties_table
//! ```

use super::super::fiber::CLASS;
use super::super::{CLASS_INFOS, Error, Php, Text};
use super::values::{Reference, Sort, Thing, ZVAL};
use super::{Key, Places};
use crate::{Fault, Memory};

/// `handlers`, `properties` and `properties_table` in `zend_object`; `offset` in `zend_object_handlers`.
const HANDLERS: u64 = 24;
const PROPERTIES: u64 = 32;
const TABLE: u64 = 40;
const OFFSET: u64 = 0;
/// Bytes before a `zend_object`, at most.
const MOST_BEFORE: u64 = 1 << 16;

/// `offset` and `flags` in `zend_property_info`; `ZEND_ACC_STATIC`.
const INFO_OFFSET: u64 = 0;
const INFO_FLAGS: u64 = 4;
const STATIC: u32 = 0x10;
/// Properties of one class, at most.
const MOST: u64 = 1 << 20;

/// Where the variables of a frame begin: behind `zend_execute_data`.
pub(super) const VARIABLES: u64 = 80;
/// `This` and its type information in `zend_execute_data`; `ZEND_CALL_RELEASE_THIS`.
const THIS: u64 = 32;
const INFO: u64 = 40;
const RELEASES_THIS: u32 = 1 << 21;
/// Offset of `func` in `zend_closure`.
const CLOSURE_FUNCTION: u64 = 56;

/// To whom a property belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Each object has one of its own.
    Object,
    /// The class has it: it is static.
    Class,
}

impl<M: Memory> Php<'_, M> {
    /// Returns the class of an object.
    pub fn class_of(&self, object: u64) -> Result<u64, Fault> {
        self.memory.u64(object.wrapping_add(CLASS))
    }

    /// Calls `each` with owner, place and name of each property that a class declares or inherits. `left` says how many entries may still be
    /// looked at, of all classes together, and becomes less.
    pub fn each_property(
        &self,
        class: u64,
        left: &mut u64,
        each: &mut dyn FnMut(Owner, u64, Text),
    ) -> Result<(), Error> {
        self.each_value(self.of_class(class, CLASS_INFOS), MOST, &mut |zval, key| {
            let less = left.checked_sub(1);
            *left = less.ok_or(Error::garbled("class", class))?;
            let info = self.memory.u64(zval)?;
            let offset = u64::from(self.memory.u32(info.wrapping_add(INFO_OFFSET))?);
            let is_static = self.memory.u32(info.wrapping_add(INFO_FLAGS))? & STATIC != 0;
            let Key::Name(name) = key else {
                return Ok(());
            };
            let name = self.text(name)?;
            match offset.checked_sub(TABLE) {
                // Of a static one it is the number itself.
                _ if is_static => each(Owner::Class, offset, name),
                Some(distance) => each(Owner::Object, distance / ZVAL, name),
                None => {}
            }
            Ok(())
        })
    }

    /// Returns the address of the block that an object lies in.
    pub(super) fn block_of(&self, object: u64) -> Result<u64, Error> {
        let handlers = self.memory.u64(object.wrapping_add(HANDLERS))?;
        let before = u64::from(self.memory.u32(handlers.wrapping_add(OFFSET))?);
        if before > MOST_BEFORE {
            return Err(Error::garbled("object", object));
        }
        Ok(object.wrapping_sub(before))
    }

    /// Calls `each` with the blocks that an object takes beside its own.
    pub(super) fn blocks_beside(
        &self,
        places: &Places,
        object: u64,
        most: u64,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        if self.class_of(object)? == places.generator {
            let (data, _) = self.layout.generator;
            each(self.memory.u64(object.wrapping_add(data))?);
        }
        match self.collection(places, object)? {
            Some(collection) => self.blocks_of_collection(collection, most, each),
            None => Ok(()),
        }
    }

    pub(super) fn of_object(
        &self,
        places: &Places,
        object: u64,
        most: u64,
        each: &mut dyn FnMut(Thing, Reference),
    ) -> Result<(), Error> {
        let class = self.class_of(object)?;
        let count = u64::from(
            self.memory
                .u32(class.wrapping_add(self.layout.class.counts))?,
        );
        if count > most.min(MOST) {
            return Err(Error::garbled("class", class));
        }
        for place in 0..count {
            let zval = object.wrapping_add(TABLE + place * ZVAL);
            if let Some(value) = self.counted(zval)? {
                each(value, Reference::Property(place));
            }
        }
        let properties = self.memory.u64(object.wrapping_add(PROPERTIES))?;
        self.table(properties, Reference::Properties, each)?;
        if class == places.closure {
            return self.of_closure(places, object, each);
        }
        if class == places.generator {
            let (data, _) = self.layout.generator;
            let frame = self.memory.u64(object.wrapping_add(data))?;
            return self.of_generator(frame, each);
        }
        match self.collection(places, object)? {
            Some(collection) => self.of_collection(collection, most, each),
            None => self.before_object(object, each),
        }
    }

    /// An array that a pointer and no zval leads to.
    fn table(
        &self,
        at: u64,
        name: Reference,
        each: &mut dyn FnMut(Thing, Reference),
    ) -> Result<(), Error> {
        let array = Thing {
            address: at,
            sort: Sort::Array,
        };
        if at != 0 && self.count(array)?.is_some() {
            each(array, name);
        }
        Ok(())
    }

    fn of_closure(
        &self,
        places: &Places,
        closure: u64,
        each: &mut dyn FnMut(Thing, Reference),
    ) -> Result<(), Error> {
        let layout = self.heap_layout();
        let function = closure.wrapping_add(CLOSURE_FUNCTION);
        if !self.is_internal(function)? {
            let statics = self.statics(places, function)?;
            self.table(statics, Reference::Captured, each)?;
        }
        let this = closure.wrapping_add(layout.closure_this);
        if let Some(value) = self.counted(this)? {
            each(value, Reference::This);
        }
        Ok(())
    }

    /// Returns the array of static variables of a function written in PHP; 0 if there is none yet.
    pub(super) fn statics(&self, places: &Places, function: u64) -> Result<u64, Error> {
        let at = function.wrapping_add(self.heap_layout().statics);
        Ok(self.mapped(places, self.memory.u64(at)?)?)
    }

    /// Returns what a pointer of a map leads to (`ZEND_MAP_PTR_GET`).
    pub(super) fn mapped(&self, places: &Places, pointer: u64) -> Result<u64, Fault> {
        let layout = self.heap_layout();
        if pointer == 0 {
            return Ok(0);
        }
        // The base of 8.x is one less than the address of the map.
        let odd = u64::from(layout.map_offset_is_odd);
        match (pointer & 1 != 0, layout.map_leads_to_pointer) {
            (true, _) => self.memory.u64(places.map.wrapping_add(pointer - odd)),
            (false, true) => self.memory.u64(pointer),
            (false, false) => Ok(pointer),
        }
    }

    fn of_generator(
        &self,
        frame: u64,
        each: &mut dyn FnMut(Thing, Reference),
    ) -> Result<(), Error> {
        // It has ended.
        if frame == 0 {
            return Ok(());
        }
        let function = self.function_of(frame)?;
        self.each_variable(frame, function, &mut |zval, name| {
            if let Some(value) = self.counted(zval)? {
                each(value, Reference::Variable(name));
            }
            Ok(())
        })?;
        if let Some(this) = self.counted_this(frame)? {
            each(this, Reference::This);
        }
        Ok(())
    }

    /// Returns the `$this` of a frame, if the frame counts it.
    pub(super) fn counted_this(&self, frame: u64) -> Result<Option<Thing>, Error> {
        let info = self.memory.u32(frame.wrapping_add(INFO))?;
        if info & RELEASES_THIS == 0 {
            return Ok(None);
        }
        let this = Thing {
            address: self.memory.u64(frame.wrapping_add(THIS))?,
            sort: Sort::Object,
        };
        Ok(self.count(this)?.map(|_| this))
    }

    /// Calls `each` with the zval and the name, a `zend_string`, of each variable of a frame of PHP code.
    pub(super) fn each_variable(
        &self,
        frame: u64,
        function: u64,
        each: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let layout = self.heap_layout();
        let count = self
            .memory
            .u32(function.wrapping_add(layout.variable_count))?;
        if u64::from(count) > MOST {
            return Err(Error::garbled("function", function));
        }
        let names = self.memory.u64(function.wrapping_add(layout.variables))?;
        for index in 0..u64::from(count) {
            let name = self.memory.u64(names.wrapping_add(index * 8))?;
            each(frame.wrapping_add(VARIABLES + index * ZVAL), name)?;
        }
        Ok(())
    }

    /// What a class written in C keeps before the object itself, as far as it keeps values there: words that are a value by their type and
    /// lead to something of that type.
    fn before_object(
        &self,
        object: u64,
        each: &mut dyn FnMut(Thing, Reference),
    ) -> Result<(), Error> {
        let mut at = self.block_of(object)?;
        while at.wrapping_add(ZVAL) <= object {
            if let Ok(Some(value)) = self.counted(at)
                && matches!(self.count(value), Ok(Some(1..)))
            {
                each(value, Reference::Internal);
                at = at.wrapping_add(ZVAL);
            } else {
                at = at.wrapping_add(8);
            }
        }
        Ok(())
    }
}
