//! What the books ask the VM of a language about addresses, as text and numbers. `languages` answers. Used by
//! `books::rows`, `languages::php::births::names`, `languages::python::births::names` and others.

use core::fmt;

/// The name of the row of objects whose class had no name and is gone.
pub const DROPPED_CLASSES: &[u8] = b"#<Class> (gone)";

/// Longest text in bytes that is kept; a longer one is cut.
const LONGEST: usize = 1024;

/// A class as a report calls it.
pub enum Class<'a> {
    /// Its name, or the text for a type without class.
    Named {
        /// The text of the name, at most 1024 bytes of it; the next text that is read may overwrite it.
        name: &'a [u8],
        /// Whether it is a type of the VM's own, which `ObjectSpace.each_object` does not show.
        internal: bool,
    },
    /// A class without a name.
    Anonymous {
        /// Address of the class object.
        address: u64,
    },
}

/// What the books ask the VM about an address, as text and numbers. Each language's `Names` reads it; the books' tests make it up.
pub trait Texts {
    /// The line of `pc` in `code`; 0 if the VM has none.
    fn line(&self, code: u64, pc: u64) -> u32;
    /// Returns the path of a piece of code, as the VM's own tools show it.
    fn path(&mut self, code: u64) -> &[u8];
    /// Returns the name of the method that a piece of code belongs to.
    fn method(&mut self, code: u64) -> &[u8];
    /// Returns the name of the class, or the text for the number of a type without class.
    fn class(&mut self, class: u64) -> Class<'_>;
    /// Whether code is the VM's own, written in its language: what is born there is booked at the line that called it.
    fn is_own(&mut self, code: u64) -> bool;
}

/// Room for a text, and how many bytes of it are in use.
pub struct Buffer {
    pub bytes: [u8; LONGEST],
    pub length: usize,
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

impl Buffer {
    /// Ends the text before its first NUL.
    pub fn cut(&mut self) {
        if let Some(at) = self.text().iter().position(|byte| *byte == 0) {
            self.length = at;
        }
    }

    pub const fn new() -> Self {
        Buffer {
            bytes: [0; LONGEST],
            length: 0,
        }
    }

    /// The bytes in use.
    pub fn text(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(b"")
    }
}

#[cfg(test)]
mod tests;
