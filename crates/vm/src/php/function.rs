//! Functions: their names, and which C function one is. Used by `languages::php::functions`.
//!
//! `zend_function` (`zend_compile.h`) is a union: its first byte says whether it is one of C's
//! (`zend_internal_function`) or of PHP's (`zend_op_array`). `EG(function_table)` leads to it by lower-case
//! name, `EG(class_table)` to classes and their own tables. The beginning is the same in all versions.

use core::fmt::Write;
use core::ops::ControlFlow;

use super::table::{Table, string};
use super::{CLASS_FUNCTIONS, CLASSES, Error, FUNCTIONS, Php, Text};
use crate::{Fault, Memory};

/// `type`, `fn_flags`, `function_name` and `scope` in `zend_function`.
const TYPE: u64 = 0;
const FLAGS: u64 = 4;
const NAME: u64 = 8;
const SCOPE: u64 = 16;

/// `ZEND_INTERNAL_FUNCTION`, the `type` of a function written in C.
const INTERNAL: u8 = 1;

/// `ZEND_ACC_CALL_VIA_TRAMPOLINE`, one of the flags: `zend_compile.h`.
const TRAMPOLINE: u32 = 1 << 18;

/// `name` in `zend_class_entry`: `zend.h`.
const CLASS_NAME: u64 = 8;

/// Bytes of the longest name that is searched for.
const LONGEST_NAME: usize = 512;

/// Bytes of a name that are written; longer names are cut.
const LONGEST_WRITTEN: u64 = 1 << 16;

/// What a name of a function leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// A function written in C.
    C(Internal),
    /// A function written in PHP.
    Php {
        /// Address of its `zend_op_array`.
        function: u64,
    },
}

/// A function of C, called as `void f(zend_execute_data *, zval *return_value)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Internal {
    /// Its `zend_internal_function`. Several names may share a handler (`mysqli_query` and `mysqli::query` do);
    /// `func` in the `zend_execute_data` tells them apart.
    pub function: u64,
    /// Address of the C function.
    pub handler: u64,
}

/// A name in lower case, as the tables have it.
struct Lower {
    bytes: [u8; LONGEST_NAME],
    len: usize,
}

impl Lower {
    fn new(name: &str) -> Option<Lower> {
        // A name may be given as fully qualified; the tables leave out the first backslash.
        let name = name.strip_prefix('\\').unwrap_or(name).as_bytes();
        let mut bytes = [0; LONGEST_NAME];
        let room = bytes.get_mut(..name.len())?;
        room.copy_from_slice(name);
        room.make_ascii_lowercase();
        Some(Lower {
            bytes,
            len: name.len(),
        })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<M: Memory> Php<'_, M> {
    /// Returns the function of this name: `mysqli_query`, `PDO::query`, `Name\Space\f`, in upper or lower case. A
    /// method is found in the class named and in those that inherit it.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        let (table, name) = match name.split_once("::") {
            Some((class, method)) => (self.class_functions(class)?, method),
            None => (self.names(FUNCTIONS)?, name),
        };
        let name = Lower::new(name).ok_or(Error::NoFunction)?;
        match self.get(table, &name)? {
            Some(zval) => self.function_at(self.memory.u64(zval)?),
            None => Err(Error::NoFunction),
        }
    }

    /// Returns the C function of this name.
    pub fn internal(&self, name: &str) -> Result<Internal, Error> {
        match self.function(name)? {
            Function::C(internal) => Ok(internal),
            Function::Php { .. } => Err(Error::WrittenInPhp),
        }
    }

    /// Calls `each` with every function's name, of a class if one is named, to look for near names. Names are
    /// in lower case.
    pub fn each_function(
        &self,
        class: Option<&str>,
        each: &mut dyn FnMut(Text, Function) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let table = match class {
            Some(class) => self.class_functions(class)?,
            None => self.names(FUNCTIONS)?,
        };
        for entry in Table::new(self.memory, table)?.entries() {
            let (name, zval) = entry?;
            if let Ok(function) = self.function_at(self.memory.u64(zval)?)
                && each(name, function).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with every class's name, in lower case.
    pub fn each_class(&self, each: &mut dyn FnMut(Text) -> ControlFlow<()>) -> Result<(), Error> {
        for entry in Table::new(self.memory, self.names(CLASSES)?)?.entries() {
            if each(entry?.0).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the address of the C function of a `zend_internal_function`.
    pub fn handler(&self, function: u64) -> Result<u64, Fault> {
        self.memory.u64(function.wrapping_add(self.layout.handler))
    }

    /// Returns what a `zend_function` is.
    fn function_at(&self, function: u64) -> Result<Function, Error> {
        Ok(if self.is_internal(function)? {
            Function::C(Internal {
                function,
                handler: self.handler(function)?,
            })
        } else {
            Function::Php { function }
        })
    }

    pub(super) fn is_internal(&self, function: u64) -> Result<bool, Fault> {
        // PHP code is 2, or 4 for what `eval` compiled: `ZEND_USER_CODE`.
        Ok(self.memory.u8(function.wrapping_add(TYPE))? == INTERNAL)
    }

    /// Whether somebody has written PHP code for a function: it is neither one of C nor what the engine calls in the place of a method that is
    /// missing, whose one operation stands at no line (`zend_get_call_trampoline_func`).
    pub fn is_written(&self, function: u64) -> Result<bool, Fault> {
        Ok(!self.is_internal(function)?
            && self.memory.u32(function.wrapping_add(FLAGS))? & TRAMPOLINE == 0)
    }

    fn class_functions(&self, class: &str) -> Result<u64, Error> {
        Ok(self.of_class(self.class(class)?, CLASS_FUNCTIONS))
    }

    /// Returns the `zend_class_entry` of a name.
    pub(super) fn class(&self, name: &str) -> Result<u64, Error> {
        let name = Lower::new(name).ok_or(Error::NoClass)?;
        match self.get(self.names(CLASSES)?, &name)? {
            Some(zval) => Ok(self.memory.u64(zval)?),
            None => Err(Error::NoClass),
        }
    }

    fn get(&self, table: u64, name: &Lower) -> Result<Option<u64>, Error> {
        let name = name.as_bytes();
        Table::new(self.memory, table)?.get(name, super::table::hash(name))
    }

    /// Returns the name of a function without its class; `None` for the code of a file.
    pub fn function_name(&self, function: u64) -> Result<Option<Text>, Error> {
        match self.memory.u64(function.wrapping_add(NAME))? {
            0 => Ok(None),
            name => string(self.memory, name).map(Some),
        }
    }

    /// Returns the name of the class that a function was declared in; `None` if it is no method.
    pub fn class_name(&self, function: u64) -> Result<Option<Text>, Error> {
        match self.memory.u64(function.wrapping_add(SCOPE))? {
            0 => Ok(None),
            class => self.name_of_class(class).map(Some),
        }
    }

    /// Returns the name of a class.
    pub fn name_of_class(&self, class: u64) -> Result<Text, Error> {
        string(
            self.memory,
            self.memory.u64(class.wrapping_add(CLASS_NAME))?,
        )
    }

    /// Writes `function`, `Class::method`, or `{main}` for the code of a file (and the bottom of a fiber).
    pub fn write_function_name(&self, function: u64, out: &mut dyn Write) -> Result<(), Error> {
        let Some(name) = self.function_name(function)? else {
            return Ok(out.write_str("{main}")?);
        };
        if let Some(class) = self.class_name(function)? {
            self.write_text(class, LONGEST_WRITTEN, out)?;
            out.write_str("::")?;
        }
        self.write_text(name, LONGEST_WRITTEN, out)
    }
}
