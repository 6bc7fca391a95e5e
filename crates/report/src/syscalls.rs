//! `lancet syscalls`: system calls as strace writes them, with the script's line behind each, and strace's table with a
//! row for each function and script line. Used by crate `lancet`.
//!
//! | module | what |
//! |---|---|
//! | [`columns`] | columns and order of the table |
//! | [`lines`], `colours` | a line a call, and its colours |
//! | [`naming`], [`chosen`] | what descriptors and processes are called; calls on some paths alone |
//! | `dump` | bytes that were read and written |
//! | [`separate`], [`together`] | a file for each thread; lines and the table |
//! | [`json`] | programs: an object a line, schema in `docs/json.md` |
//! | [`summary`] | `-c` |
//!
//! What a call's arguments look like is decided by the crate `syscalls`; each of these is a [`calls::consumer::Consumer`].

pub mod chosen;
mod colours;
pub mod columns;
mod dump;
pub mod json;
pub mod lines;
pub mod naming;
pub mod separate;
pub mod summary;
pub mod together;

pub use chosen::OnPaths;
pub use colours::{Coloured, Palette};
pub use columns::{Column, Columns, Figures, Order};
pub use json::Json;
pub use lines::Lines;
pub use naming::{Naming, NamingKinds};
pub use separate::Separate;
pub use summary::Summary;
pub use together::{SharedOutput, Together};

use std::time::Duration;

use crate::Writes;

/// How calls are written, in the order in which help lists them.
pub static FORMATS: &[&Writes] = &[&LINES, &STRACE, &Writes::Tables, &Writes::Stacks];

static LINES: Writes = Writes::text(
    "lines",
    "A line a call, with the script's line; -c: a table",
);

/// Lines and table of strace.
pub static STRACE: Writes =
    Writes::text("strace", "As strace prints it, without the script's line");

/// Which calls are shown, by what they returned (`-z`, `-Z`, `-e status=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statuses {
    /// Calls that succeeded are shown.
    pub successful: bool,
    /// Calls that returned an error are shown.
    pub failed: bool,
    /// Calls that did not return while they were watched are shown.
    pub unfinished: bool,
    /// Calls that were open when lancet left are shown.
    pub detached: bool,
}

impl Statuses {
    /// Every call is shown, whatever came of it.
    pub const ALL: Self = Self {
        successful: true,
        failed: true,
        unfinished: true,
        detached: true,
    };

    /// Whether a call that returned is shown.
    #[must_use]
    pub fn shows(self, failed: bool) -> bool {
        if failed { self.failed } else { self.successful }
    }
}

/// A set of descriptors (`-e read=`, `-e write=`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// No descriptor is in the set.
    #[default]
    None,
    /// The descriptors with these numbers.
    These(Vec<i32>),
    /// All descriptors but those with these numbers.
    AllBut(Vec<i32>),
}

impl Numbers {
    /// Whether it has this one.
    #[must_use]
    pub fn has(&self, number: i32) -> bool {
        match self {
            Numbers::None => false,
            Numbers::These(of) => of.contains(&number),
            Numbers::AllBut(of) => !of.contains(&number),
        }
    }
}

/// Which calls are written otherwise than the others; `None` = as the style says.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    /// Those whose arguments are numbers (`-e raw=`).
    pub raw: Option<syscalls::Trace>,
    /// Those whose structs are shortened (`-e abbrev=`).
    pub shortened: Option<syscalls::Trace>,
    /// Those whose structs are written at all (`-e verbose=`).
    pub structs: Option<syscalls::Trace>,
}

impl Exceptions {
    /// How a call of this name is written.
    #[must_use]
    pub fn style(&self, style: syscalls::Style, name: &str) -> syscalls::Style {
        let has = |set: &Option<syscalls::Trace>| set.as_ref().map(|set| set.has(name));
        syscalls::Style {
            raw: has(&self.raw).unwrap_or(style.raw),
            verbose: has(&self.shortened).map_or(style.verbose, |short| !short),
            addresses: has(&self.structs).map_or(style.addresses, |structs| !structs),
            ..style
        }
    }
}

