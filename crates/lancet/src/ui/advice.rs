//! What to do about an error: the next step, said once, here.

use process::Error;

/// The error as one line: what, why, and what to do.
pub fn explain(error: Error) -> anyhow::Error {
    match next_step(&error) {
        Some(step) => anyhow::anyhow!("{error}: {step}"),
        None => anyhow::Error::new(error),
    }
}

fn next_step(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::NoSuchProcess(_) => "look it up again, for instance with pgrep -a ruby",
        Error::Stopped(_) => "let it go on first (kill -CONT), then open it",
        Error::Traced { .. } => "end that tracer first; a process can have only one",
        Error::NotAllowed { reason, .. } if reason.contains("ptrace_scope") => {
            "run lancet as root, or set kernel.yama.ptrace_scope to 0"
        }
        Error::NotAllowed { reason, .. } if reason.contains("container") => {
            "give the container CAP_SYS_PTRACE, or run lancet on the host"
        }
        Error::NotAllowed { .. } => "run lancet as that user or as root",
        Error::WouldNotStop { .. } => "try again when that call has ended",
        Error::Occupied { .. } => "wait until it leaves, or end it",
        Error::NoAnswer { .. } => "try again when the process is doing something else",
        Error::Ractors { .. } => "Ruby 4 has these bugs fixed",
        Error::Seccomp { .. } => {
            "run lancet as root on the host, or start the program without that filter"
        }
        Error::BrokenRuby { .. } => "update that Ruby",
        _ => return None,
    })
}
