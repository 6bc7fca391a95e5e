//! Functions by name: from `time.sleep` to the C function that does it, and how Python calls that. Used by `at_exit`,
//! `names` and others here, and by crate `languages`.
//!
//! A name is looked up as Python would: `sys.modules`, then dicts of modules and classes. What is found may
//! be a builtin function (`PyCFunctionObject`), a method of a class made in C (`PyMethodDescrObject`), a
//! slot of such a class (`PyWrapperDescrObject`), one of these in a `staticmethod` or `classmethod`, or a
//! function of Cython, which begins as a `PyCFunctionObject` does. `Include/methodobject.h`,
//! `cpython/methodobject.h`, `cpython/descrobject.h` (3.9: `descrobject.h`).

use super::class::LONGEST_NAME;
use super::object::{Builtin, OB_SIZE};
use super::{Error, Python};
use crate::Memory;

/// Offset of `md_dict` in `PyModuleObject`: the dict of what the module defines.
pub(super) const MODULE_DICT: u64 = 16;
/// `m_ml` in `PyCFunctionObject`; `im_func`, `sm_callable`, `cm_callable` in what wraps a function.
const BUILTIN_DEFINITION: u64 = 16;
const WRAPPED: u64 = 16;
/// `d_method` in `PyMethodDescrObject`, `d_wrapped` in `PyWrapperDescrObject`.
const METHOD_DEFINITION: u64 = 40;
const SLOT_FUNCTION: u64 = 48;
/// `ml_meth`, `ml_flags` in `PyMethodDef`.
const DEFINITION_FUNCTION: u64 = 8;
const DEFINITION_FLAGS: u64 = 16;

/// `METH_CLASS`, `METH_STATIC`, `METH_COEXIST`: how it is bound, not how it is called.
const BINDING: u32 = 0x70;

/// Wrappers around wrappers that are followed, at most.
const MOST_WRAPPERS: u32 = 8;

/// How Python calls a C function: `METH_…` (`Include/methodobject.h`). All begin with `self` in `rdi`: the
/// object, or for a function of a module the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// `METH_VARARGS`: `rsi` is a tuple of the arguments.
    Tuple,
    /// `METH_VARARGS | METH_KEYWORDS`: and `rdx` a dict or 0.
    TupleKeywords,
    /// `METH_FASTCALL`: `rsi` points at the arguments, `rdx` is their number.
    Fast,
    /// `METH_FASTCALL | METH_KEYWORDS`: and `rcx` is a tuple of names or 0, whose values follow the
    /// arguments.
    FastKeywords,
    /// `METH_METHOD | METH_FASTCALL | METH_KEYWORDS`: the same one register later; `rsi` is the class.
    Method,
    /// `METH_NOARGS`: there are no arguments, and `rsi` is 0.
    None,
    /// `METH_O`: `rsi` is the one argument.
    One,
    /// A slot of a type: its signature is that of its place (`reprfunc`, `binaryfunc`, …).
    Slot,
}

impl Convention {
    fn of(flags: u32) -> Option<Convention> {
        Some(match flags & !BINDING {
            0x01 => Convention::Tuple,
            0x03 => Convention::TupleKeywords,
            0x04 => Convention::None,
            0x08 => Convention::One,
            0x80 => Convention::Fast,
            0x82 => Convention::FastKeywords,
            0x282 => Convention::Method,
            _ => return None,
        })
    }
}

/// A C function that Python knows by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The object that was found.
    pub object: u64,
    /// Address of the C function.
    pub address: u64,
    /// How Python calls it.
    pub convention: Convention,
}

