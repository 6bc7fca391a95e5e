//! Objects as text, as `repr` would write them, without calling it: the text is bounded, and the object's own code
//! never runs. Used by `script`.
//!
//! What inherits from a builtin type is shown as that, because that is what C code sees in it. What has
//! no text known here is `<module.Class at 0x…>`.

use core::fmt::Write;

use super::object::{Builtin, DIGIT_BITS, Int, OB_SIZE};
use super::string::Text;
use super::{Convention, Error, Python};
use crate::decimal::{Digits, MOST_DIGITS, write_integer};
pub use crate::limits::Limits;
use crate::{Memory, Scalar};

/// `ob_sval`, `ob_fval`, `ob_item` of a list, `ob_start` of a bytearray.
const BYTES: u64 = 32;
const FLOAT: u64 = 16;
const LIST_ITEMS: u64 = 24;
const BYTEARRAY_START: u64 = 40;

/// Set in the number of arguments of a fast call: `PY_VECTORCALL_ARGUMENTS_OFFSET`.
const ARGUMENTS_OFFSET: u64 = 1 << 63;

impl<M: Memory> Python<'_, M> {
    /// Writes an object as `repr` would. What cannot be read is an error only if it is the object itself;
    /// within a container it is `<? at 0x…>`.
    pub fn write_object(
        &self,
        object: u64,
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let facts = &self.facts;
        if object == facts.none() {
            return Ok(out.write_str("None")?);
        } else if object == facts.yes() {
            return Ok(out.write_str("True")?);
        } else if object == facts.no() {
            return Ok(out.write_str("False")?);
        }
        let class = self.type_of(object)?;
        let flags = self.flags(class)?;
        let builtin = Builtin::ALL
            .into_iter()
            .find(|builtin| flags & builtin.flag() != 0);
        match builtin {
            Some(Builtin::Int) => self.write_int(self.int(object)?, out),
            Some(Builtin::Str) => write_quoted(self, self.text(object)?, limits.text, false, out),
            Some(Builtin::Bytes) => {
                let bytes = Text {
                    address: object.wrapping_add(BYTES),
                    len: self.size_of(object)?,
                    width: 1,
                };
                write_quoted(self, bytes, limits.text, true, out)
            }
            Some(Builtin::Tuple) => {
                let items = object.wrapping_add(self.layout.tuple_items);
                let size = self.size_of(object)?;
                out.write_char('(')?;
                self.write_items(items, size, limits, out)?;
                out.write_str(if size == 1 { ",)" } else { ")" })?;
                Ok(())
            }
            Some(Builtin::List) => {
                let items = self.memory.u64(object.wrapping_add(LIST_ITEMS))?;
                out.write_char('[')?;
                self.write_items(items, self.size_of(object)?, limits, out)?;
                Ok(out.write_char(']')?)
            }
            Some(Builtin::Dict) => self.write_dict(object, limits, out),
            Some(Builtin::Type) => {
                out.write_str("<class '")?;
                self.write_class_name(object, out)?;
                Ok(out.write_str("'>")?)
            }
            None if class == facts.types().float => {
                let bits = self.memory.u64(object.wrapping_add(FLOAT))?;
                write_float(f64::from_bits(bits), out)
            }
            None if class == facts.types().bytearray => {
                let bytes = Text {
                    address: self.memory.u64(object.wrapping_add(BYTEARRAY_START))?,
                    len: self.memory.u64(object.wrapping_add(OB_SIZE))?,
                    width: 1,
                };
                out.write_str("bytearray(")?;
                write_quoted(self, bytes, limits.text, true, out)?;
                Ok(out.write_char(')')?)
            }
            None => {
                out.write_char('<')?;
                self.write_class_name(class, out)?;
                Ok(write!(out, " at {object:#x}>")?)
            }
        }
    }

    /// Returns an object as far as conditions distinguish values: `None`, or no object; an int of 60 bits or less; a
    /// str, or bytes (of width 0).
    pub fn scalar(&self, object: u64) -> Result<Scalar<Text>, Error> {
        if object == 0 || object == self.facts.none() {
            return Ok(Scalar::Nothing);
        }
        let flags = self.flags_of(object)?;
        let is = |builtin: Builtin| flags & builtin.flag() != 0;
        Ok(if object == self.facts.yes() || object == self.facts.no() {
            Scalar::Other
        } else if is(Builtin::Int) {
            self.small_int(object)
                .map_or(Scalar::Other, Scalar::Integer)
        } else if is(Builtin::Str) {
            Scalar::Text(self.text_unchecked(object)?)
        } else if is(Builtin::Bytes) {
            Scalar::Text(Text {
                address: object.wrapping_add(BYTES),
                len: self.size_of(object)?,
                width: 0,
            })
        } else {
            Scalar::Other
        })
    }

    /// Returns a positional argument of a call, from 0; `None` if there are not so many. `registers`: see
    /// [`write_arguments`](Self::write_arguments).
    pub fn argument(
        &self,
        convention: Convention,
        registers: [u64; 5],
        index: u64,
    ) -> Result<Option<u64>, Error> {
        let [_, second, third, fourth, _] = registers;
        let (items, count) = match convention {
            Convention::None | Convention::Slot => return Ok(None),
            Convention::One => return Ok((index == 0).then_some(second)),
            Convention::Tuple | Convention::TupleKeywords => (
                second.wrapping_add(self.layout.tuple_items),
                self.tuple_size(second)?,
            ),
            Convention::Fast | Convention::FastKeywords => (second, third),
            Convention::Method => (third, fourth),
        };
        if index >= count & !ARGUMENTS_OFFSET {
            return Ok(None);
        }
        Ok(Some(self.memory.u64(items.wrapping_add(index * 8))?))
    }

    /// Writes the arguments of a call as they would stand between its parentheses. `registers` are those
    /// at the function's entry: `rdi`, `rsi`, `rdx`, `rcx`, `r8`.
    pub fn write_arguments(
        &self,
        convention: Convention,
        registers: [u64; 5],
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let [_, second, third, fourth, fifth] = registers;
        let (items, count, names) = match convention {
            Convention::None | Convention::Slot => return Ok(()),
            Convention::One => return self.write_item(second, limits, out),
            Convention::Tuple | Convention::TupleKeywords => {
                let size = self.tuple_size(second)?;
                let items = second.wrapping_add(self.layout.tuple_items);
                self.write_items_of(items, size, limits.arguments, limits, out)?;
                if convention == Convention::TupleKeywords && third != 0 {
                    return self.write_keywords(third, size, limits, out);
                }
                return Ok(());
            }
            Convention::Fast => (second, third, 0),
            Convention::FastKeywords => (second, third, fourth),
            Convention::Method => (third, fourth, fifth),
        };
        let count = count & !ARGUMENTS_OFFSET;
        self.write_items_of(items, count, limits.arguments, limits, out)?;
        if names == 0 || count > limits.arguments {
            return Ok(());
        }
        let keywords = self.tuple_size(names)?;
        for index in 0..keywords.min(limits.arguments) {
            if count + index > 0 {
                out.write_str(", ")?;
            }
            let at = names.wrapping_add(self.layout.tuple_items + index * 8);
            let name = self.text(self.memory.u64(at)?)?;
            self.write_text(name, limits.text, out)?;
            out.write_char('=')?;
            let value = items.wrapping_add((count + index).wrapping_mul(8));
            self.write_item(self.memory.u64(value)?, limits, out)?;
        }
        Ok(())
    }

    fn tuple_size(&self, tuple: u64) -> Result<u64, Error> {
        if self.is(tuple, Builtin::Tuple)? {
            self.size_of(tuple)
        } else {
            Err(Error::garbled("tuple", tuple))
        }
    }

    fn write_keywords(
        &self,
        dict: u64,
        before: u64,
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let limit = usize::try_from(limits.items).unwrap_or(usize::MAX);
        for (index, entry) in self.entries(dict)?.take(limit).enumerate() {
            let (key, value) = entry?;
            if before > 0 || index > 0 {
                out.write_str(", ")?;
            }
            self.write_text(self.text(key)?, limits.text, out)?;
            out.write_char('=')?;
            self.write_item(value, limits, out)?;
        }
        Ok(())
    }

    /// The items of a container, one level further in.
    fn write_items(
        &self,
        items: u64,
        count: u64,
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        match limits.deeper() {
            Some(limits) => self.write_items_of(items, count, limits.items, &limits, out),
            None if count > 0 => Ok(out.write_char('…')?),
            None => Ok(()),
        }
    }

    fn write_items_of(
        &self,
        items: u64,
        count: u64,
        most: u64,
        limits: &Limits,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        for index in 0..count.min(most) {
            if index > 0 {
                out.write_str(", ")?;
            }
            let item = self.memory.u64(items.wrapping_add(index * 8))?;
            self.write_item(item, limits, out)?;
        }
        if count > most {
            out.write_str(if most > 0 { ", …" } else { "…" })?;
        }
        Ok(())
    }

    fn write_dict(&self, dict: u64, limits: &Limits, out: &mut dyn Write) -> Result<(), Error> {
        let count = self.dict_len(dict)?;
        let Some(inner) = limits.deeper() else {
            return Ok(out.write_str(if count > 0 { "{…}" } else { "{}" })?);
        };
        out.write_char('{')?;
        let limit = usize::try_from(limits.items).unwrap_or(usize::MAX);
        for (index, entry) in self.entries(dict)?.take(limit).enumerate() {
            let (key, value) = entry?;
            if index > 0 {
                out.write_str(", ")?;
            }
            self.write_item(key, &inner, out)?;
            out.write_str(": ")?;
            self.write_item(value, &inner, out)?;
        }
        if count > limits.items {
            out.write_str(if limit > 0 { ", …" } else { "…" })?;
        }
        Ok(out.write_char('}')?)
    }

    fn write_item(&self, item: u64, limits: &Limits, out: &mut dyn Write) -> Result<(), Error> {
        match self.write_object(item, limits, out) {
            Ok(()) => Ok(()),
            Err(Error::Write) => Err(Error::Write),
            Err(_) => Ok(write!(out, "<? at {item:#x}>")?),
        }
    }

    fn write_int(&self, int: Int, out: &mut dyn Write) -> Result<(), Error> {
        let mut digits = [0; MOST_DIGITS];
        let Some(digits) = digits.get_mut(..usize::try_from(int.digits).unwrap_or(usize::MAX))
        else {
            let bits = int.digits.saturating_mul(u64::from(DIGIT_BITS));
            let sign = if int.negative { "-" } else { "" };
            return Ok(write!(out, "<int {sign}2**{bits} or less>")?);
        };
        for (index, digit) in digits.iter_mut().enumerate() {
            let at = int.at.wrapping_add(index as u64 * 4);
            *digit = self.memory.u32(at)? & ((1 << DIGIT_BITS) - 1);
        }
        if int.negative {
            out.write_char('-')?;
        }
        Ok(write_integer(digits, DIGIT_BITS, out)?)
    }
}

