//! Why PHP's memory could not be read, or a name not be found in it. Every reader of this folder returns it.

use core::fmt;

use super::version::Unsupported;
use crate::errors::reading_error;

reading_error! {
    "PHP", Unsupported;
    /// No class of that name.
    NoClass,
    /// No function, or no method of the class, of that name.
    NoFunction,
    /// The function is written in PHP, so no C function stands for it.
    WrittenInPhp,
}

impl Error {
    /// Writes the text of an error of PHP's reader alone.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoClass => f.write_str("this PHP has no such class (yet)"),
            Error::NoFunction => f.write_str("this PHP has no such function (yet)"),
            Error::WrittenInPhp => f.write_str("the function is written in PHP, not in C"),
            // The others have a text that all readers share.
            _ => Ok(()),
        }
    }
}
