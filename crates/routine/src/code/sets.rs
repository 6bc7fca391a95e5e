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
        concat!(
            $crate::__vectors!($way "rbp - {frame}": 0 1 2 3 4 5 6 7),
            $crate::__general!($way "rbp - {frame}" "in_": rdi rsi rdx rcx r8 r9 rax r10),
        )
    };
}

/// What else `enter` may change: xmm8 to xmm15, at rsp.
#[doc(hidden)]
#[macro_export]
macro_rules! __upper_vectors {
    ($way:ident) => {
        $crate::__vectors!($way "rsp - 16 * 8": 8 9 10 11 12 13 14 15)
    };
}

/// The registers when a function has returned, in `Results` at rsp.
#[doc(hidden)]
#[macro_export]
macro_rules! __results {
    ($way:ident) => {
        concat!(
            $crate::__vectors!($way "rsp": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            $crate::__general!($way "rsp" "out_": rax rdx rcx rsi rdi r8 r9 r10 r11),
        )
    };
}

/// The registers at a probe, in `ProbeFrame` at rsp; but for rsp, rbp and r11, which are on the stack already.
#[doc(hidden)]
#[macro_export]
macro_rules! __all {
    ($way:ident) => {
        concat!(
            $crate::__vectors!($way "rsp": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            $crate::__general!($way "rsp" "at_": rax rcx rdx rbx rsi rdi r8 r9 r10 r12 r13 r14 r15),
        )
    };
}
