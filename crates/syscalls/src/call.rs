//! What is written, and how: the values of one call, and the style that all calls share. Used by `writer`, `result` and
//! others here, and by the crates `report` and `lancet`.

use prototypes::show::{Captures, Memory as _};
use prototypes::types::{Lens, Prototype};

/// How calls are written.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Characters of a string and elements of an array, at most (`-s`).
    pub strings: usize,
    /// Structs are written whole (`-v`).
    pub verbose: bool,
    /// Which strings are written in hexadecimal (`-x`, `-xx`).
    pub hex: Hex,
    /// Arguments and results are written as numbers in hexadecimal (`-e raw=`).
    pub raw: bool,
    /// Structs are written as their addresses (`-e verbose=` without the call).
    pub addresses: bool,
    /// Writes a time in seconds and nanoseconds since 1970 as a date, which stands behind the time of a file; `None` = no
    /// date does.
    pub date: Option<fn(i64, u64) -> Option<String>>,
    /// How numbers that have names are written (`-X`).
    pub constants: Constants,
    /// A tracer has copied memory: all that is shown was copied, if it could be read. Else a hook has, as much as its record has room for.
    pub whole: bool,
    /// Arguments are written with their names (`-N`): `openat(dirfd=AT_FDCWD, …)`.
    pub names: bool,
}

/// How many elements of an array are written with `-v`, at most.
const MOST_ELEMENTS: u64 = 4096;

impl Style {
    /// How many elements of an array are written, at most.
    pub(crate) fn elements(&self) -> u64 {
        match self.verbose {
            true => MOST_ELEMENTS,
            false => (self.strings as u64).min(MOST_ELEMENTS),
        }
    }
}

/// How numbers and bits that have names are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Constants {
    /// By their names: `O_CLOEXEC`.
    #[default]
    Names,
    /// By their numbers alone: `0x80000`.
    Numbers,
    /// Both: `0x80000 /* O_CLOEXEC */`.
    Both,
}

/// Which strings are written in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hex {
    /// No string is written so.
    #[default]
    Never,
    /// Strings with a byte that is no ASCII text, the whole string (`-x`).
    NotText,
    /// No string as a whole, but each of its bytes that is no ASCII text.
    Characters,
    /// All strings are written so (`-xx`).
    Always,
}

/// What stands between angle brackets behind the number of a descriptor or of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// A path or a name, which is escaped as it is written.
    pub text: String,
    /// What stands behind it and is written as it is: `<char 1:3>`, `TCP:[127.0.0.1:80]`.
    pub more: String,
    /// What it stands for has been removed.
    pub deleted: bool,
}

/// Returns what a number is called; `None` writes the number alone.
pub type DescriptorNames<'a> = &'a dyn Fn(i32) -> Option<Name>;

/// What an id of a process is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// That of a thread, which gettid(2) returns.
    Thread,
    /// That of a process, which getpid(2) returns.
    Process,
    /// That of a process group.
    Group,
    /// That of a session.
    Session,
}

/// What stands behind the id of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// What it is called, between angle brackets.
    pub comm: Option<String>,
    /// What it is in another PID namespace, as a comment.
    pub note: Option<String>,
}

/// Returns what is known of a process, a thread, a group or a session.
pub type Processes<'a> = &'a dyn Fn(i32, IdKind) -> Known;

/// What is known of netlink beside a call.
#[derive(Clone, Copy)]
pub struct Netlink<'a> {
    /// Returns the protocol of netlink that a socket speaks; `None` = it is none of netlink, or that is not known.
    pub protocol: &'a dyn Fn(i32) -> Option<u32>,
    /// Returns the name of the family of generic netlink that the kernel has given this number.
    pub family: &'a dyn Fn(u16) -> Option<String>,
}

/// Returns the namespaces that the flags of a call ask for, as they are called: those of the child with this id, or else of the thread that calls.
pub type Namespaces<'a> = &'a dyn Fn(Option<i32>, u64) -> Option<String>;

