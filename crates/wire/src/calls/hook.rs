//! Hooks: what is patched, and what is wanted of the calls that come through. Used by `system_call`, and by most crates
//! above.

/// A hooked function or instruction. Written by the command, read by the agent; never moved, never freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Hook {
    /// Address of the function's own first instructions in the stub, with a jump back behind them. The fields from here
    /// to `guard` are what the stub hands to the routine (`routine::frame::Descriptor`).
    pub original: u64,
    /// Bits of `routine::frame::flags`: how the routine calls the function.
    pub flags: u32,
    /// Bytes of stack arguments that the routine copies for the function.
    pub copied: u32,
    /// Number by which records name the hook; never used for another hook.
    pub number: u64,
    /// Address of the patched instruction.
    pub place: u64,
    /// The words of a `routine::frame::Guard`: which value an argument must have for the agent to be called at all.
    pub guard: [u64; 3],
    /// Bits of [`want`]; 0 = nothing.
    pub want: u64,
    /// What its records hold: a [`Shape`](super::record::Shape).
    pub shape: u64,
    /// Capture program that runs at the call: address and number of its words; 0 = nothing is copied.
    pub at_entry: [u64; 2],
    /// Capture program that runs at the return, likewise.
    pub at_return: [u64; 2],
    /// With [`want::SCRIPTED`], where a VM calls one C function by several names: address and number of [`Name`]s.
    /// Calls by other names are not recorded. 0 = every call counts as this hook's.
    pub names: [u64; 2],
    /// Limits the calls to those made from these ranges of code. Address of a count and then begin and end of each
    /// range; 0 = calls from everywhere.
    pub callers: u64,
    /// Address of the 16-bit counter of a USDT probe's users, which is one higher while the hook is set; 0 = it has
    /// none.
    pub semaphore: u64,
    /// Condition that a call must meet: address and number of its words; 0 = none.
    pub asks_call: [u64; 2],
    /// Condition that a return must meet, likewise.
    pub asks_return: [u64; 2],
    /// Calls that took fewer cycles of the time-stamp counter than this are not recorded.
    pub least_ticks: u64,
    /// What the results of counted calls say: a word of `capture::outcome`; 0 = nothing.
    pub outcome: u64,
    /// Address of the stub.
    pub stub: u64,
    /// Address of the routine that the stub jumps to.
    pub routine: u64,
    /// How many of the bytes at `place` were moved into the stub.
    pub moved: u32,
    /// How many of `patches` are used.
    pub patched: u32,
    /// [`fingerprint`] of the moved bytes as they were: an attach that finds the hook tells by it whether the function
    /// is still the same.
    pub was: u64,
    /// The bytes that setting the hook changes, in this order.
    pub patches: [Patched; 2],
    /// Address of the `syscall` instruction before or behind which the hook stands, with [`want::SYSTEM_CALL`] or
    /// [`want::SYSTEM_RETURN`]. [`Self::names`] is then a table of addresses of hooks by the number of the system call,
    /// and these say what is wanted of each.
    pub instruction: u64,
    /// Number of the system call, if that instruction always makes the same one; else [`NO_NUMBER`](super::NO_NUMBER).
    /// [`CALLED`](super::CALLED), if the hook is on a function that makes the system call, as `syscall(2)` does.
    pub fixed: u64,
    /// 1 from before its patches are written until its command has removed it. If another command has since written a patch over one of
    /// them, removal leaves that patch in the code and sets this to 0: the command that later removes the other patch then restores the
    /// bytes that this one has replaced.
    pub set: u64,
    /// In its lower half the number of the session in which the stub of a place of a system call does the work by itself, in its upper
    /// half which work, one of [`inline`]: every call there has the number [`Self::fixed`]. 0 = it does none. Written by the
    /// command while all threads stand still.
    pub inline: u64,
    /// The address of that number's hook, where the stub does the work.
    pub called: u64,
    /// What the stub of a place can do by itself: [`inline::CODE`] and the bits of the [`Shape`](super::record::Shape) with which it records,
    /// 0 there if it cannot. 0 = nothing.
    pub inlined: u64,
    /// With [`want::BLOCKS`], what the function does with blocks: the word of an [`Effect`](super::blocks::Effect).
    pub blocks: u64,
}

/// One of several functions of a script's language that share their code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Name {
    /// What tells the function from the others: for Perl the address of its `CV`, for PHP a hash of name and class.
    pub identity: u64,
    /// Number by which records name it, instead of [`Hook::number`].
    pub number: u64,
}

/// Up to eight bytes that differ while a function is hooked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Patched {
    /// Address of the first byte.
    pub at: u64,
    /// Number of bytes, at most 8.
    pub length: u64,
    /// The bytes without the hook.
    pub was: [u8; 8],
    /// The bytes while the hook is set.
    pub is: [u8; 8],
}

/// Returns the 64-bit FNV-1a hash of the bytes.
pub const fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// The bits of [`Hook::outcome`] that say which bytes a call has moved; none is set where nothing is known of that.
pub const OF_BYTES: u64 = 0xfff0;

