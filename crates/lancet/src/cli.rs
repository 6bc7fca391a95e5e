//! The command line: every flag is declared once, here or in a file below, and help, man pages and
//! completions are made from the declaration.
//!
//! What a flag *means* is settled here too, so that a command gets answers, not flags: a
//! [`MemArgs`] hands out the [`analysis::View`], the format and the interval, defaults included.

pub mod calls;
pub mod duration;
pub mod mem;
pub mod stack;
pub mod tune;

use clap::Parser;

use crate::commands::Command;

pub use calls::CallsArgs;
pub use mem::{Format, MemArgs};
pub use stack::StackArgs;
pub use tune::TuneArgs;

/// Opens a running process that nobody prepared, and says what its lines do.
///
/// The process computes on as before, whatever happens to lancet.
#[derive(Debug, Parser)]
#[command(name = "lancet", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_lists_the_commands() {
        let help = Cli::command().term_width(90).render_help().to_string();
        insta::assert_snapshot!(help, @"
        Opens a running process that nobody prepared, and says what its lines do

        Usage: lancet <COMMAND>

        Commands:
          mem    Which file:line:Type holds the memory of a running Ruby?
          calls  Which line calls this C function, with what, and how long does it take?
          stack  What is on the stack, and how many bytes is each frame?
          tune   Is this machine set up for this process?

        Options:
          -h, --help     Print help (see more with '--help')
          -V, --version  Print version
        ");
    }
}
