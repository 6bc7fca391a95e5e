//! What a frame holds: its local variables by name, its value stack as far as that is known, and what it needs to run.
//! Used by `references` and `roots`, and by `languages::python::snapshot`.
//!
//! ```text
//!   frame: │ … │ variables … │ cells … │ free variables … │ value stack … │
//! ```
//!
//! How far the value stack goes only a frame says that has called Python code or that is suspended (`f_stacktop`, `f_stackdepth`,
//! `stacktop`): before 3.14 one that runs, or has called a C function, does not. `frame_traverse` and `_PyFrame_Traverse`
//! (`Objects/frameobject.c`, since 3.11 `Python/frame.c`) have the same limit.

use super::frames::OWNED_BY_GENERATOR;
use super::layout::{Generators, Handlers, Own, Values, Variables};
use super::object::{BASIC_SIZE, OB_SIZE, TAG};
use super::{Error, Python};
use crate::Memory;

/// `co_nlocals` (3.9 and 3.10).
const LOCALS: u64 = 28;
/// Variables, and values, of one frame that are read.
const MOST: u64 = 1 << 16;
/// `gi_frame`, to 3.10; `f_frame` in `PyFrameObject`, since 3.11.
const FRAME_OF_GENERATOR: u64 = 16;
const FRAME_OF_OBJECT: u64 = 24;

/// What a frame holds something as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The value of a local variable; a str, or 0 if it has no name.
    Variable(u64),
    /// A value of its value stack, without a name.
    Value,
    /// Its function, code, namespace or frame object.
    Own,
}

