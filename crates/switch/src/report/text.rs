//! Text in a buffer of fixed size, for a place where nothing may allocate.

use core::fmt;

/// A block of text, cut when it is full.
pub struct Text {
    bytes: [u8; 2048],
    len: usize,
}

impl Text {
    /// Returns an empty text.
    pub const fn new() -> Self {
        Text {
            bytes: [0; 2048],
            len: 0,
        }
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends bytes that need not be UTF-8; control characters become `?`, so that a name cannot
    /// forge a line.
    pub fn push_foreign(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push(if byte.is_ascii_control() { b'?' } else { byte });
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

/// A number with commas between the thousands.
pub struct Grouped(pub usize);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1000 {
            write!(f, "{},{:03}", Grouped(self.0 / 1000), self.0 % 1000)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;
    use std::string::ToString;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(Grouped(0).to_string(), "0");
        assert_eq!(Grouped(999).to_string(), "999");
        assert_eq!(Grouped(262_144).to_string(), "262,144");
        assert_eq!(Grouped(1_000_007).to_string(), "1,000,007");
    }

    #[test]
    fn a_full_block_is_cut_and_control_characters_are_not_passed_on() {
        let mut text = Text::new();
        text.push_foreign(b"a\nb\x1b");
        assert_eq!(text.as_bytes(), b"a?b?");
        for _ in 0..1000 {
            write!(text, "12345").expect("never fails");
        }
        assert_eq!(text.as_bytes().len(), 2048);
    }
}
