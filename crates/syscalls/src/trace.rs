//! The language of `-e trace=`: which system calls are shown. Used by the crates `lancet` and `report`.
//!
//! ```text
//!   set      = [ "!" ] ( "all" | "none" | element { "," element } )
//!   element  = [ "?" ] ( NAME | NUMBER | "%" CLASS | "/" REGEX )
//! ```
//!
//! As strace(1) has it: `!` takes the whole set back, `?` forgives an unknown name, a regular expression matches
//! anywhere in a name. The classes that strace once had without `%` are understood without it.

use crate::CLASSES;
use regex::Regex;
use std::collections::BTreeSet;

/// A set of system calls, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    names: BTreeSet<&'static str>,
}

/// What is wrong with a set, in words that go behind the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is no such system call or class.
    #[error("invalid system call '{name}'{hint}")]
    Unknown {
        /// The name that no system call has.
        name: String,
        /// ` (did you mean openat?)`, or nothing.
        hint: String,
    },
    /// There is no such class.
    #[error("invalid system call '%{class}': the classes are {}", classes())]
    UnknownClass {
        /// The name that no class has, without its `%`.
        class: String,
    },
    /// A regular expression that is none.
    #[error("/{0}: {1}")]
    Regex(String, String),
    /// The set names nothing: it is empty, or holds commas alone.
    #[error("invalid system call '': a name is missing")]
    Empty,
}

fn classes() -> String {
    let names: Vec<String> = CLASSES
        .iter()
        .map(|class| format!("%{}", class.name))
        .collect();
    names.join(", ")
}

/// Calls that only programs of 32 bits make (arch/x86/entry/syscalls/syscall_32.tbl): known, and never seen.
const ELSEWHERE: [&str; 87] = [
    "_llseek",
    "_newselect",
    "bdflush",
    "break",
    "chown32",
    "clock_adjtime64",
    "clock_getres_time64",
    "clock_gettime64",
    "clock_nanosleep_time64",
    "clock_settime64",
    "fadvise64_64",
    "fchown32",
    "fcntl64",
    "fstat64",
    "fstatat64",
    "fstatfs64",
    "ftime",
    "ftruncate64",
    "futex_time64",
    "getegid32",
    "geteuid32",
    "getgid32",
    "getgroups32",
    "getresgid32",
    "getresuid32",
    "getuid32",
    "gtty",
    "idle",
    "io_pgetevents_time64",
    "ipc",
    "lchown32",
    "lock",
    "lstat64",
    "mmap2",
    "mpx",
    "mq_timedreceive_time64",
    "mq_timedsend_time64",
    "nice",
    "oldfstat",
    "oldlstat",
    "oldolduname",
    "oldstat",
    "olduname",
    "ppoll_time64",
    "prof",
    "profil",
    "pselect6_time64",
    "readdir",
    "recvmmsg_time64",
    "rt_sigtimedwait_time64",
    "sched_rr_get_interval_time64",
    "semtimedop_time64",
    "sendfile64",
    "setfsgid32",
    "setfsuid32",
    "setgid32",
    "setgroups32",
    "setregid32",
    "setresgid32",
    "setresuid32",
    "setreuid32",
    "setuid32",
    "sgetmask",
    "sigaction",
    "signal",
    "sigpending",
    "sigprocmask",
    "sigreturn",
    "sigsuspend",
    "socketcall",
    "ssetmask",
    "stat64",
    "statfs64",
    "stime",
    "stty",
    "timer_gettime64",
    "timer_settime64",
    "timerfd_gettime64",
    "timerfd_settime64",
    "truncate64",
    "ugetrlimit",
    "ulimit",
    "umount",
    "utimensat_time64",
    "vm86",
    "vm86old",
    "waitpid",
];

/// Classes that need no `%`.
const OLD: [&str; 7] = [
    "file", "process", "network", "signal", "ipc", "desc", "memory",
];

impl Trace {
    /// Returns the set of all system calls that lancet knows by name.
    #[must_use]
    pub fn all() -> Self {
        Self {
            names: names().collect(),
        }
    }

    /// Parses a set.
    ///
    /// # Errors
    ///
    /// A name, a class or a regular expression that does not exist.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let (text, negated) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let mut set = BTreeSet::new();
        match text {
            "all" => set.extend(names()),
            "none" => {}
            text => {
                // Between two commas nothing may stand, as with strace.
                if text.split(',').all(str::is_empty) {
                    return Err(TraceError::Empty);
                }
                for element in text.split(',') {
                    add(element, &mut set)?;
                }
            }
        }
        if negated {
            set = names().filter(|name| !set.contains(name)).collect();
        }
        Ok(Self { names: set })
    }

    /// Returns the names of its calls, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().copied()
    }

    /// Returns whether no call is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether it has this system call.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    prototypes::bundle::system_calls().map(|(_, name)| name)
}

