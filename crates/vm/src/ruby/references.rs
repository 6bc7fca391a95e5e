//! What the references from one object to others are called: instance variables, elements, keys, constants, locals.
//! Used by `locals`, `sizes` and others here, and by crate `languages`.
//!
//! Which references there are, only the VM knows (its mark functions, and those of C extensions). Here is read where named ones are
//! kept, so that names can be given to those that the VM tells.
//!
//! ```text
//!   RObject    to 3.1   flags klass │ count @16 │ values @24 │ table of ID → index @32     or three values @16 (ROBJECT_EMBED)
//!              since    flags klass │ values @16 …                                         or the values themselves @16; IDs by shape, or since 4.0 of
//!                      too many variables a table of ID → value
//!   RStruct             flags klass │ count @16 │ values @24                               or the values @16 (their number in the flags)
//!   imemo:env           flags iseq @8 │ ep @16 │ env @24 │ env_size @32 (u32)              locals first, then three words
//! ```
//!
//! Sources: `include/ruby/internal/core/robject.h`, `internal/struct.h`, `vm_core.h`, `variable.c`, `constant.h` (2.7: `include/ruby/ruby.h`,
//! `internal.h`).

use super::object::{Imemo, Type, USER_SHIFT, is_object};
use super::table::StTable;
use super::{Error, Ruby};
use crate::Memory;

/// `ROBJECT_EMBED`, `ROBJECT_EMBED_LEN_MAX` (to 3.1).
const EMBEDDED: u64 = 1 << (USER_SHIFT + 1);
const EMBEDDED_MOST: u64 = 3;
/// `as.ary`, `as.heap.ivptr` since 3.2; `as.heap.numiv`; `as.heap.ivptr` and `as.heap.iv_index_tbl` to 3.1.
const VALUES: u64 = 16;
const COUNT: u64 = 16;
const HEAP_VALUES: u64 = 24;
const HEAP_TABLE: u64 = 32;

/// `RSTRUCT_EMBED_LEN_SHIFT`; the mask has two bits to 3.2 and seven since.
pub(super) const MEMBERS_SHIFT: u32 = USER_SHIFT + 1;

/// `iseq`, `env`, `env_size` of `rb_env_t`; `VM_ENV_DATA_SIZE`.
const ENV_CODE: u64 = 8;
const ENV: u64 = 24;
const ENV_SIZE: u64 = 32;
const ENV_DATA: u64 = 3;
/// From `insns_info.body` to `local_table` in `struct rb_iseq_constant_body`.
pub(super) const LOCALS: u64 = 32;
/// Offset of `body` in `rb_iseq_t`: the address of its `struct rb_iseq_constant_body`.
const BODY: u64 = 16;

/// Offset of `value` in `rb_const_entry_t`.
const CONSTANT: u64 = 8;

/// What a reference is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The variable with this ID: of an instance, or of a class (`@name`, `@@name`).
    Variable(u64),
    /// The element of an Array at this index.
    Element(u64),
    /// The key of a pair of a Hash.
    Key,
    /// The value of a pair whose key is this `VALUE`.
    Value(u64),
    /// The member of a Struct at this index.
    Member(u64),
    /// The constant whose name has this serial number.
    Constant(u32),
    /// The method whose name has this serial number.
    Method(u32),
    /// The superclass, or the module in between.
    Superclass,
    /// The value that a thread has under the name with this serial number.
    ThreadLocal(u32),
    /// The local variable with this ID, in an environment.
    Local(u64),
    /// The local variable with this ID, of a method or block that runs this code (an `rb_iseq_t`).
    FrameLocal(u64, u64),
}