/// Something that a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Address of the object.
    pub target: u64,
    /// What the frame holds the object as.
    pub held: Held,
    /// Whether the frame's reference is in the object's reference count. Since 3.14 some on the value stack are not (`Py_TAG_REFCNT`, `pycore_stackref.h`).
    pub counted: bool,
}

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with what the frame at `frame` holds, which runs or is suspended in the code at `code`.
    pub fn frame_holds(
        &self,
        frame: u64,
        code: u64,
        each: &mut dyn FnMut(Holding),
    ) -> Result<(), Error> {
        let count = self.each_variable(code, &mut |_, _| {})?;
        let values = frame.wrapping_add(self.layout.frame.variables);
        let mut note = |word: u64, held| {
            let target = word & !TAG;
            // Both bits are set in an integer that is no object (`PyStackRef_TagInt`).
            if target != 0 && word & TAG != TAG {
                each(Holding {
                    target,
                    held,
                    counted: word & TAG == 0,
                });
            }
        };
        let mut wrong = None;
        self.each_variable(code, &mut |index, name| match self
            .memory
            .u64(values.wrapping_add(index * 8))
        {
            Ok(word) => note(word, Held::Variable(name)),
            Err(fault) => wrong = Some(fault),
        })?;
        if let Some(fault) = wrong {
            return Err(fault.into());
        }
        let end = self.value_count(frame)?.unwrap_or(0).min(count + MOST);
        for index in count..end {
            note(
                self.memory.u64(values.wrapping_add(index * 8))?,
                Held::Value,
            );
        }
        if let Own::Plain {
            function,
            namespace,
            object,
        } = self.layout.frame.own
        {
            for at in [function, namespace, object, self.layout.frame.code] {
                note(self.memory.u64(frame.wrapping_add(at))?, Held::Own);
            }
        }
        Ok(())
    }

    /// Whether a generator tells the collector what this frame of its holds, although it runs: then the thread that runs it holds nothing
    /// besides.
    pub(super) fn is_told_by_generator(&self, frame: u64) -> Result<(bool, bool), Error> {
        if self.layout.frame.own == Own::Object {
            return Ok((false, false));
        }
        let of_generator = self.owner(frame)?.owner == OWNED_BY_GENERATOR;
        Ok((of_generator, self.value_count(frame)?.is_some()))
    }

    /// How many values there are from the first variable of a frame on, with the value stack; `None` where it does not say so.
    fn value_count(&self, frame: u64) -> Result<Option<u64>, Error> {
        let (values, is_inside) = match self.layout.generators {
            Generators::Behind { values, .. } => (values, false),
            Generators::Inside { values, .. } => (values, true),
        };
        let begin = frame.wrapping_add(self.layout.frame.variables);
        let words = |top: u64| (top > begin).then(|| (top - begin) / 8);
        Ok(match values {
            Values::Index(at) => {
                let count = self.memory.u32(frame.wrapping_add(at))?.cast_signed();
                u64::try_from(count).ok()
            }
            Values::Pointer(at) if is_inside => words(self.memory.u64(frame.wrapping_add(at))?),
            // The stack of 3.9 and 3.10 has unnamed values only.
            Values::Pointer(_) | Values::Depth(..) => None,
        })
    }

    /// Calls `each` with index and name of each local variable of a code object, in the order of a frame's; returns their number.
    pub fn each_variable(&self, code: u64, each: &mut dyn FnMut(u64, u64)) -> Result<u64, Error> {
        self.check_code(code)?;
        let word = |at: u64| self.memory.u64(code.wrapping_add(at));
        match (self.layout.code.variables, self.layout.frame.handlers) {
            (Variables::One(names), Handlers::Table { locals, .. }) => {
                let count = u64::from(self.memory.u32(code.wrapping_add(locals))?).min(MOST);
                self.each_item(word(names)?, count, 0, each)?;
                Ok(count)
            }
            (Variables::Three([plain, free, cells]), _) => {
                let count = u64::from(self.memory.u32(code.wrapping_add(LOCALS))?).min(MOST);
                self.each_item(word(plain)?, count, 0, each)?;
                let cells = self.each_item(word(cells)?, MOST, count, each)? + count;
                Ok(self.each_item(word(free)?, MOST, cells, each)? + cells)
            }
            _ => Err(Error::garbled("layout of code", code)),
        }
    }

    /// Calls `each` with the elements of a tuple, numbered from `first` on; returns how many there are.
    fn each_item(
        &self,
        tuple: u64,
        most: u64,
        first: u64,
        each: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, Error> {
        let count = self.memory.u64(tuple.wrapping_add(OB_SIZE))?.min(most);
        for index in 0..count {
            let at = self.layout.tuple_items.wrapping_add(index * 8);
            each(first + index, self.memory.u64(tuple.wrapping_add(at))?);
        }
        Ok(count)
    }

    /// Returns frame and code of a frame object; since 3.11 only if the frame is its own.
    pub(super) fn frame_of_object(&self, object: u64) -> Result<(u64, u64), Error> {
        let frame = match self.layout.frame.own {
            Own::Object => object,
            Own::Plain { .. } => self.memory.u64(object.wrapping_add(FRAME_OF_OBJECT))?,
        };
        Ok((frame, self.code_of_frame(frame)?))
    }

    /// Returns frame and code of a generator; to 3.10 its frame is an object of its own, and 0 is returned.
    pub(super) fn frame_of_generator(&self, object: u64) -> Result<(u64, u64), Error> {
        let Generators::Inside { locals, .. } = self.layout.generators else {
            return Ok((0, 0));
        };
        let size = self
            .memory
            .u64(self.type_of(object)?.wrapping_add(BASIC_SIZE))?;
        let frame = object.wrapping_add(size).wrapping_sub(locals);
        Ok((frame, self.code_of_frame(frame)?))
    }

    /// Returns the frame object of a generator, to 3.10; else 0.
    pub(super) fn frame_object_of_generator(&self, object: u64) -> Result<u64, Error> {
        match self.layout.frame.own {
            Own::Object => Ok(self.memory.u64(object.wrapping_add(FRAME_OF_GENERATOR))?),
            Own::Plain { .. } => Ok(0),
        }
    }

    fn code_of_frame(&self, frame: u64) -> Result<u64, Error> {
        let at = frame.wrapping_add(self.layout.frame.code);
        Ok(self.memory.u64(at)? & !TAG)
    }
}
