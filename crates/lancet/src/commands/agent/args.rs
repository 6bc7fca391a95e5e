//! The flags of `lancet agent`. Used by `commands` and `run`.

use std::path::PathBuf;

use clap::Args;

/// Options of `lancet agent`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct AgentArgs {
    /// What to look at, how often, and where the answers go (docs/fleet.md#on-each-host); SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// Only say what it would look at now, and how often
    #[arg(long, conflicts_with = "once")]
    pub check: bool,

    /// Look once at everything, at one process of each choice, and end; the budget is measured, and not held
    #[arg(long)]
    pub once: bool,
}

const EXAMPLES: &str = "\
Examples:
  lancet agent --config /etc/lancet.toml --check
  lancet agent --config /etc/lancet.toml
  lancet fleet hot --from /var/lib/lancet

Exit status: 0 ended as it was asked to, 1 could not be done,
2 wrong usage or configuration, 4 with --once: something failed.";
