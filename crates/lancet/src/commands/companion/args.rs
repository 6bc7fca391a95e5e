//! The command line of `lancet companion`. Used by `commands` and `run`.

use std::path::PathBuf;

use clap::Args;

/// Options of `lancet companion`.
#[derive(Args, Clone, Debug)]
pub struct CompanionArgs {
    /// The program to serve: the one that has started this
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,

    /// Leave out what the files of this folder do: the library that asks
    #[arg(long, value_name = "DIR")]
    pub hide: Option<PathBuf>,

    /// Serve; without it, start a companion that is nobody's child, and end
    #[arg(long, hide = true)]
    pub detached: bool,
}
