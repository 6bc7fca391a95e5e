//! `lancet syscalls`: which line makes these system calls, with what, and how long do they take?
//!
//! The work is done by crate `calls`, which hooks the `syscall` instructions; the text is that of crate `syscalls`. Here
//! are strace's letters.

mod args;
mod expressions;
mod inject;
mod separate;
mod shown;

pub use args::SyscallsArgs;

use crate::commands::{events, now};

/// Runs the command; the answer is the exit code.
pub fn run(args: SyscallsArgs) -> anyhow::Result<u8> {
    match args.blocked {
        true => now::run(
            &args.common.processes(),
            args.common.output.as_deref(),
            false,
        ),
        false => events::run(&args),
    }
}
