//! What can go wrong when a stack or a coroutine is made. Nothing here ever aborts.

use core::fmt;

/// Why a stack or a coroutine could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The size asked for is below what a stack needs.
    TooSmall {
        /// Bytes of the stack that was asked for.
        asked: usize,
        /// The least that is accepted.
        least: usize,
    },
    /// The size asked for is beyond any address space.
    TooLarge {
        /// Bytes of the stack, or of the guard, that was asked for.
        asked: usize,
    },
    /// The kernel gave no memory for a slab or for a first page table, or the allocator none for a
    /// block.
    OutOfMemory {
        /// Bytes that were refused.
        asked: usize,
    },
    /// Guards are made with mprotect here and the process has no mapping left
    /// (`vm.max_map_count`).
    OutOfMappings,
    /// The kernel refused to make a guard (a seccomp filter, perhaps); the value is its errno.
    GuardRefused {
        /// errno of the last attempt.
        errno: i32,
    },
    /// The pool's `max_stacks` are all in use.
    PoolFull {
        /// The pool's setting of that name.
        max_stacks: usize,
    },
    /// This thread runs with a shadow stack, whose entries a switch would leave behind.
    ShadowStack,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::TooSmall { asked, least } => write!(
                f,
                "a stack of {asked} bytes is too small; the least here is {least}"
            ),
            Error::TooLarge { asked } => {
                write!(
                    f,
                    "a stack or a guard of {asked} bytes does not fit an address space"
                )
            }
            Error::OutOfMemory { asked } => {
                write!(f, "there is no memory: {asked} bytes were refused")
            }
            Error::OutOfMappings => write!(
                f,
                "no mapping left for a guard: raise vm.max_map_count, or use a kernel from 6.13 on, where guards need none"
            ),
            Error::GuardRefused { errno } => {
                write!(f, "the kernel refused to make a guard (errno {errno})")
            }
            Error::PoolFull { max_stacks } => {
                write!(f, "all {max_stacks} stacks of the pool are in use")
            }
            Error::ShadowStack => write!(
                f,
                "this thread runs with a shadow stack (CET), which this crate does not switch: start the program with GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK"
            ),
        }
    }
}

impl core::error::Error for Error {}

/// A list of the pool could not grow. How many bytes were refused is not told; the size of a word
/// stands in their place.
#[cfg(feature = "std")]
impl From<std::collections::TryReserveError> for Error {
    fn from(_: std::collections::TryReserveError) -> Self {
        Error::OutOfMemory {
            asked: size_of::<usize>(),
        }
    }
}