impl Layout {
    /// Whether calls of this name are shown.
    #[must_use]
    pub fn shows(&self, name: &str) -> bool {
        self.calls.as_ref().is_none_or(|calls| calls.has(name))
    }
}

/// By which clock a time is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time of day in the local time zone.
    OfDay,
    /// Seconds since the beginning of 1970, UTC.
    Unix,
}

/// How the time before a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Whether it is shown as the time of day or as seconds since 1970.
    pub clock: Clock,
    /// Digits of seconds behind the point.
    pub digits: usize,
}

impl Stamp {
    /// A time of this clock with so many digits behind the point.
    #[must_use]
    pub const fn new(clock: Clock, digits: usize) -> Self {
        Self { clock, digits }
    }

    fn text(self, time: Duration) -> String {
        let parts = part(time, self.digits);
        match self.clock {
            Clock::OfDay => format!("{}{parts}", calls::event::time_of_day(time)),
            Clock::Unix => format!("{}{parts}", time.as_secs()),
        }
    }
}

/// How lines look, and which calls they are of.
#[derive(Clone, Debug)]
pub struct Layout {
    /// How calls are written.
    pub style: syscalls::Style,
    /// Which are shown; `None` = all. What descriptors are called follows from more calls than are asked for.
    pub calls: Option<syscalls::Trace>,
    /// Which calls are written otherwise than `style` says.
    pub exceptions: Exceptions,
    /// Which descriptors have what is read from them and written to them shown whole.
    pub dumped: [Numbers; 2],
    /// What descriptors and processes are called.
    pub naming: NamingKinds,
    /// Signals that are shown; `None` = all.
    pub signals: Option<Vec<i32>>,
    /// As strace prints it: without the script's line.
    pub strace: bool,
    /// The thread stands before each line from the first on, without brackets: lines go into a file with `-f`.
    pub into_file: bool,
    /// The time before each line.
    pub times: Option<Stamp>,
    /// The time since the line before, in seconds with so many digits behind the point.
    pub relative: Option<usize>,
    /// How long each call took, the same way.
    pub durations: Option<usize>,
    /// The number of each call stands before its name (`-n`).
    pub numbers: bool,
    /// Where the thread stands stands before each line (`-i`): behind the instruction that asks.
    pub instructions: bool,
    /// Native frames under each call, at most.
    pub frames: usize,
    /// The column in which the `=` stands, where the text before it is not longer.
    pub align: usize,
    /// Which calls are shown, by what came of them.
    pub statuses: Statuses,
    /// Calls that took less are not shown.
    pub slower: Duration,
    /// No line for the end of a process or a thread (`-qq`).
    pub quiet: bool,
    /// No line for a thread in the place of which another runs a program (`-qqq`).
    pub hides_superseded: bool,
    /// Calls of `exit` and `exit_group` may return, because a result is injected into them.
    pub exits_return: bool,
    /// Processes stand still at each call, and are left where they are: what is open then is told so.
    pub is_traced: bool,
}

/// The native function that makes a system call, unless its name says no more than the call's: `__read` of `read`.
fn native(call: &str, inside: Option<&str>) -> Option<String> {
    let name = inside?;
    let bare = name.trim_start_matches('_');
    let bare = bare.strip_suffix("64").unwrap_or(bare);
    (bare != call).then(|| frames::names::readable(name))
}

/// The part of a second with its point, in so many digits: `.000345`.
fn part(time: Duration, digits: usize) -> String {
    let nanos = format!(".{:09}", time.subsec_nanos());
    match digits {
        0 => String::new(),
        digits => nanos[..=digits.min(9)].to_owned(),
    }
}

/// Returns a time in seconds, with so many digits behind the point: `12.000345`.
fn seconds(time: Duration, digits: usize) -> String {
    format!("{}{}", time.as_secs(), part(time, digits))
}
