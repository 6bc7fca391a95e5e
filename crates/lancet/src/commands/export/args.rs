//! The flags of `lancet export`. Used by `commands` and `run`.

use std::path::PathBuf;

use clap::Args;

/// Options of `lancet export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Answers (--json, of one lancet or of several one behind the other), and what profile --save, heap --save and calls --record have written
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The folder of tables, which is made if there is none; the same answer has the same files in it
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// The name of the service [default: the name of each program]
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,

    /// Which release of it ran
    #[arg(long, value_name = "NAME")]
    pub release: Option<String>,

    /// The machine on which it ran [default: as the answer says]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  lancet mem -p 4242 --for 1m --json -o web.json
  lancet export web.json -o fleet --release 2026-11-30

Exit status: 0, 1 could not be done, 2 wrong usage,
4 done, but a file was refused, or was cut off.";
