//! Calls as ltrace prints them.
//!
//! ```text
//!   strlen("Hello world") = 11
//!   func_arrayi([ 10, 11, 12, 13... ], 8) = <void>
//!   ll({ 2, { 1, recurse^ } }) = <void>
//! ```
//!
//! [`Show::left`] is what is known when the function is called, [`Show::right`] what the `+` held back, and
//! [`Show::returned`] the value behind the `=`. Bytes come from [`Memory`], mostly the [`Captures`] that the hook
//! copied; what was not copied shows as its address.

mod captures;
mod flags;
mod number;
mod text;
mod value;
mod varargs;

use capture::{Registers, Returned};

pub use captures::{Captures, Memory};
use value::{At, Writer};

use crate::location::{Half, Location};
use crate::plan::Detail;
use crate::types::Prototype;
use vm::Word;

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

impl Show<'_> {
    /// The arguments up to the `+`, or all of them.
    #[must_use]
    pub fn left(&self, call: CallValues, memory: &dyn Memory) -> String {
        let (arguments, late) = self.arguments(call, memory);
        join(&arguments[..late.min(arguments.len())])
    }

    /// The arguments from the `+` on, with the comma that parts them from those before.
    #[must_use]
    pub fn right(&self, call: CallValues, memory: &dyn Memory) -> String {
        let (arguments, late) = self.arguments(call, memory);
        let (left, right) = arguments.split_at(late.min(arguments.len()));
        let right = join(right);
        // A hidden argument needs no comma, before or after.
        if right.is_empty() || left.iter().all(String::is_empty) {
            right
        } else {
            format!(", {right}")
        }
    }

    /// The returned value. `<void>` if there is none.
    #[must_use]
    pub fn returned(&self, call: CallValues, memory: &dyn Memory) -> String {
        let locations = call.prototype.locations();
        let mut writer = Writer::new(self, call, &locations, memory);
        let Some(returned) = call.returned else {
            return String::new();
        };
        let at = returned_at(locations.returned, returned);
        writer.argument(&call.prototype.returns, at)
    }

    /// Every argument by itself.
    #[must_use]
    pub fn all(&self, call: CallValues, memory: &dyn Memory) -> Vec<String> {
        self.arguments(call, memory).0
    }

    /// The whole call on one line: `name(arguments) = value`.
    #[must_use]
    pub fn line(&self, name: &str, call: CallValues, memory: &dyn Memory) -> String {
        let (left, right) = (self.left(call, memory), self.right(call, memory));
        format!("{name}({left}{right}) = {}", self.returned(call, memory))
    }

    /// Every argument as text, and the index of the first late one.
    fn arguments(&self, call: CallValues, memory: &dyn Memory) -> (Vec<String>, usize) {
        let locations = call.prototype.locations();
        let mut writer = Writer::new(self, call, &locations, memory);
        let parameters = call.prototype.parameters.iter();
        let mut texts: Vec<String> = parameters
            .zip(&locations.arguments)
            .map(|(parameter, place)| {
                let at = argument_at(*place, call.registers);
                writer.argument(&parameter.ty, at)
            })
            .collect();
        let late = call.prototype.late_from.unwrap_or(usize::MAX);
        for (ty, at) in varargs::arguments(self, call, &locations, memory) {
            texts.push(writer.argument(&ty, at));
        }
        (texts, late)
    }
}

fn join(texts: &[String]) -> String {
    let shown: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    shown.join(", ")
}

/// Two words as they lie in memory.
fn pair(first: u64, second: u64) -> At {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..16].copy_from_slice(&second.to_le_bytes());
    At::Here(bytes)
}

/// Where an argument's bytes are.
fn argument_at(place: Location, registers: &Registers) -> At {
    let half = |half| match half {
        Half::Gp(n) => registers.gp.get(usize::from(n)).copied().unwrap_or(0),
        Half::Sse(n) => registers.sse.get(usize::from(n)).copied().unwrap_or(0),
    };
    match place {
        Location::Gp(n) => pair(half(Half::Gp(n)), 0),
        Location::Sse(n) => pair(half(Half::Sse(n)), 0),
        Location::Split(a, b) => pair(half(a), half(b)),
        Location::Stack(offset) => At::Address(registers.stack.wrapping_add(offset.into())),
        Location::Nowhere | Location::X87 | Location::ComplexX87 => pair(0, 0),
    }
}

fn returned_at(place: Location, returned: &Returned) -> At {
    let half = |half| match half {
        Half::Gp(0) => returned.rax,
        Half::Gp(_) => returned.rdx,
        Half::Sse(0) => returned.sse[0],
        Half::Sse(_) => returned.sse[1],
    };
    match place {
        Location::Gp(n) => pair(half(Half::Gp(n)), 0),
        Location::Sse(n) => pair(half(Half::Sse(n)), 0),
        Location::Split(a, b) => pair(half(a), half(b)),
        Location::Stack(_) => At::Address(returned.rax),
        Location::X87 | Location::ComplexX87 => {
            let mut bytes = [0; 32];
            bytes[..10].copy_from_slice(&returned.x87[0]);
            bytes[16..26].copy_from_slice(&returned.x87[1]);
            At::Here(bytes)
        }
        Location::Nowhere => pair(0, 0),
    }
}
