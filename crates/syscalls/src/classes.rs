//! Classes of system calls, as strace(1) has them: `%file`, `%desc`, `%network` and their kin. Used by `trace`, and by
//! `lancet::commands::syscalls::inject`.
//!
//! Which calls take a path and which a descriptor is known from their prototypes; the others are listed.

use prototypes::bundle::Bundle;
use prototypes::types::{Lens, Prototype};

/// A class: its name without `%`, and what is in it.
pub struct Class {
    /// What stands behind the first `%` in `-e trace=`: `file`, or `%stat` of `%%stat`.
    pub name: &'static str,
    /// What its calls have in common.
    pub about: &'static str,
    has: Has,
}

/// What makes a call one of a class.
enum Has {
    /// It is in this list.
    Name(&'static [&'static str]),
    /// It takes a path.
    Path,
    /// It takes a descriptor, and is none of the class `network`; or it is in this list.
    Descriptor(&'static [&'static str]),
}

impl Class {
    /// Returns whether a system call is one of it.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        let prototype = || Bundle::prototype("SYS", name);
        match self.has {
            Has::Name(names) => names.contains(&name),
            Has::Path => {
                prototype().is_some_and(|of| takes(&of, |lens, _| lens == Some(&Lens::Path)))
            }
            Has::Descriptor(more) => {
                let is_descriptor =
                    |_: Option<&Lens>, alias: Option<&str>| matches!(alias, Some("fd" | "at"));
                more.contains(&name)
                    || !NETWORK.contains(&name)
                        && prototype().is_some_and(|of| {
                            takes(&of, is_descriptor) || of.returns.alias() == Some("fd")
                        })
            }
        }
    }
}

fn takes(prototype: &Prototype, is: impl Fn(Option<&Lens>, Option<&str>) -> bool) -> bool {
    let mut parameters = prototype.parameters.iter();
    parameters.any(|parameter| is(parameter.ty.lens.as_ref(), parameter.ty.alias()))
}

const NETWORK: &[&str] = &[
    "socket",
    "connect",
    "accept",
    "accept4",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "sendmmsg",
    "recvmmsg",
    "shutdown",
    "bind",
    "listen",
    "getsockname",
    "getpeername",
    "socketpair",
    "setsockopt",
    "getsockopt",
    "getpmsg",
    "putpmsg",
];

