//! Code objects, which have file, function and line: `PyCodeObject` (`Include/cpython/code.h`). Used by `sizes` and
//! `variables`.

use super::frames::UNIT;
use super::layout::Lines;
use super::lines;
use super::object::{BASIC_SIZE, BYTES, Builtin, OB_SIZE};
use super::string::Text;
use super::{Error, Point, Python};
use crate::{Fault, Memory};

/// Bytes of the longest line table: 100,000 lines of code in one function make 1 MB of it.
const LONGEST_TABLE: u64 = 1 << 22;
/// `tp_itemsize`. A code object has its instructions behind the `tp_basicsize` bytes of its class.
const ITEM_SIZE: u64 = 40;

impl<M: Memory> Python<'_, M> {
    /// Returns the file as `co_filename` has it: relative if the program was started so.
    pub fn file(&self, code: u64) -> Result<Text, Error> {
        self.check_code(code)?;
        self.text(self.memory.u64(code.wrapping_add(self.layout.code.file))?)
    }

    /// Returns the function, since 3.11 with what it is defined in (`Class.method`, `f.<locals>.g`), before by its own
    /// name only. Code outside of functions is `<module>`.
    pub fn function_name(&self, code: u64) -> Result<Text, Error> {
        self.check_code(code)?;
        let layout = &self.layout.code;
        let at = layout.qualname.unwrap_or(layout.name);
        self.text(self.memory.u64(code.wrapping_add(at))?)
    }

    /// Returns the line on which the code begins: for a decorated function that of its first decorator.
    pub fn first_line(&self, code: u64) -> Result<u32, Error> {
        self.check_code(code)?;
        let at = code.wrapping_add(self.layout.code.first_line);
        Ok(self.memory.u32(at)?)
    }

    /// Returns the line, as `f_lineno` and tracebacks have it; `None` for instructions that have none.
    ///
    /// The table is read from its start up to the instruction: a hook should keep the line for as long as the code
    /// object lives.
    pub fn line(&self, point: Point) -> Result<Option<u32>, Error> {
        let first = self.first_line(point.code)? as i32;
        if point.lasti < 0 {
            return Ok(u32::try_from(first).ok());
        }
        let at = point.code.wrapping_add(self.layout.code.table);
        let table = self.memory.u64(at)?;
        if !self.is(table, Builtin::Bytes)? {
            return Err(Error::garbled("line table", table));
        }
        let size = self.memory.u64(self.field(table, OB_SIZE))?;
        if size > LONGEST_TABLE {
            return Err(Error::garbled("line table", table));
        }
        let bytes = lines::Bytes::new(self.memory, self.field(table, BYTES), size);
        let line = lines::find(self.layout.code.lines, bytes, first, point.lasti)?;
        Ok(line.and_then(|line| u32::try_from(line).ok()))
    }

    /// Returns how many bytes of instructions a code object has; since 3.11.
    pub(super) fn instructions_of(&self, code: u64) -> Result<u64, Error> {
        let count = self.memory.u64(self.field(code, OB_SIZE))?;
        Ok(count.saturating_mul(UNIT.unsigned_abs()))
    }

    /// Returns a word that changes when the address of a code object is used for another one: the objects that hold its
    /// path, name and lines, mixed. Three loads. It is no proof, but an address would have to be used again for each of
    /// the three.
    #[inline]
    pub fn witness(&self, code: u64) -> Result<u64, Fault> {
        let layout = &self.layout.code;
        let word = |offset: u64| self.memory.u64(code.wrapping_add(offset));
        let (file, name) = (word(layout.file)?, word(layout.name)?);
        Ok(word(layout.table)? ^ file.rotate_left(21) ^ name.rotate_left(42))
    }

    /// Returns whether the collector lists code objects. If not, a code object begins where the block of memory begins that it lies in.
    pub fn is_code_collected(&self) -> Result<bool, Error> {
        let class = self.facts.types().code;
        self.is_collected(0, class)
    }

    /// Looks whether code objects have their instructions where the layout says, by what their class says of their size; since 3.11.
    pub(super) fn check_class_of_code(&self) -> Result<(), Error> {
        if self.layout.code.lines != Lines::Locations {
            return Ok(());
        }
        let class = self.facts.types().code;
        let word = |offset: u64| self.memory.u64(self.field(class, offset));
        let sizes = (word(BASIC_SIZE)?, word(ITEM_SIZE)?);
        match sizes == (self.layout.code.instructions, UNIT.unsigned_abs()) {
            true => Ok(()),
            false => Err(Error::garbled("class of code objects", class)),
        }
    }

    pub(super) fn check_code(&self, code: u64) -> Result<(), Error> {
        if self.type_of(code)? == self.facts.types().code {
            Ok(())
        } else {
            Err(Error::garbled("code object", code))
        }
    }
}
