//! The records of `lancet stack`. Of a process or core file: `process`, `look`, `deadlock`…, `standstill`, `gathered`…, then of each stack
//! `stack` and its `frame`…, the innermost frame first. With `--gc`: `scan`…, and with `--measure` `collections`…. With
//! `--for`, `--every` or a started program: `process`…, `looks`, `place`…, `lock`…. Of files (`FILE`, `--gem`, `--process`): `file`…, then
//! `function`…, the biggest frame first; with `--chains` `chain`…, the deepest first; with `--diff OLD NEW` `difference` and
//! `change`…, what grew most first. The last record is `losses`. Used by `calls` and `page`, and by crate `report`.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;
use crate::place::{Address, Place};
use crate::process::Process;

/// A record of `lancet stack --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// A process or core file, before all else of it.
    Process(Process<'a>),
    /// What the look cost it.
    Look {
        /// The id of the process that the record is of.
        pid: i32,
        /// How long it stood still; 0 if all threads slept.
        stopped_ns: u64,
        /// How many bytes of stacks were copied.
        copied: u64,
    },
    /// Threads of which each waits for the next, and the last for the first.
    Deadlock(Circle),
    /// No thread goes on: each waits without a time limit for what only the process itself can give (docs/stack.md).
    Standstill(Circle),
    /// Threads that wait without a time limit in one function of the program, which one function called (docs/stack.md).
    Gathered(Gathered<'a>),
    /// A stack: of a thread, also of one of Ruby that no kernel thread runs, and with `--fibers` of each parked fiber,
    /// greenlet, generator and coroutine.
    Stack(Box<Stack<'a>>),
    /// A frame of the stack before.
    Frame {
        /// The thread; null: of a parked stack.
        tid: Option<i32>,
        /// What is parked, as in its `stack`; null: of a thread.
        parked: Option<Address>,
        /// Where the frame stands in the code.
        ip: Address,
        /// Its stack pointer.
        sp: Address,
        /// The size of the frame.
        bytes: u64,
        /// The path of the file that the code is in; null: no file.
        module: Option<String>,
        /// The function's name; null: it has none.
        function: Option<String>,
        /// How far into it the frame stands.
        offset: Option<u64>,
        /// The code was made by a JIT; `ip` says where it stands.
        made_at_run_time: bool,
        /// How many words of the frame look like references to objects of Ruby; null: no collector scans it.
        objects: Option<u64>,
        /// The script frames that this native frame runs, the innermost first.
        scripts: Vec<Place<'a>>,
    },
    /// With `--gc`: a stack that a collector scans.
    Scan {
        /// The id of the process that the record is of.
        pid: i32,
        /// The thread; null: of a parked stack.
        tid: Option<i32>,
        /// What is parked; null: of a thread.
        parked: Option<Parked>,
        /// How many bytes of it are scanned: to `machine.stack_start` of its execution context, outside of which a thread has
        /// its VM stack.
        bytes: Option<u64>,
        /// How many words in them look like references.
        objects: u64,
        /// The time that each collection is predicted to spend on it while what is marked with it is in the processor's cache;
        /// values of a deep VM stack are not in it.
        predicted_ns: u64,
        /// The same if it is not in the processor's cache.
        predicted_uncached_ns: u64,
    },
    /// With `--measure`: collections of one kind.
    Collections {
        /// The id of the process that the record is of.
        pid: i32,
        /// `minor` (young objects) or `full` (all objects).
        kind: &'static str,
        /// How many were timed.
        count: usize,
        /// The shortest time of marking.
        least_ns: u64,
        /// The median.
        median_ns: u64,
        /// The longest.
        most_ns: u64,
    },
    /// How many looks there were; first, with `--for`, `--every` or a started program.
    Looks {
        /// How many there are.
        looks: u64,
    },
    /// A line at which threads ran or waited. Lines at which threads ran come first, those that were seen most before the
    /// others.
    Place {
        /// The threads ran there; else they waited.
        running: bool,
        /// The line is the application's; else a library's, because no frame was the application's.
        of_application: bool,
        /// The line; where no script ran the innermost native function that has a name, with its program or library as path.
        place: Place<'a>,
        /// It is a native function.
        native: bool,
        /// What they did there, as text; empty where they ran.
        state: &'a str,
        /// How often a thread was seen there. Threads are added up: `seen` by `looks` is the number of threads, on average.
        seen: u64,
        /// Calls and peers, or who had the lock, and how often each was seen.
        on: BTreeMap<&'a str, u64>,
    },
    /// A lock that threads waited for and some thread was seen to have, those for which was waited most before the others.
    Lock {
        /// The id of the process that the record is of.
        pid: i32,
        /// The lock as text: `the VM lock`, a mutex of the language or of C with its address.
        lock: String,
        /// How often a thread was seen that waited for it.
        seen: u64,
        /// The lines.
        at: Vec<SeenAt<'a>>,
    },
    /// A program or library.
    File {
        /// Its path.
        file: String,
        /// How many functions it has.
        functions: usize,
        /// How many of them have a frame that also grows by an amount decided at run time.
        dynamic: usize,
        /// How many of them are Go's for each size of a frame (`runtime.callN`, `debugCallN`), which are no rows and not held
        /// against `--max`.
        dispatchers: usize,
        /// How many entries of the call frame information were damaged, or could not be unpacked; then the exit code is 4.
        damaged: usize,
    },
    /// A function of a file and its frame.
    Function(Box<Function>),
    /// A chain of direct calls of `--chains`.
    Chain {
        /// The file.
        file: String,
        /// The stack that it takes.
        bytes: u64,
        /// A function that its first one leads to, in the chain or beside it, goes on to one that waits already: each round takes
        /// more.
        recursive: bool,
        /// Such a function calls or jumps by a pointer or to another file, or takes an amount decided at run time.
        open: bool,
        /// Its functions, the outermost first.
        frames: Vec<Called>,
    },
    /// What differs between two files, before the rows of `--diff`.
    Difference {
        /// The old file.
        old: String,
        /// The new file.
        new: String,
        /// How many frames grew; one that has another amount decided at run time and the same bytes is of these.
        grew: u64,
        /// How many functions came.
        came: u64,
        /// How many frames shrank.
        shrank: u64,
        /// How many functions are gone.
        gone: u64,
        /// How many are the same.
        same: u64,
        /// How many functions of the old file and of the new one have no name, and are not compared.
        unnamed: [u64; 2],
        /// The bytes of the largest frame before and after.
        largest: [u64; 2],
        /// How many frames grew or came and are larger than `--max`.
        larger: u64,
    },
    /// A function whose frame is not as it was.
    Change {
        /// Its name, demangled.
        name: &'a str,
        /// `grew`, `new`, `shrank`, `gone`; `changed`: only `dynamic` is another.
        kind: &'static str,
        /// The bytes of its frame; null: it was not there.
        before: Option<u64>,
        /// The bytes of its frame; null: it is not there.
        after: Option<u64>,
        /// By how many it grew; below 0 where it shrank or is gone.
        bytes: i64,
        /// Whether it grew by an amount decided at run time, before and after.
        dynamic: [Option<bool>; 2],
    },
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}

/// A line at which threads waited for a lock.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SeenAt<'a> {
    /// The line; where no script ran the innermost native function that has a name.
    pub place: Place<'a>,
    /// It is a native function.
    pub native: bool,
    /// How often a thread was seen there.
    pub seen: u64,
}

/// Threads of a process that do not go on.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Circle {
    /// The id of the process that the record is of.
    pub pid: i32,
    /// Its threads; of a deadlock each waits for the next, and a single one for itself.
    pub tids: Vec<i32>,
}

