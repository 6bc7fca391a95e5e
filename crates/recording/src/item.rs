//! What a recording holds: definitions of what events name by number, and events.

use crate::event::Event;

/// The recording itself: the first item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The version of lancet that wrote it.
    pub lancet: String,
    /// Its command line.
    pub command: Vec<String>,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
}

/// A process. Guests are numbered from 0 in the order of the file, and so are modules, functions, call edges, lines and callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its id.
    pub pid: i32,
    /// Its command line.
    pub command: Vec<String>,
    /// The language whose lines its calls have, and its version; empty = none.
    pub vm: String,
}

/// A file that is mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its path as the guest sees it.
    pub path: String,
    /// Its name: the path without folders.
    pub name: String,
    /// It is the program itself.
    pub main: bool,
    /// What is added to its addresses.
    pub bias: u64,
}

/// A function that was hooked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Number of its module.
    pub module: u32,
    /// Its names; first the one that it was hooked by.
    pub names: Vec<String>,
    /// Where it begins in the guest.
    pub address: u64,
    /// Its bytes; 0 = not known.
    pub size: u64,
    /// Its prototype in the grammar of `ltrace.conf(5)`, with the types that it names; empty = not known.
    pub prototype: String,
}

/// A call edge: which function is called, and by which module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallEdge {
    /// Number of the function.
    pub function: u32,
    /// Number of the module that calls.
    pub from: Option<u32>,
    /// For which of the function's names that has a slot to call through: a bit for each.
    pub slots: u64,
}

/// A script's line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The file.
    pub path: String,
    /// From 1; 0 = none.
    pub line: u32,
    /// The method or function.
    pub name: String,
}

/// A frame of native code around calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Where it goes on.
    pub address: u64,
    /// The file; empty = code of no file.
    pub path: String,
    /// The function; empty = not known.
    pub name: String,
    /// How far into it.
    pub offset: u64,
}

/// What got lost in a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of the guest.
    pub guest: u32,
    /// Records that found no room in time.
    pub records: u64,
    /// Calls by threads without a ring.
    pub without_ring: u64,
}

/// One item of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// See [`Head`].
    Head(Head),
    /// See [`Guest`].
    Guest(Guest),
    /// See [`Module`].
    Module(Module),
    /// See [`Function`].
    Function(Function),
    /// See [`CallEdge`].
    CallEdge(CallEdge),
    /// See [`Line`].
    Line(Line),
    /// See [`Caller`].
    Caller(Caller),
    /// See [`Event`]; never one of a process that was opened, which is a [`Guest`].
    Event(Event),
    /// See [`Losses`].
    Losses(Losses),
    /// The last item: its writer came to its end.
    End,
}
