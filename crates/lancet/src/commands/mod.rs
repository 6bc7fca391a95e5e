//! The commands: one file each, and one line in the list below. Dispatch, the order in the help,
//! man pages and completions follow from the list.

pub mod calls;
mod completions;
mod man;
mod mem;
mod stack;
mod tune;

use clap::Subcommand;

use crate::cli::{CallsArgs, MemArgs, StackArgs, TuneArgs};

/// Exit code: a limit the user set was exceeded.
pub const EXCEEDED: u8 = 3;
/// Exit code: done, but something was lost or refused.
pub const LOST: u8 = 4;

/// Makes the enum clap reads and the dispatch from one list.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($args:ty) => $run:path,)*) => {
        /// What to do.
        #[derive(Debug, Subcommand)]
        #[expect(clippy::large_enum_variant, reason = "there is one, once")]
        pub enum Command {
            $($(#[$attribute])* $name($args),)*
        }

        impl Command {
            /// Does it; the answer is the exit code.
            pub fn run(self) -> anyhow::Result<u8> {
                match self {
                    $(Self::$name(args) => $run(args),)*
                }
            }
        }
    };
}

commands! {
    /// Which file:line:Type holds the memory of a running Ruby?
    Mem(MemArgs) => mem::run,
    /// Which line calls this C function, with what, and how long does it take?
    Calls(CallsArgs) => calls::run,
    /// What is on the stack, and how many bytes is each frame?
    Stack(StackArgs) => stack::run,
    /// Is this machine set up for this process?
    Tune(TuneArgs) => tune::run,
    /// Print the man page of lancet or of one of its commands
    #[command(hide = true)]
    Man(man::ManArgs) => man::run,
    /// Print the completions for a shell
    #[command(hide = true)]
    Completions(completions::CompletionsArgs) => completions::run,
}
