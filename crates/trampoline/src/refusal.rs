//! Reasons why a place is not hooked. Used by `plan`, `probe` and others here, and by crate `hooks`.

use thiserror::Error;

/// What could not be proven, in words for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Refusal {
    /// No instruction, or one that iced-x86 does not know.
    #[error("its first bytes do not decode as instructions")]
    Undecodable,
    /// One of the instructions is an `int3`.
    #[error("a breakpoint stands in its first bytes: another tool is at work")]
    Breakpoint,
    /// The function, its padding and the padding near it do not hold a jump.
    #[error("it is shorter than a jump, with no padding after it or near it")]
    TooShort,
    /// The function jumps to where the patch would be, and is too long to be copied whole, or other code jumps into it.
    #[error("code jumps back into its first bytes")]
    BranchInto,
    /// Code of the module takes the address of an instruction that the patch would overwrite, other than the first: a jump there would land
    /// in the middle of the patch.
    #[error("code takes the address of an instruction in its first bytes")]
    AddressTaken,
    /// Code of the module reads or writes the bytes that the patch would overwrite, and would find the patch.
    #[error("code reads its first bytes as data")]
    ReadAsData,
    /// The function reads or changes its own return address, as `setjmp` and context switches do, and would find that of a hook's frame.
    #[error("it works on its own return address, which a hook would change")]
    ReturnAddress,
    /// A call would return into the patch.
    #[error("a call in its first bytes would return into the patch")]
    CallWithin,
    /// `push` and `jmp` in place of a `call` do not agree with a shadow stack.
    #[error("a call stands in its first bytes, and this process has shadow stacks")]
    ShadowStack,
    /// The instruction works at its own address only: `xbegin`, whose fallback address is not relocated, and rare ones such as `enter`.
    #[error("its first bytes hold an instruction that does not work elsewhere")]
    Immovable,
    /// A kill between the two halves of the write would leave half a jump.
    #[error("the patch would lie in two pages")]
    PageCrossing,
    /// Execution runs on into the next function before there is room for five bytes.
    #[error("it runs on into the next function before a jump fits")]
    RunsOn,
    /// The relocated instructions cannot reach what they refer to.
    #[error("its code refers to places more than 2 GiB from the island")]
    OutOfReach,
}
