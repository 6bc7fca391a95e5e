//! Why Ruby's memory could not be read, or a name not be found in it. Used by `function`, `class` and others here, and
//! by the crates `languages` and `enter`.

use core::fmt;

use super::version::Unsupported;
use crate::errors::reading_error;

reading_error! {
    "Ruby", Unsupported;
    /// The VM's table of symbols was not found, so that nothing can be known by its name.
    NoSymbols,
    /// The text is no name of a method: `Class#method`, `Module.method`, or `method` alone for one of every object's.
    NoMethodName,
    /// There is no constant of this name.
    NoConstant {
        /// Length of the part of the name that leads to a constant.
        known: usize,
    },
    /// The constant is set to load a file when it is first used, and has not been used yet.
    NotLoaded {
        /// Length of the part of the name that leads to that constant.
        known: usize,
    },
    /// The constant is no class or module, and methods are looked for in these.
    NotAModule {
        /// The `VALUE` of the constant.
        value: u64,
    },
    /// The class or module, its ancestors included, has no such method.
    NoMethod {
        /// Address of the class.
        class: u64,
        /// Whether there is one of this name if `#` and `.` are exchanged.
        other_kind: bool,
    },
    /// The method has no C function to find: it is written in Ruby.
    WrittenInRuby {
        /// Its code, for [`Ruby::path`](super::Ruby::path) and [`Ruby::first_line`](super::Ruby::first_line).
        iseq: u64,
    },
    /// The method has no C function of its own.
    NotInC(Kind),
}

impl Error {
    /// Writes the text of an error of Ruby's reader alone.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSymbols => f.write_str("this Ruby's table of symbols was not found"),
            Error::NoMethodName => {
                f.write_str("a method is named as Class#method or Module.method")
            }
            Error::NoConstant { .. } => f.write_str("no class or module of this name is loaded"),
            Error::NotLoaded { .. } => {
                f.write_str("the constant is loaded when it is first used, which was not yet")
            }
            Error::NotAModule { .. } => f.write_str("the constant is no class or module"),
            Error::NoMethod {
                other_kind: false, ..
            } => f.write_str("the class or module has no method of this name"),
            Error::NoMethod { .. } => f.write_str(
                "no method of this name, but one of the other kind (# is of instances, . of the class itself)",
            ),
            Error::WrittenInRuby { .. } => f.write_str("the method is written in Ruby"),
            Error::NotInC(kind) => write!(f, "the method has no C function: {kind}"),
            // The others have a text that all readers share.
            _ => Ok(()),
        }
    }
}

/// Why a method that is not written in Ruby has no C function either: `rb_method_type_t` (`method.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `VM_METHOD_TYPE_IVAR`: the reader of an attribute.
    Reader,
    /// `VM_METHOD_TYPE_ATTRSET`: the writer of an attribute.
    Writer,
    /// `VM_METHOD_TYPE_BMETHOD` of a block that is not written in Ruby.
    Block,
    /// `VM_METHOD_TYPE_NOTIMPLEMENTED`: it raises NotImplementedError.
    NotImplemented,
    /// `VM_METHOD_TYPE_OPTIMIZED`: the VM executes it itself.
    Optimized,
    /// `VM_METHOD_TYPE_MISSING`: it calls `method_missing`.
    Missing,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Reader => "it is an attribute's reader, which the VM does itself",
            Kind::Writer => "it is an attribute's writer, which the VM does itself",
            Kind::Block => "it is a Proc made of something else, which define_method made a method",
            Kind::NotImplemented => "it is not implemented on this system",
            Kind::Optimized => "the VM does it itself",
            Kind::Missing => "it stands for method_missing",
        })
    }
}
