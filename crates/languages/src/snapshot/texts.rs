//! What is kept of the contents of strings: a hash, by which equal strings are found, and their beginnings if requested.
//! Used by `perl::snapshot::walk`, `php::snapshot::walk` and `ruby::snapshot`.

use heap::{Builder, TextId};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Length limit of the strings that are compared.
const LONGEST: u64 = 64 << 10;
/// Limit of the bytes of all compared strings together.
const MOST: u64 = 1 << 30;
/// Bytes of the beginning that are kept.
const BEGINNING: usize = 256;

/// The state shared by the strings of one snapshot: the keys of the hash, and how many bytes were compared. Hashes of two snapshots cannot
/// be compared, because each has keys of its own.
#[derive(Default)]
pub struct Texts {
    /// Random keys of the hash, so that a text cannot be recovered from a snapshot by hashing likely ones.
    keys: RandomState,
    buffer: Vec<u8>,
    /// Bytes of the strings compared so far.
    compared: u64,
}

/// What is kept of a string.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Length of the whole string, in bytes.
    pub length: Option<u64>,
    /// Hash of the whole string; `None` if it is too long, or too much was compared already.
    pub fingerprint: Option<u64>,
    /// Beginning of the string, at most `BEGINNING` bytes; `None` if contents are not requested or cannot be read.
    pub contents: Option<TextId>,
}

impl Texts {
    /// What is kept of a string with this length, and with its beginning if `contents` says so. `copy` fills its argument with the
    /// beginning of the string and returns the number of bytes; `None` = the string cannot be read.
    pub fn kept(
        &mut self,
        length: u64,
        contents: bool,
        builder: &mut Builder,
        copy: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Kept {
        let mut kept = Kept {
            length: Some(length),
            ..Kept::default()
        };
        let compares = length <= LONGEST && self.compared + length <= MOST;
        let wanted = match (compares, contents) {
            (true, _) => length as usize,
            (false, true) => BEGINNING,
            (false, false) => return kept,
        };
        self.buffer.resize(wanted, 0);
        let copied = copy(&mut self.buffer);
        let Some(bytes) = copied.and_then(|copied| self.buffer.get(..copied)) else {
            return kept;
        };
        // A string that was read in part would be taken for equal to a text that ends there.
        if compares && bytes.len() as u64 == length {
            self.compared += length;
            kept.fingerprint = Some(self.keys.hash_one(bytes));
        }
        if contents {
            let end = bytes.len().min(BEGINNING);
            kept.contents = Some(builder.text(&bytes[..end]));
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::About;

    #[test]
    fn a_text_that_is_read_in_part_is_equal_to_none() {
        let mut builder = Builder::new(About::default());
        let mut texts = Texts::default();
        let mut kept = |length, readable: usize| {
            let copy = |into: &mut [u8]| Some(into.len().min(readable));
            texts.kept(length, false, &mut builder, copy).fingerprint
        };
        assert_eq!(kept(8, 8), kept(8, 8));
        assert!(kept(8, 8).is_some());
        assert_eq!(kept(16, 8), None);
    }
}
