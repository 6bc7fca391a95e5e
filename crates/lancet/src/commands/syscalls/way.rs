//! How system calls are seen: by hooks, by BPF, by ptrace. Used by `args`.

use super::args::SyscallsArgs;
use crate::watching::args::TARGET;
use calls::options::By;
use clap::{Args, ValueEnum};

/// Bytes of a text that BPF programs tell of programs that are followed.
const LONGEST_BY_BPF: u32 = 2 << 10;

/// The flags of `syscalls` that say how calls are seen.
#[derive(Args, Clone, Debug)]
pub struct Way {
    /// Change nothing in a process: its system calls are counted by BPF (-c, with CAP_BPF and CAP_PERFMON) or seen by ptrace, at about
    /// 5 µs each; script lines, native functions and frames are not told. Of itself this is done where a process cannot be
    /// hooked (a program of 32 bits, a seccomp filter)
    #[arg(long, conflicts_with_all = ["inject", "at", "within", "leaks", "frames", "blocked"], help_heading = TARGET)]
    pub no_modify: bool,

    /// How system calls are seen: hooks, as without this; ptrace, as strace sees them; bpf, by programs at the kernel's tracepoints,
    /// which slow down every process of the machine by about 0.2 µs a call
    #[arg(long, value_name = "WAY", conflicts_with = "no_modify", help_heading = TARGET)]
    pub by: Option<Seen>,

    /// With --strace: hook the PROGRAM, as is done without it (--by hooks). What hooks do not see is said
    #[arg(long, conflicts_with_all = ["no_modify", "by"], help_heading = TARGET)]
    pub hooks: bool,

    /// exact: refuse a process, instead of going on, if any of the calls that are asked for would not be seen
    #[arg(long, value_name = "WHAT", help_heading = TARGET)]
    pub require: Option<Required>,
}

/// What can be asked with `--require`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Required {
    /// Every call is seen.
    Exact,
}

/// What can be asked with `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Seen {
    /// Hooks in the process: tens of nanoseconds a call, with the script's line
    Hooks,
    /// Stops at each call: some 5 µs a call, all that strace sees
    Ptrace,
    /// Programs at the kernel's tracepoints: some 0.5 µs a call, all but the names of descriptors
    Bpf,
}

impl Way {
    /// Whether a way is asked for that changes nothing.
    pub fn is_asked(&self) -> bool {
        self.no_modify || matches!(self.by, Some(Seen::Ptrace | Seen::Bpf))
    }

    /// Whether all must be seen.
    pub fn is_exact(&self) -> bool {
        self.require == Some(Required::Exact)
    }
}

impl SyscallsArgs {
    /// Returns the way in which calls are seen.
    pub(super) fn by(&self) -> By {
        match self.way.by {
            Some(Seen::Bpf) => By::Bpf,
            _ if self.way.no_modify => By::Nothing,
            _ if self.is_by_tracer() => By::Ptrace,
            _ => By::Hooks,
        }
    }

    /// Whether BPF programs may see the calls of programs that are followed: nothing is asked that is read of a process while it makes a call,
    /// and no texts so long that few calls fill the ring buffer in which they are told. Neither matters to figures.
    pub(super) fn may_lead_by_bpf(&self) -> bool {
        let naming = self.naming();
        let processes = naming.comms || naming.namespaces.is_some() || naming.entered;
        let reads = naming.of_descriptors() || processes;
        let plain = !reads && self.kept() <= LONGEST_BY_BPF;
        self.shown.paths.is_empty() && (plain || self.is_counted_whole())
    }

    /// Whether processes are seen by ptrace although they could be hooked: whoever starts a program and asks for what strace says wants
    /// all that it sees. What runs already serves somebody, and is not slowed down by a word about the form of lines.
    pub(super) fn is_by_tracer(&self) -> bool {
        if self.common.recording().is_some() {
            return false;
        }
        match self.way.by {
            Some(by) => by == Seen::Ptrace,
            None => self.way.no_modify || self.wants_what_strace_sees(),
        }
    }

    fn wants_what_strace_sees(&self) -> bool {
        let common = &self.common;
        let asks_hooks = self.way.hooks || self.frames || !self.inject.is_empty();
        let asks_lines = !common.at.is_empty() || !common.within.is_empty();
        let of_line = self.injections().any(|inject| inject.line.is_some());
        let starts = !common.program.is_empty() && common.pids.is_empty();
        self.is_strace() && starts && !asks_hooks && !asks_lines && !of_line
    }

    /// What cannot be seen in the way that is asked for.
    pub(super) fn flaw_of_way(&self) -> Option<String> {
        let Way { no_modify, by, .. } = self.way;
        let name = match by {
            Some(Seen::Ptrace) => "--by ptrace",
            Some(Seen::Bpf) => "--by bpf",
            _ if no_modify => "--no-modify",
            _ => return None,
        };
        let common = &self.common;
        let lines = !common.at.is_empty() || !common.within.is_empty() || self.leaks;
        if lines || self.frames || self.blocked || !self.inject.is_empty() {
            return Some(format!(
                "script lines, frames and what is decided by them are for hooks: --at, --in, -k, --leaks, --inject cannot be asked with {name}"
            ));
        }
        if by != Some(Seen::Ptrace) && self.injections().next().is_some() {
            return Some(format!(
                "-e inject= changes what calls do: it cannot be asked with {name}"
            ));
        }
        let names = self.naming().of_descriptors() && !self.is_counted();
        let points = names || !self.shown.paths.is_empty();
        (by == Some(Seen::Bpf) && points).then(|| {
            "what descriptors are is read while a call is made: -y, -P cannot be asked with --by bpf".into()
        })
    }
}
