//! Values of a language VM in conditions: what whoever knows the VM says of them.

use crate::describe::What;
use crate::op::Source;

/// Which value: a word of the call, and what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The word; of what needs none, any.
    pub source: Source,
    /// What it is: a value, a name, the arguments of a function that the VM calls, its result.
    pub what: What,
    /// Of arguments: which, from 0.
    pub index: u16,
}

/// What a value is, as far as conditions ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// `nil`, `None`, `undef`, `null`.
    Nothing,
    /// A whole number of 64 bits.
    Integer(i64),
    /// Text, or bytes.
    Text(Text),
    /// Something else.
    Other,
}

/// What is left of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Where it goes on.
    pub at: u64,
    /// So many units.
    pub left: u64,
    /// Bytes of a character, to be read as UTF-8; 0 = they are bytes as they lie.
    pub width: u8,
}

/// Who knows the VM.
pub trait Values {
    /// What a value is; `None` = there is none, or it cannot be read. `word` is what the item's source holds.
    fn value(&mut self, item: Item, word: u64) -> Option<Value>;
    /// The next bytes of a text: how many, 0 at its end; `None` = they cannot be read.
    fn fetch(&mut self, text: &mut Text, into: &mut [u8]) -> Option<usize>;
}

/// Nobody does.
pub struct NoValues;

impl Values for NoValues {
    fn value(&mut self, _: Item, _: u64) -> Option<Value> {
        None
    }

    fn fetch(&mut self, _: &mut Text, _: &mut [u8]) -> Option<usize> {
        None
    }
}
