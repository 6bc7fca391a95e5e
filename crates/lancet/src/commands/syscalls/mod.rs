//! `lancet syscalls`: which line makes these system calls, with what, and how long do they take?
//!
//! The work is done by crate `calls`, which hooks the `syscall` instructions; the text is that of crate `syscalls`. Here
//! are strace's letters.

mod args;
mod asks;
mod expressions;
mod inject;
mod separate;
mod shown;

pub use args::SyscallsArgs;

use crate::commands::{events, now};
use crate::ui::piped;

/// Runs the command; the answer is the exit code.
pub fn run(args: SyscallsArgs) -> anyhow::Result<u8> {
    for word in &args.environment {
        // SAFETY: no thread of ours reads the environment meanwhile: the only other one that there may be waits to fork.
        unsafe {
            match word.split_once('=') {
                Some((name, value)) => std::env::set_var(name, value),
                None => std::env::remove_var(word),
            }
        }
    }
    let code = watch(&args);
    // What reads our lines has had the last one.
    piped::wait();
    code
}

fn watch(args: &SyscallsArgs) -> anyhow::Result<u8> {
    match args.blocked {
        true => now::run(
            &args.common.processes(),
            args.common.output.as_deref(),
            false,
        ),
        false => events::run(args),
    }
}