fn add(element: &str, set: &mut BTreeSet<&'static str>) -> Result<(), TraceError> {
    let (name, forgiven) = match element.strip_prefix('?') {
        Some(rest) => (rest, true),
        None => (element, false),
    };
    if name.is_empty() {
        return Ok(());
    }
    // `getcwd@64`: of the calls of 64 bits; those of the other two ways to call the kernel are in no set of these.
    match name.rsplit_once('@') {
        Some(("all", "64")) => {
            set.extend(names());
            return Ok(());
        }
        Some((name, "64")) => return add_named(name, forgiven, set),
        Some(("all", "32" | "x32")) => return Ok(()),
        Some((name, "32" | "x32")) => return add_named(name, forgiven, &mut BTreeSet::new()),
        _ => {}
    }
    add_named(name, forgiven, set)
}

/// Adds what a name, a class or a regular expression stands for.
fn add_named(
    name: &str,
    forgiven: bool,
    set: &mut BTreeSet<&'static str>,
) -> Result<(), TraceError> {
    if let Some(pattern) = name.strip_prefix('/') {
        let expression = Regex::new(pattern);
        let expression =
            expression.map_err(|error| TraceError::Regex(pattern.into(), last_line(&error)))?;
        set.extend(names().filter(|name| expression.is_match(name)));
        return Ok(());
    }
    let class = name.strip_prefix('%');
    if let Some(class) = class.or_else(|| OLD.contains(&name).then_some(name)) {
        let Some(known) = CLASSES.iter().find(|known| known.name == class) else {
            return if forgiven {
                Ok(())
            } else {
                Err(TraceError::UnknownClass {
                    class: class.into(),
                })
            };
        };
        set.extend(names().filter(|name| known.holds(name)));
        return Ok(());
    }
    let number = name.parse::<u32>().ok();
    let found = prototypes::bundle::system_calls()
        .find(|(known, of)| *of == name || number == Some(*known))
        .map(|(_, name)| name);
    match found {
        Some(name) => {
            set.insert(name);
            Ok(())
        }
        // A name that only programs of 32 bits have is none of ours.
        None if forgiven || ELSEWHERE.contains(&name) => Ok(()),
        None => Err(TraceError::Unknown {
            name: name.into(),
            hint: hint(name),
        }),
    }
}

/// What a regular expression's error says in its last line.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim().to_owned()
}

/// A name of the C library that is another one's in the kernel, or one that the text is part of.
fn hint(name: &str) -> String {
    const OTHERS: [(&str, &str); 8] = [
        ("fstatat", "newfstatat"),
        ("sigaction", "rt_sigaction"),
        ("sigprocmask", "rt_sigprocmask"),
        ("send", "sendto"),
        ("recv", "recvfrom"),
        ("waitpid", "wait4"),
        ("pread", "pread64"),
        ("pwrite", "pwrite64"),
    ];
    let by_name = OTHERS
        .iter()
        .find(|(of, _)| *of == name)
        .map(|(_, known)| *known);
    let part = || names().find(|known| known.contains(name));
    match by_name.or_else(part) {
        Some(known) => format!(" (did you mean {known}?)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<&'static str> {
        Trace::parse(text).unwrap().names().collect()
    }

    #[test]
    fn sets_are_what_strace_makes_of_them() {
        assert_eq!(parsed("read,write"), ["read", "write"]);
        assert_eq!(
            parsed("/^get.id$"),
            ["getgid", "getpid", "getsid", "gettid", "getuid"]
        );
        assert_eq!(parsed("getpid@64,read@32"), ["getpid"]);
        assert_eq!(parsed("none"), [""; 0]);
        assert_eq!(parsed("mmap2,,mmap"), ["mmap"]);
        assert_eq!(parsed("?nothing,39"), ["getpid"]);
        assert!(parsed("%network").contains(&"accept4"));
        assert_eq!(parsed("file"), parsed("%file"));
        let all = parsed("all").len();
        assert_eq!(parsed("!read").len(), all - 1);
        assert!(all > 340, "{all}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text| Trace::parse(text).unwrap_err().to_string();
        assert_eq!(error("opneat"), "invalid system call 'opneat'");
        assert_eq!(
            error("fstatat"),
            "invalid system call 'fstatat' (did you mean newfstatat?)"
        );
        assert!(
            error("%files").starts_with("invalid system call '%files': the classes are %file, ")
        );
        assert!(error("/(").starts_with("/(: error: "));
        assert_eq!(error(","), "invalid system call '': a name is missing");
    }
}
