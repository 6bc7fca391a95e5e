//! The arguments of a C function: its `zend_execute_data` (`zend_compile.h`), behind which they lie (`ZEND_CALL_ARG`).
//! The same in all versions.

use core::fmt::Write;

use super::{Error, Php};
use crate::{Fault, Memory};

/// `func`, `This` and its `u2.num_args` in `zend_execute_data`.
const FUNC: u64 = 24;
const THIS: u64 = 32;
const COUNT: u64 = 44;
/// `sizeof(zend_execute_data)` and that of a zval, its type.
const ARGUMENTS: u64 = 80;
const ZVAL: u64 = 16;
const TYPE: u64 = 8;
const OBJECT: u8 = 8;

/// `function_name` and `scope` in `zend_function`.
const NAME: u64 = 8;
const SCOPE: u64 = 16;

/// Arguments of one call; a larger number is taken for garbage.
const MOST: u32 = 1 << 20;

impl<M: Memory> Php<'_, M> {
    /// Returns a word that tells a C function from others with the same handler: its name and class, mixed. A class
    /// that inherits it has a copy of its `zend_function` with the same name and class.
    pub fn identity(&self, function: u64) -> Result<u64, Fault> {
        let name = self.memory.u64(function.wrapping_add(NAME))?;
        let scope = self.memory.u64(function.wrapping_add(SCOPE))?;
        Ok(name ^ scope.rotate_left(32))
    }

    /// Returns the `zend_function` that is called.
    pub fn called(&self, execute_data: u64) -> Result<u64, Fault> {
        self.memory.u64(execute_data.wrapping_add(FUNC))
    }

    /// Returns the address of an argument of a call, from 0; `None` if there are not so many.
    pub fn argument(&self, execute_data: u64, index: u64) -> Result<Option<u64>, Fault> {
        let count = self.memory.u32(execute_data.wrapping_add(COUNT))?;
        let at = execute_data.wrapping_add(ARGUMENTS + index * ZVAL);
        Ok((index < count.into()).then_some(at))
    }

    /// Writes the arguments of a call, at most `most` of them and `limit` bytes of each text; before them the object,
    /// if it is a method's.
    pub fn write_arguments(
        &self,
        execute_data: u64,
        most: u64,
        limit: u64,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let count = self.memory.u32(execute_data.wrapping_add(COUNT))?;
        if count > MOST {
            return Err(Error::garbled("call", execute_data));
        }
        let this = execute_data.wrapping_add(THIS);
        let mut begun = self.memory.u8(this.wrapping_add(TYPE))? == OBJECT;
        if begun {
            self.write_value(this, limit, out)?;
        }
        for index in 0..u64::from(count).min(most) {
            if begun {
                out.write_str(", ")?;
            }
            begun = true;
            let zval = execute_data.wrapping_add(ARGUMENTS + index * ZVAL);
            match self.write_value(zval, limit, out) {
                Err(Error::Write) => return Err(Error::Write),
                Err(_) => write!(out, "(? at {zval:#x})")?,
                Ok(()) => {}
            }
        }
        if u64::from(count) > most {
            out.write_str(", …")?;
        }
        Ok(())
    }
}
