//! `lancet completions SHELL`: made from the declaration of the command line. For packagers and
//! shell start files, hence not in the help.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Options of `lancet completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionsArgs) -> anyhow::Result<u8> {
    // The generator panics when it cannot write, and a closed pipe is no reason for that.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lancet", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(0)
}