/// One system call: its values.
#[derive(Clone, Copy)]
pub struct RawCall<'a> {
    /// The kernel's name of the call: `openat`.
    pub name: &'a str,
    /// Its prototype in `syscalls.conf`.
    pub prototype: &'a Prototype,
    /// The registers of its six arguments; its prototype says how many of them it has.
    pub arguments: &'a [u64; 6],
    /// What was copied when it was made.
    pub entry: &'a Captures,
    /// What was copied when it returned, and its result as the kernel gives it; `None` while it has not.
    pub returned: Option<(&'a Captures, u64)>,
    /// What descriptors are called (`-y`).
    pub descriptors: Option<DescriptorNames<'a>>,
    /// What processes are called (`-Y`), and in other namespaces.
    pub processes: Option<Processes<'a>>,
    /// What messages to netlink are read by; `None` = they are bytes.
    pub netlink: Option<Netlink<'a>>,
    /// Which namespaces it has led into (`-e namespace=new`).
    pub namespaces: Option<Namespaces<'a>>,
}

impl RawCall<'_> {
    /// Returns the number of the error that it returned.
    #[must_use]
    pub fn error(&self) -> Option<i32> {
        let (_, result) = self.returned?;
        error(result)
    }

    /// Returns the paths that it is handed.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let of = self.prototype.parameters.iter().zip(self.arguments);
        let of = of.filter(|(parameter, _)| parameter.ty.lens == Some(Lens::Path));
        let text = |(_, at): (_, &u64)| {
            let mut bytes = Vec::new();
            while let Some(piece) = self.entry.piece(at.wrapping_add(bytes.len() as u64)) {
                let end = piece.iter().position(|byte| *byte == 0);
                bytes.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
                if end.is_some() || piece.is_empty() {
                    break;
                }
            }
            String::from_utf8_lossy(&bytes).into_owned()
        };
        of.map(text).collect()
    }

    /// Returns the descriptors that it is handed: those that are arguments, and those that `poll` and `select` are asked about.
    #[must_use]
    pub fn numbers(&self) -> Vec<i32> {
        /// `sizeof(struct pollfd)` (include/uapi/asm-generic/poll.h), which begins with the descriptor.
        const POLLED: u64 = 8;
        const MOST: u64 = 1024;
        let of = self.prototype.parameters.iter().zip(self.arguments);
        let of = of.filter(|(parameter, _)| matches!(parameter.ty.alias(), Some("fd" | "at")));
        let mut numbers: Vec<i32> = of.map(|(_, word)| *word as i32).collect();
        if matches!(self.name, "select" | "pselect6") {
            let [count, sets @ ..] = *self.arguments;
            let count = u64::from(count as u32).min(MOST);
            for at in &sets[..3] {
                // A set that is not all there is none.
                let last = count.div_ceil(64).saturating_mul(8).wrapping_sub(1);
                if count == 0 || !self.entry.read(at.wrapping_add(last), &mut [0]) {
                    continue;
                }
                for number in 0..count {
                    let mut byte = [0];
                    let there = self.entry.read(at.wrapping_add(number / 8), &mut byte);
                    if there && byte[0] >> (number % 8) & 1 != 0 {
                        numbers.push(number as i32);
                    }
                }
            }
        }
        if matches!(self.name, "poll" | "ppoll") {
            let [at, count, ..] = *self.arguments;
            for index in 0..count.min(MOST) {
                let mut number = [0; 4];
                if self
                    .entry
                    .read(at.wrapping_add(POLLED * index), &mut number)
                {
                    numbers.push(i32::from_le_bytes(number));
                }
            }
        }
        numbers
    }

    /// The protocol of netlink that the descriptor speaks which is the first argument.
    pub(crate) fn netlink_of_first(&self) -> Option<u32> {
        self.netlink
            .and_then(|of| (of.protocol)(self.arguments[0] as i32))
    }

    /// Returns its result, as a count of bytes or elements; 0 if it failed or has not returned.
    pub(crate) fn count(&self) -> u64 {
        match self.returned {
            Some((_, result)) if self.error().is_none() => result,
            _ => 0,
        }
    }
}

/// Returns the number of the error that a result stands for: the kernel's results from -4095 on are errors
/// (include/linux/err.h, `MAX_ERRNO`).
#[must_use]
pub fn error(result: u64) -> Option<i32> {
    let result = result.cast_signed();
    (-4095..0).contains(&result).then(|| -result as i32)
}

/// Which arguments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those that are known when the call is made.
    Entry,
    /// The others, with the comma before them.
    Exit,
}
