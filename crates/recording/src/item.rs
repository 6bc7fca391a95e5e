//! The definitions: what events refer to by number, and other facts of a recording. Used by `define`, `read` and others
//! here, and by crate `calls`.

/// Which command made the recording; the first definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The version of lancet that wrote the file, as in `lancet --version`.
    pub lancet: String,
    /// Words of its command line.
    pub command: Vec<String>,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
}

/// A process. Guests are numbered from 0 in the order of the file. So are modules, functions, call edges, lines and
/// callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its process id, in the PID namespace of the command.
    pub pid: i32,
    /// Words of its command line.
    pub command: Vec<String>,
    /// The language whose lines its calls have, with its version; empty = none.
    pub vm: String,
    /// When it was opened, in nanoseconds since 1970.
    pub since: u64,
}

/// An ELF file that is mapped in a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its path as the guest sees it.
    pub path: String,
    /// Its name: the SONAME, or the file's name where it has none.
    pub name: String,
    /// Whether it is the program itself.
    pub main: bool,
    /// Load bias: what is added to an address in the file to get the one in memory.
    pub bias: u64,
}

/// A function that was hooked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Number of its module.
    pub module: u32,
    /// Its names; the first is the one that it was hooked by.
    pub names: Vec<String>,
    /// Address in the guest at which it begins.
    pub address: u64,
    /// Size in bytes; 0 = not known.
    pub size: u64,
    /// Prototype in the grammar of `ltrace.conf(5)`, with the types that it names; empty = not known.
    pub prototype: String,
}

/// A call edge: a function and the module that calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallEdge {
    /// Number of the function.
    pub function: u32,
    /// Number of the module that calls; `None` = the caller lies in no module.
    pub from: Option<u32>,
    /// A bit for each of the function's names: set if the calling module has a slot of that name to call through.
    pub slots: u64,
    /// Of a system call, the name of the function whose code makes it; empty = not known.
    pub inside: String,
}

/// A line of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Path of the file.
    pub path: String,
    /// The line, from 1; 0 = none.
    pub line: u32,
    /// Name of the method or function.
    pub name: String,
}

/// A native frame around calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The address at which it goes on.
    pub address: u64,
    /// Path of the file; empty = code that belongs to no file.
    pub path: String,
    /// Name of the function; empty = not known.
    pub name: String,
    /// Bytes from the beginning of the function.
    pub offset: u64,
    /// The same address as the file has it, before it was mapped somewhere.
    pub in_file: u64,
}

/// What was lost of a guest's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of the guest.
    pub guest: u32,
    /// Records that were dropped, because no room came in time.
    pub records: u64,
    /// Calls by threads that had no ring.
    pub without_ring: u64,
}

/// A definition: something that events refer to by its number, or a fact of the whole recording. Each kind is numbered
/// from 0.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each holds the type of its name")]
pub enum Definition {
    Head(Head),
    Guest(Guest),
    Module(Module),
    Function(Function),
    CallEdge(CallEdge),
    Line(Line),
    Caller(Caller),
    Losses(Losses),
}
