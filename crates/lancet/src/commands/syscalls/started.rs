//! strace's letters for how a program is started, and where lancet is meanwhile. Used by `args`.

use super::expressions;
use crate::watching::args::TARGET;
use ::inject::tracee::Behind;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};

/// The flags of `syscalls` for how a program is started.
#[derive(Args, Clone, Debug)]
pub struct Started {
    /// Set VAR to VALUE for PROGRAM, or take it out; may be repeated
    #[arg(short = 'E', long = "env", value_name = "VAR[=VALUE]", requires = "program", value_parser = NonEmptyStringValueParser::new(), help_heading = TARGET)]
    pub environment: Vec<String>,

    /// Leave a process as soon as it runs another program; the PROGRAM that is started is seen until it does. By ptrace alone:
    /// --strace of a PROGRAM, or --no-modify
    #[arg(short = 'b', long = "detach-on", value_name = "execve", value_parser = ["execve"], help_heading = TARGET)]
    pub detach_on: Option<String>,

    /// Watch from behind the PROGRAM, which takes the place of lancet: whoever has started lancet finds the PROGRAM under that number and
    /// waits for that. -DD: in a process group of lancet's own; -DDD: in a session of its own
    #[arg(short = 'D', action = ArgAction::Count, requires = "program", conflicts_with_all = ["pids", "behind"], help_heading = TARGET)]
    pub daemonize: u8,

    /// The same: grandchild (-D), pgroup (-DD), session (-DDD)
    #[arg(long = "daemonize", id = "behind", value_name = "HOW", value_parser = behind, requires = "program", conflicts_with = "pids", require_equals = true, num_args = 0..=1, default_missing_value = "grandchild", help_heading = TARGET)]
    pub behind: Option<Behind>,

    /// Understood and not needed: signals that end lancet have it leave its processes, whenever they come
    #[arg(short = 'I', long = "interruptible", value_name = "WHEN", value_parser = expressions::interruptible, hide = true)]
    pub interruptible: Option<u8>,

    /// Understood and not needed: calls that are not asked for cost nothing
    #[arg(long, hide = true)]
    pub seccomp_bpf: bool,
}

impl Started {
    /// Where lancet goes behind the PROGRAM, if it does.
    pub fn behind(&self) -> Option<Behind> {
        match self.daemonize {
            0 => self.behind,
            1 => Some(Behind::Grandchild),
            2 => Some(Behind::Group),
            _ => Some(Behind::Session),
        }
    }

    /// What is wrong with these letters together.
    pub fn flaw(&self, is_by_tracer: bool) -> Option<String> {
        if self.detach_on.is_some() && !is_by_tracer {
            return Some(
                "-b execve is for processes that are seen by ptrace: ask for --no-modify too, or for --strace of a PROGRAM".into(),
            );
        }
        let letters = self.daemonize;
        (letters > 3)
            .then(|| format!("-D can be given three times at most, and was {letters} times"))
    }
}

/// What stands behind `--daemonize=`.
fn behind(how: &str) -> Result<Behind, String> {
    match how {
        "grandchild" => Ok(Behind::Grandchild),
        "pgroup" | "pgrp" => Ok(Behind::Group),
        "session" => Ok(Behind::Session),
        other => Err(format!(
            "there is no {other} to be behind in: grandchild, pgroup, session"
        )),
    }
}
