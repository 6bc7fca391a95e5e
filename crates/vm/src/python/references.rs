//! What an object's references are called, and those of which its class does not tell the collector. Used by crate
//! `languages`.
//!
//! Which references there are, `tp_traverse` of the object's class says, which runs in the process. It leaves out what can be in no
//! cycle: the keys of a dict that are all str (`dict_traverse`, `Objects/dictobject.c`), what a code object refers to (it has no
//! `tp_traverse`), and what a class that was not made at run time does (`type_is_gc`, `Objects/typeobject.c`).

use super::class::{BASE, MRO};
use super::dict::{KEYS, VALUES};
use super::function::MODULE_DICT;
use super::kind::{Kind, Sort};
use super::layout::{Generators, Handlers, Variables};
use super::object::OB_SIZE;
use super::variables::Held;
use super::{Error, Python};
use crate::Memory;

/// `ob_item` of a list, `ob_ref` of a cell.
const LIST_ITEMS: u64 = 24;
const CELL_CONTENTS: u64 = 16;
/// `mask`, `table` of a set, and its entries: object and hash (`Include/setobject.h`).
const SET_MASK: u64 = 32;
const SET_TABLE: u64 = 40;
const SET_ENTRY: u64 = 16;
/// `im_func` in `PyMethodObject`.
const METHOD_FUNCTION: u64 = 16;
/// `tp_bases`, `tp_cache` in `PyTypeObject`.
const BASES: u64 = 336;
const CACHE: u64 = 352;
/// For each element that is looked at so many places, because most of a table may be empty.
const SPARSEST: u64 = 8;
/// Cells of one function that are looked at.
const MOST_CELLS: u64 = 1 << 16;
/// From `co_consts` to `co_names`.
const NAMES_AFTER_CONSTANTS: u64 = 8;

