//! What a thread does, by the kernel, its VM and its native frames; `activity` combines the three. Used by `activity`,
//! `owners` and others here, and by crate `report`.

use std::time::Instant;

use process::wait::Wait;

use super::scripts::VmThread;

/// What a thread does.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What it waits for in the kernel; `None` if it runs, or is stopped.
    pub wait: Option<Wait>,
    /// About when that wait began; `None` if the kernel does not say.
    pub began: Option<Instant>,
    /// Whether a signal has stopped it (SIGSTOP, Ctrl-Z), or a debugger has.
    pub stopped: bool,
    /// The function of a library that made the system call, if it says more than the call: `getaddrinfo`.
    pub through: Option<String>,
    /// The name that it asks a name server for.
    pub asks_for: Option<String>,
    /// The lock of the C library, or the end of a thread, that it waits for; `None` if it waits for neither.
    pub held: Option<Held>,
    /// What its VM knows of it; `None` if it is no thread of a VM.
    pub vm: Option<VmThread>,
    /// Whether it slept until all of this had been read.
    pub slept_on: bool,
    /// Whether it slept on, where it was copied, while the owner of the lock in `held` was read once more.
    pub still: bool,
}

/// The kinds of things by which one thread waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A `pthread_mutex_t`.
    Mutex,
    /// A `pthread_rwlock_t`.
    ReadWrite,
    /// The lock of a stream of stdio.
    Stream,
    /// The end of a thread (`pthread_join`).
    End,
}

/// The owner of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The thread of this process with this id in lancet's PID namespace.
    Thread(i32),
    /// A thread of another process, which shares the lock.
    Elsewhere {
        /// The process.
        pid: i32,
        /// The thread, by its id.
        tid: i32,
        /// The name of the thread, as the process has set it.
        name: String,
    },
    /// Threads that hold it for reading: the lock only counts them.
    Readers,
    /// It is locked, but no existing thread matches the owner's field.
    Unknown,
}

/// What the word that a thread sleeps on belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    #[allow(missing_docs)] // The name says it.
    pub what: What,
    /// Who has it now.
    pub owner: Owner,
}
