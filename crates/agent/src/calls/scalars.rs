//! Values of the guest's VM for conditions. They are looked up when the hook asks, in memory that
//! is read by `memory::copied`.

use super::places::script;
use crate::memory::copied::Copied;
use capture::value::{Item, Text, Value, Values};
use vm::reader::RawText;
use vm::{Memory, Scalar};

/// A call whose values a condition reads.
pub struct Scalars<'a> {
    /// The guest's memory, as this call sees it.
    pub memory: &'a Copied,
    /// rdi, rsi, rdx, rcx, r8, r9 of the call.
    pub registers: [u64; 6],
    /// The result of [`Script::kept`](super::languages::Script::kept) at the call.
    pub kept: u64,
}

impl Values for Scalars<'_> {
    fn value(&mut self, item: Item, word: u64) -> Option<Value> {
        let reader = script().over(self.memory)?;
        let call = script().call(self.registers, self.kept);
        Some(
            match reader.scalar(item.what.0, word, item.index.into(), &call)? {
                Scalar::Nothing => Value::Nothing,
                Scalar::Integer(number) => Value::Integer(number),
                Scalar::Text(text) => Value::Text(Text {
                    at: text.address,
                    left: text.len,
                    width: text.width,
                }),
                Scalar::Other => Value::Other,
            },
        )
    }

    fn fetch(&mut self, text: &mut Text, into: &mut [u8]) -> Option<usize> {
        if text.left == 0 {
            return Some(0);
        }
        if text.width == 0 {
            let count = (into.len() as u64).min(text.left) as usize;
            self.memory.read(text.at, &mut into[..count]).ok()?;
            text.at = text.at.wrapping_add(count as u64);
            text.left -= count as u64;
            return Some(count);
        }
        let rest = RawText {
            address: text.at,
            len: text.left,
            width: text.width,
        };
        let copied = script().over(self.memory)?.copy_text(rest, into)?;
        // Counts bytes that begin a UTF-8 character.
        let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
        let characters = into[..copied].iter().filter(begins).count() as u64;
        text.at = text.at.wrapping_add(characters * u64::from(text.width));
        text.left -= characters;
        Some(copied)
    }
}
