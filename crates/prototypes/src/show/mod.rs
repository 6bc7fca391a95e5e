//! Calls as text, in the form in which ltrace prints them.
//!
//! ```text
//!   strlen("Hello world") = 11
//!   func_arrayi([ 10, 11, 12, 13... ], 8) = <void>
//!   ll({ 2, { 1, recurse^ } }) = <void>
//! ```
//!
//! [`Show::left`] appends the text that is known when the function is called, [`Show::right`] that of the arguments from
//! the `+` on, and [`Show::returned`] the value behind the `=`. A function is [`Prepared`] once for all its calls. Bytes come from [`Memory`], mostly the [`Captures`] that
//! the hook copied; what was not copied is shown as its address.

mod call;
mod captures;
mod length;
mod number;
mod prepared;
mod storage;
mod string;
mod text;
mod value;
mod varargs;

pub use call::{CallValues, Decode, Show};
pub use captures::{Captures, Memory};
pub use prepared::Prepared;
use value::Writer;

/// Which arguments are written.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Those up to the `+`, or all.
    Left,
    /// Those from the `+` on.
    Right,
    All,
}

impl Show<'_> {
    /// Appends the text of the arguments up to the `+`, or of all of them.
    pub fn left(&self, call: CallValues, memory: &dyn Memory, out: &mut Vec<u8>) {
        self.join(call, memory, Part::Left, out);
    }

    /// Appends the text of the arguments from the `+` on, with the comma that separates them from those before.
    pub fn right(&self, call: CallValues, memory: &dyn Memory, out: &mut Vec<u8>) {
        if call.prepared.late == usize::MAX {
            return;
        }
        // A hidden argument needs no comma, before or after.
        let before = out.len();
        self.left(call, memory, out);
        let comma = out.len() > before;
        out.truncate(before);
        if comma {
            out.extend_from_slice(b", ");
        }
        let begins = out.len();
        self.join(call, memory, Part::Right, out);
        if out.len() == begins {
            out.truncate(before);
        }
    }

    /// Appends the text of the returned value: `<void>` if the function returns none, nothing if it has not returned.
    pub fn returned(&self, call: CallValues, memory: &dyn Memory, out: &mut Vec<u8>) {
        let Some(returned) = call.returned else {
            return;
        };
        let slot = &call.prepared.returned;
        if !slot.quick_returned(returned, out) {
            let mut writer = Writer::new(self, call, memory, out);
            writer.whole(&slot.ty, slot.result(returned));
        }
    }

    /// Appends the text of every argument; after each, `done` is told where in `out` it begins, and may append to it.
    pub fn each(
        &self,
        call: CallValues,
        memory: &dyn Memory,
        out: &mut Vec<u8>,
        done: impl FnMut(&mut Vec<u8>, usize),
    ) {
        self.arguments(call, memory, Part::All, out, done);
    }

    /// Returns the text of the whole call: `name(arguments) = value`.
    #[must_use]
    pub fn line(&self, name: &str, call: CallValues, memory: &dyn Memory) -> String {
        let mut line = format!("{name}(").into_bytes();
        self.left(call, memory, &mut line);
        self.right(call, memory, &mut line);
        line.extend_from_slice(b") = ");
        self.returned(call, memory, &mut line);
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Appends arguments with commas between those that are not hidden.
    fn join(&self, call: CallValues, memory: &dyn Memory, part: Part, out: &mut Vec<u8>) {
        const COMMA: &[u8] = b", ";
        let begins = out.len();
        self.arguments(call, memory, part, out, |out, from| {
            if out.len() > from {
                out.extend_from_slice(COMMA);
            }
        });
        if out.len() > begins {
            out.truncate(out.len() - COMMA.len());
        }
    }

    /// Appends each argument and says where it begins; what `done` appends then stands before the next one.
    fn arguments(
        &self,
        call: CallValues,
        memory: &dyn Memory,
        part: Part,
        out: &mut Vec<u8>,
        mut done: impl FnMut(&mut Vec<u8>, usize),
    ) {
        let Prepared {
            arguments, late, ..
        } = call.prepared;
        let late = (*late).min(arguments.len());
        let slots = match part {
            Part::Left => &arguments[..late],
            Part::Right => &arguments[late..],
            Part::All => arguments,
        };
        for slot in slots {
            let from = out.len();
            if !slot.quick_argument(call.registers, out) {
                let mut writer = Writer::new(self, call, memory, out);
                writer.whole(&slot.ty, slot.argument(call.registers));
            }
            done(out, from);
        }
        // What follows a format is late if anything is.
        let has_late = call.prepared.late != usize::MAX;
        if part == Part::Left && has_late || part == Part::Right && !has_late {
            return;
        }
        for (ty, at) in varargs::arguments(self, call, memory) {
            let from = out.len();
            Writer::new(self, call, memory, out).whole(&ty, at);
            done(out, from);
        }
    }
}
