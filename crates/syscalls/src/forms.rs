//! Types with a text of their own, by the names of their typedefs in `syscalls.conf`: one file a family. Used by
//! `arguments`, `result`, `signal` and others.

mod controls;
mod descriptors;
pub mod files;
mod network;
mod process;
mod siginfo;
mod signals;

pub use network::{address, vectors};
pub use process::{environment, processors_in};
pub use signals::{clock_ticks, signal_number, signal_word};

use crate::writer::Form;

static FORMS: &[(&str, Form)] = &[
    ("fd", descriptors::descriptor),
    ("at", descriptors::directory),
    ("uid", descriptors::user),
    ("pid", descriptors::process),
    ("tid", descriptors::thread),
    ("pgid", descriptors::group),
    ("sid", descriptors::session),
    ("pid_or_group", descriptors::process_or_group),
    ("key", descriptors::key),
    ("mode", files::permissions),
    ("dev", files::device),
    ("dev_argument", files::device),
    ("stat", files::stat),
    ("statx", files::statx),
    ("statx_time", files::file_time),
    ("file_time", files::file_time),
    ("statfs", files::statfs),
    ("open_flags", files::open_flags),
    ("statx_flags", files::statx_flags),
    ("pollfd", files::poll),
    ("epoll_event", files::epoll),
    ("sockaddr", network::socket_address),
    ("socket_length", network::length),
    ("iovec", network::vector),
    ("msghdr", network::message),
    ("mmsghdr", network::counted_message),
    ("signum", signals::signal),
    ("sigset", signals::set),
    ("sigaction", signals::action),
    ("siginfo", siginfo::info),
    ("sigset_argument", signals::set_argument),
    ("stack_t", signals::stack),
    ("rlimit", process::limit),
    ("rusage", process::usage),
    ("utsname", process::system_name),
    ("sysinfo", process::system),
    ("wait_status", process::status),
    ("clone_flags", process::clone_flags),
    ("cpu_set", process::processors),
    ("cpu_set_out", process::processors),
];

/// Returns the form of a typedef.
pub fn by_name(name: &str) -> Option<Form> {
    let found = FORMS.iter().find(|(known, _)| *known == name);
    found.map(|(_, form)| *form)
}
