//! Says what a user can do about an error of a process. Every command asks here.

use process::{Denial, Error, Module};
use std::borrow::Cow;
use std::io::ErrorKind;
use vm::Language;

/// Returns the error as one line: what, why, and what to do if something can be done.
pub fn explain(error: Error) -> anyhow::Error {
    if let Error::UnreadableVm { pid, .. } = error {
        let step = memory_elsewhere(pid);
        return anyhow::anyhow!("{error}: {step}");
    }
    match next_step(&error) {
        Some(step) => anyhow::anyhow!("{error}: {step}"),
        None => anyhow::Error::new(error),
    }
}

/// Returns what says where the memory of a process is whose births cannot be counted.
fn memory_elsewhere(pid: i32) -> String {
    let languages = frames::live::open::Live::open(pid).map(|live| live.languages());
    let languages = languages.unwrap_or_default();
    let runs = |name: &str| languages.iter().any(|one| one.starts_with(name));
    let counted = |last| Language::those(enter::counts_births, last);
    // `lancet heap` knows these.
    let mut others = languages::ALL.iter().filter(|entry| {
        !enter::counts_births(entry.language) && runs(entry.language.description().name)
    });
    match others.next() {
        Some(entry) => format!(
            "it runs {}, and mem counts what {} make; `lancet heap -p {pid}` says who keeps its objects alive, and `lancet mem -p {pid} --native` who takes memory from its allocator",
            entry.language,
            counted(" and ")
        ),
        None => {
            let all = Language::ALL.iter().copied();
            let names = all
                .filter(|language| enter::counts_births(*language))
                .map(|language| language.description().prefix);
            format!(
                "mem counts what {} make; of a server name its {} (pgrep -a '{}'), and `lancet mem -p {pid} --native` says who takes memory from its allocator",
                counted(" and "),
                counted(" or "),
                names.collect::<Vec<_>>().join("|")
            )
        }
    }
}

/// What to do about it, if that is known: behind the error, after a colon.
pub fn next_step(error: &Error) -> Option<Cow<'static, str>> {
    if error.is_shortage() {
        return Some("lancet may have no more files open: raise its limit (ulimit -Hn)".into());
    }
    if let Error::System { what, error } = error
        && what.starts_with("/proc/")
        && error.kind() == ErrorKind::PermissionDenied
    {
        return Some(
            "only the user of the process may read that file, and who has CAP_DAC_READ_SEARCH beside CAP_SYS_PTRACE".into(),
        );
    }
    match error {
        Error::BrokenVm { language, .. } => Some(format!("update that {language}").into()),
        other => fixed_step(other).map(Cow::Borrowed),
    }
}

/// The same for errors of which always the same can be said.
fn fixed_step(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::NoSuchProcess(_) => "look it up again, for instance with pgrep -af NAME",
        Error::NoRoomForCopy { .. } => {
            "raise the limit for that time, or take the risk that the kernel ends it (--despite-limit)"
        }
        Error::EndsWithCopy { .. } => "raise the limit for that time",
        Error::LimitHidden { .. } => {
            "run lancet on the host or in that container, or take the risk (--despite-limit) where the limit is more than twice of what it has in memory"
        }
        Error::NoHeap { .. } => "lancet heap --rss says what the memory of any process is used for",
        Error::Stopped(_) => "let it go on first (kill -CONT), then open it",
        // It was waited for, and several may want it one after the other.
        Error::Traced { .. } if error.may_pass() => {
            "another lancet has just stopped it, for longer than is waited for: try again"
        }
        Error::Traced { .. } => "end that tracer first; a process can have only one",
        Error::NotAllowed { reason, .. } => match reason {
            Denial::PtraceScope(3) => {
                "set kernel.yama.ptrace_scope to 0 where it is set at boot (/etc/sysctl.d), and reboot"
            }
            Denial::PtraceScope(_) => "run lancet as root, or set kernel.yama.ptrace_scope to 0",
            Denial::NoCapability => "give the container CAP_SYS_PTRACE, or run lancet on the host",
            Denial::OtherNamespace => {
                "run lancet on the host, or in that namespace (nsenter -U -t PID)"
            }
            Denial::SecurityModule(Module::AppArmorOfOurs | Module::AppArmorOfIts, _) => {
                "give the profile a rule `ptrace (trace, tracedby)`, or run lancet on the host; dmesg has the refusal"
            }
            Denial::SecurityModule(Module::SeLinux, _) => {
                "ausearch -m avc has the refusal; setsebool deny_ptrace off, or allow sys_ptrace to the domain of lancet"
            }
            Denial::SecurityModule(Module::Unknown, _) => {
                "look for its refusal (dmesg, ausearch -m avc), and let lancet trace"
            }
            Denial::OwnFilter => {
                "run lancet outside of that container, or allow it ptrace (docker run --security-opt seccomp=…)"
            }
            Denial::OtherUser { .. } => "run lancet as that user or as root",
            Denial::MoreCapabilities | Denial::NotDumpable => "run lancet as root",
        },
        Error::WouldNotStop { .. } => "try again when that call has ended",
        Error::Occupied { .. } => "wait until it leaves, or end it",
        Error::NoAnswer { .. } => "try again when the process is doing something else",
        Error::Ractors { .. } => "lancet heap --rss says what its memory is used for",
        Error::Seccomp { .. } => "start the program without that filter",
        Error::SeccompUnread { .. } => {
            "run lancet as root on the host, or start the program without that filter"
        }
        Error::NoRoom { .. } => "raise the group's memory limit",
        Error::WriteProtected(_) => "start the kernel with proc_mem.force_override=ptrace",
        Error::Replaced(_) | Error::Left { .. } => "open it again",
        Error::Restless(_) => "try again when it stays with one program",
        Error::Zombie(_) => "nothing of it is left to look at; name its parent or another worker",
        Error::Stirred(_) | Error::NothingToBorrow { .. } => "try again in a moment",
        Error::RemoteTimeout { .. } => "try again when the process is doing something else",
        Error::NoCopy { .. } => {
            "a core file of it (gcore) can be read without a copy: lancet heap CORE"
        }
        // Nothing can be done, or the reason in the message says it.
        Error::Gone(_)
        | Error::ThreadEnded { .. }
        | Error::NotAGuest { .. }
        | Error::AtEvent { .. }
        | Error::Remote { .. }
        | Error::RemoteFault { .. }
        | Error::Memory { .. }
        | Error::Refused { .. }
        | Error::NotCompacted { .. }
        | Error::NotEntered { .. }
        | Error::NotAsked { .. }
        | Error::Hook { .. }
        | Error::UnreadableVm { .. }
        | Error::BrokenVm { .. }
        | Error::Elf { .. }
        | Error::Image(_)
        | Error::Start { .. }
        | Error::System { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What to do about it must help where it is said.
    #[test]
    fn root_is_named_only_where_root_may() {
        let scope = |scope| {
            let reason = Denial::PtraceScope(scope);
            next_step(&Error::NotAllowed { pid: 7, reason }).expect("a step")
        };
        assert!(scope(1).contains("run lancet as root") && scope(2).contains("run lancet as root"));
        assert!(scope(3).contains("reboot") && !scope(3).contains("root,"));
        let forbidden = Error::Seccomp {
            pid: 7,
            reason: "its filter does not allow mmap".into(),
        };
        let step = next_step(&forbidden).expect("a step");
        assert!(!step.contains("root"), "{step}");
        let whose = "its filter".into();
        let step = next_step(&Error::SeccompUnread { pid: 7, whose }).expect("a step");
        assert!(step.contains("run lancet as root on the host"), "{step}");
    }
}
