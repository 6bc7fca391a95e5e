//! Numbers in decimal, as far as all languages write them alike: the digits of whole numbers of any size, and room for
//! those of floating-point numbers before they are put into a language's form. Used by `python::show`, `ruby::number`
//! and `perl::value`.

use core::fmt::{self, Write};

/// Most digits of 30 or 32 bits that [`write_integer`] takes. Readers write larger numbers by their size.
pub(crate) const MOST_DIGITS: usize = 40;

/// Groups of nine decimal digits that these make, at most.
const GROUPS: usize = 43;
const GROUP: u64 = 1_000_000_000;

/// Writes a whole number of digits of so many bits each, the lowest first; `digits` are zeros afterwards.
pub(crate) fn write_integer(digits: &mut [u32], bits: u32, out: &mut dyn Write) -> fmt::Result {
    let mut groups = [0; GROUPS];
    let mut count = 0;
    while digits.iter().any(|&digit| digit != 0) && count < GROUPS {
        let mut rest = 0;
        for digit in digits.iter_mut().rev() {
            let value = rest << bits | u64::from(*digit);
            *digit = (value / GROUP) as u32;
            rest = value % GROUP;
        }
        groups[count] = rest as u32;
        count += 1;
    }
    let mut groups = groups[..count].iter().rev();
    write!(out, "{}", groups.next().unwrap_or(&0))?;
    for group in groups {
        write!(out, "{group:09}")?;
    }
    Ok(())
}

/// Room for a sign, 17 digits, a point, and zeros before them or an exponent. What is longer is an error.
#[derive(Default)]
pub(crate) struct Digits {
    bytes: [u8; 32],
    len: usize,
}

impl Digits {
    pub(crate) fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len());
        room.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
