//! What can go wrong.

use core::fmt;

use super::version::Unsupported;
use crate::Fault;
use crate::errors::reading_error;

/// Why something could not be read or found.
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
    /// Neither the program nor libpython exports this symbol.
    Symbol(&'static str),
    /// A Python whose memory is not known.
    Unsupported(Unsupported),
    /// The interpreter has not been made yet, or is gone already.
    NotRunning,
    /// The name leads nowhere. What is known of it ends after so many bytes; with 0, no module that is
    /// loaded has such a name.
    Unknown {
        /// So many bytes of the name lead to something.
        known: usize,
    },
    /// More than one loaded module has this name as the end of its own.
    Ambiguous,
    /// The function has no C code to find: it is written in Python.
    WrittenInPython {
        /// Its code object, for [`Python::file`](super::Python::file).
        code: u64,
    },
    /// The name leads to something that is no function.
    NotAFunction {
        /// That something.
        object: u64,
    },
    /// The writer handed in refused.
    Write,
}

reading_error!(Error, Unsupported);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Memory(fault) => fault.fmt(f),
            Error::Garbled { what, at } => write!(f, "no {what} at {at:#x}"),
            Error::Symbol(name) => write!(f, "this Python does not export {name}"),
            Error::Unsupported(why) => why.fmt(f),
            Error::NotRunning => f.write_str("this Python has no interpreter running"),
            Error::Unknown { known: 0 } => f.write_str("no module of this name is loaded"),
            Error::Unknown { .. } => f.write_str("the module or class has nothing of this name"),
            Error::Ambiguous => f.write_str("several loaded modules end in this name"),
            Error::WrittenInPython { .. } => f.write_str("the function is written in Python"),
            Error::NotAFunction { .. } => f.write_str("the name is not that of a function"),
            Error::Write => f.write_str("the text could not be written"),
        }
    }
}
