//! Names of all modules, and of all attributes that a module or class has.

use core::ops::ControlFlow;

use super::function::MODULE_DICT;
use super::object::Builtin;
use super::{Error, Python, Text};
use crate::Memory;

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with the name of every module that is loaded.
    pub fn each_module(
        &self,
        each: &mut dyn FnMut(Text, u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.each_name(self.modules()?, each)
    }

    /// Calls `each` with every name in the dict of a module or class, without what it inherits. Other objects have
    /// none.
    pub fn each_attribute(
        &self,
        object: u64,
        each: &mut dyn FnMut(Text, u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let dict = if self.is_class(object)? {
            self.dict_of_class(object)?
        } else if self.inherits(self.type_of(object)?, self.facts().types().module)? {
            self.memory.u64(self.field(object, MODULE_DICT))?
        } else {
            0
        };
        match dict {
            0 => Ok(()),
            dict => self.each_name(dict, each),
        }
    }

    /// Returns whether an object is a class.
    pub fn is_class(&self, object: u64) -> Result<bool, Error> {
        self.is(object, Builtin::Type)
    }

    fn each_name(
        &self,
        dict: u64,
        each: &mut dyn FnMut(Text, u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        for entry in self.names(dict)? {
            let (key, value) = entry?;
            if self.is(key, Builtin::Str)? && each(self.text(key)?, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
