//! The list of the commands, of which the command line and the dispatch are made. Used by `cli`.
//!
//! Each is a folder with the flags in `args.rs` and what is done in `run.rs`, and a line in the list below; dispatch,
//! the order in the help, man pages and completions follow from the list. What `calls` and `syscalls` share is in
//! [`watching`](crate::watching). What a command finds is written by the folder
//! of its name in the crate `report`.

mod agent;
pub mod calls;
mod companion;
mod completions;
mod demo;
mod export;
mod fleet;
mod heap;
mod man;
mod mcp;
pub mod mem;
mod patch;
mod profile;
mod stack;
mod syscalls;
mod tune;

use clap::{CommandFactory, Subcommand};

use crate::cli::Cli;

/// Makes the enum clap reads and the dispatch from one list.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($args:ty) => $run:expr,)*) => {
        /// What to do.
        #[derive(Debug, Subcommand)]
        #[allow(clippy::large_enum_variant, reason = "a program has one of these in its life")]
        pub enum Command {
            $($(#[$attribute])* $name($args),)*
        }

        impl Command {
            /// Runs the command and returns the exit code.
            pub fn run(self) -> anyhow::Result<u8> {
                match self {
                    $(Self::$name(args) => ($run)(args),)*
                }
            }
        }
    };
}

impl Command {
    /// Whether processes may stand still for it.
    pub fn stops_guests(&self) -> bool {
        match self {
            Self::Mem(_) | Self::Stack(_) | Self::Profile(_) | Self::Heap(_) | Self::Patch(_) => {
                true
            }
            // A recording is only read.
            Self::Calls(args) => args.common.recording().is_none(),
            Self::Syscalls(args) => args.common.recording().is_none(),
            Self::Companion(args) => args.detached,
            _ => false,
        }
    }

    /// Whether it looks at this machine, now, and not at what was written before or comes from another one.
    pub fn looks_here(&self) -> bool {
        match self {
            Self::Mem(_) | Self::Patch(_) => true,
            Self::Calls(args) => args.common.recording().is_none(),
            Self::Syscalls(args) => args.common.recording().is_none(),
            Self::Stack(args) => args.looks_here(),
            Self::Profile(args) => args.file.is_none() && args.diff.is_none(),
            Self::Heap(args) => args.pid.is_some(),
            Self::Tune(args) => args.root.is_none(),
            Self::Agent(_) => true,
            _ => false,
        }
    }

    /// Does what must be done before any process or thread of ours is made.
    pub fn prepare(&self) -> anyhow::Result<()> {
        match self {
            Self::Syscalls(args) => syscalls::prepare(args),
            _ => Ok(()),
        }
    }
}

commands! {
    /// Which file:line:Type holds the memory of a running Ruby, Python or PHP?
    Mem(mem::MemArgs) => mem::run,
    /// Which line calls this C function, with what, and how long does it take?
    Calls(calls::CallsArgs) => calls::run,
    /// Which line makes these system calls, with what, and how long do they take?
    Syscalls(syscalls::SyscallsArgs) => syscalls::run,
    /// What does each thread do, and how many bytes is each frame on its stack?
    Stack(stack::StackArgs) => stack::run,
    /// In which functions do threads run, and who calls them?
    Profile(profile::ProfileArgs) => profile::run,
    /// Who keeps the objects of a running Ruby, Python, Perl or PHP, or of a heap snapshot, alive, and how many bytes does each holder retain?
    Heap(heap::HeapArgs) => heap::run,
    /// Replace a function of a running process by another one, and take it back
    Patch(patch::PatchArgs) => patch::run,
    /// Is this machine set up for this process?
    Tune(tune::TuneArgs) => tune::run,
    /// See it at work: a small server with three faults is started, opened, and ended again
    Demo(demo::DemoArgs) => demo::run,
    /// Write saved answers as Parquet files, for questions to many of them
    Export(export::ExportArgs) => export::run,
    /// Look at the processes of this host again and again, at low cost, and keep the answers for fleet
    Agent(agent::AgentArgs) => agent::run,
    /// Ask the answers of many hosts: what leaks, what is slow, what differs?
    Fleet(fleet::FleetArgs) => fleet::run,
    /// Serve an assistant by the Model Context Protocol, on standard input and output
    Mcp(mcp::McpArgs) => |args| mcp::run(args, Cli::command()),
    /// Serve the program that has started it: what `gem/` and `python/` ask
    #[command(hide = true)]
    Companion(companion::CompanionArgs) => companion::run,
    /// Print the man page of lancet or of one of its commands: lancet man mem | man -l -
    Man(man::ManArgs) => |args| man::run(args, Cli::command()),
    /// Print the completions for a shell
    Completions(completions::CompletionsArgs) => |args| completions::run(args, Cli::command()),
}