impl<M: Memory> Python<'_, M> {
    /// Returns the C function behind a name: `time.sleep`, `_mysql.connection.query`, `len`.
    ///
    /// The first part is a module by its whole name (`MySQLdb._mysql`), or by the end of it if one module alone ends so
    /// (`_mysql`), or a builtin (`len`, `list.append`). Only what is loaded is found.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        self.function_at(self.lookup(name)?)
    }

    /// Returns the C function of an object.
    pub fn function_at(&self, object: u64) -> Result<Function, Error> {
        let types = self.facts.types();
        let mut found = object;
        for _ in 0..MOST_WRAPPERS {
            let class = self.type_of(found)?;
            let definition = if class == types.function {
                let at = found.wrapping_add(self.layout.function_code);
                let code = self.memory.u64(at)?;
                return Err(Error::WrittenInPython { code });
            } else if class == types.slot {
                return Ok(Function {
                    object,
                    address: self.memory.u64(found.wrapping_add(SLOT_FUNCTION))?,
                    convention: Convention::Slot,
                });
            } else if class == types.method || class == types.class_method {
                METHOD_DEFINITION
            } else if class == types.bound
                || class == types.made_static
                || class == types.made_class
            {
                found = self.memory.u64(found.wrapping_add(WRAPPED))?;
                continue;
            } else if self.inherits(class, types.builtin)? || self.is_of_cython(class)? {
                BUILTIN_DEFINITION
            } else {
                return Err(Error::NotAFunction { object });
            };
            let definition = self.memory.u64(found.wrapping_add(definition))?;
            let flags = self.memory.u32(definition.wrapping_add(DEFINITION_FLAGS))?;
            return Ok(Function {
                object,
                address: self
                    .memory
                    .u64(definition.wrapping_add(DEFINITION_FUNCTION))?,
                convention: Convention::of(flags)
                    .ok_or(Error::garbled("PyMethodDef", definition))?,
            });
        }
        Err(Error::NotAFunction { object })
    }

    /// Returns the object behind a name, as [`function`](Python::function) understands names.
    pub fn lookup(&self, name: &str) -> Result<u64, Error> {
        let modules = self.modules()?;
        if !name.contains('.')
            && let Some(found) = self.builtin(modules, name)?
        {
            return Ok(found);
        }
        // The longest module is tried first: `os.path.join` is in `os.path`, where that is a module.
        let mut end = name.len();
        let mut missed = Error::Unknown { known: 0 };
        loop {
            match self.module(modules, &name[..end]) {
                Ok(module) => match self.walk(module, name, end) {
                    Err(Error::Unknown { known }) => missed = Error::Unknown { known },
                    other => return other,
                },
                Err(Error::Unknown { .. }) => {}
                Err(other) => return Err(other),
            }
            match name[..end].rfind('.') {
                Some(dot) => end = dot,
                None if missed == (Error::Unknown { known: 0 }) => break,
                None => return Err(missed),
            }
        }
        // For `list.append`, `end` is that of the first part.
        match self.builtin(modules, &name[..end])? {
            Some(found) => self.walk(found, name, end),
            None => Err(missed),
        }
    }

    fn builtin(&self, modules: u64, name: &str) -> Result<Option<u64>, Error> {
        match self.value_of(modules, "builtins")? {
            Some(builtins) => self.attribute(builtins, name),
            None => Ok(None),
        }
    }

    /// Returns the dict `sys.modules`.
    pub(super) fn modules(&self) -> Result<u64, Error> {
        let interpreter = self.main_interpreter()?;
        if interpreter == 0 {
            return Err(Error::NotRunning);
        }
        let at = interpreter.wrapping_add(self.layout.interpreter.modules);
        match self.memory.u64(at)? {
            0 => Err(Error::NotRunning),
            modules => Ok(modules),
        }
    }

    /// Returns the module of this name, or the one whose name ends in a dot and this.
    fn module(&self, modules: u64, name: &str) -> Result<u64, Error> {
        if let Some(module) = self.value_of(modules, name)? {
            return Ok(module);
        }
        let len = name.chars().count() as u64;
        let mut found = None;
        for entry in self.names(modules)? {
            let (key, module) = entry?;
            if !self.is(key, Builtin::Str)? {
                continue;
            }
            let text = self.text_unchecked(key)?;
            let Some(dot) = text.len.checked_sub(len + 1) else {
                continue;
            };
            if self.begins_with_dot(text, dot)? && self.ends_as(text, dot + 1, name)? {
                // A module may be known by two names.
                if found.is_some_and(|other| other != module) {
                    return Err(Error::Ambiguous);
                }
                found = Some(module);
            }
        }
        found.ok_or(Error::Unknown { known: 0 })
    }

    fn begins_with_dot(&self, text: super::Text, at: u64) -> Result<bool, Error> {
        let offset = at.wrapping_mul(u64::from(text.width));
        let byte = self.memory.u8(text.address.wrapping_add(offset))?;
        Ok(byte == b'.')
    }

    /// Follows attributes from an object, named by the parts of `name` from byte `from` on.
    fn walk(&self, object: u64, name: &str, from: usize) -> Result<u64, Error> {
        let (mut object, mut known) = (object, from);
        let Some(rest) = name.get(from + 1..) else {
            return Ok(object);
        };
        for part in rest.split('.') {
            object = self
                .attribute(object, part)?
                .ok_or(Error::Unknown { known })?;
            known += 1 + part.len();
        }
        Ok(object)
    }

    /// Returns what a module or a class has under `name`, or an instance by its class.
    pub(super) fn attribute(&self, object: u64, name: &str) -> Result<Option<u64>, Error> {
        let class = self.type_of(object)?;
        if self.flags(class)? & Builtin::Type.flag() != 0 {
            return self.attribute_of_class(object, name);
        }
        if self.inherits(class, self.facts.types().module)? {
            let dict = self.memory.u64(self.field(object, MODULE_DICT))?;
            if let Some(found) = self.value_of(dict, name)? {
                return Ok(Some(found));
            }
        }
        self.attribute_of_class(class, name)
    }

    fn is_of_cython(&self, class: u64) -> Result<bool, Error> {
        let mut name = [0; LONGEST_NAME];
        let name = self.raw_name(class, &mut name)?;
        let own = name.rsplit(|&byte| byte == b'.').next().unwrap_or(name);
        Ok(matches!(
            own,
            b"cython_function_or_method" | b"fused_cython_function"
        ))
    }

    /// Returns how many items a tuple or a list has.
    pub(super) fn size_of(&self, object: u64) -> Result<u64, Error> {
        Ok(self.memory.u64(self.field(object, OB_SIZE))?)
    }
}
