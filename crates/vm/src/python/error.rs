//! Why Python's memory could not be read, or a name not be found in it. Every reader of this folder returns it.

use core::fmt;

use super::version::Unsupported;
use crate::errors::reading_error;

reading_error! {
    "Python", Unsupported;
    /// The interpreter has not been made yet, or is gone already.
    NotRunning,
    /// The name leads to nothing. `known` bytes of it lead to something; with 0, no module that is loaded has such a
    /// name.
    Unknown {
        /// Length of the part of the name that leads to an object.
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
        /// Address of that object.
        object: u64,
    },
}

impl Error {
    /// Writes the text of an error of Python's reader alone.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotRunning => f.write_str("this Python has no interpreter running"),
            Error::Unknown { known: 0 } => f.write_str("no module of this name is loaded"),
            Error::Unknown { .. } => f.write_str("the module or class has nothing of this name"),
            Error::Ambiguous => f.write_str("several loaded modules end in this name"),
            Error::WrittenInPython { .. } => f.write_str("the function is written in Python"),
            Error::NotAFunction { .. } => f.write_str("the name is not that of a function"),
            // The others have a text that all readers share.
            _ => Ok(()),
        }
    }
}