/// The classes, in the order of strace(1).
pub static CLASSES: &[Class] = &[
    Class {
        name: "file",
        about: "take a path",
        has: Has::Path,
    },
    Class {
        name: "process",
        about: "begin, end and await processes",
        has: Has::Name(&[
            "clone",
            "clone3",
            "fork",
            "vfork",
            "execve",
            "execveat",
            "exit",
            "exit_group",
            "wait4",
            "waitid",
            "kill",
            "tkill",
            "tgkill",
            "pidfd_send_signal",
            "rt_sigqueueinfo",
            "rt_tgsigqueueinfo",
        ]),
    },
    Class {
        name: "network",
        about: "of sockets",
        has: Has::Name(NETWORK),
    },
    Class {
        name: "net",
        about: "the same as %network",
        has: Has::Name(NETWORK),
    },
    Class {
        name: "signal",
        about: "send, block and handle signals",
        has: Has::Name(&[
            "rt_sigaction",
            "rt_sigprocmask",
            "rt_sigreturn",
            "rt_sigpending",
            "rt_sigtimedwait",
            "rt_sigqueueinfo",
            "rt_sigsuspend",
            "rt_tgsigqueueinfo",
            "kill",
            "tkill",
            "tgkill",
            "sigaltstack",
            "pause",
            "signalfd",
            "signalfd4",
            "pidfd_send_signal",
        ]),
    },
    Class {
        name: "ipc",
        about: "System V's messages, semaphores and shared memory",
        has: Has::Name(&[
            "shmget",
            "shmat",
            "shmctl",
            "shmdt",
            "semget",
            "semop",
            "semctl",
            "semtimedop",
            "msgget",
            "msgsnd",
            "msgrcv",
            "msgctl",
        ]),
    },
    Class {
        name: "desc",
        about: "take or give a descriptor",
        has: Has::Descriptor(&[
            "mmap",
            "select",
            "pselect6",
            "poll",
            "ppoll",
            "pipe",
            "pipe2",
            "close_range",
        ]),
    },
    Class {
        name: "memory",
        about: "map memory",
        has: Has::Name(&[
            "brk",
            "mmap",
            "munmap",
            "mprotect",
            "mremap",
            "msync",
            "mincore",
            "madvise",
            "mlock",
            "mlock2",
            "munlock",
            "mlockall",
            "munlockall",
            "mbind",
            "get_mempolicy",
            "set_mempolicy",
            "migrate_pages",
            "move_pages",
            "remap_file_pages",
            "pkey_mprotect",
            "shmat",
            "shmdt",
            "io_setup",
            "io_destroy",
            "map_shadow_stack",
            "mseal",
            "process_madvise",
            "set_mempolicy_home_node",
        ]),
    },
    Class {
        name: "creds",
        about: "read and change users, groups and capabilities",
        has: Has::Name(&[
            "getuid",
            "getgid",
            "geteuid",
            "getegid",
            "setuid",
            "setgid",
            "setreuid",
            "setregid",
            "setresuid",
            "getresuid",
            "setresgid",
            "getresgid",
            "setfsuid",
            "setfsgid",
            "getgroups",
            "setgroups",
            "capget",
            "capset",
            "prctl",
        ]),
    },
    Class {
        name: "clock",
        about: "read and set clocks",
        has: Has::Name(&[
            "time",
            "gettimeofday",
            "settimeofday",
            "adjtimex",
            "clock_adjtime",
            "clock_getres",
            "clock_gettime",
            "clock_settime",
        ]),
    },
    Class {
        name: "stat",
        about: "of a path's own state",
        has: Has::Name(&["stat"]),
    },
    Class {
        name: "lstat",
        about: "the same of a link",
        has: Has::Name(&["lstat"]),
    },
    Class {
        name: "fstat",
        about: "the same of a descriptor",
        has: Has::Name(&["fstat", "newfstatat"]),
    },
    Class {
        name: "%stat",
        about: "all of these",
        has: Has::Name(&["stat", "lstat", "fstat", "newfstatat", "statx"]),
    },
    Class {
        name: "statfs",
        about: "of a path's file system",
        has: Has::Name(&["statfs"]),
    },
    Class {
        name: "fstatfs",
        about: "of a descriptor's file system",
        has: Has::Name(&["fstatfs"]),
    },
    Class {
        name: "%statfs",
        about: "all of these",
        has: Has::Name(&["statfs", "fstatfs", "ustat"]),
    },
    Class {
        name: "pure",
        about: "always succeed and take no arguments",
        has: Has::Name(&[
            "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getpgrp",
        ]),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(class: &str, name: &str) -> bool {
        let class = CLASSES.iter().find(|known| known.name == class).unwrap();
        class.holds(name)
    }

    #[test]
    fn paths_and_descriptors_are_known_from_the_prototypes() {
        for name in ["openat", "stat", "execve", "renameat2", "chdir", "statfs"] {
            assert!(holds("file", name), "{name}");
        }
        for name in [
            "read",
            "openat",
            "dup2",
            "epoll_wait",
            "mmap",
            "memfd_create",
            "fchdir",
        ] {
            assert!(holds("desc", name), "{name}");
        }
        assert!(!holds("file", "read") && !holds("desc", "socket") && !holds("desc", "getpid"));
    }

    #[test]
    fn every_listed_name_is_a_system_call() {
        let known: Vec<&str> = prototypes::bundle::system_calls()
            .map(|(_, name)| name)
            .collect();
        for class in CLASSES {
            if let Has::Name(names) | Has::Descriptor(names) = class.has {
                for name in names {
                    assert!(known.contains(name), "%{}: {name}", class.name);
                }
            }
        }
    }
}
