//! The part of the readers' errors that is the same in all languages. Used by `perl::error`, `php::error`,
//! `python::error` and others.

/// Defines the `Error` of a language: first the variants that any reader may return, then those of this reader alone,
/// which follow with their texts. `$name` is the language as messages call it.
macro_rules! reading_error {
    (
        $name:literal, $unsupported:ident;
        $($(#[$doc:meta])+ $own:ident $(($of:ty))? $({ $($(#[$field_doc:meta])+ $field:ident: $ty:ty,)+ })?,)+
    ) => {
        /// Why something could not be read or found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Error {
            /// An address is not readable.
            Memory(crate::Fault),
            /// The memory does not hold what should be there.
            Garbled {
                /// What should be there.
                what: &'static str,
                /// The address that was read.
                at: u64,
            },
            /// Neither the program nor the library with the VM exports this symbol.
            Symbol(&'static str),
            /// A version or build whose memory is not known.
            Unsupported($unsupported),
            /// The writer that was handed in returned an error.
            Write,
            $($(#[$doc])+ $own $(($of))? $({ $($(#[$field_doc])+ $field: $ty,)+ })?,)+
        }

        impl Error {
            pub(super) fn garbled(what: &'static str, at: u64) -> Error {
                Error::Garbled { what, at }
            }
        }

        impl core::fmt::Display for Error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    Error::Memory(fault) => fault.fmt(f),
                    Error::Garbled { what, at } => write!(f, "no {what} at {at:#x}"),
                    Error::Symbol(symbol) => write!(f, "this {} does not export {symbol}", $name),
                    Error::Unsupported(why) => why.fmt(f),
                    Error::Write => f.write_str("the text could not be written"),
                    own => own.explain(f),
                }
            }
        }

        impl core::error::Error for Error {}

        impl From<crate::Fault> for Error {
            #[inline]
            fn from(fault: crate::Fault) -> Error {
                Error::Memory(fault)
            }
        }

        impl From<$unsupported> for Error {
            fn from(why: $unsupported) -> Error {
                Error::Unsupported(why)
            }
        }

        impl From<core::fmt::Error> for Error {
            fn from(_: core::fmt::Error) -> Error {
                Error::Write
            }
        }
    };
}

pub(crate) use reading_error;