/// Threads that wait in one function.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Gathered<'a> {
    /// The id of the process that the record is of.
    pub pid: i32,
    /// The threads that wait.
    pub tids: Vec<i32>,
    /// Where the first of them waits.
    #[serde(rename = "in")]
    pub within: Place<'a>,
    /// The function that called that one.
    pub caller: Place<'a>,
    /// The other threads that are in the caller: one of them may have what these wait for.
    pub further: Vec<i32>,
}

/// A stack.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Stack<'a> {
    /// The id of the process that the record is of.
    pub pid: i32,
    /// The thread; null: the stack is parked, and no thread runs it.
    pub tid: Option<i32>,
    /// The kernel's name of the thread.
    pub thread: &'a str,
    /// What is parked; null: the stack is a thread's.
    pub parked: Option<Parked>,
    /// What the thread does; null for a core file and for what is parked.
    pub state: Option<State<'a>>,
    /// The language whose script it runs, with the version; several are separated by commas; null: none.
    pub language: Option<&'a str>,
    /// How many `frame` records follow.
    pub frames: usize,
    /// False: outer frames are missing, or script frames found no native frame (they are in `scripts`).
    pub whole: bool,
    /// Bytes in use, from the stack pointer to the outer end.
    pub used: u64,
    /// The size of the stack's mapping, or of the part between guards where several stacks lie in one mapping (glibc 2.42).
    pub mapped: u64,
    /// Unreadable bytes right below it; 0: a stack that the kernel lets grow.
    pub guard: u64,
    /// Bytes from the outer end to the furthest page that was ever touched; 0: `/proc/PID/pagemap` may not be read.
    pub high_water: u64,
    /// Bytes that a collection of Ruby's scans; null: no collector scans this stack.
    pub scanned: Option<u64>,
    /// Of a greenlet: bytes that each switch to it or away from it copies.
    pub copied: Option<u64>,
    /// Script frames that belong to no native frame.
    pub scripts: Vec<Place<'a>>,
}

