//! What a hook is of, and what is wanted of it.

/// One hooked place. Written by the command, read by the agent; never moved, never freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Hook {
    /// The function's own first instructions, moved, and the way back behind them. This and what follows up to `guard`
    /// are what the stub hands to the routine (`routine::frame::Descriptor`).
    pub original: u64,
    /// `routine::frame::flags`.
    pub flags: u32,
    /// Bytes of stack arguments that the function is given.
    pub copied: u32,
    /// Its number for the reader; never used for another hook.
    pub number: u64,
    /// The patched address.
    pub place: u64,
    /// `routine::frame::Guard`, as words.
    pub guard: [u64; 3],
    /// See [`want`]; 0 = silent.
    pub want: u64,
    /// What to copy at the call: address of a program's words, and how many; 0 = nothing.
    pub at_entry: [u64; 2],
    /// The same for its return.
    pub at_return: [u64; 2],
    /// What a VM calls by several names, with [`want::SCRIPTED`]: address of [`Name`]s, and how many; calls by other
    /// names are not told. 0 = by this one.
    pub names: [u64; 2],
    /// Calls from elsewhere are not told: address of how many ranges of code there are, and begin and end of each. 0
    /// = from everywhere.
    pub callers: u64,
    /// The 16-bit counter of a probe's users, which is one higher while the hook is set; 0 = it has none.
    pub semaphore: u64,
    /// The condition that a call must meet, and that its return must meet: address of its words, and how many; 0 =
    /// none.
    pub asks_call: [u64; 2],
    /// See `asks_call`.
    pub asks_return: [u64; 2],
    /// Calls of less than so many cycles are not told.
    pub least_ticks: u64,
    /// The stub.
    pub stub: u64,
    /// What it leads to.
    pub routine: u64,
    /// Bytes at `place` that run in the stub instead.
    pub moved: u32,
    /// How many of `patches` there are.
    pub patched: u32,
    /// [`fingerprint`] of the moved bytes as they were: tells the function again.
    pub was: u64,
    /// What is changed, in this order.
    pub patches: [Patched; 2],
    /// The `syscall` instruction that it is before or behind, with [`want::SYSTEM_CALL`] or [`want::SYSTEM_RETURN`].
    /// [`Self::names`] is then a table of addresses of hooks by the number of the system call: they say what is
    /// wanted of it.
    pub instruction: u64,
    /// Its number, if that is the same at each turn; else [`NO_NUMBER`](super::NO_NUMBER); [`CALLED`](super::CALLED),
    /// if it is a call of a function that makes it.
    pub fixed: u64,
}

/// One of several functions of a script's language that have their code in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Name {
    /// What tells it from the others: of Perl the `CV`, of PHP name and class.
    pub identity: u64,
    /// Its number for the reader, instead of [`Hook::number`].
    pub number: u64,
}

/// Bytes that are others while a function is hooked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Patched {
    /// Where.
    pub at: u64,
    /// How many.
    pub length: u64,
    /// Without the hook.
    pub was: [u8; 8],
    /// With it.
    pub is: [u8; 8],
}

/// A number for some bytes (FNV-1a).
pub const fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// What is wanted of a hook: bits of [`Hook::want`].
pub mod want {
    /// Tell calls.
    pub const ENTRY: u64 = 1;
    /// Tell returns.
    pub const RETURN: u64 = 2;
    /// With the script's line.
    pub const PLACE: u64 = 4;
    /// With the floating-point registers.
    pub const FLOATS: u64 = 8;
    /// Count, instead of telling.
    pub const COUNT: u64 = 16;
    /// With st(0) at the return.
    pub const X87: u64 = 32;
    /// With st(0) and st(1) at the return.
    pub const X87_PAIR: u64 = 512;
    /// It is the loader's `r_brk`: wait there until the command has seen what was loaded.
    pub const LOADER: u64 = 64;
    /// The guest's VM calls it, in a convention of its own.
    pub const SCRIPTED: u64 = 128;
    /// It defines functions of the script's language: wait at its return until the command has seen them.
    pub const DEFINES: u64 = 256;
    /// It is a probe in mid-function: at [`super::Hook::at_return`] are its arguments' [`super::operand`]s.
    pub const PROBE: u64 = 1024;
    /// Only calls that meet the condition.
    pub const ASKS: u64 = 2048;
    /// The same, and the line is asked.
    pub const ASKS_LINE: u64 = 4096;
    /// The call is told when it has returned, if then it is to be told.
    pub const HELD: u64 = 8192;
    /// It stands before a system call.
    pub const SYSTEM_CALL: u64 = 1 << 14;
    /// It stands behind one.
    pub const SYSTEM_RETURN: u64 = 1 << 15;
    /// It ends the process: say so first ([`notice::ENDS`](crate::notices::notice)).
    pub const ENDS: u64 = 1 << 32;
    /// It runs another program: say so first.
    pub const EXECS: u64 = 1 << 33;
    /// It forks: the child waits until it is followed.
    pub const FORKS: u64 = 1 << 34;
    /// The VM calls it when it begins with the script: say so.
    pub const SCRIPT: u64 = 1 << 35;
    /// It picks the function that is called by its name (IFUNC): say which.
    pub const PICKS: u64 = 1 << 36;
    /// It is where both sides of `vfork` go on: tell their returns.
    pub const BACK: u64 = 1 << 37;
    /// What the user may want.
    pub const EVENTS: u64 = ENTRY | RETURN | COUNT;
    /// What is wanted for ourselves, whatever the user wants.
    pub const OWN: u64 = LOADER | DEFINES | NOTICES | BACK;
    /// What is said by a notice.
    pub const NOTICES: u64 = ENDS | EXECS | FORKS | SCRIPT | PICKS;
}

/// Where a probe's argument is, in two words.
///
/// ```text
///   word 0   bits 0..8 a kind   8..16 a register   16..24 a register as index   24..32 what that is multiplied by
///            bits 32..40 bytes of the value   40 signed   48..56 bits of the register to drop
///   word 1   a constant, or what is added to an address
/// ```
pub mod operand {
    /// In a general register, by the machine's number.
    pub const REGISTER: u64 = 0;
    /// In the low half of a vector register.
    pub const VECTOR: u64 = 1;
    /// The constant itself.
    pub const CONSTANT: u64 = 2;
    /// In memory.
    pub const MEMORY: u64 = 3;
    /// No register.
    pub const NONE: u64 = 0xff;
    /// More arguments than that are not told.
    pub const MOST: usize = 6;
}
