//! What is to be shown, and how: the values of one call, and the settings that all calls share.

use capture::{Registers, Returned};
use vm::Word;

use crate::plan::Detail;
use crate::types::Prototype;

/// Decodes a word of a language VM; `None` shows it as a number.
pub type Decode<'a> = &'a dyn Fn(Word, u64) -> Option<String>;

/// How calls are shown.
#[derive(Clone, Copy, Default)]
pub struct Show<'a> {
    /// How much of strings and arrays.
    pub detail: Detail,
    /// For `ruby(value)` and its kin.
    pub decode: Option<Decode<'a>>,
    /// Do as ltrace does where we would do otherwise: a width in a format cuts its string.
    pub like_ltrace: bool,
}

/// What a call was made with and what it returned, to be shown as its prototype says: a view of what others own.
#[derive(Clone, Copy)]
pub struct CallValues<'a> {
    /// Of the function that was called.
    pub prototype: &'a Prototype,
    /// When it was called.
    pub registers: &'a Registers,
    /// When it has returned.
    pub returned: Option<&'a Returned>,
}