/// What is parked on a stack that no thread runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Parked {
    /// `Fiber`, `Thread` (of Ruby, that no kernel thread runs), `greenlet`, `generator`, `coroutine`, `async_generator`.
    pub kind: &'static str,
    /// Its object.
    pub object: Address,
}

/// What a thread does.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct State<'a> {
    /// It runs, or is ready to.
    pub running: bool,
    /// A signal or a debugger has stopped it.
    pub stopped: bool,
    /// The system call that it sleeps in; null: it runs, or sleeps in one that seldom waits, or in a page fault.
    pub call: Option<&'a str>,
    /// What it waits on, as texts: `tcp to 10.0.0.7:3306`, `pipe, descriptor 5`, a path.
    pub on: Option<&'a [String]>,
    /// How many descriptors it waits on beside those in `on`.
    pub on_more: Option<usize>,
    /// Other processes that have to do with the wait. Not with `--for`.
    pub others: Option<Vec<Others<'a>>>,
    /// For how long it has slept, by the kernel's account (docs/stack.md).
    pub asleep_ns: Option<u64>,
    /// In how long the call ends by its timeout; null: it has none, or lancet cannot see it.
    pub ends_in_ns: Option<u64>,
    /// State D: no signal can end the wait.
    pub uninterruptible: Option<bool>,
    /// The word that it sleeps on.
    pub futex: Option<Address>,
    /// The lock of the C library that it waits for.
    pub lock: Option<Lock>,
    /// The name that it asks a name server for.
    pub asks_for: Option<&'a str>,
    /// The library function that made the call: `getaddrinfo`, `pthread_cond_wait`.
    pub through: Option<&'a str>,
    /// The function written in C that the script called, as the language names it: `IO#read`.
    pub function: Option<&'a str>,
    /// The name that the program itself gave the thread.
    pub name: Option<&'a str>,
    /// `has`, `waits` (for it), `without`; null: not known.
    pub vm_lock: Option<&'static str>,
    /// The thread that it waits for.
    pub waits_for: Option<WaitsFor>,
}

/// A thread that another one waits for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WaitsFor {
    /// That thread.
    pub tid: i32,
    /// `unlock` (of a lock), `end` (of that thread), `vm_lock`.
    pub until: &'static str,
}

/// A lock of the C library.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Lock {
    /// `mutex`, `read_write`, `stream` (the lock of a `FILE`), `thread` (the end of a thread).
    pub kind: &'static str,
    /// The id of the thread that holds it; null: not to be found.
    pub owner: Option<i32>,
    /// The process of that thread, if it is another process.
    pub owner_pid: Option<i32>,
    /// It is held for reading; who holds it is then written down nowhere.
    pub readers: bool,
}

