//! Events: calls and returns, signals, children, ends, in the order of time. Used by `live::guest::ifuncs`,
//! `recorder::store` and others here, and by the crates `report` and `lancet`.
//!
//! An [`Event`] is made once, by a source, from a record of a ring or an item of a file; filters, formats and the
//! recorder use it unchanged. The types are those of [`recording`], with pointers to what many calls have in common.

use hooks::rings::Line;
use process::functions::Function;
use prototypes::filter::Where;
pub use recording::{End, OfThread, Opened, Return, Signal};
use std::sync::Arc;
use std::time::Duration;

/// An event of a process, which is named by its id.
pub type Event = recording::Event<i32, Call>;
/// The content of an [`Event`]: an opening, a call, its return, a signal, a fork, an end.
pub type EventKind = recording::EventKind<Call>;
/// The process, thread, stack and time of an [`Event`].
pub type At = recording::At<i32>;
/// A call; its edge, lines and native callers are shared with other calls.
pub type Call = recording::Call<Arc<CallEdge>, Arc<Line>, Arc<Caller>>;

fn local(seconds: i64) -> libc::tm {
    // SAFETY: both records are live values of this frame; the call reads the first, fills the second and keeps neither.
    unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut parts);
        parts
    }
}

/// Returns how long after midnight, in local time, a time since 1970 is.
pub fn since_midnight(time: Duration) -> Duration {
    let parts = local(time.as_secs() as i64);
    let seconds = parts.tm_hour * 3600 + parts.tm_min * 60 + parts.tm_sec;
    Duration::new(seconds.unsigned_abs().into(), time.subsec_nanos())
}

/// A time since 1970 as the local time of day: `14:10:54`.
pub fn time_of_day(time: Duration) -> String {
    let parts = local(time.as_secs() as i64);
    format!(
        "{:02}:{:02}:{:02}",
        parts.tm_hour, parts.tm_min, parts.tm_sec
    )
}

/// Formats a time since 1970 in the form that strace writes behind a number, in local time:
/// `2026-11-22T23:49:46.259859184+0000`. Times before 1970 are written too. `None` for a time of zero, for `nanos` of a
/// second or more, and for a year that does not fit into 32 bits.
pub fn date(seconds: i64, nanos: u64) -> Option<String> {
    if seconds == 0 && nanos == 0 || nanos > 999_999_999 {
        return None;
    }
    let parts = local(seconds);
    // If the year does not fit into 32 bits, the C library fills in nothing.
    if parts.tm_mday == 0 {
        return None;
    }
    let fraction = match nanos {
        0 => String::new(),
        nanos => format!(".{nanos:09}"),
    };
    let east = parts.tm_gmtoff / 60;
    let sign = if east < 0 { '-' } else { '+' };
    let east = east.unsigned_abs();
    Some(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}{sign}{:02}{:02}",
        i64::from(parts.tm_year) + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        east / 60,
        east % 60
    ))
}

/// A frame of native code around a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The return address at which this function goes on.
    pub address: u64,
    /// The file; `None` = code of no file.
    pub path: Option<String>,
    /// The function, and how far into it.
    pub function: Option<(String, u64)>,
    /// The same address as the file has it, before it was mapped somewhere.
    pub in_file: u64,
}

impl Caller {
    /// Returns the function, or its address if it is unknown.
    pub fn name(&self) -> String {
        match &self.function {
            Some((name, _)) => name.clone(),
            None => format!("{:#x}", self.address),
        }
    }

    /// Returns it as strace's `-k` has it: the address is that in the file, by which others (`addr2line`) find the line of the source.
    pub fn as_strace(&self) -> String {
        let path = self.path.as_deref().unwrap_or("unmapped_area");
        let at = self.in_file;
        match &self.function {
            Some((name, offset)) => format!("{path}({name}+{offset:#x}) [{at:#x}]"),
            None => format!("{path}() [{at:#x}]"),
        }
    }
}

impl std::fmt::Display for Caller {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.as_deref().unwrap_or("unmapped_area");
        let at = self.address;
        match &self.function {
            Some((name, offset)) => write!(out, "{path}({name}+{offset:#x}) [{at:#x}]"),
            None => write!(out, "{path}(???) [{at:#x}]"),
        }
    }
}

/// A call edge: which module calls which function. It has all that filters by name need, and calls share it.
#[derive(Debug, Default)]
pub struct CallEdge {
    /// The function that is called.
    pub function: Arc<Function>,
    /// All its names; the first is the one that it is hooked by.
    pub names: Arc<[String]>,
    /// The module it is in.
    pub module: Arc<Module>,
    /// The module that calls.
    pub from: Option<Arc<Module>>,
    /// One bit for each name: whether the calling module has a slot for it.
    pub slots: u64,
    /// For a system call, the function whose code makes it; `None` = no symbol contains the instruction. Always `None`
    /// for calls of a function.
    pub inside: Option<Arc<str>>,
    /// How calls are shown by the filters of this run; `None` = they are not.
    pub shown: Option<Shown>,
}

/// A file that is mapped in a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its path as the process sees it.
    pub path: String,
    /// Its name: SONAME or the file's.
    pub name: Arc<str>,
    /// Whether it is the program itself.
    pub main: bool,
    /// What is added to its addresses; it distinguishes files that are mapped at the same time.
    pub bias: u64,
}

impl Module {
    /// Returns the data that filters use.
    pub fn place(&self) -> Where<'_> {
        Where {
            path: &self.path,
            soname: &self.name,
            is_main: self.main,
        }
    }
}

/// How a call is shown. A call that both `-e` and `-x` name is two calls to ltrace: the second inside the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// As one that a module makes (`-e`, `-l`).
    pub made: Option<Made>,
    /// As an entry of a function (`-x`).
    pub entered: Option<Entered>,
}

/// A call as one that a module makes: [`Shown::made`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The name of the module.
    pub by: Arc<str>,
    /// The name by which the module calls the function.
    pub name: String,
}

/// A call as an entry of a function: [`Shown::entered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The name that was requested.
    pub name: String,
    /// The library; `None` = it is the program.
    pub of: Option<Arc<str>>,
}
