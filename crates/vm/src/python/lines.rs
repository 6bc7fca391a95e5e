//! Line tables, which lead from an instruction to its line. There are three encodings. Used by `code` and `locks`.
//!
//! **3.9**, `co_lnotab` (`Objects/lnotab_notes.txt`): pairs of bytes, how far to go in instructions, then
//! how far in lines (signed). The rule is `PyCode_Addr2Line`.
//!
//! **3.10**, `co_linetable` (the same file): pairs again, but a pair is a range: so many bytes of
//! instructions are on the line that is so far from the last; -128 says on none.
//!
//! **Since 3.11**, `co_linetable` (`Objects/locations.md`, since 3.14 `InternalDocs/code_objects.md`):
//! entries of different lengths. The first byte is `1cccclll`, kind and how many units of code less one;
//! no other byte has its highest bit set.
//!
//! | kind | what follows | line |
//! |---|---|---|
//! | 0–9 | one byte of columns | the last |
//! | 10–12 | two bytes of columns | the last + kind − 10 |
//! | 13 | a signed number | the last + that |
//! | 14 | a signed number, three numbers | the last + that |
//! | 15 | nothing | none |

use super::layout::Lines;
use crate::{Fault, Memory};

/// Bytes of an instruction, `sizeof(_Py_CODEUNIT)`.
const UNIT: i64 = 2;

/// Reads the bytes of a table, one by one.
pub(super) struct Bytes<'a, M> {
    memory: &'a M,
    at: u64,
    left: u64,
    buffer: [u8; 128],
    filled: usize,
    used: usize,
}

impl<'a, M: Memory> Bytes<'a, M> {
    pub(super) fn new(memory: &'a M, at: u64, size: u64) -> Bytes<'a, M> {
        Bytes {
            memory,
            at,
            left: size,
            buffer: [0; 128],
            filled: 0,
            used: 0,
        }
    }

    /// Returns the next byte; `None` at the end.
    fn next(&mut self) -> Result<Option<u8>, Fault> {
        if self.used == self.filled {
            let more = self.left.min(self.buffer.len() as u64) as usize;
            if more == 0 {
                return Ok(None);
            }
            // A failed read changes nothing, so that the next call fails in the same way.
            self.memory.read(self.at, &mut self.buffer[..more])?;
            self.at = self.at.wrapping_add(more as u64);
            self.left -= more as u64;
            (self.filled, self.used) = (more, 0);
        }
        self.used += 1;
        Ok(Some(self.buffer[self.used - 1]))
    }

    fn pair(&mut self) -> Result<Option<(u8, i8)>, Fault> {
        let Some(first) = self.next()? else {
            return Ok(None);
        };
        Ok(self.next()?.map(|second| (first, second as i8)))
    }

    /// Reads a number in groups of six bits, the lowest first; bit 6 says that more follow.
    fn number(&mut self) -> Result<u32, Fault> {
        let mut number = 0;
        let mut shift = 0;
        while let Some(byte) = self.next()? {
            if shift < 32 {
                number |= u32::from(byte & 0x3f) << shift;
            }
            shift += 6;
            if byte & 0x40 == 0 {
                break;
            }
        }
        Ok(number)
    }

    /// Reads a number in groups of six bits, the highest first; `None` at the end.
    pub(super) fn leading_high(&mut self) -> Result<Option<u32>, Fault> {
        let mut number: u32 = 0;
        while let Some(byte) = self.next()? {
            number = number.wrapping_shl(6) | u32::from(byte & 0x3f);
            if byte & 0x40 == 0 {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Reads a signed number: the sign is the lowest bit.
    fn signed(&mut self) -> Result<i32, Fault> {
        let number = self.number()?;
        let half = (number >> 1) as i32;
        Ok(if number & 1 == 0 { half } else { -half })
    }
}

/// Returns the line of the instruction `lasti` bytes into the code, which begins on line `first`.
pub(super) fn find<M: Memory>(
    lines: Lines,
    bytes: Bytes<'_, M>,
    first: i32,
    lasti: i32,
) -> Result<Option<i32>, Fault> {
    match lines {
        Lines::Lnotab => lnotab(bytes, first, lasti),
        Lines::Linetable => linetable(bytes, first, lasti),
        Lines::Locations => locations(bytes, first, lasti),
    }
}

/// Returns how many bytes of instructions a table of [`Lines::Locations`] tells of: all that the code has.
pub(super) fn covered<M: Memory>(mut bytes: Bytes<'_, M>) -> Result<u64, Fault> {
    let mut units = 0;
    while let Some(byte) = bytes.next()? {
        if byte & 0x80 != 0 {
            units += u64::from(byte & 7) + 1;
        }
    }
    Ok(units * UNIT.unsigned_abs())
}

fn lnotab<M: Memory>(
    mut bytes: Bytes<'_, M>,
    first: i32,
    lasti: i32,
) -> Result<Option<i32>, Fault> {
    let (mut at, mut line) = (0_i64, first);
    while let Some((far, lines)) = bytes.pair()? {
        at += i64::from(far);
        if at > i64::from(lasti) {
            break;
        }
        line = line.wrapping_add(i32::from(lines));
    }
    Ok(Some(line))
}

fn linetable<M: Memory>(
    mut bytes: Bytes<'_, M>,
    first: i32,
    lasti: i32,
) -> Result<Option<i32>, Fault> {
    let (mut end, mut line) = (0_i64, first);
    while let Some((far, lines)) = bytes.pair()? {
        end += i64::from(far);
        if lines != i8::MIN {
            line = line.wrapping_add(i32::from(lines));
        }
        if end > i64::from(lasti) {
            return Ok((lines != i8::MIN).then_some(line));
        }
    }
    Ok(None)
}

fn locations<M: Memory>(
    mut bytes: Bytes<'_, M>,
    first: i32,
    lasti: i32,
) -> Result<Option<i32>, Fault> {
    let (mut end, mut line) = (0_i64, first);
    while let Some(head) = bytes.next()? {
        // The columns are skipped.
        if head & 0x80 == 0 {
            continue;
        }
        let kind = head >> 3 & 0xf;
        match kind {
            10..=12 => line = line.wrapping_add(i32::from(kind) - 10),
            13 | 14 => line = line.wrapping_add(bytes.signed()?),
            _ => {}
        }
        end += (i64::from(head & 7) + 1) * UNIT;
        if end > i64::from(lasti) {
            return Ok((kind != 15).then_some(line));
        }
    }
    Ok(None)
}
