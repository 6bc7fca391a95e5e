//! `-D`: messages about what lancet itself does, on standard error. The numbers are
//! ltrace's, octal. Used by `live::family`, `live::guest::life` and others here, and by crate `lancet`.

use crate::message::Message;
use crate::options::Options;
use std::fmt::Arguments;

/// The bit of messages on progress.
pub const GENERAL: u32 = 0o1;
/// The bit of messages on notices and stops of traced processes.
pub const EVENT: u32 = 0o10;
/// The bit of messages on actions on traced processes.
pub const PROCESS: u32 = 0o20;

/// The text that `-D h` prints.
pub const HELP: &str = "\
-D MASK, --debug MASK: what lancet does, on standard error; octal, the sum of
   1  general   progress
  10  event     what traced processes say and stop at
  20  process   what is done to traced processes
";

/// What `-D` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug {
    /// The text [`HELP`] is requested.
    Help,
    /// A sum of the numbers above.
    Mask(u32),
}

impl Debug {
    /// Reads the option's value; the error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        if matches!(text, "h" | "help") {
            return Ok(Debug::Help);
        }
        u32::from_str_radix(text, 8)
            .map(Debug::Mask)
            .map_err(|_| "it is an octal number, or h for help".into())
    }
}

/// Sends a message, if its kind was requested.
pub fn say(options: &Options, what: u32, text: Arguments) {
    if let Some(Debug::Mask(mask)) = options.debug
        && mask & what != 0
    {
        options.messages.say(Message::Debug(text.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_octal() {
        assert_eq!(Debug::parse("77"), Ok(Debug::Mask(0o77)));
        assert_eq!(Debug::parse("h"), Ok(Debug::Help));
        assert!(Debug::parse("9").is_err());
    }
}
