//! Results of type `long double`, copied from the x87 stack. Used by `events`.

use crate::memory::follow::ours;

/// The value for an x87 register that holds nothing: the NaN that the processor makes of one.
const EMPTY: [u64; 2] = [0xc000_0000_0000_0000, 0xffff];

/// Copies st(0), and st(1) if `words` is 4, and leaves both where they are. A prototype may be wrong, so an empty
/// register is not touched: loading what was stored of one would leave the guest with one register more.
///
/// # Safety
/// There is room for `words` words at `at`.
#[inline(never)]
pub unsafe fn copy(at: u64, words: u64) {
    let [first, second] = [at, at + 16];
    // SAFETY: the caller guarantees the room at `at`; each register that is popped is pushed again. `fxam` sets
    // C3, C2, C0 to 101 for an empty register (Intel SDM volume 1, table 8-7); callers expect nothing of C0 to C3
    // across calls.
    unsafe {
        for at in (at..at + words * 8).step_by(16) {
            ours::<[u64; 2]>(at).write_unaligned(EMPTY);
        }
        core::arch::asm!(
            "fxam",
            "fnstsw ax",
            "and eax, 0x4500",
            "cmp eax, 0x4100",
            "je 3f",
            "fstp tbyte ptr [{first}]",
            "cmp {words}, 4",
            "jne 2f",
            "fxam",
            "fnstsw ax",
            "and eax, 0x4500",
            "cmp eax, 0x4100",
            "je 2f",
            "fstp tbyte ptr [{second}]",
            "fld tbyte ptr [{second}]",
            "2:",
            "fld tbyte ptr [{first}]",
            "3:",
            first = in(reg) first,
            second = in(reg) second,
            words = in(reg) words,
            out("eax") _,
            options(nostack),
        );
    }
}
