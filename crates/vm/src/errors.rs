//! What the readers' errors have in common, whatever language they are about.

/// Gives an `Error` with `Memory`, `Garbled`, `Unsupported` and `Write` its ways in.
macro_rules! reading_error {
    ($error:ident, $unsupported:ident) => {
        impl $error {
            pub(super) fn garbled(what: &'static str, at: u64) -> $error {
                $error::Garbled { what, at }
            }
        }

        impl core::error::Error for $error {}

        impl From<crate::Fault> for $error {
            #[inline]
            fn from(fault: crate::Fault) -> $error {
                $error::Memory(fault)
            }
        }

        impl From<$unsupported> for $error {
            fn from(why: $unsupported) -> $error {
                $error::Unsupported(why)
            }
        }

        impl From<core::fmt::Error> for $error {
            fn from(_: core::fmt::Error) -> $error {
                $error::Write
            }
        }
    };
}

pub(crate) use reading_error;
