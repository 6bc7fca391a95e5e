//! Reads the values of a Perl's scalars. Used by `script`, and by
//! `languages::perl::snapshot::walk`.
//!
//! An SV is a head of three words (`sv_any` → body, `sv_refcnt`, `sv_flags`, `sv_u`) and a body by type. Numbers
//! lie in the body, but also where the types without a body (`SVt_IV`, `SVt_NV`) make it seem to lie: their
//! `sv_any` points before the head, so that the offset of the number leads into it (`SET_SVANY_FOR_BODYLESS_IV`,
//! `sv_inline.h`). Offsets and flags: `sv.h`, the same in all versions.
//!
//! Nothing is computed: a tied or magical scalar says what it was when Perl last looked, and an object with
//! overloaded `""` says its class and address.

use core::fmt::Write;

use super::name::{
    TYPE_ARRAY, TYPE_BITS, TYPE_CODE, TYPE_FORMAT, TYPE_GLOB, TYPE_HASH, TYPE_IO, TYPE_LVALUE,
    TYPE_OBJECT, TYPE_REGEXP, UNION,
};
use super::{Error, Perl, Text};
use crate::decimal::Digits;
use crate::{Memory, bytes};

/// `xpv_cur`, `xiv_iv` and `xnv_nv` in the bodies that have them; `xmg_stash`.
const CURRENT: u64 = 16;
const INTEGER: u64 = 32;
const NUMBER: u64 = 40;
const STASH: u64 = 0;

/// `SVf_…OK`; the private `SVp_…OK` are 4 bits higher.
const IOK: u32 = 0x100;
const NOK: u32 = 0x200;
const POK: u32 = 0x400;
const ROK: u32 = 0x800;
const PRIVATE: u32 = 4;

/// `SVf_IVisUV`, `SVf_UTF8` and `SVs_OBJECT`.
const UNSIGNED: u32 = 0x8000_0000;
const UTF8: u32 = 0x2000_0000;
const OBJECT: u32 = 0x10_0000;

/// `SVt_LAST`: no Perl has types from here on.
const LAST_TYPE: u32 = 17;

/// The value of an SV.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The undefined value, and that of a null pointer.
    Undef,
    /// An integer that an `IV` holds (`xiv_iv`).
    Integer(i64),
    /// An unsigned integer that no signed one can hold.
    Unsigned(u64),
    /// A floating point number.
    Number(f64),
    /// Text or bytes; the `Text` says whether their characters are Latin-1 or UTF-8.
    Text(Text),
    /// A reference to the SV at this address.
    Reference(u64),
    /// A glob: the address of the SV itself.
    Glob(u64),
    /// An array, a hash, code and so on, which is no scalar: the address of the SV itself.
    Aggregate(u64),
}

