//! What system calls do to descriptors: the one list, for what is still open and for what descriptors are called.

/// What a system call does to descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Its result is a new descriptor.
    Opens,
    /// It opens two, and stores them where the argument with this index points (from 0).
    OpensPair(usize),
    /// Its result is a descriptor that it closes first if it was open.
    Replaces,
    /// Closes its first argument.
    Closes,
    /// Closes those from its first argument to its second.
    ClosesRange,
}

impl Effect {
    pub(super) fn of(name: &str, arguments: &[u64; 6]) -> Option<Effect> {
        let argument = |at: usize| arguments[at] as i32;
        Some(match name {
            "close" => Effect::Closes,
            "close_range" => Effect::ClosesRange,
            "pipe" | "pipe2" => Effect::OpensPair(0),
            "socketpair" => Effect::OpensPair(3),
            // With an old one it changes what that is.
            "signalfd" | "signalfd4" if argument(0) >= 0 => return None,
            "dup2" | "dup3" if argument(0) == argument(1) => return None,
            "dup2" | "dup3" => Effect::Replaces,
            "fcntl" => match argument(1) {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Effect::Opens,
                _ => return None,
            },
            // It asks for the version.
            "landlock_create_ruleset" if argument(2) != 0 => return None,
            "bpf" if !OPENING_BPF.contains(&argument(0)) => return None,
            name => OPENS.contains(&name).then_some(Effect::Opens)?,
        })
    }
}

/// The names of all system calls that open or close descriptors.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 8] = [
        "close",
        "close_range",
        "pipe",
        "pipe2",
        "socketpair",
        "dup2",
        "dup3",
        "fcntl",
    ];
    OTHERS.into_iter().chain(OPENS.iter().copied())
}

/// The names of system calls whose result is a new descriptor.
const OPENS: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "open_by_handle_at",
    "creat",
    "memfd_create",
    "memfd_secret",
    "socket",
    "accept",
    "accept4",
    "dup",
    "eventfd",
    "eventfd2",
    "epoll_create",
    "epoll_create1",
    "timerfd_create",
    "signalfd",
    "signalfd4",
    "inotify_init",
    "inotify_init1",
    "fanotify_init",
    "pidfd_open",
    "pidfd_getfd",
    "io_uring_setup",
    "userfaultfd",
    "perf_event_open",
    "mq_open",
    "bpf",
    "landlock_create_ruleset",
    "open_tree",
    "open_tree_attr",
    "fsopen",
    "fspick",
    "fsmount",
];

/// Commands of `bpf` whose result is a new descriptor (`enum bpf_cmd`, include/uapi/linux/bpf.h): `MAP_CREATE`, `PROG_LOAD`, `OBJ_GET`,
/// `PROG_GET_FD_BY_ID`, `MAP_GET_FD_BY_ID`, `RAW_TRACEPOINT_OPEN`, `BTF_LOAD`, `BTF_GET_FD_BY_ID`, `LINK_CREATE`, `LINK_GET_FD_BY_ID`,
/// `ENABLE_STATS`, `ITER_CREATE`, `TOKEN_CREATE`.
const OPENING_BPF: [i32; 13] = [0, 5, 7, 13, 14, 17, 18, 19, 28, 30, 32, 33, 36];
