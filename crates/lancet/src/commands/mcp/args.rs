//! The flags of `lancet mcp`.

use std::time::Duration;

use clap::Args;

use crate::cli::duration::parse;

/// Options of `lancet mcp`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct McpArgs {
    /// A process that may be opened, and with it those below it (the workers of a server); may be repeated
    #[arg(
        short = 'p',
        long = "pid",
        value_name = "PID",
        required_unless_present = "any_process"
    )]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// Every process may be opened that the kernel lets this user open
    #[arg(long, conflicts_with = "pids")]
    pub any_process: bool,

    /// The longest time for which one call may watch a process
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, default_value = "30s")]
    pub longest: Duration,

    /// Offer also what changes a process or the machine: patch, inject, tune_apply. Whoever can write what the assistant reads can then run
    /// code in the processes that may be opened, and tune_apply is not bound by --pid
    #[arg(long)]
    pub allow_changes: bool,
}

const EXAMPLES: &str = "\
An assistant starts it; its configuration has the words, for instance
  { \"mcpServers\": { \"lancet\": { \"command\": \"lancet\", \"args\": [\"mcp\", \"-p\", \"4242\"] } } }

Exit status: 0 when standard input ends, 1 could not be done, 2 wrong usage.";