impl<M: Memory> Ruby<'_, M> {
    /// Calls `each` with the named references of an object, as far as they are known for its type, at most `most` of a list or table.
    /// Values that are no objects are left out.
    pub fn references(
        &self,
        object: u64,
        most: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let flags = self.flags(object)?;
        let mut only_objects = |target: u64, name| {
            if is_object(target) {
                each(target, name);
            }
        };
        match Type::of(flags) {
            Type::Object => self.variables(object, flags, &mut only_objects),
            Type::Array => {
                let elements = self.elements(object)?;
                self.words(elements.address, elements.len.min(most), |index, target| {
                    only_objects(target, Reference::Element(index));
                })
            }
            Type::Hash => {
                for pair in self.first_pairs(object, most)?.1 {
                    let (key, value) = pair?;
                    only_objects(key, Reference::Key);
                    only_objects(value, Reference::Value(key));
                }
                Ok(())
            }
            Type::Struct => self.members(object, flags, most, &mut only_objects),
            Type::Class | Type::Module => self.of_class(object, &mut only_objects),
            Type::Iclass => {
                only_objects(self.parent(object)?, Reference::Superclass);
                Ok(())
            }
            Type::Imemo if self.imemo(flags) == Imemo::Env => {
                self.locals(object, most, &mut only_objects)
            }
            _ => Ok(()),
        }
    }

    /// Calls `each` with index and value of the `len` words from `at` on.
    fn words(&self, at: u64, len: u64, mut each: impl FnMut(u64, u64)) -> Result<(), Error> {
        for index in 0..len {
            each(
                index,
                self.memory.u64(at.wrapping_add(index.wrapping_mul(8)))?,
            );
        }
        Ok(())
    }

    /// Instance variables of a plain object.
    fn variables(
        &self,
        object: u64,
        flags: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let at = |offset| self.memory.u64(object.wrapping_add(offset));
        if self.has_shapes() {
            return self.each_shaped(object, flags, &mut |id, value| {
                each(value, Reference::Variable(id));
            });
        }
        let (values, count, table) = if self.has_variables_in_slot(flags) {
            let class = self.class_of(object)?.unwrap_or(0);
            // `iv_index_tbl` is the first word of `rb_classext_t`.
            let table = self.memory.u64(self.extension(class)?)?;
            (object.wrapping_add(VALUES), EMBEDDED_MOST, table)
        } else {
            let count = u64::from(self.memory.u32(object.wrapping_add(COUNT))?);
            (at(HEAP_VALUES)?, count, at(HEAP_TABLE)?)
        };
        for entry in StTable::new(self.memory, table)? {
            let (id, index) = entry?;
            // Since 3.0 the entry is a `struct rb_iv_index_tbl_entry *`, whose first field is the index.
            let index = if self.layout.version >= (3, 0) {
                u64::from(self.memory.u32(index)?)
            } else {
                index
            };
            if index < count {
                let value = self.memory.u64(values.wrapping_add(index * 8))?;
                each(value, Reference::Variable(id));
            }
        }
        Ok(())
    }

    /// Whether shapes say where the values of instance variables are.
    pub(super) fn has_shapes(&self) -> bool {
        self.layout.shapes.is_some()
    }

    /// Calls `each` with ID and value of each instance variable of a plain object, where shapes say where they are.
    pub(super) fn each_shaped(
        &self,
        object: u64,
        flags: u64,
        each: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        self.shaped_in(object, flags, |id, value| {
            each(id, value);
            false
        })?;
        Ok(())
    }

    /// Whether the instance variables of a plain object with these flags lie in its slot.
    pub(super) fn has_variables_in_slot(&self, flags: u64) -> bool {
        match self.layout.shapes.as_ref().and_then(|shapes| shapes.apart) {
            Some(apart) => flags & apart == 0,
            None => flags & EMBEDDED != 0,
        }
    }

    /// Returns the first of the variables placed by shape that is `wanted` by its ID and value, of a plain object or an object of the
    /// VM's own that is laid out like one.
    pub(super) fn shaped_in(
        &self,
        object: u64,
        flags: u64,
        wanted: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<(u64, u64)>, Error> {
        let at = object.wrapping_add(VALUES);
        let values = if self.has_variables_in_slot(flags) {
            at
        } else {
            self.memory.u64(at)?
        };
        self.shaped(flags, values, wanted)
    }

    /// The bits that say how many members of a Struct lie in it, moved down.
    pub(super) fn members_mask(&self) -> u64 {
        if self.layout.version >= (3, 3) {
            0x7f
        } else {
            3
        }
    }

    fn members(
        &self,
        object: u64,
        flags: u64,
        most: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let (values, count) = match flags >> MEMBERS_SHIFT & self.members_mask() {
            0 => (
                self.memory.u64(object.wrapping_add(HEAP_VALUES))?,
                self.memory.u64(object.wrapping_add(COUNT))?,
            ),
            count => (object.wrapping_add(VALUES), count),
        };
        self.words(values, count.min(most), |index, target| {
            each(target, Reference::Member(index));
        })
    }

    fn of_class(&self, class: u64, each: &mut dyn FnMut(u64, Reference)) -> Result<(), Error> {
        each(self.parent(class)?, Reference::Superclass);
        for constant in self.constants(class)? {
            let (serial, entry) = constant?;
            let value = self.memory.u64(entry.wrapping_add(CONSTANT))?;
            each(value, Reference::Constant(serial));
        }
        for method in self.methods(class)? {
            let (serial, entry) = method?;
            each(entry, Reference::Method(serial));
        }
        let extension = self.extension(class)?;
        self.variable(class, extension, |id, value| {
            each(value, Reference::Variable(id));
            false
        })?;
        Ok(())
    }

    /// Local variables in an environment that has outlived its frame, or that a block has.
    fn locals(
        &self,
        env: u64,
        most: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let code = self.memory.u64(env.wrapping_add(ENV_CODE))?;
        let values = self.memory.u64(env.wrapping_add(ENV))?;
        let size = u64::from(self.memory.u32(env.wrapping_add(ENV_SIZE))?);
        let body = self.memory.u64(code.wrapping_add(BODY))?;
        let names = body.wrapping_add(self.layout.iseq.insns_info + LOCALS);
        let names = self.memory.u64(names)?;
        let count = size.saturating_sub(ENV_DATA).min(most);
        self.named_words(values, names, count, &mut |value, id| {
            each(value, Reference::Local(id));
        })
    }
}