impl<M: Memory> Perl<'_, M> {
    /// Returns the value of an `SV *`.
    pub fn value(&self, sv: u64) -> Result<Value, Error> {
        if sv == 0 {
            return Ok(Value::Undef);
        }
        let flags = self.flags(sv)?;
        let kind = flags & TYPE_BITS;
        if kind >= LAST_TYPE {
            return Err(Error::garbled("SV", sv));
        }
        if self.glob(sv)?.is_some() {
            return Ok(Value::Glob(sv));
        }
        if kind >= TYPE_ARRAY || kind == TYPE_REGEXP {
            return Ok(Value::Aggregate(sv));
        }
        if flags & ROK != 0 {
            return Ok(Value::Reference(self.memory.u64(sv.wrapping_add(UNION))?));
        }
        let body = self.body(sv)?;
        // Flags that are only private are those of a scalar with magic.
        let has = |kind| {
            flags & kind != 0 || flags & (IOK | NOK | POK) == 0 && flags & kind << PRIVATE != 0
        };
        if has(POK) {
            return Ok(Value::Text(Text {
                address: self.memory.u64(sv.wrapping_add(UNION))?,
                len: self.memory.u64(body.wrapping_add(CURRENT))?,
                latin1: flags & UTF8 == 0,
            }));
        }
        if has(IOK) {
            let bits = self.memory.u64(body.wrapping_add(INTEGER))?;
            return Ok(if flags & UNSIGNED != 0 {
                Value::Unsigned(bits)
            } else {
                Value::Integer(bits.cast_signed())
            });
        }
        if has(NOK) {
            let bits = self.memory.u64(body.wrapping_add(NUMBER))?;
            return Ok(Value::Number(f64::from_bits(bits)));
        }
        Ok(Value::Undef)
    }

    /// Writes an `SV *`: `undef`, `-7`, `2.5`, `"text"` (escaped, at most `limit` bytes of it), `HASH(0x55…)`,
    /// `Class=HASH(0x55…)`, `*main::STDOUT`. An aggregate is written as a reference to it would be.
    pub fn write_value(&self, sv: u64, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        match self.value(sv)? {
            Value::Undef => out.write_str("undef")?,
            Value::Integer(value) => write!(out, "{value}")?,
            Value::Unsigned(value) => write!(out, "{value}")?,
            Value::Number(value) => write_number(value, out)?,
            Value::Text(text) => bytes::write_quoted::<_, Error>(self.memory, text, limit, out)?,
            Value::Reference(to) | Value::Aggregate(to) => self.write_reference(to, limit, out)?,
            Value::Glob(glob) => {
                out.write_char('*')?;
                self.write_glob_name(glob, out)?;
            }
        }
        Ok(())
    }

    fn write_reference(&self, to: u64, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        let flags = self.flags(to)?;
        if flags & OBJECT != 0 {
            let stash = self.memory.u64(self.body(to)?.wrapping_add(STASH))?;
            match self.stash_name(stash)? {
                Some(name) => self.write_text(name, limit, out)?,
                None => out.write_str("__ANON__")?,
            }
            out.write_char('=')?;
        }
        // `sv_reftype`, `sv.c`.
        let kind = match flags & TYPE_BITS {
            TYPE_ARRAY => "ARRAY",
            TYPE_HASH => "HASH",
            TYPE_CODE => "CODE",
            TYPE_REGEXP => "REGEXP",
            TYPE_FORMAT => "FORMAT",
            TYPE_IO => "IO",
            TYPE_OBJECT => "OBJECT",
            TYPE_GLOB if self.glob(to)?.is_some() => "GLOB",
            _ if flags & ROK != 0 => "REF",
            TYPE_LVALUE => "LVALUE",
            kind if kind < LAST_TYPE => "SCALAR",
            _ => return Err(Error::garbled("SV", to)),
        };
        Ok(write!(out, "{kind}({to:#x})")?)
    }
}

/// Significant digits of a number in text: `%.15g`, `NV_DIG` (`sv_2pv_flags`, `sv.c`).
const DIGITS: usize = 15;

fn write_number(value: f64, out: &mut dyn Write) -> Result<(), Error> {
    if value.is_nan() {
        return Ok(out.write_str("NaN")?);
    }
    if value.is_infinite() {
        return Ok(out.write_str(if value > 0.0 { "Inf" } else { "-Inf" })?);
    }
    let mut room = Digits::default();
    write!(room, "{value:.*e}", DIGITS - 1)?;
    let text = room.text();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS as i32).contains(&exponent) {
        let after = usize::try_from(DIGITS as i32 - 1 - exponent).unwrap_or(0);
        let mut room = Digits::default();
        write!(room, "{value:.after$}")?;
        return Ok(out.write_str(trim(room.text()))?);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Ok(write!(
        out,
        "{}e{sign}{:02}",
        trim(mantissa),
        exponent.unsigned_abs()
    )?)
}

/// Returns the text without zeros behind the point.
fn trim(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::write_number;
    use std::string::String;

    #[test]
    fn numbers_are_as_perl_prints_them() {
        for (number, text) in [
            (2.5, "2.5"),
            (0.1 + 0.2, "0.3"),
            (0.200_076_999_999_999_98, "0.200077"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-5, "1e-05"),
            (0.000_123, "0.000123"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e300, "1e+300"),
            (f64::INFINITY, "Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut out = String::new();
            write_number(number, &mut out).unwrap();
            assert_eq!(out, text);
        }
    }
}
