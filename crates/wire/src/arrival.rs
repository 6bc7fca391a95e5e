//! A program we start: the two places where its main thread comes by before its first Ruby line.
//!
//! ```text
//!   exec ─► loader ─► [0] the program's entry ─► … ruby_init, ruby_options ─► [1] ruby_run_node ─► the script
//! ```
//!
//! At \[0\] every library is in place; at \[1\] the VM is made, the script is compiled, none of it has run, and
//! the main thread holds the VM's lock. Each
//! place leads into the agent, which makes one [`MARK`]ed system call, by which the command, tracing,
//! sees it, and goes on. Without a command it goes on all the same, and puts right itself what was
//! changed to bring it here.

/// The program's entry.
pub const ENTRY: usize = 0;
/// `ruby_run_node`.
pub const SCRIPT: usize = 1;

/// First argument of the `getpid` that says "here I am"; the second is the place's number.
pub const MARK: u64 = 0x006c_616e_6365_7421;

/// Bytes of the jump that brings a thread to the agent: `jmp *0(%rip)` and the address.
pub const JUMP: usize = 14;

/// One of the two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Arrival {
    /// Where the thread goes on.
    pub go_on: u64,
    /// Address of a word that was changed (the loader's note of the program's entry); 0 = none.
    pub word: u64,
    /// What it was.
    pub word_was: u64,
    /// Address of code that was changed; 0 = none.
    pub code: u64,
    /// What it was; the last two bytes are not used.
    pub code_was: [u8; 16],
}
