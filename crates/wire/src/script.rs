//! Text in the guest's own language that its VM evaluates for the command, and what it answered. Used by the crates
//! `agent` and `enter`.

use crate::control_page::FUNCTIONS;

/// Bytes of the text with the zero that ends it, and of the answer.
pub const TEXT: usize = 64 << 10;

/// Values of [`Script::outcome`]: what became of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Outcome {
    /// It has not been evaluated.
    None = 0,
    /// It evaluated to a string, which is in [`Script::text`] now, in UTF-8.
    Answered = 1,
    /// It raised an exception, which the text itself did not rescue.
    Raised = 2,
    /// It evaluated to something else, or the string is longer than [`TEXT`].
    Unreadable = 3,
}

/// The text. The command writes it and reads the answer; the agent puts the answer in its place.
#[derive(Debug)]
#[repr(C)]
pub struct Script {
    /// What became of the text, an [`Outcome`]; written by the agent.
    pub outcome: u64,
    /// Bytes of the answer.
    pub length: u64,
    /// Addresses of Python's functions, in the order of `vm::python::api::NAMES`. They are not in [`Config`](crate::Config), which each
    /// command writes anew: a Python may still call the agent for what an earlier command had asked (an exception that was put off, the
    /// exit function), when another one has entered a Ruby that is in the same process.
    pub functions: [u64; FUNCTIONS],
    /// The text, ended by a zero, and then the answer.
    pub text: [u8; TEXT],
}

impl Script {
    /// A script without text, which was not evaluated.
    pub const NONE: Script = Script {
        outcome: Outcome::None as u64,
        length: 0,
        functions: [0; FUNCTIONS],
        text: [0; TEXT],
    };
}
