//! `lancet calls`: what becomes of events, one file a format. Used by `stack::now`, `syscalls::json` and others here,
//! and by crate `lancet`.
//!
//! | module | for |
//! |---|---|
//! | [`formats`] | the command line: [`FORMATS`], an entry for each name; `format` says what one is |
//! | [`lines`] | people: a line a call, ours or as ltrace prints it (`form`) |
//! | [`json`] | programs: an object a line, schema in `docs/json.md` |
//! | [`summary`] | `-c`: a row for each function and script line, written by `summary_table`, `summary_json`, `summary_ltrace` or `stacks` |
//! | `still_open`, `not_freed` | before the rows of `-c`: descriptors that are still open, memory that is not freed |
//!
//! Each is a [`calls::consumer::Consumer`]. How lines look is a [`Layout`].

mod form;
pub mod format;
pub mod formats;
pub mod json;
pub mod lines;
mod not_freed;
mod processes;
pub(crate) mod stacks;
mod still_open;
pub mod summary;
mod summary_json;
mod summary_ltrace;
mod summary_table;

pub(crate) use form::short;
pub use format::Format;
pub use formats::{FORMATS, JSON, LINES, STACKS};
pub use json::Json;
pub use lines::Lines;
pub use processes::Processes;
pub use summary::Summary;

use prototypes::Detail;
use prototypes::show::Show;

/// In the place of a line where only libraries' frames are around a call.
pub(crate) const NO_APPLICATION: &str = "(no application line)";

/// How many bytes of lines are collected before they are handed on. So many fit into the processor's first cache.
pub(crate) const CHUNK: usize = 16 << 10;

/// How calls are shown.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Characters of a string, at most.
    pub strings: u32,
    /// Elements of an array, at most.
    pub array: u32,
    /// Native frames under each call, at most.
    pub frames: usize,
    /// Lines are those of ltrace 0.7.91.
    pub ltrace: bool,
    /// Names of C++ and Rust functions as they stand in the source.
    pub demangle: bool,
    /// Each line names the module that calls. Only ltrace's lines do.
    pub callers: bool,
    /// Processes that were opened, not counting a program that was started.
    pub processes: usize,
    /// Children of the processes are followed, so that lines may come of several processes.
    pub follow: bool,
    /// The lines go into a file: `-o` was given.
    pub into_file: bool,
    /// 0 = no time, 1 = the time of day, 2 = with microseconds, 3 = seconds since 1970 with microseconds.
    pub times: u8,
    /// The time since the line before.
    pub relative: bool,
    /// How long each call took.
    pub durations: bool,
    /// The address that the call returns to.
    pub instruction: bool,
    /// Columns by which a call within a call is indented.
    pub indent: usize,
    /// The column in which results stand.
    pub align: usize,
    /// Signals are not shown.
    pub no_signals: bool,
}

impl Layout {
    /// How values are shown.
    fn show(&self) -> Show<'static> {
        Show {
            detail: Detail {
                strings: self.strings,
                array: self.array,
                whole: false,
            },
            decode: None,
            like_ltrace: self.ltrace,
        }
    }
}
