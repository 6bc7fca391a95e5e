//! System calls as strace writes them.
//!
//! ```text
//!   openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3
//!   newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=28207, ...}, AT_EMPTY_PATH) = 0
//! ```
//!
//! What is copied of a call, and which types its arguments have, is said by `syscalls.conf` of the crate `prototypes`.
//! Most of the text follows from those types: numbers, names of flags, strings, structs with the names of their
//! members. Types with a text of their own go by the names of their typedefs (`forms`); calls of which one argument
//! decides what another means, or whether it is shown, have an entry in `special`.
//!
//! | module | what |
//! |---|---|
//! | `call` | what is written, and how |
//! | `arguments` | which arguments are written when, and by whom |
//! | `writer` | values by their types |
//! | `text`, `words` | strings as strace escapes them; names of numbers and of bits |
//! | `forms/` | types with a text of their own: one file a family |
//! | `types`, `members` | types of `syscalls.conf`; structs written member by member |
//! | `layout/` | what drivers and netlink families exchange with the kernel, as data in `conf/` |
//! | `netlink` | messages of netlink and their attributes |
//! | `ioctl/` | commands of `ioctl` and their arguments |
//! | `special` | calls whose arguments depend on each other |
//! | `opened` | which calls open descriptors, and where they put the numbers |
//! | `result`, `errors` | what stands behind the `=`; names of errors |
//! | `signal` | what the kernel says of a signal that came |
//! | `classes`, `trace` | `%file` and its kin; the language of `-e trace=` |
//!
//! The reference is strace 6.1; where its text is known to differ from this one, docs/syscalls-strace.md says so.

#![forbid(unsafe_code)]

mod arguments;
mod call;
mod classes;
mod errors;
mod forms;
mod ioctl;
mod layout;
mod members;
mod netlink;
mod opened;
mod result;
mod signal;
mod special;
mod text;
mod trace;
mod types;
mod words;
mod writer;

pub use call::{
    Constants, DescriptorNames, Hex, IdKind, Known, Name, Namespaces, Netlink, Part, Processes,
    RawCall, Style, error,
};
pub use classes::CLASSES;
pub use opened::{Opened, opening};
pub use trace::{Trace, TraceError};

/// Reads all that is known of arguments, if it was not read yet: the prototypes first, which are needed first.
pub fn prepare() {
    types::prepare();
    layout::prepare();
}

/// Returns the programs that copy what arguments of a system call point to where other arguments say what that is; those of its
/// prototype copy the rest.
#[must_use]
pub fn copies(name: &str, detail: prototypes::Detail) -> prototypes::Programs {
    layout::prepare();
    layout::programs(name, detail)
}

/// Returns the programs that copy the environment that a call hands to a program, text by text (`-v`); its prototype's copy where these
/// are. Nothing for other calls.
#[must_use]
pub fn copies_of_environment(
    name: &str,
    prototype: &prototypes::types::Prototype,
    detail: prototypes::Detail,
) -> prototypes::Programs {
    let index = match name {
        "execve" => 2,
        "execveat" => 3,
        _ => return prototypes::Programs::default(),
    };
    let mut whole = prototype.clone();
    if let Some(parameter) = whole.parameters.get_mut(index) {
        parameter.ty = types::ty("arguments_of_program");
    }
    whole.capture(prototypes::Detail {
        array: MOST_TEXTS,
        ..detail
    })
}

/// Texts of an environment that are copied, at most.
const MOST_TEXTS: u32 = 4096;

/// The name of an error: `ENOENT`; its number where it has none.
#[must_use]
pub fn error_name(error: i32) -> String {
    errors::name(error)
}

/// The name of a signal: `SIGUSR1`, `SIGRT_5`.
#[must_use]
pub fn signal(number: i32) -> String {
    forms::signal_word(number as u64)
}

impl Style {
    /// Appends those arguments that a part of the call has; see [`Part`].
    pub fn arguments(&self, call: &RawCall, part: Part, out: &mut Vec<u8>) {
        layout::prepare();
        arguments::write(self, call, part, out);
    }

    /// Hands the text of each argument to `each`; of a few calls, that of all together (`futex`, `clone`).
    pub fn each_argument(&self, call: &RawCall, part: Part, each: impl FnMut(&[u8])) {
        layout::prepare();
        arguments::each(self, call, part, each);
    }

    /// What a signal is (`{si_signo=SIGUSR1, si_code=SI_USER, si_pid=7, si_uid=0}`), by the beginning of its `siginfo_t`;
    /// `None` if that is too short.
    #[must_use]
    pub fn signal(&self, information: &[u8], processes: Option<Processes>) -> Option<String> {
        signal::information(self, information, processes)
    }

    /// Appends what stands behind the `=` of a call that has returned; `?` if it does not return.
    pub fn result(&self, call: &RawCall, out: &mut Vec<u8>) {
        layout::prepare();
        result::write(self, call, out);
    }
}
