//! Why Perl's memory could not be read, or a name not be found in it. Every reader of this folder returns it.

use core::fmt;

use super::version::Unsupported;
use crate::errors::reading_error;

reading_error! {
    "Perl", Unsupported;
    /// No package of that name.
    NoPackage,
    /// The package has no sub of that name.
    NoSub,
    /// The sub is declared but nobody has defined it yet.
    NotDefined,
    /// The sub is written in Perl, so no C function stands for it.
    WrittenInPerl,
}

impl Error {
    /// Writes the text of an error of Perl's reader alone.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoPackage => f.write_str("this Perl has no such package (yet)"),
            Error::NoSub => f.write_str("the package has no such sub (yet)"),
            Error::NotDefined => f.write_str("the sub is declared, but not defined yet"),
            Error::WrittenInPerl => f.write_str("the sub is written in Perl, not in C"),
            // The others have a text that all readers share.
            _ => Ok(()),
        }
    }
}
