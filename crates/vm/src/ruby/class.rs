//! Names of classes, read from the VM's own structures. Used by `function` and `names`.
//!
//! Ruby programs override `name`, `to_s`, `class`, and a BasicObject has none of them; so the name is
//! taken from where the VM itself keeps it. That is `classname` (`variable.c`): up to 3.2 the hidden
//! instance variables `__classpath__` (permanent: reached from a constant of a named module) and
//! `__tmp_classpath__` (reached from a constant of an anonymous one), since 3.3 one field. A class
//! without any is called by its address, as `make_temporary_path` does.

use core::fmt::Write;

use super::layout::Naming;
use super::object::{Type, is_object};
use super::{Error, Ruby};
use crate::{Fault, Memory};

/// More ancestors than any class has.
pub(super) const LONGEST_LINE: u32 = 1 << 16;

/// Singleton classes of singleton classes, or anonymous modules in anonymous classes, that are followed.
const DEEPEST_NAME: u32 = 8;

/// Bytes of a name; a longer one is cut.
const LONGEST_NAME: u64 = 1 << 16;

/// A hidden variable of a class.
#[derive(Clone, Copy)]
enum Hidden {
    Path,
    TemporaryPath,
    Attached,
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns the class of an object as `rb_obj_class` does: past singleton classes and iclasses. `None` for a hidden
    /// object and for an imemo.
    pub fn class_of(&self, object: u64) -> Result<Option<u64>, Error> {
        match Type::of(self.flags(object)?) {
            Type::Imemo | Type::None | Type::Moved | Type::Zombie | Type::Node => Ok(None),
            _ => self.real_class(self.klass(object)?),
        }
    }

    /// Returns the first class that is neither singleton class nor iclass, from `klass` up (`rb_class_real`,
    /// `object.c`).
    #[inline]
    pub fn real_class(&self, klass: u64) -> Result<Option<u64>, Error> {
        let mut class = klass;
        for _ in 0..LONGEST_LINE {
            if class == 0 {
                return Ok(None);
            }
            let flags = self.flags(class)?;
            match Type::of(flags) {
                Type::Class if flags & self.layout.class.singleton == 0 => return Ok(Some(class)),
                Type::Class | Type::Iclass => {
                    class = self.parent(class)?;
                }
                _ => return Err(Error::garbled("class", class)),
            }
        }
        Err(Error::garbled("line of ancestors", klass))
    }

    /// Returns the class that a class was made from, past singleton classes and iclasses; `None` above `BasicObject`.
    pub fn superclass(&self, class: u64) -> Result<Option<u64>, Error> {
        self.real_class(self.parent(class)?)
    }

    /// Returns the next in a class's line of ancestors, singleton classes and iclasses among them: `super`; 0 at its end.
    #[inline]
    pub(super) fn parent(&self, class: u64) -> Result<u64, Fault> {
        self.memory
            .u64(class.wrapping_add(self.layout.class.superclass))
    }

    /// Writes the type of an object as a table of objects names it: the name of its class; for an object without one
    /// its type between underscores: `__imemo:iseq__`, `__iclass__`, `__string__`.
    pub fn write_type(&self, object: u64, out: &mut dyn Write) -> Result<(), Error> {
        let flags = self.flags(object)?;
        match Type::of(flags) {
            Type::Imemo => out.write_str(self.imemo(flags).name())?,
            Type::Iclass => out.write_str(Type::Iclass.hidden_name())?,
            other => match self.class_of(object)? {
                Some(class) => self.write_class_name(class, out)?,
                None => out.write_str(other.hidden_name())?,
            },
        }
        Ok(())
    }

    /// Writes the name of a class or module, as `Module#inspect` does where it is not overridden: `Foo::Bar`,
    /// `#<Class:0x00007f…>`, `#<Module:0x00007f…>`, and for a singleton class `#<Class:Foo>` or
    /// `#<Class:#<Foo:0x00007f…>>`. An anonymous module of class `Kind` is `#<Kind:0x00007f…>` whether or not it has a
    /// singleton class.
    pub fn write_class_name(&self, class: u64, out: &mut dyn Write) -> Result<(), Error> {
        self.write_name(class, DEEPEST_NAME, out)
    }

