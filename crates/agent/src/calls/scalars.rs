//! Values of the guest's VM for conditions. They are looked up when the hook asks, in memory that is proven
//! readable page by page.

use super::places::script;
use super::values::Proven;
use capture::value::{Item, Text, Value, Values};
use vm::reader::RawText;
use vm::{Memory, Scalar};

/// A call whose values a condition reads.
pub struct Scalars<'a> {
    /// The guest's memory, with the pages that were proven readable for this call.
    pub proven: &'a Proven,
    /// rdi, rsi, rdx, rcx, r8, r9 of the call.
    pub registers: [u64; 6],
    /// The result of [`Script::kept`](super::languages::Script::kept) at the call.
    pub kept: u64,
}

impl Values for Scalars<'_> {
    fn value(&mut self, item: Item, word: u64) -> Option<Value> {
        let reader = script().proven(self.proven)?;
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
            self.proven.read(text.at, &mut into[..count]).ok()?;
            text.at = text.at.wrapping_add(count as u64);
            text.left -= count as u64;
            return Some(count);
        }
        let rest = RawText {
            address: text.at,
            len: text.left,
            width: text.width,
        };
        let copied = script().proven(self.proven)?.copy_text(rest, into)?;
        // Counts bytes that begin a UTF-8 character.
        let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
        let characters = into[..copied].iter().filter(begins).count() as u64;
        text.at = text.at.wrapping_add(characters * u64::from(text.width));
        text.left -= characters;
        Some(copied)
    }
}
