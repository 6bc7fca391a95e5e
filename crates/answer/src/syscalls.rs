//! The records of `lancet syscalls`: those of `lancet calls`, with `syscall` in the place of `call`, and with `-c` `count`… and
//! `sum` in the place of `row` and `total`. `--blocked` is what `--now` is there, and `--leaks` what `--preset files` is. The
//! text is strace's, as the lines of `lancet syscalls` show it. Used by `page`, and by `report::syscalls::summary`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::place::{Address, Place};

/// A record of `lancet syscalls --json` beside those of `lancet calls`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// A system call, when it has ended.
    Syscall(Box<SystemCall<'a>>),
    /// System calls of one name from one place, with `-c`, in the order of the table.
    Count(Box<Count<'a>>),
    /// The sum of the counts.
    Sum {
        /// How many calls.
        calls: u64,
        /// How many of them have returned.
        returned: u64,
        /// How many of them failed.
        errors: u64,
        /// The time of those that returned.
        total_ns: u64,
    },
}

/// System calls of one name from one place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Count<'a> {
    /// Of the system call.
    pub name: &'a str,
    /// The native function whose code makes the call, and with `-k` those around it; the first is left out where its name says
    /// no more than the call's.
    pub functions: &'a [String],
    /// The application's line; null: none.
    pub place: Option<Place<'a>>,
    /// Where no line of the application makes the call: the nearest line of a library, with the end of its path; null: none, or `place`
    /// is there.
    pub library: Option<Place<'a>>,
    /// How many calls.
    pub calls: u64,
    /// How many of them have returned: the mean is `total_ns` by this number.
    pub returned: u64,
    /// How many of them failed.
    pub errors: u64,
    /// The time of those that returned.
    pub total_ns: u64,
    /// The shortest; null: none has returned.
    pub min_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
}

/// A system call, when it has ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SystemCall<'a> {
    /// The id of the process that the record is of.
    pub pid: i32,
    /// The id of the thread that the record is of.
    pub tid: u32,
    /// When it was called.
    pub time_ns: u64,
    /// How long it took; null: it did not return.
    pub duration_ns: Option<u64>,
    /// `returned`; `left`: its thread ended in it, or was taken out of it; `open`: it had not returned when lancet left or the
    /// process ended.
    pub ended: &'a str,
    /// The name of the system call.
    pub name: &'a str,
    /// Its number; null: the name is lancet's own.
    pub number: Option<u32>,
    /// Each as text; of `futex`, `clone`, `clone3`, and with `-e raw=`, all in one.
    pub arguments: &'a [String],
    /// rdi, rsi, rdx, r10, r8, r9 at the call, as far as it has arguments; the others 0. The list ends with the last that is not 0.
    pub registers: &'a [Address],
    /// The result as text; null: it did not return.
    pub result: Option<&'a str>,
    /// The result as the kernel gives it; null: it did not return.
    pub rax: Option<Address>,
    /// The name of the error that it returned, or its number as text; null: none.
    pub errno: Option<&'a str>,
    /// The result is `--inject`'s, and the kernel was not asked.
    pub injected: bool,
    /// The address that it returns to.
    pub caller: Address,
    /// The native function whose code makes the call; null: not known.
    pub function: Option<&'a str>,
    /// The script's line; null: none.
    pub place: Option<Place<'a>>,
    /// The line of the library that `place` called through; null: `place` is the nearest.
    pub library: Option<Place<'a>>,
    /// With `-k`: the frames around it, the caller first, as text.
    pub callers: &'a [String],
}
