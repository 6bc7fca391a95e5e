//! What a source tells and a sink takes: calls and returns, signals, children, ends, in the order of time.
//!
//! ```text
//!   live guests ─┐                          ┌─► printer
//!                ├─► Source ─► Told ─► Sink ─┼─► summary
//!   a recording ─┘                          └─► recorder
//! ```

use process::functions::Function;
use process::lanes::Line;
use prototypes::capture::{Registers, Returned};
use prototypes::{Pieces, Where};
use std::sync::Arc;
use std::time::Duration;

/// A call, a return, or what else happened.
#[derive(Debug)]
pub struct Told {
    /// Where and when.
    pub at: At,
    /// What.
    pub what: What,
}

/// Where and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The process.
    pub pid: i32,
    /// The thread, as the kernel numbers it.
    pub tid: u32,
    /// Which lane of that process: one for each thread pointer.
    pub lane: u32,
    /// The stack it runs on, by number: where its mapping began when it was first seen.
    pub stack: u64,
    /// The stack pointer above the return address. Names a call within its lane until it returns.
    pub frame: u64,
    /// Since 1970.
    pub time: Duration,
}

/// See [`Told`].
#[derive(Debug)]
pub enum What {
    /// A process was opened: comes before all else of it.
    Opened(Opened),
    /// A function was called.
    Call(Call),
    /// It returned.
    Return(Return),
    /// A signal came for a program that we started.
    Signal(i32),
    /// The process has a child, with a copy of its open calls.
    Forked(i32),
    /// The process has ended.
    Ended(End),
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// We are not its parent, and it did not say.
    Unknown,
    /// It runs another program now, which is followed or not.
    Replaced,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Its command line.
    pub command: Vec<String>,
    /// The language whose lines are told; empty = none.
    pub vm: String,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub function: Arc<Function>,
    /// The way it goes.
    pub way: Arc<Way>,
    /// As what it is shown.
    pub shown: Arc<Shown>,
    /// The return address.
    pub caller: u64,
    /// Its arguments.
    pub registers: Registers,
    /// What they point to.
    pub pieces: Pieces,
    /// The script's line.
    pub line: Option<Arc<Line>>,
    /// The line of the library that it called through, if `line` is the application's, further out.
    pub library: Option<Arc<Line>>,
    /// Who called whom (`-w`), the caller first.
    pub callers: Vec<Arc<Caller>>,
}

/// A frame of native code around a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where it goes on.
    pub address: u64,
    /// The file; `None` = code of no file.
    pub path: Option<String>,
    /// The function, and how far into it.
    pub function: Option<(String, u64)>,
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

/// From where to where calls go: all that filters ask for.
#[derive(Debug, Default)]
pub struct Way {
    /// The function.
    pub function: Arc<Function>,
    /// All its names; first the one that it is hooked by.
    pub names: Arc<[String]>,
    /// The module it is in.
    pub module: Arc<Module>,
    /// The module that calls.
    pub from: Option<Arc<Module>>,
    /// For which of the names that has a slot to call through: a bit for each.
    pub slots: u64,
}

/// A file that is mapped in a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its path as the process sees it.
    pub path: String,
    /// Its name: SONAME or the file's.
    pub name: Arc<str>,
    /// It is the program itself.
    pub main: bool,
    /// What is added to its addresses: tells those apart that are mapped at the same time.
    pub bias: u64,
}

impl Module {
    /// As filters ask for it.
    pub fn place(&self) -> Where<'_> {
        Where {
            path: &self.path,
            soname: &self.name,
            is_main: self.main,
        }
    }
}

/// As what a call is shown. One that both `-e` and `-x` name is two to ltrace: the second inside the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// As made by a module (`-e`, `-l`).
    pub made: Option<Made>,
    /// As entering a function (`-x`).
    pub entered: Option<Entered>,
}

/// See [`Shown::made`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The module.
    pub by: Arc<str>,
    /// The name it calls the function by.
    pub name: String,
}

/// See [`Shown::entered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The name that was asked for.
    pub name: String,
    /// The library; `None` = it is the program's.
    pub of: Option<Arc<str>>,
}

/// A return.
#[derive(Debug)]
pub struct Return {
    /// What it returns.
    pub returned: Returned,
    /// What that and late arguments point to, to be laid over the call's.
    pub pieces: Pieces,
}
