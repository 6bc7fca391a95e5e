//! The top of the command line, and what the flags of several commands share. Used by `commands`.
//!
//! Every flag is declared once, in `commands/NAME/args.rs`; help, man pages and completions are made from the
//! declarations. What a flag means is settled there too, defaults included, so that the code which runs a command gets
//! answers and not flags.

pub mod duration;
pub mod format;
pub mod guess;
pub mod size;
mod symptoms;
pub mod written;
pub mod wrong;

use clap::Parser;

use crate::commands::Command;

/// Opens a running process that nobody prepared, and says what its lines do.
///
/// The process computes on as before, whatever happens to lancet.
#[derive(Debug, Parser)]
#[command(name = "lancet", version, after_help = symptoms::SYMPTOMS)]
pub struct Cli {
    #[command(subcommand)]
    #[allow(missing_docs)] // A doc comment would be shown in the help.
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
        assert!(help.contains("Usage: lancet <COMMAND>"), "{help}");
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let listed = help
                .lines()
                .any(|line| line.split_whitespace().next() == Some(name));
            assert_eq!(listed, !command.is_hide_set(), "{name}: {help}");
            assert!(command.get_about().is_some(), "{name}");
        }
    }
}