/// Other processes that have to do with a wait.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Others<'a> {
    /// Which entry of the state's `on` it is about, from 0; null: the call itself.
    pub on: Option<usize>,
    /// What they have to do with it: `lock` (they have locked the file), `locked_meanwhile` (they have locked a database of
    /// SQLite that this process has open, while the thread sleeps in SQLite), `other_end`, `not_accepted` (they listen and have
    /// not accepted the connection yet), `listens` (they listen and do not answer), `child` (the child that is waited for),
    /// `children` (any of them is waited for).
    pub role: &'static str,
    /// At most four of them.
    pub processes: Vec<Other<'a>>,
    /// How many there are beside those.
    pub more: usize,
    /// The process that waits is one of them itself.
    pub own: bool,
    /// The lock belongs to an open file description, not to a process.
    pub description: bool,
    /// Whoever has locked the file waits in turn for a file that this process has locked; the child whose end is waited for, or
    /// the only process that has the other end, waits in turn for this process.
    pub in_turn: bool,
    /// What that child waits for, as text; else null.
    pub in_turn_for: Option<&'a str>,
    /// Of a child whose end is waited for: the process that does not go on, that child or one for whose end it waits; else null.
    pub stands: Option<i32>,
    /// The path of the other end of a socket, if it has one; of `locked_meanwhile` that of the file.
    pub path: Option<&'a str>,
    /// False: not all processes, locks or descriptors could be looked at.
    pub all: bool,
}

/// A process that has to do with a wait.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Other<'a> {
    /// Its id.
    pub pid: i32,
    /// The kernel's name of the process.
    pub name: &'a str,
    /// The letter of `/proc/PID/stat`; null: it is gone.
    pub state: Option<char>,
}

/// A function of a file and its frame.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Function {
    /// The file that the function is in.
    pub file: String,
    /// Where its code begins, in the file's addresses.
    pub address: Address,
    /// Where its code ends.
    pub end: Address,
    /// Its name as it stands in the source; null: it has none.
    pub name: Option<String>,
    /// Its name as the symbol table has it; null: it has none.
    pub symbol: Option<String>,
    /// The size of its frame, with the return address.
    pub bytes: u64,
    /// The instruction behind which the frame is that big.
    pub deepest_at: Address,
    /// How many of the bytes may be padding, because the frame is aligned to more than 16 bytes.
    pub padding: u64,
    /// The frame also grows by an amount decided at run time; `bytes` does not have that amount.
    pub dynamic: bool,
    /// The function keeps a frame pointer in rbp.
    pub frame_pointer: bool,
    /// How the size was found: `cfi` (call frame information) or `code` (by decoding).
    pub by: &'static str,
    /// With `--check`: the size that the other way gave; null: only one way was tried.
    pub otherwise: Option<u64>,
    /// Its code holds bytes that are no instruction, or it is too long.
    pub unclear: bool,
    /// Other pieces of code that work in the same frame, each `[begin, end]`.
    pub parts: Vec<[Address; 2]>,
    /// Of a function without name: the functions of other libraries that it calls.
    pub calls: Vec<String>,
    /// Of a function without name: texts that it uses.
    pub texts: Vec<String>,
    /// Of a function without name, calls and texts: the nearest function with a name that calls it.
    pub caller: Option<String>,
    /// Its largest variable, where DWARF is there; null: not known.
    pub variable: Option<Variable>,
}

/// A variable of a function.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Variable {
    /// The name of the variable in the source.
    pub name: String,
    /// Its type.
    pub r#type: String,
    /// Its size.
    pub bytes: u64,
    /// The file where it is declared.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u64>,
}

/// A function of a chain.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Called {
    /// Where its code begins, in the file's addresses.
    pub address: Address,
    /// Its name; null: it has none.
    pub name: Option<String>,
    /// The size of its frame.
    pub bytes: u64,
}
