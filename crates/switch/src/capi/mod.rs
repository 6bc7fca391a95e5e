//! The C interface: what `include/lancet_switch.h` declares.
//!
//! Built into `liblancet_switch.so` and `.a` by `capi/build`. It does not use [`crate::Coroutine`]:
//! a C function has no type for values and may be entered by exceptions of any language, so the
//! switch ([`switch`]), the boundary ([`unwind`]) and the life of a fiber ([`new`], [`fiber`], [`ending`]) are its
//! own, on the same pool, the same block beside the stack and the same report.

mod ending;
mod fiber;
#[cfg(any(feature = "asan", feature = "tsan"))]
mod hooks;
#[macro_use]
mod image;
mod new;
mod options;
mod switch;
mod unwind;
