//! Says what a user can do about an error of a process. Every command asks here.

use process::{Denial, Error};

/// Returns the error as one line: what, why, and what to do if something can be done.
pub fn explain(error: Error) -> anyhow::Error {
    match next_step(&error) {
        Some(step) => anyhow::anyhow!("{error}: {step}"),
        None => anyhow::Error::new(error),
    }
}

/// What to do about it, if that is known: behind the error, after a colon.
pub fn next_step(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::NoSuchProcess(_) => "look it up again, for instance with pgrep -a ruby",
        Error::Stopped(_) => "let it go on first (kill -CONT), then open it",
        Error::Traced { .. } => "end that tracer first; a process can have only one",
        Error::NotAllowed { reason, .. } => match reason {
            Denial::PtraceScope(_) => "run lancet as root, or set kernel.yama.ptrace_scope to 0",
            Denial::NoCapability => "give the container CAP_SYS_PTRACE, or run lancet on the host",
            Denial::OtherNamespace => {
                "run lancet on the host, or in that namespace (nsenter -U -t PID)"
            }
            Denial::SecurityModule => {
                "look for its refusal (dmesg, ausearch -m avc), and let lancet trace"
            }
            Denial::OtherUser { .. } | Denial::NotDumpable => "run lancet as that user or as root",
        },
        Error::WouldNotStop { .. } => "try again when that call has ended",
        Error::Occupied { .. } => "wait until it leaves, or end it",
        Error::NoAnswer { .. } => "try again when the process is doing something else",
        Error::Ractors { .. } => "Ruby 4 has these bugs fixed",
        Error::Seccomp { .. } => {
            "run lancet as root on the host, or start the program without that filter"
        }
        Error::NoRoom { .. } => "raise the group's memory limit",
        Error::WriteProtected(_) => "start the kernel with proc_mem.force_override=ptrace",
        Error::BrokenRuby { .. } => "update that Ruby",
        _ => return None,
    })
}