/// Writes a float as `float.__repr__` does: the shortest digits that give the number back, with an exponent below 1e-4
/// and from 1e16 on.
fn write_float(value: f64, out: &mut dyn Write) -> Result<(), Error> {
    if value.is_nan() {
        return Ok(out.write_str("nan")?);
    }
    let size = value.abs();
    if size == 0.0 || size.is_infinite() || (1e-4..1e16).contains(&size) {
        return Ok(write!(out, "{value:?}")?);
    }
    let mut digits = Digits::default();
    write!(digits, "{value:e}")?;
    let digits = digits.text();
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((digits, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    Ok(write!(out, "{mantissa}e{sign}{exponent:0>2}")?)
}

/// Writes a text as `str.__repr__` and `bytes.__repr__` do, which prefer single quotes. Combining characters are
/// escaped too, so that they do not change the character before them.
fn write_quoted<M: Memory>(
    python: &Python<'_, M>,
    text: Text,
    limit: u64,
    bytes: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let (mut single, mut double) = (false, false);
    python.characters(text, limit, &mut |code| {
        single |= code == u32::from('\'');
        double |= code == u32::from('"');
        Ok(true)
    })?;
    let quote = if single && !double { '"' } else { '\'' };
    if bytes {
        out.write_char('b')?;
    }
    out.write_char(quote)?;
    python.characters(text, limit, &mut |code| {
        match char::from_u32(code) {
            Some('\n') => out.write_str("\\n")?,
            Some('\r') => out.write_str("\\r")?,
            Some('\t') => out.write_str("\\t")?,
            Some('\\') => out.write_str("\\\\")?,
            Some(character) if character == quote => write!(out, "\\{character}")?,
            Some(character @ ' '..='~') => out.write_char(character)?,
            Some(character) if !bytes && is_shown(character) => out.write_char(character)?,
            _ if code < 0x100 => write!(out, "\\x{code:02x}")?,
            _ if code < 0x1_0000 => write!(out, "\\u{code:04x}")?,
            _ => write!(out, "\\U{code:08x}")?,
        }
        Ok(true)
    })?;
    out.write_char(quote)?;
    if text.len > limit {
        out.write_char('…')?;
    }
    Ok(())
}

/// Returns whether Rust, by the same Unicode categories as Python, prints the character as it is.
fn is_shown(character: char) -> bool {
    character.escape_debug().next() == Some(character)
}
