//! What a recording holds.

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

/// A process. Guests are numbered from 0 in the order of the file, and so are modules, functions, ways, lines and callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its id.
    pub pid: i32,
    /// Its command line.
    pub command: Vec<String>,
    /// The language whose lines are told, and its version; empty = none.
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

/// From where to where calls go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
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

/// Where and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At {
    /// Number of the guest.
    pub guest: u32,
    /// The kernel's id of the thread.
    pub tid: u32,
    /// Which lane of the guest.
    pub lane: u32,
    /// The stack it runs on, by number: where its mapping began when it was first seen.
    pub stack: u64,
    /// The stack pointer above the return address. Names a call within its lane until it returns.
    pub frame: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
}

/// Bytes that were copied from the guest's memory: where they lay, and they.
pub type Piece<'a> = (u64, &'a [u8]);

/// A call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call<'a> {
    /// Where and when.
    pub at: At,
    /// Number of its way.
    pub way: u32,
    /// The return address.
    pub caller: u64,
    /// Number of the script's line.
    pub line: Option<u32>,
    /// The same for the line of the library that it called through, if that is another.
    pub library: Option<u32>,
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub gp: [u64; 6],
    /// The low eight bytes of xmm0 to xmm7.
    pub sse: [u64; 8],
    /// What arguments point to.
    pub pieces: Vec<Piece<'a>>,
    /// Numbers of the frames around it, the caller first.
    pub callers: Vec<u32>,
}

/// A return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Return<'a> {
    /// Where and when; the frame is that of its call.
    pub at: At,
    /// rax, rdx.
    pub gp: [u64; 2],
    /// The low eight bytes of xmm0 and xmm1.
    pub sse: [u64; 2],
    /// st(0) and st(1), if they were asked for.
    pub x87: Option<[[u8; 10]; 2]>,
    /// What the returned value and late arguments point to.
    pub pieces: Vec<Piece<'a>>,
}

/// What else happened in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the guest.
    pub guest: u32,
    /// The thread.
    pub tid: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// What.
    pub what: Happened,
}

/// See [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A signal came.
    Signal(i32),
    /// The process has this child, with a copy of its open calls.
    Forked(i32),
    /// It ended with this exit code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
    /// It ended, how is not known.
    Ended,
    /// It runs another program now.
    Replaced,
}

/// What got lost in a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of the guest.
    pub guest: u32,
    /// Records that found no room in time.
    pub records: u64,
    /// Calls by threads without a lane.
    pub unlaned: u64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// See [`Head`].
    Head(Head),
    /// See [`Guest`].
    Guest(Guest),
    /// See [`Module`].
    Module(Module),
    /// See [`Function`].
    Function(Function),
    /// See [`Way`].
    Way(Way),
    /// See [`Line`].
    Line(Line),
    /// See [`Caller`].
    Caller(Caller),
    /// See [`Call`].
    Call(Call<'a>),
    /// See [`Return`].
    Return(Return<'a>),
    /// See [`Event`].
    Event(Event),
    /// See [`Losses`].
    Losses(Losses),
    /// Its writer came to its end.
    End,
}
