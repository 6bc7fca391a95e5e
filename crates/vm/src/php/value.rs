//! Values: `zend_types.h`. A value has eight bytes and a type; types up to references have the same numbers in all
//! versions. Used by `script`.

use core::fmt::Write;

use super::fiber::CLASS;
use super::table::{COUNT, string};
use super::{Error, Php, Text};
use crate::{Memory, bytes};

/// `u1.v.type` in a zval.
const TYPE: u64 = 8;

/// `handle` in `zend_object` and in `zend_resource`; `val` in `zend_reference`.
const HANDLE: u64 = 8;
const REFERENCE: u64 = 8;

/// What a zval holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// `null`, or a variable without a value (`IS_UNDEF`).
    Null,
    /// `true` or `false`, which are types of their own (`IS_TRUE`, `IS_FALSE`).
    Bool(bool),
    /// An integer, signed and of 64 bits (`zend_long`).
    Long(i64),
    /// A floating point number.
    Double(f64),
    /// Bytes, of which PHP knows no encoding.
    String(Text),
    /// An array with so many elements.
    Array(u32),
    /// An object: the address of its `zend_object`.
    Object(u64),
    /// A resource with this number.
    Resource(u32),
    /// A value of the VM's own, such as that of a constant yet to be computed: its type.
    Other(u8),
}

impl<M: Memory> Php<'_, M> {
    /// Returns the value of a `zval *`, or of the one that it refers to.
    pub fn value(&self, zval: u64) -> Result<Value, Error> {
        let mut zval = zval;
        // A reference to a reference does not exist.
        for _ in 0..2 {
            let value = self.memory.u64(zval)?;
            return Ok(match self.memory.u8(zval.wrapping_add(TYPE))? {
                0 | 1 => Value::Null,
                2 => Value::Bool(false),
                3 => Value::Bool(true),
                4 => Value::Long(value.cast_signed()),
                5 => Value::Double(f64::from_bits(value)),
                6 => Value::String(string(self.memory, value)?),
                7 => Value::Array(self.memory.u32(value.wrapping_add(COUNT))?),
                8 => Value::Object(value),
                9 => Value::Resource(self.memory.u32(value.wrapping_add(HANDLE))?),
                10 => {
                    zval = value.wrapping_add(REFERENCE);
                    continue;
                }
                other => Value::Other(other),
            });
        }
        Err(Error::garbled("value", zval))
    }

    /// Writes a `zval *`: `null`, `true`, `-7`, `2.5`, `"text"` (escaped, at most `limit` bytes of it),
    /// `array(3)`, `Class#7`, `resource(5)`.
    pub fn write_value(&self, zval: u64, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        match self.value(zval)? {
            Value::Null => out.write_str("null")?,
            Value::Bool(value) => write!(out, "{value}")?,
            Value::Long(value) => write!(out, "{value}")?,
            Value::Double(value) => write!(out, "{value}")?,
            Value::String(text) => bytes::write_quoted::<_, Error>(self.memory, text, limit, out)?,
            Value::Array(count) => write!(out, "array({count})")?,
            Value::Object(object) => {
                let class = self.memory.u64(object.wrapping_add(CLASS))?;
                self.write_text(self.name_of_class(class)?, limit, out)?;
                write!(out, "#{}", self.memory.u32(object.wrapping_add(HANDLE))?)?;
            }
            Value::Resource(number) => write!(out, "resource({number})")?,
            Value::Other(kind) => write!(out, "(type {kind})")?,
        }
        Ok(())
    }

    /// Returns the bytes of a `zend_string *`.
    pub fn string(&self, at: u64) -> Result<Text, Error> {
        string(self.memory, at)
    }

    /// Writes a `zend_string *` in quotes.
    pub fn write_string(&self, at: u64, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        bytes::write_quoted(self.memory, string(self.memory, at)?, limit, out)
    }

    /// Writes at most `limit` bytes of `text`; what is not UTF-8 as U+FFFD.
    pub fn write_text(&self, text: Text, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        bytes::write(self.memory, text, limit, out)
    }
}
