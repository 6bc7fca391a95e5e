//! What is kept of the contents of Strings: a hash, by which equal ones are found, and their beginning where that is asked for.

use super::Maker;
use heap::TextId;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Longer Strings are not compared, in bytes.
const LONGEST: u64 = 64 << 10;
/// Bytes of all Strings together that are compared.
const MOST: u64 = 1 << 30;
/// Bytes of the beginning that are kept.
const BEGINNING: usize = 256;

/// See the module's text.
#[derive(Default)]
pub struct Texts {
    /// Of the hash, made anew for each snapshot: a file does not give away what a String is to whoever tries likely ones.
    keys: RandomState,
    buffer: Vec<u8>,
    /// Bytes that were compared.
    compared: u64,
}

/// What is kept of a String.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Its bytes.
    pub length: Option<u64>,
    /// The hash of them.
    pub fingerprint: Option<u64>,
    /// Their beginning.
    pub contents: Option<TextId>,
}

impl Maker<'_> {
    /// What is kept of a String; nothing of one that cannot be read.
    pub fn kept(&mut self, string: u64) -> Kept {
        let Ok(text) = self.ruby.text(string) else {
            return Kept::default();
        };
        let mut kept = Kept {
            length: Some(text.len),
            ..Kept::default()
        };
        let texts = &mut self.texts;
        let compares = text.len <= LONGEST && texts.compared + text.len <= MOST;
        let wanted = match (compares, self.contents) {
            (true, _) => text.len as usize,
            (false, true) => BEGINNING,
            (false, false) => return kept,
        };
        texts.buffer.resize(wanted, 0);
        let Ok(copied) = self.ruby.copy(text, &mut texts.buffer) else {
            return kept;
        };
        let bytes = &texts.buffer[..copied.len];
        if compares {
            texts.compared += text.len;
            kept.fingerprint = Some(texts.keys.hash_one(bytes));
        }
        if self.contents {
            let end = bytes.len().min(BEGINNING);
            kept.contents = Some(self.builder.text(&bytes[..end]));
        }
        kept
    }
}