    /// Returns the String that is the name of a class or module, if it has one.
    pub fn class_path(&self, class: u64) -> Result<Option<u64>, Error> {
        let path = self.hidden(class, Hidden::Path)?;
        // Since 3.3 one field holds either name.
        match (path, self.layout.class.naming) {
            (None, Naming::Table(_) | Naming::Shape(_)) => {
                self.hidden(class, Hidden::TemporaryPath)
            }
            _ => Ok(path),
        }
    }

    fn write_name(&self, class: u64, depth: u32, out: &mut dyn Write) -> Result<(), Error> {
        let flags = self.flags(class)?;
        let kind = Type::of(flags);
        if !matches!(kind, Type::Class | Type::Module | Type::Iclass) || depth == 0 {
            return Err(Error::garbled("class or module", class));
        }
        if kind == Type::Class && flags & self.layout.class.singleton != 0 {
            let object = self.attached(class)?;
            out.write_str("#<Class:")?;
            match self.type_of(object)? {
                Type::Class | Type::Module => self.write_name(object, depth - 1, out)?,
                Type::None => write!(out, "0x{class:016x}")?,
                _ => {
                    out.write_str("#<")?;
                    self.write_type(object, out)?;
                    write!(out, ":0x{object:016x}>")?;
                }
            }
            out.write_str(">")?;
            return Ok(());
        }
        if let Some(path) = self.class_path(class)? {
            return self.write_text(self.text(path)?, LONGEST_NAME, out);
        }
        out.write_str("#<")?;
        match kind {
            Type::Module => match self.class_of(class)? {
                Some(own) if own != self.facts.module() => {
                    self.write_name(own, depth - 1, out)?;
                }
                _ => out.write_str("Module")?,
            },
            _ => out.write_str("Class")?,
        }
        write!(out, ":0x{class:016x}>")?;
        Ok(())
    }

    /// Returns the object that a singleton class belongs to. For any other class this is whatever the VM keeps in the
    /// same field (`RCLASS_ATTACHED_OBJECT`), so it may only be compared.
    pub(super) fn attached(&self, class: u64) -> Result<u64, Error> {
        Ok(self.hidden(class, Hidden::Attached)?.unwrap_or(0))
    }

    /// Returns the address of the `rb_classext_t`, as `RCLASS_EXT` does.
    pub(super) fn extension(&self, class: u64) -> Result<u64, Fault> {
        let at = class.wrapping_add(self.layout.class.extension);
        if self.layout.class.extension_is_pointer {
            self.memory.u64(at)
        } else {
            Ok(at)
        }
    }

    fn hidden(&self, class: u64, which: Hidden) -> Result<Option<u64>, Error> {
        let extension = self.extension(class)?;
        if extension == 0 {
            return Ok(None);
        }
        let id = match which {
            Hidden::Path => self.facts.path_id(),
            Hidden::TemporaryPath => self.facts.temporary_path_id(),
            Hidden::Attached => self.facts.attached_id(),
        };
        let value = match self.layout.class.naming {
            Naming::Field { path, attached } => {
                let at = if matches!(which, Hidden::Attached) {
                    attached
                } else {
                    path
                };
                Some(self.memory.u64(extension.wrapping_add(at))?)
            }
            _ => self
                .variable(class, extension, |key, _| key == id)?
                .map(|(_, value)| value),
        };
        Ok(value.filter(|&value| is_object(value)))
    }

    /// Returns the first instance variable of a class, hidden or not, that is `wanted` by its ID and value. Since 3.3
    /// only where the list of shapes is known ([`Facts::with_shapes`](super::Facts::with_shapes)).
    pub(super) fn variable(
        &self,
        class: u64,
        extension: u64,
        wanted: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<(u64, u64)>, Error> {
        match self.layout.class.naming {
            Naming::Field { .. } if self.facts.shapes() == 0 => Ok(None),
            Naming::Field { .. } | Naming::Shape(_) => match self.class_fields() {
                Some(at) => match self.memory.u64(extension.wrapping_add(at))? {
                    0 => Ok(None),
                    fields => self.shaped_in(fields, self.flags(fields)?, wanted),
                },
                None => {
                    let values = self.memory.u64(extension)?;
                    self.shaped(self.flags(class)?, values, wanted)
                }
            },
            Naming::Table(at) => {
                let table = self.memory.u64(extension.wrapping_add(at))?;
                self.in_table(table, wanted)
            }
        }
    }
}
