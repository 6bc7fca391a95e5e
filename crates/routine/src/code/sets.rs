//! The sets of registers that the routines save and restore, each written once.
//!
//! A set is text for `global_asm!`: one `mov` or `movups` for each register, in the order of its list. Offsets of
//! general registers are operands of that block, named by the set's prefix and the register; `xmm0` lies at the
//! address given, the others 16 bytes apart.

/// Vector registers: `save` or `restore`, the address of xmm0, and which. The low 16 bytes of each, by the old SSE
/// moves.
#[doc(hidden)]
#[macro_export]
macro_rules! __vectors {
    (save $at:literal: $($number:literal)*) => {
        concat!($("movups [", $at, " + 16 * ", $number, "], xmm", $number, "\n"),*)
    };
    (restore $at:literal: $($number:literal)*) => {
        concat!($("movups xmm", $number, ", [", $at, " + 16 * ", $number, "]\n"),*)
    };
}

/// General registers: `save` or `restore`, the address of the record, the prefix of its offsets, and which.
#[doc(hidden)]
#[macro_export]
macro_rules! __general {
    (save $at:literal $prefix:literal: $($register:ident)*) => {
        concat!($("mov [", $at, " + {", $prefix, stringify!($register), "}], ", stringify!($register), "\n"),*)
    };
    (restore $at:literal $prefix:literal: $($register:ident)*) => {
        concat!($("mov ", stringify!($register), ", [", $at, " + {", $prefix, stringify!($register), "}]\n"),*)
    };
}

/// The registers at the entry of a function, in `Frame`, which begins `{frame}` bytes below rbp.
#[doc(hidden)]
#[macro_export]
macro_rules! __arguments {
    ($way:ident) => {
        $crate::__general!($way "rbp - {frame}" "in_": rdi rsi rdx rcx r8 r9 rax r10)
    };
}

/// xmm0 to xmm7, in `Vectors` at an address.
#[doc(hidden)]
#[macro_export]
macro_rules! __lower_vectors {
    ($way:ident $at:literal) => {
        $crate::__vectors!($way $at: 0 1 2 3 4 5 6 7)
    };
}

/// What else `enter` may change: xmm8 to xmm15; the address is that of xmm0.
#[doc(hidden)]
#[macro_export]
macro_rules! __upper_vectors {
    ($way:ident $at:literal) => {
        $crate::__vectors!($way $at: 8 9 10 11 12 13 14 15)
    };
}

/// All vector registers, at the begin of `Results` or `ProbeFrame`.
#[doc(hidden)]
#[macro_export]
macro_rules! __all_vectors {
    ($way:ident $at:literal) => {
        $crate::__vectors!($way $at: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
}

/// The general registers when a function has returned, in `Results` at an address.
#[doc(hidden)]
#[macro_export]
macro_rules! __results {
    ($way:ident $at:literal) => {
        $crate::__general!($way $at "out_": rax rdx rcx rsi rdi r8 r9 r10 r11)
    };
}

/// The general registers at a probe, in `ProbeFrame` at an address; but for rsp, rbp and r11, which are on the stack
/// already.
#[doc(hidden)]
#[macro_export]
macro_rules! __all {
    ($way:ident $at:literal) => {
        $crate::__general!($way $at "at_": rax rcx rdx rbx rsi rdi r8 r9 r10 r12 r13 r14 r15)
    };
}
