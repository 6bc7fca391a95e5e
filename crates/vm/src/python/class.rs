//! Classes: `PyTypeObject` and `PyHeapTypeObject` (`Include/cpython/object.h`). Used by `extra_sizes`,
//! `hidden_references`, `kind` and others.
//!
//! A class made in C has its whole name in `tp_name`, module first; one made in Python only its own, and
//! its module in its dict. Since 3.12 the dict of a static type may be the interpreter's, not the type's
//! (`lookup_tp_dict`, `Objects/typeobject.c`): the type then has its number there in `tp_subclasses`.

use core::fmt::Write;

use super::object::{Builtin, HEAP_TYPE, OB_SIZE};
use super::{Error, Python};
use crate::Memory;

/// `tp_name`, `tp_base`, `tp_dict`, `tp_mro`, `tp_subclasses`.
const NAME: u64 = 24;
pub(super) const BASE: u64 = 256;
const DICT: u64 = 264;
pub(super) const MRO: u64 = 344;
pub(super) const SUBCLASSES: u64 = 360;

/// In `tp_flags`: `_Py_TPFLAGS_STATIC_BUILTIN` (`Include/object.h`, since 3.12), a static type of CPython's own.
const STATIC: u64 = 1 << 1;

/// Bytes of the longest name, and ancestors of one class, that are read.
pub(super) const LONGEST_NAME: usize = 512;
pub(super) const MOST_BASES: u32 = 256;

/// `_Py_MAX_MANAGED_STATIC_BUILTIN_TYPES` and the like are 200 to 268.
pub(super) const MOST_STATICS: u64 = 1024;

impl<M: Memory> Python<'_, M> {
    /// Writes the name of a class, with its module if that is not `builtins`.
    pub fn write_class_name(&self, class: u64, out: &mut dyn Write) -> Result<(), Error> {
        let mut name = [0; LONGEST_NAME];
        let name = self.raw_name(class, &mut name)?;
        if self.flags(class)? & HEAP_TYPE != 0 && !name.contains(&b'.') {
            if let Some(module) = self.own_attribute(class, "__module__")?
                && let Ok(module) = self.text(module)
                && !self.ends_as(module, 0, "builtins")?
            {
                self.write_text(module, LONGEST_NAME as u64, out)?;
                out.write_char('.')?;
            }
            let at = class.wrapping_add(self.layout.type_qualname);
            let qualname = self.text(self.memory.u64(at)?)?;
            return self.write_text(qualname, LONGEST_NAME as u64, out);
        }
        for chunk in name.utf8_chunks() {
            out.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                out.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }

    /// Returns `tp_name` of a class.
    pub(super) fn raw_name<'b>(
        &self,
        class: u64,
        room: &'b mut [u8; LONGEST_NAME],
    ) -> Result<&'b [u8], Error> {
        self.c_string(self.memory.u64(self.field(class, NAME))?, room)
    }

    /// Returns the bytes before the 0 at `at`, as many as there is room for.
    pub(super) fn c_string<'b>(
        &self,
        at: u64,
        room: &'b mut [u8; LONGEST_NAME],
    ) -> Result<&'b [u8], Error> {
        let mut len = 0;
        while len < room.len() {
            let byte = self.memory.u8(at.wrapping_add(len as u64))?;
            if byte == 0 {
                break;
            }
            room[len] = byte;
            len += 1;
        }
        Ok(&room[..len])
    }

    /// Returns whether a class is `base` or has its memory laid out as `base` has.
    pub(super) fn inherits(&self, class: u64, base: u64) -> Result<bool, Error> {
        let mut class = class;
        for _ in 0..MOST_BASES {
            if class == base {
                return Ok(true);
            }
            if class == 0 {
                return Ok(false);
            }
            class = self.memory.u64(self.field(class, BASE))?;
        }
        Err(Error::garbled("class", class))
    }

    /// Returns what a class or one that it inherits from has under `name`, looked up as `type.__getattribute__` does,
    /// without binding it.
    pub(super) fn attribute_of_class(&self, class: u64, name: &str) -> Result<Option<u64>, Error> {
        let mro = self.memory.u64(self.field(class, MRO))?;
        if mro == 0 {
            return self.own_attribute(class, name);
        }
        if !self.is(mro, Builtin::Tuple)? {
            return Err(Error::garbled("tp_mro", mro));
        }
        let size = self.memory.u64(self.field(mro, OB_SIZE))?;
        for index in 0..size.min(u64::from(MOST_BASES)) {
            let at = mro.wrapping_add(self.layout.tuple_items + index * 8);
            let found = self.own_attribute(self.memory.u64(at)?, name)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn own_attribute(&self, class: u64, name: &str) -> Result<Option<u64>, Error> {
        match self.dict_of_class(class)? {
            0 => Ok(None),
            dict => self.value_of(dict, name),
        }
    }

    /// Returns the dict of a class, or 0.
    pub fn dict_of_class(&self, class: u64) -> Result<u64, Error> {
        let dict = self.memory.u64(self.field(class, DICT))?;
        let Some(statics) = &self.layout.interpreter.statics else {
            return Ok(dict);
        };
        if dict != 0 || self.flags(class)? & STATIC == 0 {
            return Ok(dict);
        }
        let number = self
            .memory
            .u64(self.field(class, SUBCLASSES))?
            .wrapping_sub(1);
        if number >= MOST_STATICS {
            return Ok(0);
        }
        let Some(builtins) = self.facts.statics() else {
            return Ok(0);
        };
        let array = self.main_interpreter()?.wrapping_add(builtins);
        let extensions = statics.extensions.map(|far| array.wrapping_add(far));
        for array in [Some(array), extensions].into_iter().flatten() {
            let state = array.wrapping_add(number * statics.size);
            if self.memory.u64(state) == Ok(class) {
                return Ok(self.memory.u64(state.wrapping_add(statics.dict))?);
            }
        }
        Ok(0)
    }
}
