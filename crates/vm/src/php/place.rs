//! Places of a script as births are booked by them: a function's operations, and one of these. Used by
//! `agent::languages::php::births::names`.
//!
//! Each closure has a `zend_op_array` of its own; the operations they share. So a place is known by the operations' address.
//!
//! The operation that a frame has stored may be some operations behind, and under the compiler (`opcache.jit`) of another function. The
//! engine has the true one in r15, where it was built by gcc: whoever is called by it may find it there. So both are looked at, and what is no
//! operation of the function is none.
//!
//! While an exception is thrown a frame has the operation of the executor that handles it (`EG(exception_op)`); where it was thrown the executor keeps
//! (`opline_before_exception`).

use super::frames::{LINE, OP_SIZE};
use super::{Php, Point};
use crate::{Fault, Memory};

/// A place of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Address of the `zend_op_array`.
    pub function: u64,
    /// Address of the first of its operations.
    pub opcodes: u64,
    /// The number of the operation.
    pub index: u32,
    /// Its line.
    pub line: u32,
}

impl<M: Memory> Php<'_, M> {
    /// Returns the place of a point. `register` may be the address of the operation that runs; if it is one of the function, it counts.
    #[inline]
    pub fn place(&self, point: Point, register: u64) -> Result<Place, Fault> {
        let function = point.function;
        let word = |offset: u64| function.wrapping_add(offset);
        let opcodes = self.memory.u64(word(self.layout.opcodes))?;
        let count = self.memory.u32(word(self.layout.opcode_count))?;
        let number = |opline: u64| {
            let distance = opline.wrapping_sub(opcodes);
            let index = distance / OP_SIZE;
            (index < count.into() && distance.is_multiple_of(OP_SIZE)).then_some(index)
        };
        let mut index = number(register).or(number(point.opline));
        if index.is_none() && point.opline != 0 {
            let before = self.facts.executor() + self.layout.before_exception;
            index = number(self.memory.u64(before)?);
        }
        // A function that has not begun is at its first operation.
        let index = index.unwrap_or(0);
        let opline = opcodes.wrapping_add(index * OP_SIZE);
        Ok(Place {
            function,
            opcodes,
            index: index as u32,
            line: self.memory.u32(opline.wrapping_add(LINE))?,
        })
    }
}
