//! What system calls do to descriptors, for the lists of open descriptors and for their names: [`syscalls::Opened`] says what
//! they open, and this module what they close. Used by `names`, `descriptors`, `preset` and others.

use prototypes::show::Captures;
use syscalls::Opened;

/// `CLOSE_RANGE_CLOEXEC` (include/uapi/linux/close_range.h): nothing is closed before an exec.
pub(super) const ON_EXEC: u64 = 4;

/// What a system call does to descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It opens descriptors, which are known when it returns.
    Opens(Opening),
    /// It closes the descriptors from the first to the last.
    Closes(u32, u32),
}

/// A call that opens descriptors, until it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    opened: Opened,
    /// The address at which it will have stored their numbers.
    address: u64,
    /// Whether its result is a descriptor that it closes first if it was open.
    pub(super) replaces: bool,
}

impl Effect {
    /// Returns the effect of a call; `entry` is what was copied of memory when the call was made.
    pub(super) fn of(name: &str, arguments: &[u64; 6], entry: &Captures) -> Option<Effect> {
        let [first, second, third, ..] = *arguments;
        Some(match name {
            "close" => Effect::Closes(first as u32, first as u32),
            "close_range" if third & ON_EXEC != 0 => return None,
            "close_range" => Effect::Closes(first as u32, second as u32),
            name => {
                let opened = Opened::of(name, arguments)?;
                Effect::Opens(Opening {
                    opened,
                    address: opened.address(arguments, entry),
                    replaces: matches!(name, "dup2" | "dup3"),
                })
            }
        })
    }
}

impl Opening {
    /// Returns the descriptors that the call has opened; `back` is what was copied of memory when it returned without an
    /// error.
    pub(super) fn numbers(self, back: &Captures, result: u64) -> Vec<i32> {
        self.opened.numbers(self.address, back, result)
    }
}

/// The names of all system calls that open or close descriptors.
pub fn all() -> impl Iterator<Item = &'static str> {
    ["close", "close_range"]
        .into_iter()
        .chain(syscalls::opening())
}
