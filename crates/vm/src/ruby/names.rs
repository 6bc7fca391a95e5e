//! Names of all constants that a module has, and of all its methods that are written in C. Used by `locks`.

use core::ops::ControlFlow;

use super::class::LONGEST_LINE;
use super::function::{CONSTANT_VALUE, Found, Function, MOST_NAMES, OWNER, spend};
use super::object::{Type, is_object};
use super::{Error, Ruby, Text};
use crate::Memory;

impl<M: Memory> Ruby<'_, M> {
    /// Returns the same reader with the VM's symbol table searched for, if it was not found before; names need it.
    pub fn with_names(self) -> Result<Self, Error> {
        self.with_symbols()
    }

    /// Calls `each` with the name and value of every constant of a class or module, its ancestors' left out.
    pub fn each_constant(
        &self,
        module: u64,
        each: &mut dyn FnMut(Text, u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut left = MOST_NAMES;
        for item in self.constants(module)? {
            let (serial, entry) = item?;
            spend(&mut left)?;
            let value = self.memory.u64(entry.wrapping_add(CONSTANT_VALUE))?;
            if let Some(name) = self.serial_text(serial)?
                && each(name, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether a value is a class or module, which has constants and methods.
    pub fn is_module(&self, value: u64) -> bool {
        is_object(value) && matches!(self.type_of(value), Ok(Type::Class | Type::Module))
    }

    /// Returns the class that holds a value's own methods, those of `Module.method`; `None` if it has none of its own.
    pub fn singleton(&self, value: u64) -> Result<Option<u64>, Error> {
        let class = self.klass(value)?;
        let flags = self.flags(class)?;
        let own = Type::of(flags) == Type::Class && flags & self.layout.class.singleton != 0;
        // A class without a singleton class refers to that of an ancestor.
        Ok((own && self.attached(class)? == value).then_some(class))
    }

    /// Calls `each` with the name of every method that a class or module has itself and that is written in C.
    pub fn each_function(
        &self,
        class: u64,
        each: &mut dyn FnMut(Text, Function) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (mut at, mut left) = (class, MOST_NAMES);
        for _ in 0..LONGEST_LINE {
            spend(&mut left)?;
            for item in self.methods(at)? {
                let (serial, entry) = item?;
                spend(&mut left)?;
                if self.memory.u64(entry.wrapping_add(OWNER))? != class {
                    continue;
                }
                let Ok(Found::Definition { definition, owner }) = self.definition(entry) else {
                    continue;
                };
                if let Ok(function) = self.c_function(definition, owner)
                    && let Some(name) = self.serial_text(serial)?
                    && each(name, function).is_break()
                {
                    return Ok(());
                }
            }
            // Where modules were prepended, its own table is behind theirs.
            at = self.parent(at)?;
            if at == 0 || self.type_of(at)? != Type::Iclass {
                return Ok(());
            }
        }
        Err(Error::garbled("line of ancestors", class))
    }
}
