//! What is shown, and how: the values of one call, and the settings that all calls share. Used by `value` and
//! `varargs`, and by crate `report`.

use capture::{Registers, Returned};
use vm::Word;

use super::prepared::Prepared;
use crate::plan::Detail;

/// Returns the text of a word of a language VM; `None` shows it as a number.
pub type Decode<'a> = &'a dyn Fn(Word, u64) -> Option<String>;

/// Settings for how calls are shown.
#[derive(Clone, Copy, Default)]
pub struct Show<'a> {
    /// How much of strings and arrays is shown.
    pub detail: Detail,
    /// The decoder of words of a VM, `ruby(value)` and the like.
    pub decode: Option<Decode<'a>>,
    /// Whether calls are shown as ltrace does where lancet would do otherwise: a width in a format cuts its string.
    pub like_ltrace: bool,
}

/// The values of a call, borrowed: what it was made with and what it returned.
#[derive(Clone, Copy)]
pub struct CallValues<'a> {
    /// The function that was called.
    pub prepared: &'a Prepared,
    /// The registers at the call.
    pub registers: &'a Registers,
    /// The registers at the return, once it has returned.
    pub returned: Option<&'a Returned>,
}
