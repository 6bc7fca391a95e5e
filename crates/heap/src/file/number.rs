//! Numbers in a block: LEB128, and zigzag where they have a sign.

/// Writes a number, seven bits a byte, low ones first; the eighth bit says that more bytes follow.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes the distance from one number to another, so that short ones of either sign are short.
pub fn put_distance(out: &mut Vec<u8>, from: u32, to: u32) {
    let distance = i64::from(to) - i64::from(from);
    put(out, ((distance << 1) ^ (distance >> 63)) as u64);
}

/// Writes bytes with their number before them.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The bytes of a block that are not read yet.
pub struct Take<'a>(pub &'a [u8]);

/// The bytes are such as no writer writes.
pub struct Wrong;

impl<'a> Take<'a> {
    pub fn byte(&mut self) -> Result<u8, Wrong> {
        let (first, rest) = self.0.split_first().ok_or(Wrong)?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn number(&mut self) -> Result<u64, Wrong> {
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

    /// Reads a number below `end`.
    pub fn below(&mut self, end: usize) -> Result<u32, Wrong> {
        let number = self.number()?;
        if number >= end as u64 {
            return Err(Wrong);
        }
        u32::try_from(number).map_err(|_| Wrong)
    }

    /// Reads a number plus one below `end`, or 0 for none.
    pub fn optional(&mut self, end: usize) -> Result<Option<u32>, Wrong> {
        Ok(self.below(end + 1)?.checked_sub(1))
    }

    /// Reads the distance from a number to one below `end`.
    pub fn from(&mut self, from: u32, end: usize) -> Result<u32, Wrong> {
        let number = self.number()?;
        let distance = (number >> 1) as i64 ^ -((number & 1) as i64);
        let to = i64::from(from).checked_add(distance).ok_or(Wrong)?;
        match u32::try_from(to) {
            Ok(to) if (to as usize) < end => Ok(to),
            _ => Err(Wrong),
        }
    }

    pub fn exactly(&mut self, length: usize) -> Result<&'a [u8], Wrong> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Wrong)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let length = usize::try_from(self.number()?).map_err(|_| Wrong)?;
        self.exactly(length)
    }

    pub fn text(&mut self) -> Result<String, Wrong> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| Wrong)?;
        Ok(text.to_owned())
    }
}
