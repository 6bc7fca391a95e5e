//! What is kept of the contents of Strings: a hash, by which equal ones are found, and their beginning where that is asked for.

use heap::{Builder, TextId};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use vm::Memory;
use vm::ruby::Ruby;

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

impl Texts {
    /// What is kept of a String, with its beginning if `contents` says so; nothing of one that cannot be read.
    pub fn kept<M: Memory>(
        &mut self,
        ruby: &Ruby<M>,
        string: u64,
        contents: bool,
        builder: &mut Builder,
    ) -> Kept {
        let Ok(text) = ruby.text(string) else {
            return Kept::default();
        };
        let mut kept = Kept {
            length: Some(text.len),
            ..Kept::default()
        };
        let compares = text.len <= LONGEST && self.compared + text.len <= MOST;
        let wanted = match (compares, contents) {
            (true, _) => text.len as usize,
            (false, true) => BEGINNING,
            (false, false) => return kept,
        };
        self.buffer.resize(wanted, 0);
        let Ok(copied) = ruby.copy(text, &mut self.buffer) else {
            return kept;
        };
        let bytes = &self.buffer[..copied.len];
        if compares {
            self.compared += text.len;
            kept.fingerprint = Some(self.keys.hash_one(bytes));
        }
        if contents {
            let end = bytes.len().min(BEGINNING);
            kept.contents = Some(builder.text(&bytes[..end]));
        }
        kept
    }
}
