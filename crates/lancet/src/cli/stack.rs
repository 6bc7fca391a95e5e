//! The flags of `lancet stack`, and what they amount to.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use frames::scan::Decode;

/// How many rows a table has unless `--top` says otherwise.
const TABLE_ROWS: usize = 20;

/// Options of `lancet stack`.
#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("target").required(true).multiple(true).args(["files", "gems", "process"]),
    override_usage = "lancet stack [OPTIONS] FILE...\n       lancet stack [OPTIONS] --gem NAME\n       \
                      lancet stack [OPTIONS] --process PID",
    after_help = EXAMPLES,
)]
pub struct StackArgs {
    /// Rank the frames of this program or library, stripped or not
    #[arg(value_name = "FILE", help_heading = TARGET)]
    pub files: Vec<PathBuf>,

    /// Rank the frames of a gem's compiled extensions; may be repeated
    #[arg(long = "gem", value_name = "NAME", help_heading = TARGET)]
    pub gems: Vec<String>,

    /// Rank the frames of everything this process has loaded; it is not stopped
    #[arg(long, value_name = "PID", help_heading = TARGET)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub process: Option<i32>,

    /// Exit with 3 if a frame is larger
    #[arg(long, value_name = "BYTES", help_heading = ROWS)]
    pub max: Option<u64>,

    /// At most N rows; 0 for all [default: 20; with --json all]
    #[arg(long, value_name = "N", help_heading = ROWS)]
    top: Option<usize>,

    /// Decode every function and say where code and call frame information differ
    #[arg(long, help_heading = ROWS)]
    pub check: bool,

    /// One JSON object a line
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

impl StackArgs {
    /// What is to be decoded.
    pub fn decode(&self) -> Decode {
        match self.check {
            true => Decode::Everything,
            false => Decode::AsNeeded,
        }
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        match (self.top, self.json) {
            (Some(0), _) | (None, true) => usize::MAX,
            (Some(rows), _) => rows,
            (None, false) => TABLE_ROWS,
        }
    }
}

const TARGET: &str = "What to look at";
const ROWS: &str = "What to show";
const OUTPUT: &str = "How to write it";

const EXAMPLES: &str = "\
Examples:
  lancet stack /usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1   the biggest frames in it
  lancet stack --gem eventmachine                             in a gem's extensions
  lancet stack --process 4242 --top 50                        in all a process has loaded
  lancet stack --max 16384 ext/*.so                           in CI: exit 3 if one is larger";
