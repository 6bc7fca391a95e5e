//! Why Python's memory could not be read, or a name not be found in it.

use core::fmt;

use super::version::Unsupported;
use crate::errors::reading_error;

reading_error! {
    "Python", Unsupported;
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
}

impl Error {
    /// The text of what only Python's reader meets.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotRunning => f.write_str("this Python has no interpreter running"),
            Error::Unknown { known: 0 } => f.write_str("no module of this name is loaded"),
            Error::Unknown { .. } => f.write_str("the module or class has nothing of this name"),
            Error::Ambiguous => f.write_str("several loaded modules end in this name"),
            Error::WrittenInPython { .. } => f.write_str("the function is written in Python"),
            Error::NotAFunction { .. } => f.write_str("the name is not that of a function"),
            // The others have their text in common with all readers.
            _ => Ok(()),
        }
    }
}
