//! What a thread does, as three accounts have it; `ties` puts them together.

use process::wait::Wait;

use super::scripts::VmThread;

/// What a thread does.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What it waits for in the kernel; `None` if it runs, or is stopped.
    pub wait: Option<Wait>,
    /// Whether a signal has stopped it (SIGSTOP, Ctrl-Z), or a debugger has.
    pub stopped: bool,
    /// The function of a library that made the system call, where that says more than the call: `getaddrinfo`.
    pub through: Option<String>,
    /// The name that it asks a name server for.
    pub asks_for: Option<String>,
    /// What its VM knows of it; `None` if it is no thread of a VM.
    pub vm: Option<VmThread>,
    /// Whether it slept until all of this had been read.
    pub slept_on: bool,
}
