//! Text of Floats and of large Integers. Used by `show`.
//!
//! A Float is in the value itself (flonum: the exponent's upper bits are cut, the rest rotated;
//! `internal/numeric.h`, 2.7 `internal.h`: `rb_float_flonum_value`) or an object. An Integer of more than 62 bits
//! is an object with 32-bit digits (`BDIGIT`), the lowest first; few of them are in its slot (`struct RBignum`,
//! `internal/bignum.h`; 2.7 `internal.h`).

use core::fmt::Write;

use super::object::USER_SHIFT;
use super::{Error, Ruby};
use crate::Memory;
use crate::decimal::{Digits, MOST_DIGITS, write_integer};

/// `float_value` in `struct RFloat`.
const FLOAT: u64 = 16;

/// `BIGNUM_SIGN_BIT` (set: not negative), `BIGNUM_EMBED_FLAG`, `BIGNUM_EMBED_LEN_SHIFT`.
const POSITIVE: u64 = 1 << (USER_SHIFT + 1);
const EMBEDDED: u64 = 1 << (USER_SHIFT + 2);
const EMBEDDED_LEN: u32 = USER_SHIFT + 3;
/// `as.ary`, or `as.heap.len` and `as.heap.digits`.
const LEN: u64 = 16;
const DIGITS: u64 = 24;

/// `DBL_DIG` (`float.h`): a whole Float with more digits than these is written with an exponent.
const FLOAT_DIGITS: i32 = 15;

/// Returns the Float in an immediate value, whose lowest two bits are 2.
pub(super) fn flonum(value: u64) -> f64 {
    if value == 0x8000_0000_0000_0002 {
        return 0.0;
    }
    f64::from_bits(((2 - (value >> 63)) | (value & !3)).rotate_right(3))
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns the number in a Float object.
    pub(super) fn float(&self, float: u64) -> Result<f64, Error> {
        Ok(f64::from_bits(self.memory.u64(float.wrapping_add(FLOAT))?))
    }

    /// Writes an Integer object.
    pub(super) fn write_bignum(&self, integer: u64, out: &mut dyn Write) -> Result<(), Error> {
        let flags = self.flags(integer)?;
        let (len, at) = if flags & EMBEDDED != 0 {
            (
                flags >> EMBEDDED_LEN & self.layout.collection.embedded_digits,
                integer.wrapping_add(LEN),
            )
        } else {
            (
                self.memory.u64(integer.wrapping_add(LEN))?,
                self.memory.u64(integer.wrapping_add(DIGITS))?,
            )
        };
        let sign = if flags & POSITIVE != 0 { "" } else { "-" };
        let mut digits = [0; MOST_DIGITS];
        let Some(digits) = digits.get_mut(..usize::try_from(len).unwrap_or(usize::MAX)) else {
            let bits = len.saturating_mul(32);
            return Ok(write!(out, "#<Integer {sign}2**{bits} or less>")?);
        };
        for (index, digit) in digits.iter_mut().enumerate() {
            *digit = self.memory.u32(at.wrapping_add(index as u64 * 4))?;
        }
        out.write_str(sign)?;
        Ok(write_integer(digits, 32, out)?)
    }
}

/// Writes a Float as `Float#to_s` does (`flo_to_s`, `numeric.c`): the shortest digits that give the number back.
pub(super) fn write_float(value: f64, out: &mut dyn Write) -> Result<(), Error> {
    if value.is_nan() {
        return Ok(out.write_str("NaN")?);
    }
    if value.is_sign_negative() {
        out.write_char('-')?;
    }
    if value.is_infinite() {
        return Ok(out.write_str("Infinity")?);
    }
    if value == 0.0 {
        return Ok(out.write_str("0.0")?);
    }
    let mut text = Digits::default();
    write!(text, "{:e}", value.abs())?;
    let (mantissa, exponent) = text.text().split_once('e').unwrap_or(("0", "0"));
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // The point stands behind this many digits.
    let (point, count) = (exponent + 1, (first.len() + rest.len()) as i32);
    let digits = || first.chars().chain(rest.chars());
    if point > 0 && (point < count || point <= FLOAT_DIGITS) {
        for index in 0..point.max(count) {
            if index == point {
                out.write_char('.')?;
            }
            out.write_char(digits().nth(index as usize).unwrap_or('0'))?;
        }
        if point >= count {
            out.write_str(".0")?;
        }
    } else if point > -4 && point <= 0 {
        out.write_str("0.")?;
        for _ in point..0 {
            out.write_char('0')?;
        }
        for digit in digits() {
            out.write_char(digit)?;
        }
    } else {
        let rest = if rest.is_empty() { "0" } else { rest };
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{first}.{rest}e{sign}{:02}", exponent.abs())?;
    }
    Ok(())
}