/// What the stub of a system call's place does by itself: the upper half of [`Hook::inline`].
pub mod inline {
    /// It counts; nothing is wanted but [`want::COUNT`](super::want::COUNT).
    pub const COUNT: u32 = 1;
    /// It counts, and reads no clock ([`want::BARE`](super::want::BARE)).
    pub const COUNT_BARE: u32 = 2;
    /// It records; [`want::ENTRY`](super::want::ENTRY) and [`want::RETURN`](super::want::RETURN) are wanted, and nothing but registers.
    pub const RECORD: u32 = 3;
    /// In [`Hook::inlined`](super::Hook::inlined): the stub has such code.
    pub const CODE: u64 = 1 << 63;
}

/// Bits of [`Hook::want`]: what the agent does with a call that comes through the hook.
pub mod want {
    /// Record each call when it begins ([`kind::ENTRY`](super::super::kind::ENTRY)).
    pub const ENTRY: u64 = 1;
    /// Record each return ([`kind::RETURN`](super::super::kind::RETURN)).
    pub const RETURN: u64 = 2;
    /// Record the script's line with each call.
    pub const PLACE: u64 = 4;
    /// Count calls instead of recording them.
    pub const COUNT: u64 = 16;
    /// The hook is on the loader's `r_brk`: the thread waits there until the command has seen what was loaded.
    pub const LOADER: u64 = 64;
    /// The guest's VM calls the function in a convention of its own.
    pub const SCRIPTED: u64 = 128;
    /// The function defines functions of the script's language: the thread waits at its return until the command has
    /// seen them.
    pub const DEFINES: u64 = 256;
    /// The hook is a probe in mid-function; [`super::Hook::at_return`] holds the [`super::operand`]s of its arguments.
    pub const PROBE: u64 = 1024;
    /// Record only calls that meet the condition.
    pub const ASKS: u64 = 2048;
    /// As [`ASKS`], and the condition is about the script's line too.
    pub const ASKS_LINE: u64 = 4096;
    /// Record the call only when it has returned, because whether it is recorded depends on the return.
    pub const HELD: u64 = 8192;
    /// The hook stands before a system call.
    pub const SYSTEM_CALL: u64 = 1 << 14;
    /// The hook stands behind a system call.
    pub const SYSTEM_RETURN: u64 = 1 << 15;
    /// The hook is of a system call's number, and [`super::Hook::names`] is the place of an [`super::super::Injection`].
    pub const INJECT: u64 = 1 << 16;
    /// Of counted calls only how many there are and how many failed is wanted: no clock is read for them, and their times are 0.
    pub const BARE: u64 = 1 << 17;
    /// Count the blocks that the function takes and gives back ([`super::super::blocks`]); nothing else is wanted then.
    pub const BLOCKS: u64 = 1 << 18;
    /// The function ends the process: write [`notice::ENDS`](crate::notices::notice) first.
    pub const ENDS: u64 = 1 << 32;
    /// The function runs another program: write a notice first.
    pub const EXECS: u64 = 1 << 33;
    /// The function forks: the child waits until it is followed.
    pub const FORKS: u64 = 1 << 34;
    /// The VM calls the function when it begins with the script: write a notice.
    pub const SCRIPT: u64 = 1 << 35;
    /// The function is an IFUNC, which picks the function to be called by its name: write a notice with what it picked.
    pub const PICKS: u64 = 1 << 36;
    /// Both sides of `vfork` go on at this address: record their returns.
    pub const BACK: u64 = 1 << 37;
    /// The function is `prctl`, by which a thread can forbid what hooks do: write a notice first.
    pub const LOCKS: u64 = 1 << 38;
    /// The same of `syscall`, whose first argument is the number of the system call.
    pub const LOCKS_BY_NUMBER: u64 = 1 << 39;
    /// The function ends an interpreter, to which threads may still point: from now on nothing is followed that the VM notes
    /// ([`Calls::wary`](super::super::Calls::wary)).
    pub const ENDS_INTERPRETER: u64 = 1 << 40;
    /// What a user may want.
    pub const EVENTS: u64 = ENTRY | RETURN | COUNT;
    /// What lancet itself wants, whatever the user wants.
    pub const OWN: u64 = LOADER | DEFINES | NOTICES | BACK | ENDS_INTERPRETER;
    /// What is reported by a notice.
    pub const NOTICES: u64 = ENDS | EXECS | FORKS | SCRIPT | PICKS | LOCKS | LOCKS_BY_NUMBER;
}

/// Where a probe's argument is, in two words.
///
/// ```text
///   word 0   bits 0..8 a kind   8..16 a register   16..24 a register as index   24..32 what that is multiplied by
///            bits 32..40 bytes of the value   40 signed   48..56 bits of the register to drop
///   word 1   a constant, or what is added to an address
/// ```
pub mod operand {
    /// In a general register, by its number in machine code.
    pub const REGISTER: u64 = 0;
    /// In the low half of a vector register.
    pub const VECTOR: u64 = 1;
    /// The value is the constant in word 1.
    pub const CONSTANT: u64 = 2;
    /// In memory, at the sum of register, scaled index and word 1.
    pub const MEMORY: u64 = 3;
    /// In the place of a register's number: no register.
    pub const NONE: u64 = 0xff;
    /// Arguments of one probe that are recorded, at most.
    pub const MOST: usize = 6;
}
