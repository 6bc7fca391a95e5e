//! Numbers and texts as bytes, and back: what recordings and heap snapshots are made of.
//!
//! A number is written as LEB128 (DWARF 5, section 7.6), one with a sign by zigzag encoding before that, and a text as its length in bytes
//! and its UTF-8. [`Take`] reads them from bytes that anybody may have written: it never reads beyond their end, and says [`Wrong`]
//! where they end too early or a value is out of its range. Numbers with more bytes than they need are read all the same.

#![forbid(unsafe_code)]

/// Writes a number, seven bits a byte, low ones first; the eighth bit says that more bytes follow (LEB128). One of up to
/// four bytes is made in one piece, without asking how many bytes it has: the processor could not foresee that.
#[inline]
pub fn put(out: &mut Vec<u8>, number: u64) {
    if number >> 28 != 0 {
        return put_long(out, number);
    }
    let number = number as u32;
    let sevens = number & 0x7f
        | (number & 0x3f80) << 1
        | (number & 0x1f_c000) << 2
        | (number & 0xfe0_0000) << 3;
    let more = (31 - (number | 1).leading_zeros()) / 7;
    let follow = 0x0080_8080 & ((1 << (more * 8)) - 1);
    let end = out.len() + 1 + more as usize;
    out.extend_from_slice(&(sevens | follow).to_le_bytes());
    out.truncate(end);
}

fn put_long(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a signed number so that small ones of either sign are short (zigzag encoding).
#[inline]
pub fn put_signed(out: &mut Vec<u8>, difference: i64) {
    put(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Writes bytes with their number before them.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a>(pub &'a [u8]);

/// The bytes are such as no writer writes: they end too early, a number is out of its range, or a text is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong;

impl<'a> Take<'a> {
    /// Reads a byte.
    ///
    /// # Errors
    /// No byte is left. Every other function of this type fails where its bytes end too early, too.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Wrong> {
        let (first, rest) = self.0.split_first().ok_or(Wrong)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads a number, as [`put`] writes it.
    ///
    /// # Errors
    /// It has more than ten bytes. Of a tenth byte the lowest bit alone counts, because 64 bits have no room for the others.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Wrong> {
        // Most numbers have one byte, and most others two.
        match *self.0 {
            [low, ref rest @ ..] if low < 0x80 => {
                self.0 = rest;
                Ok(low.into())
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.0 = rest;
                Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => self.long(),
        }
    }

    fn long(&mut self) -> Result<u64, Wrong> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Wrong)
    }

    /// Reads a signed number, as [`put_signed`] writes it.
    ///
    /// # Errors
    /// As [`Take::number`].
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Wrong> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a number that fits into 32 bits.
    ///
    /// # Errors
    /// It does not fit, or [`Take::number`] fails.
    #[inline]
    pub fn small(&mut self) -> Result<u32, Wrong> {
        u32::try_from(self.number()?).map_err(|_| Wrong)
    }

    /// Reads a number below `end`.
    ///
    /// # Errors
    /// It is not below `end`, or does not fit into 32 bits.
    pub fn below(&mut self, end: usize) -> Result<u32, Wrong> {
        match self.small()? {
            number if (number as usize) < end => Ok(number),
            _ => Err(Wrong),
        }
    }

    /// Reads `length` bytes.
    ///
    /// # Errors
    /// Fewer than that are left.
    #[inline]
    pub fn exactly(&mut self, length: usize) -> Result<&'a [u8], Wrong> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Wrong)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads bytes with their number before them, as [`put_bytes`] writes them.
    ///
    /// # Errors
    /// Fewer are left than that number says.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let length = usize::try_from(self.number()?).map_err(|_| Wrong)?;
        self.exactly(length)
    }

    /// Reads a text. It is UTF-8, because whoever writes one has replaced everything else.
    ///
    /// # Errors
    /// It is not UTF-8, or its bytes are not there.
    pub fn text(&mut self) -> Result<String, Wrong> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| Wrong)?;
        Ok(text.to_owned())
    }

    /// Reads a list of texts with its length before it.
    ///
    /// # Errors
    /// One of them is not there, or no text.
    pub fn texts(&mut self) -> Result<Vec<String>, Wrong> {
        let count = self.number()?;
        // Each takes a byte at least: a count that lies is seen before room is made for it.
        if count > self.0.len() as u64 {
            return Err(Wrong);
        }
        (0..count).map(|_| self.text()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_again_and_are_as_long_as_they_must() {
        let around = |bit: u32| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, !power]
        };
        for number in (0..64).flat_map(around) {
            let (mut out, mut expected) = (vec![7], vec![7]);
            put(&mut out, number);
            put_long(&mut expected, number);
            assert_eq!(out, expected);
            let mut take = Take(&out[1..]);
            assert_eq!((take.number(), take.0.len()), (Ok(number), 0));
        }
    }
}
