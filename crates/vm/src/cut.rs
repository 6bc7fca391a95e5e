//! Text that is written into bytes of a fixed number, and cut at their end. Used by `perl::script`, `php::script` and
//! others here, and by crate `agent`.

use core::fmt::{self, Write};

/// A writer over a piece of memory. What does not fit is left out without an error, so a text of any length can be
/// written; it may be cut within a character.
#[derive(Debug)]
pub struct Cut<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl<'a> Cut<'a> {
    /// An empty text with room for as many bytes as `bytes` has.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Cut { bytes, length: 0 }
    }

    /// Returns how many bytes have been written.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Appends as many of the bytes as there is room for.
    pub fn push(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes.len() - self.length);
        self.bytes[self.length..self.length + count].copy_from_slice(&bytes[..count]);
        self.length += count;
    }

    pub(crate) fn begins_with(&self, text: &str) -> bool {
        self.bytes[..self.length].starts_with(text.as_bytes())
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Puts `text` before what has been written; the end is cut if it no longer fits.
    pub(crate) fn put_first(&mut self, text: &str) {
        let end = (self.length + text.len()).min(self.bytes.len());
        let kept = end.saturating_sub(text.len());
        self.bytes.copy_within(0..kept, text.len().min(end));
        let text = &text.as_bytes()[..text.len().min(end)];
        self.bytes[..text.len()].copy_from_slice(text);
        self.length = end;
    }

    /// Removes the first byte.
    pub(crate) fn drop_first(&mut self) {
        if self.length > 0 {
            self.bytes.copy_within(1..self.length, 0);
            self.length -= 1;
        }
    }
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &mut [u8], write: impl FnOnce(&mut Cut<'_>)) -> &str {
        let length = {
            let mut cut = Cut::new(bytes);
            write(&mut cut);
            cut.length()
        };
        core::str::from_utf8(&bytes[..length]).expect("ASCII")
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut bytes = [0; 6];
        assert_eq!(text(&mut bytes, |cut| cut.push(b"abcdefgh")), "abcdef");
        for (written, whole) in [("ab", "x: ab"), ("abc", "x: abc"), ("abcdef", "x: abc")] {
            let prefixed = text(&mut bytes, |cut| {
                cut.push(written.as_bytes());
                cut.put_first("x: ");
            });
            assert_eq!(prefixed, whole);
        }
        let mut short = [0; 2];
        assert_eq!(text(&mut short, |cut| cut.put_first("x: ")), "x:");
        let dropped = text(&mut bytes, |cut| {
            cut.push(b"(1");
            cut.drop_first();
        });
        assert_eq!(dropped, "1");
    }
}
