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
    /// Neither perl nor libperl exports this symbol.
    Symbol(&'static str),
    /// A Perl whose memory is not known.
    Unsupported(Unsupported),
    /// No package of that name.
    NoPackage,
    /// The package has no sub of that name.
    NoSub,
    /// The sub is declared but nobody has defined it yet.
    NotDefined,
    /// The sub is written in Perl, so no C function stands for it.
    WrittenInPerl,
    /// The writer handed in refused.
    Write,
}

reading_error!(Error, Unsupported);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Memory(fault) => fault.fmt(f),
            Error::Garbled { what, at } => write!(f, "no {what} at {at:#x}"),
            Error::Symbol(name) => write!(f, "this Perl does not export {name}"),
            Error::Unsupported(why) => why.fmt(f),
            Error::NoPackage => f.write_str("this Perl has no such package (yet)"),
            Error::NoSub => f.write_str("the package has no such sub (yet)"),
            Error::NotDefined => f.write_str("the sub is declared, but not defined yet"),
            Error::WrittenInPerl => f.write_str("the sub is written in Perl, not in C"),
            Error::Write => f.write_str("the text could not be written"),
        }
    }
}
