//! Calls as text, in the form in which ltrace prints them.
//!
//! ```text
//!   strlen("Hello world") = 11
//!   func_arrayi([ 10, 11, 12, 13... ], 8) = <void>
//!   ll({ 2, { 1, recurse^ } }) = <void>
//! ```
//!
//! [`Show::left`] is the text that is known when the function is called, [`Show::right`] that of the arguments from the
//! `+` on, and [`Show::returned`] the value behind the `=`. Bytes come from [`Memory`], mostly the [`Captures`] that
//! the hook copied; what was not copied is shown as its address.

mod call;
mod captures;
mod flags;
mod number;
mod storage;
mod text;
mod value;
mod varargs;

pub use call::{CallValues, Decode, Show};
pub use captures::{Captures, Memory};
use storage::{argument_at, returned_at};
use value::Writer;

impl Show<'_> {
    /// Returns the text of the arguments up to the `+`, or of all of them.
    #[must_use]
    pub fn left(&self, call: CallValues, memory: &dyn Memory) -> String {
        let (arguments, late) = self.arguments(call, memory);
        join(&arguments[..late.min(arguments.len())])
    }

    /// Returns the text of the arguments from the `+` on, with the comma that separates them from those before.
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

    /// Returns the text of the returned value; `<void>` if there is none.
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

    /// Returns the text of every argument by itself.
    #[must_use]
    pub fn all(&self, call: CallValues, memory: &dyn Memory) -> Vec<String> {
        self.arguments(call, memory).0
    }

    /// Returns the text of the whole call: `name(arguments) = value`.
    #[must_use]
    pub fn line(&self, name: &str, call: CallValues, memory: &dyn Memory) -> String {
        let (left, right) = (self.left(call, memory), self.right(call, memory));
        format!("{name}({left}{right}) = {}", self.returned(call, memory))
    }

    /// Returns every argument as text, and the index of the first late one.
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
