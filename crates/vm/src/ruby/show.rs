//! Values as text, as `inspect` would write them, without calling it: the text is bounded, and the object's own code
//! never runs. Used by `collection` and `function`.
//!
//! What inherits from a class of the VM's own is shown as that, because that is what C code sees in it. What has
//! no text known here is `#<Class>`.

use core::fmt::Write;

use super::function::Arguments;
use super::number::{flonum, write_float};
use super::object::Type;
use super::string::Text;
use super::{Convention, Error, Limits, Ruby, Version};
use crate::{Memory, Scalar};

/// `Qfalse`, `Qtrue` (`include/ruby/internal/special_consts.h`; 2.7: `include/ruby/ruby.h`). `Qundef` stands
/// 0x2c above `Qnil` where that is 8, and 0x20 where it is 4.
const FALSE: u64 = 0;
const TRUE: u64 = 0x14;

impl<M: Memory> Ruby<'_, M> {
    /// Writes a value as `inspect` would. What cannot be read is an error only if it is the value itself; within
    /// a container it is `#<? at 0x…>`.
    pub fn write_value(
        &self,
        value: u64,
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        if value & 1 == 1 {
            return Ok(write!(out, "{}", value as i64 >> 1)?);
        } else if value & 3 == 2 {
            return write_float(flonum(value), out);
        } else if value == FALSE {
            return Ok(out.write_str("false")?);
        } else if value == TRUE {
            return Ok(out.write_str("true")?);
        } else if value == self.layout.nil {
            return Ok(out.write_str("nil")?);
        } else if value == self.undefined() {
            // C code gets it for an argument that was not given.
            return Ok(out.write_str("#<undefined>")?);
        } else if let Some(name) = self.symbol_name(value)? {
            return self.write_symbol(name, limits.text, out);
        }
        match self.type_of(value)? {
            Type::String => self.write_string(value, limits.text, out),
            Type::Float => write_float(self.float(value)?, out),
            Type::Bignum => self.write_bignum(value, out),
            Type::Array => {
                let elements = self.elements(value)?;
                out.write_char('[')?;
                match limits.deeper() {
                    Some(limits) => {
                        self.write_values(
                            elements.address,
                            elements.len,
                            limits.items,
                            &limits,
                            out,
                        )?;
                    }
                    None if elements.len > 0 => out.write_char('…')?,
                    None => {}
                }
                Ok(out.write_char(']')?)
            }
            Type::Hash => self.write_hash(value, limits, out),
            Type::Class | Type::Module => self.write_class_name(value, out),
            Type::None | Type::Moved | Type::Zombie | Type::Unknown => {
                Err(Error::garbled("object", value))
            }
            _ => {
                out.write_str("#<")?;
                self.write_type(value, out)?;
                Ok(out.write_char('>')?)
            }
        }
    }

    /// Returns a value as far as conditions distinguish values: `nil`, and what C code gets for an argument that was
    /// not given; a Fixnum; the bytes of a String or of a Symbol's name.
    pub fn scalar(&self, value: u64) -> Result<Scalar<Text>, Error> {
        if value & 1 == 1 {
            return Ok(Scalar::Integer(value as i64 >> 1));
        }
        if value == self.layout.nil || value == self.undefined() {
            return Ok(Scalar::Nothing);
        }
        if value & 3 == 2 || value == FALSE || value == TRUE {
            return Ok(Scalar::Other);
        }
        if let Some(name) = self.symbol_name(value)? {
            return self.text(name).map(Scalar::Text);
        }
        match self.type_of(value)? {
            Type::String => self.text(value).map(Scalar::Text),
            Type::None | Type::Moved | Type::Zombie | Type::Unknown => {
                Err(Error::garbled("object", value))
            }
            _ => Ok(Scalar::Other),
        }
    }

    /// Returns an argument of a call, from 0; `None` if there are not so many that can be read. `registers`: see
    /// [`write_arguments`](Self::write_arguments).
    pub fn argument(
        &self,
        convention: Convention,
        registers: [u64; 6],
        index: u64,
    ) -> Result<Option<u64>, Error> {
        Ok(match self.arguments(convention, registers)? {
            Arguments::Memory { address, count } if index < count => {
                Some(self.memory.u64(address.wrapping_add(index * 8))?)
            }
            Arguments::Registers { at_hand, .. } if index < at_hand => {
                registers.get(index as usize + 1).copied()
            }
            _ => None,
        })
    }

    /// Writes the arguments of a call as they would stand between its parentheses. `registers` are those at the
    /// function's entry: `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`. Arguments on the stack are `…`.
    pub fn write_arguments(
        &self,
        convention: Convention,
        registers: [u64; 6],
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        match self.arguments(convention, registers)? {
            Arguments::Memory { address, count } => {
                self.write_values(address, count, limits.arguments, limits, out)
            }
            Arguments::Registers { count, at_hand } => {
                let shown = at_hand.min(limits.arguments);
                for (index, &argument) in (0..shown).zip(&registers[1..]) {
                    if index > 0 {
                        out.write_str(", ")?;
                    }
                    self.write_item(argument, limits, out)?;
                }
                write_rest(count > shown, shown, out)
            }
        }
    }

    /// Returns `Qundef`, the `VALUE` that stands where there is none, as for an argument that was not given.
    pub(super) fn undefined(&self) -> u64 {
        if self.layout.nil == 8 { 0x34 } else { 0x24 }
    }

    fn write_values(
        &self,
        address: u64,
        count: u64,
        most: u64,
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        for index in 0..count.min(most) {
            if index > 0 {
                out.write_str(", ")?;
            }
            let value = self.memory.u64(address.wrapping_add(index * 8))?;
            self.write_item(value, limits, out)?;
        }
        write_rest(count > most, most, out)
    }

    fn write_hash(&self, hash: u64, limits: &Limits, out: &mut dyn Write) -> Result<(), Error> {
        let (count, pairs) = self.pairs(hash)?;
        let Some(inner) = limits.deeper() else {
            return Ok(out.write_str(if count > 0 { "{…}" } else { "{}" })?);
        };
        // `{1=>2, :a=>3}` up to 3.3, then `{1 => 2, a: 3}`.
        let spaced = self.facts.version() >= Version::new(3, 4, 0);
        out.write_char('{')?;
        let limit = usize::try_from(limits.items).unwrap_or(usize::MAX);
        for (index, pair) in pairs.take(limit).enumerate() {
            let (key, value) = pair?;
            if index > 0 {
                out.write_str(", ")?;
            }
            match self.symbol_name(key) {
                Ok(Some(name)) if spaced => self.write_key(name, inner.text, out)?,
                _ => {
                    self.write_item(key, &inner, out)?;
                    out.write_str(if spaced { " => " } else { "=>" })?;
                }
            }
            self.write_item(value, &inner, out)?;
        }
        write_rest(count > limits.items, limits.items, out)?;
        Ok(out.write_char('}')?)
    }

    fn write_item(&self, item: u64, limits: &Limits, out: &mut dyn Write) -> Result<(), Error> {
        match self.write_value(item, limits, out) {
            Ok(()) => Ok(()),
            Err(Error::Write) => Err(Error::Write),
            Err(_) => Ok(write!(out, "#<? at {item:#x}>")?),
        }
    }
}

/// Writes that there are more items.
fn write_rest(more: bool, shown: u64, out: &mut dyn Write) -> Result<(), Error> {
    match (more, shown) {
        (false, _) => {}
        (true, 0) => out.write_char('…')?,
        (true, _) => out.write_str(", …")?,
    }
    Ok(())
}
