//! What can go wrong.

use core::fmt;

use super::version::Unsupported;
use crate::Fault;
use crate::errors::reading_error;

/// Why something could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An address is not readable.
    Memory(Fault),
    /// What is there is not what should be there.
    Garbled {
        /// What should be there.
        what: &'static str,
        /// Where.
        at: u64,
    },
    /// Neither php nor libphp exports this symbol.
    Symbol(&'static str),
    /// A PHP whose memory is not known.
    Unsupported(Unsupported),
    /// No class of that name.
    NoClass,
    /// No function, or no method of the class, of that name.
    NoFunction,
    /// The function is written in PHP, so no C function stands for it.
    WrittenInPhp,
    /// The writer handed in refused.
    Write,
}

reading_error!(Error, Unsupported);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Memory(fault) => fault.fmt(f),
            Error::Garbled { what, at } => write!(f, "no {what} at {at:#x}"),
            Error::Symbol(name) => write!(f, "this PHP does not export {name}"),
            Error::Unsupported(why) => why.fmt(f),
            Error::NoClass => f.write_str("this PHP has no such class (yet)"),
            Error::NoFunction => f.write_str("this PHP has no such function (yet)"),
            Error::WrittenInPhp => f.write_str("the function is written in PHP, not in C"),
            Error::Write => f.write_str("the text could not be written"),
        }
    }
}
