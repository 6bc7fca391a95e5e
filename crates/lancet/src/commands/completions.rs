//! `lancet completions SHELL`: made from the declaration of the command line. For packagers and
//! shell start files, hence not in the help.

use std::io::Write;

use clap_complete::Shell;

/// Options of `lancet completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script for `lancet`, the whole command line.
pub fn run(args: CompletionsArgs, mut lancet: clap::Command) -> anyhow::Result<u8> {
    // The generator panics when it cannot write, and a closed pipe is no reason for that.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut lancet, "lancet", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(0)
}
