//! Values of a language VM in conditions. Crate `capture` knows no VM, so it reads them through [`Values`]. Used by
//! `condition`, and by the crates `agent` and `prototypes`.

use crate::describe::What;
use crate::op::Source;

/// Which value is meant: a word of the call, and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The word; ignored where `what` needs none.
    pub source: Source,
    /// What the word is: a value, a name, the arguments of a function that the VM calls, its result.
    pub what: What,
    /// Index of the argument, from 0, where `what` is arguments.
    pub index: u16,
}

/// A value, as far as conditions distinguish values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// `nil`, `None`, `undef`, `null`.
    Nothing,
    /// A whole number of 64 bits.
    Integer(i64),
    /// A text or a string of bytes.
    Text(Text),
    /// Any other value: a fraction, a larger number, a container, an object.
    Other,
}

/// The part of a text that was not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first unit that was not read yet.
    pub at: u64,
    /// How many units are left.
    pub left: u64,
    /// Bytes of a unit, a character to be encoded as UTF-8; 0 = the units are bytes, taken as they are.
    pub width: u8,
}

/// A reader of the VM's values.
pub trait Values {
    /// Returns a value; `None` = there is none, or it cannot be read. `word` is what the item's source holds.
    fn value(&mut self, item: Item, word: u64) -> Option<Value>;
    /// Reads the next bytes of a text and returns how many, 0 at its end; `None` = they cannot be read.
    fn fetch(&mut self, text: &mut Text, into: &mut [u8]) -> Option<usize>;
}

/// The reader where the guest runs no VM: it knows no value.
pub struct NoValues;

impl Values for NoValues {
    fn value(&mut self, _: Item, _: u64) -> Option<Value> {
        None
    }

    fn fetch(&mut self, _: &mut Text, _: &mut [u8]) -> Option<usize> {
        None
    }
}
