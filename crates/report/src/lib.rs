//! Turns the answers of lancet's commands into text, one folder a command and one file a format.
//!
//! | module | what it writes |
//! |---|---|
//! | [`agent`] | what the agent of a host tells of itself |
//! | [`calls`] | calls as lines, tables, JSON, and as ltrace prints them |
//! | [`heap`] | who keeps what alive in a heap snapshot: a table, JSON, an HTML page, flame graphs, dump_all, heapsnapshot |
//! | [`mem`] | who holds the memory: a table, memprof's lines, JSON, folded stacks |
//! | [`patch`](mod@patch) | functions that were, would be or are replaced |
//! | [`profile`](mod@profile) | where threads run: functions, a tree of calls, JSON, flame graphs |
//! | [`requests`](mod@requests) | the page of requests and jobs that a program shows of itself |
//! | [`rss`](mod@rss) | what resident memory is used for: a table, JSON |
//! | [`stack`] | ranked frames, stacks of a process, the cost of stacks to a collector, folded samples |
//! | [`syscalls`](mod@syscalls) | system calls as strace prints them, and its table |
//! | [`tune`] | the audit of a machine, one check in full, changes made and taken back, process events |
//! | [`fleet`] | what an engine of the user has found in the answers of many hosts |
//! | [`forms`] | the forms that every answer has which gives records: JSON, CSV, Markdown; or stacks: folded, speedscope, a flame graph, the Firefox profiler, pprof, OpenTelemetry |
//! | [`losses`] | what was lost in a run of any command, as a record |
//! | [`text`], [`figures`], `columns`, `style`, [`json`] | what the commands share: escaping, numbers, aligned columns, colour, JSON lines |
//!
//! Everything writes to a [`std::io::Write`] and decides nothing: which rows are shown, in which order and how many
//! was settled by the crate that made the answer. This crate prints nothing itself and knows no command line.
//! Every text format passes the strings of the guest through [`text::printable`] and nothing else, because a file
//! name may hold a terminal escape or a newline, and neither may reach the reader's terminal or split a line.
//!
//! To add a form that all commands have, write a file in `forms/` and name it in the list of its `mod.rs`. To add a format of one command, write
//! a file in the command's folder and name it in the list of that folder's `mod.rs`. Help and completions follow from the lists.

#![forbid(unsafe_code)]

pub mod agent;
pub mod calls;
mod columns;
pub mod figures;
pub mod fleet;
mod format;
pub mod forms;
pub mod heap;
pub mod json;
pub mod losses;
pub mod mem;
mod page;
pub mod patch;
pub mod profile;
pub mod requests;
pub mod rss;
pub mod stack;
mod style;
pub mod syscalls;
pub mod text;
pub mod tune;

pub use format::{FormatEntry, Writes};
pub use style::Style;
