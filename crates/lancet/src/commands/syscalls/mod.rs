//! `lancet syscalls`: which line makes these system calls, with what, and how long do they take? Used by `commands`.
//!
//! The work is done by crate `calls`, which hooks the `syscall` instructions; the text is that of crate `syscalls`. Here
//! are strace's letters.

mod args;
mod asks;
mod expressions;
mod inject;
mod lines;
mod separate;
mod shown;
mod started;
mod way;

pub use args::SyscallsArgs;

use crate::exit::Usage;
use crate::ui::piped;
use crate::watching::Asked as _;
use crate::watching::{self, now};
use ::inject::tracee::{User, go_behind, hold_child_signal};
use report::syscalls::FORMATS;

/// Makes the environment that PROGRAM is to have, and goes behind it if that is asked for (`-D`): before any process or thread of ours
/// is made that would be left behind.
pub fn prepare(args: &SyscallsArgs) -> anyhow::Result<()> {
    for word in &args.started.environment {
        // SAFETY: no thread of ours reads the environment meanwhile: the only other one that there may be waits to fork.
        unsafe {
            match word.split_once('=') {
                Some((name, value)) => std::env::set_var(name, value),
                None => std::env::remove_var(word),
            }
        }
    }
    let Some(how) = args.started.behind() else {
        return Ok(());
    };
    if let Some(flaw) = args.flaw() {
        return Err(Usage(flaw).into());
    }
    let user = args.common.user.as_deref();
    let user = user.map(|name| User::named(name).ok_or_else(|| calls::Error::NoUser(name.into())));
    Ok(go_behind(&args.common.program, user.transpose()?, how)?)
}

/// Runs the command; the answer is the exit code.
pub fn run(args: SyscallsArgs) -> anyhow::Result<u8> {
    let code = watch(&args);
    // What reads our lines has had the last one.
    piped::wait();
    code
}

fn watch(args: &SyscallsArgs) -> anyhow::Result<u8> {
    if args.blocked {
        return now::run(&args.common, args.chosen(), FORMATS, "--blocked");
    }
    args.common.require_room(args.chosen().is_text())?;
    read_tables();
    watching::run(args)
}

/// Begins to read what is known of arguments, beside all else that a start does: a program that was started would stand still for it.
/// Whoever writes a call first waits until it was read, or reads it if no thread could be made.
fn read_tables() {
    hold_child_signal();
    let _ = std::thread::Builder::new().spawn(::syscalls::prepare);
}