/// What a reference is called. Names and keys are addresses of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// An element of a list or tuple.
    Element(u64),
    /// The key of an entry of a dict, or an element of a set.
    Key,
    /// The value of a dict under this key.
    Value(u64),
    /// An attribute that lies in the object itself, by its name.
    Attribute(u64),
    /// The dict with the attributes of the object.
    Dict,
    /// A class from which the class inherits.
    Superclass,
    /// The code of a function.
    Code,
    /// The cells of a function, in a tuple.
    Closure,
    /// The value that a cell holds for the functions that share it.
    Contents,
    /// A local variable of a frame or a generator, by its name.
    Local(u64),
    /// A value on the value stack of a frame, without a name.
    Stack,
    /// The frame of a generator.
    Frame,
    /// What an object made in C refers to, by the name of that member in C.
    Part(&'static str),
}

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with the references of an object that have names: target, name. Among them may be some that its class does not tell
    /// of, and at most `most` elements are looked at.
    pub fn references(
        &self,
        object: u64,
        kind: &Kind,
        most: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let word = |at: u64| self.memory.u64(object.wrapping_add(at));
        match kind.sort {
            Sort::List => self.items(word(LIST_ITEMS)?, word(OB_SIZE)?.min(most), each)?,
            Sort::Tuple => {
                let begin = object.wrapping_add(self.layout.tuple_items);
                self.items(begin, word(OB_SIZE)?.min(most), each)?;
            }
            Sort::Dict => {
                let entries = self.entries(object)?.at_most(most.saturating_mul(SPARSEST));
                for entry in entries.take(limit(most)) {
                    let (key, value) = entry?;
                    each(value, Reference::Value(key));
                    each(key, Reference::Key);
                }
            }
            Sort::Set => {
                let (table, slots) = (word(SET_TABLE)?, word(SET_MASK)?.saturating_add(1));
                for slot in 0..slots.min(most.saturating_mul(SPARSEST)) {
                    match self.memory.u64(table.wrapping_add(slot * SET_ENTRY))? {
                        0 => {}
                        key => each(key, Reference::Key),
                    }
                }
            }
            Sort::Type => {
                each(word(BASE)?, Reference::Superclass);
                each(self.dict_of_class(object)?, Reference::Dict);
            }
            Sort::Module => each(word(MODULE_DICT)?, Reference::Dict),
            Sort::Function => {
                each(word(self.layout.function_code)?, Reference::Code);
                each(word(self.layout.function_closure)?, Reference::Closure);
            }
            Sort::Cell => each(word(CELL_CONTENTS)?, Reference::Contents),
            Sort::Frame => {
                let (frame, code) = self.frame_of_object(object)?;
                self.locals(frame, code, each)?;
            }
            Sort::Generator => {
                each(self.frame_object_of_generator(object)?, Reference::Frame);
                let (frame, code) = self.frame_of_generator(object)?;
                if frame != 0 {
                    self.locals(frame, code, each)?;
                }
            }
            _ => {}
        }
        if kind.beside.refers() {
            self.parts(object, kind, &mut |target, name| {
                each(target, Reference::Part(name))
            })?;
            let mut index = 0;
            self.objects_of_array(object, kind, most, &mut |target| {
                each(target, Reference::Element(index));
                index += 1;
            })?;
        }
        self.attributes(object, kind, each)
    }

    /// Returns the code of a function.
    pub fn code_of(&self, function: u64) -> Result<u64, Error> {
        let at = function.wrapping_add(self.layout.function_code);
        Ok(self.memory.u64(at)?)
    }

    /// Returns the function made in Python that a bound method calls; `None` if it is another callable.
    pub fn function_of_method(&self, method: u64) -> Result<Option<u64>, Error> {
        let function = self.memory.u64(method.wrapping_add(METHOD_FUNCTION))?;
        let is_function = self.type_of(function)? == self.facts.types().function;
        Ok(is_function.then_some(function))
    }

    /// Returns the cells of a function, a tuple, and its code; `None` if it has captured no variable.
    pub fn closure(&self, function: u64) -> Result<Option<(u64, u64)>, Error> {
        let at = function.wrapping_add(self.layout.function_closure);
        match self.memory.u64(at)? {
            0 => Ok(None),
            closure => Ok(Some((closure, self.code_of(function)?))),
        }
    }

    /// Calls `each` with the elements of a tuple.
    pub fn each_element(&self, tuple: u64, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let size = self
            .memory
            .u64(tuple.wrapping_add(OB_SIZE))?
            .min(MOST_CELLS);
        let begin = tuple.wrapping_add(self.layout.tuple_items);
        self.items(begin, size, &mut |element, _| each(element))
    }

    /// Returns the str that a module has as its `__name__`.
    pub fn module_name(&self, module: u64) -> Result<Option<u64>, Error> {
        match self.memory.u64(self.field(module, MODULE_DICT))? {
            0 => Ok(None),
            dict => self.value_of(dict, "__name__"),
        }
    }

    fn items(
        &self,
        begin: u64,
        count: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        for index in 0..count {
            let target = self.memory.u64(begin.wrapping_add(index * 8))?;
            each(target, Reference::Element(index));
        }
        Ok(())
    }

    fn locals(
        &self,
        frame: u64,
        code: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        self.frame_holds(frame, code, &mut |holding| match holding.held {
            Held::Variable(name) => each(holding.target, Reference::Local(name)),
            Held::Value => each(holding.target, Reference::Stack),
            Held::Own => {}
        })
    }

    /// The attributes that an object has of its own: its dict, or what lies in or beside it.
    fn attributes(
        &self,
        object: u64,
        kind: &Kind,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let (dict, values) = self.dict_and_values(object, kind.class)?;
        if dict != 0 {
            each(dict, Reference::Dict);
        }
        let keys = self.shared_keys(kind.class)?;
        if values != 0 && keys != 0 {
            for entry in self.entries_of(keys, values)? {
                let (name, value) = entry?;
                each(value, Reference::Attribute(name));
            }
        }
        Ok(())
    }

    /// Whether `tp_traverse` of a dict visits its keys; `None` where only the visits themselves tell: to 3.10 it does if the dict
    /// was ever asked for a key that is no str. Of a dict that shares its keys with others `true` is returned, because they are not its own.
    pub fn visits_keys(&self, dict: u64) -> Result<Option<bool>, Error> {
        let values = self.memory.u64(dict.wrapping_add(VALUES))?;
        if values != 0 {
            return Ok(Some(true));
        }
        let keys = self.memory.u64(dict.wrapping_add(KEYS))?;
        Ok(self
            .layout
            .dict
            .compact
            .then_some(!self.has_text_keys(keys)?))
    }

    /// Calls `each` with what an object refers to that has no `tp_traverse`, or one that must not be called: a code object, or a class that
    /// was not made at run time.
    pub fn each_untold(
        &self,
        object: u64,
        kind: &Kind,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let mut word = |at: u64| {
            let target = self.memory.u64(object.wrapping_add(at))?;
            if target != 0 {
                each(target);
            }
            Ok::<(), Error>(())
        };
        match kind.sort {
            Sort::Code => {
                let code = &self.layout.code;
                word(code.constants)?;
                word(code.constants + NAMES_AFTER_CONSTANTS)?;
                word(code.file)?;
                word(code.name)?;
                word(code.table)?;
                if let Some(qualname) = code.qualname {
                    word(qualname)?;
                }
                match code.variables {
                    Variables::One(names) => word(names)?,
                    Variables::Three(names) => {
                        for names in names {
                            word(names)?;
                        }
                    }
                }
                match (self.layout.frame.handlers, self.layout.generators) {
                    (Handlers::Table { table, .. }, _) => word(table)?,
                    (_, Generators::Behind { code, .. }) => word(code)?,
                    _ => {}
                }
            }
            Sort::Type => {
                for at in [BASE, MRO, BASES, CACHE] {
                    word(at)?;
                }
                let dict = self.dict_of_class(object)?;
                if dict != 0 {
                    each(dict);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn limit(most: u64) -> usize {
    usize::try_from(most).unwrap_or(usize::MAX)
}
