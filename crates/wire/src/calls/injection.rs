//! What is injected into system calls: their results, or time. Used by the crates `calls` and `agent`.

/// In the second result of a return that a hook with [`want::INJECT`](super::want::INJECT) recorded: [`Injection`] has decided
/// about the call. The four lowest bits say what was done: [`REPLACED`], [`DELAYED`], [`POKED`], [`SIGNALLED`].
pub const INJECTED: u64 = 0x6c61_6e63_6574_0000;
/// The kernel was not asked: the result is the injection's.
pub const REPLACED: u64 = 1;
/// The call was made to wait.
pub const DELAYED: u64 = 2;
/// Memory that an argument points to was written over. A tracer alone does that.
pub const POKED: u64 = 4;
/// A signal was sent to the thread when the call began. A tracer alone does that.
pub const SIGNALLED: u64 = 8;

/// What is to be done with the calls of a hook; its address and number of words are in
/// [`Hook::names`](super::Hook::names). Written by the command before the hook is told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Injection {
    /// Bits of tests of script lines, one of which a call's line must meet; 0 = calls from anywhere.
    pub lines: u64,
    /// The first of a thread's calls that is concerned, from 1.
    pub first: u64,
    /// The last of a thread's calls that is concerned, itself included.
    pub last: u64,
    /// The injection applies to `first` and then to every `step`-th call up to `last`; 1 = all.
    pub step: u64,
    /// 1 = the kernel is not asked, and `result` is the call's.
    pub replaces: u64,
    /// What the call leaves in rax.
    pub result: u64,
    /// Nanoseconds to wait before the call.
    pub before: u64,
    /// Nanoseconds to wait behind it.
    pub behind: u64,
}

impl Injection {
    /// Its words, in the order of its fields.
    pub fn to_words(&self) -> [u64; 8] {
        [
            self.lines,
            self.first,
            self.last,
            self.step,
            self.replaces,
            self.result,
            self.before,
            self.behind,
        ]
    }
}
