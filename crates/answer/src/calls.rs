//! The records of `lancet calls`: `process`, then `call`…, `signal`…, `fork`…, `end`… in the order in which calls end, so that
//! each call is one object: inner calls before the call around them. With `-c`: `row`…, `total`, behind `verdict`…, `descriptors` and
//! `still_open`… with `--preset files`, behind `allocations` and `not_freed`… with `--preset alloc`. With `--now`: `process`,
//! `deadlock`…, `standstill`, `gathered`…, `thread`…. The last record is `losses`. Used by `page`, and by crate
//! `report`.
//!
//! What is made of several processes together, as the rows of `-c`, has a `process` for each of them before all else.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;
use crate::place::{Address, Place};
use crate::process::Process;
use crate::stack::{Circle, Gathered, State};

/// A record of `lancet calls --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// A process, before all else of it.
    Process(Process<'a>),
    /// A call, when it has ended.
    Call(Box<Call<'a>>),
    /// A signal that came for a program that was started.
    Signal {
        /// The id of the process that the record is of.
        pid: i32,
        /// The id of the thread that the record is of.
        tid: u32,
        /// When.
        time_ns: u64,
        /// The number of the signal.
        signal: i32,
    },
    /// A child was made.
    Fork {
        /// The process that made it.
        pid: i32,
        /// The id of the thread that the record is of.
        tid: u32,
        /// When.
        time_ns: u64,
        /// The child.
        child: i32,
    },
    /// A process ended, or runs another program now.
    End {
        /// The id of the process that the record is of.
        pid: i32,
        /// The exit code; null: it was ended by a signal, or is not known.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// It runs another program now.
        exec: bool,
    },
    /// Calls of one function from one place, with `-c`; those with most time first.
    Row(Box<Row<'a>>),
    /// The sum of the rows.
    Total {
        /// How many calls.
        calls: u64,
        /// How many of them were left without a return.
        left: u64,
        /// The time of those that returned.
        total_ns: u64,
    },
    /// Whether a line leaks, as sentences: before `descriptors` and before `allocations`.
    Verdict {
        /// A sentence.
        text: String,
    },
    /// Descriptors that were opened while they were watched.
    Descriptors {
        /// How many were opened.
        opened: u64,
        /// How many of them are still open.
        open: u64,
        /// How many the processes had before.
        before: u64,
        /// How many of those are closed.
        before_closed: u64,
        /// How many were closed by no call that was seen.
        closed_unseen: u64,
        /// How many came by no call that was seen.
        came_unseen: u64,
        /// From the first event to the last.
        watched_ns: u64,
        /// The soft limit of a process, the least of several; null: not known.
        limit: Option<u64>,
    },
    /// What one system call has opened at one place and is still open.
    StillOpen {
        /// The system call.
        function: &'a str,
        /// Where the script makes it.
        #[serde(flatten)]
        site: Site<'a>,
        /// How many it opened there.
        opened: u64,
        /// How many of them are still open.
        open: u64,
        /// How long the oldest of them has been.
        oldest_ns: u64,
        /// Some of each quarter of the time are still open.
        leaks: bool,
        /// What the oldest is; null: not known.
        example: Option<&'a str>,
    },
    /// Memory that was allocated while it was watched.
    Allocations {
        /// How many allocations were seen.
        allocated: u64,
        /// How many of them are not freed.
        kept: u64,
        /// How many bytes these asked for.
        bytes: u64,
        /// How many were freed that lancet did not follow.
        foreign: u64,
        /// How many were there when their process ended, beside which others were watched: the kernel took them.
        ended: u64,
        /// How many found no room in lancet's table.
        untold: u64,
        /// Calls that were lost. Then there is no verdict.
        lost: u64,
        /// The calls are those of a recording, which does not say which functions were watched, and whether to the end. There is
        /// no verdict then.
        recorded: bool,
        /// Functions of the allocator that were not watched to the end. Then there is no verdict.
        given_up: &'a [String],
        /// From the first event to the last.
        watched_ns: u64,
    },
    /// What one function has allocated at one place and is not freed.
    NotFreed {
        /// The function.
        function: &'a str,
        /// Where the script calls it.
        #[serde(flatten)]
        site: Site<'a>,
        /// How often it allocated there.
        allocated: u64,
        /// How many of these are not freed.
        kept: u64,
        /// The bytes of `kept`.
        bytes: u64,
        /// How long the oldest of them has been there.
        oldest_ns: u64,
        /// Some of each quarter of the time are not freed, about as many of each half.
        leaks: bool,
    },
    /// With `--now`: a circle of threads of which each waits for the next and the last for the first; before the threads.
    Deadlock(Circle),
    /// With `--now`: no thread of the process goes on: each waits without a time limit for what only the process itself can give.
    Standstill(Circle),
    /// With `--now`: threads that wait without a time limit in one function of the program, which one function called.
    Gathered(Gathered<'a>),
    /// With `--now`: what a thread does.
    Thread {
        /// The id of the process that the record is of.
        pid: i32,
        /// The id of the thread that the record is of.
        tid: i32,
        /// The name that the program or the kernel has for the thread.
        thread: &'a str,
        /// What it does; null: it was not found out.
        state: Option<Box<State<'a>>>,
        /// How many threads wait for a lock that it holds, or that one holds which waits for it in turn; threads of a circle are
        /// not counted for each other.
        holds_up: usize,
        /// The innermost functions of the program, without those of the C library: four at most.
        native: Vec<String>,
        /// The application's innermost frame; null: none.
        place: Option<Place<'a>>,
        /// The innermost frame, if that is a library's.
        library: Option<Place<'a>>,
    },
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}

/// A call, when it has ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Call<'a> {
    /// The id of the process that the record is of.
    pub pid: i32,
    /// The id of the thread that the record is of.
    pub tid: u32,
    /// When it was called.
    pub time_ns: u64,
    /// How long it took; null: it did not return.
    pub duration_ns: Option<u64>,
    /// `returned`; `left`: by an exception or a jump; `open`: it had not returned when lancet left or the process ended.
    pub ended: &'a str,
    /// How many of the calls that are shown were open around it on its stack.
    pub depth: usize,
    /// The name of the function that is called.
    pub function: &'a str,
    /// The path of the file it is in.
    pub module: &'a str,
    /// Where it begins.
    pub address: Address,
    /// The path of the file that calls; null: code of no file.
    pub from: Option<&'a str>,
    /// The address that it returns to.
    pub caller: Address,
    /// The arguments as text, as the lines of `lancet calls` show them.
    pub arguments: &'a [String],
    /// rdi, rsi, rdx, rcx, r8, r9 at the call: those that its prototype says are arguments, and the others 0; all six of a function
    /// without a prototype. Of arguments that all have at most 32 bits, the low 32. The list ends with the last that is not 0.
    pub registers: &'a [Address],
    /// The low halves of xmm0 to xmm7 at the call: those that its prototype says are arguments, and the others 0. The list ends
    /// with the last that is not 0.
    pub xmm: &'a [Address],
    /// The result as text; null: it did not return.
    pub result: Option<&'a str>,
    /// The register of the result; null: it did not return. Of a result of at most 32 bits, the low 32.
    pub rax: Option<Address>,
    /// The register of a floating-point result; null: it did not return.
    pub xmm0: Option<Address>,
    /// The script's line; null: none.
    pub place: Option<Place<'a>>,
    /// The line of the library that `place` called through: the nearest frame of all; null: `place` is the nearest.
    pub library: Option<Place<'a>>,
    /// With `-w`: the frames around it, the caller first, as text.
    pub callers: &'a [String],
}

/// Where the calls of a row come from.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Site<'a> {
    /// The application's line; null: none.
    pub place: Option<Place<'a>>,
    /// Where no line of the application makes the call: the nearest line of a library, with the end of its path; null: none, or `place` is
    /// there.
    pub library: Option<Place<'a>>,
    /// Of the presets `files` and `alloc` where no script makes the call, as far as native frames are asked for: those around it, the caller
    /// first.
    pub callers: &'a [String],
}

/// Calls of one function from one place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Row<'a> {
    /// The name of the function that is called.
    pub function: &'a str,
    /// Where the script calls it.
    #[serde(flatten)]
    pub site: Site<'a>,
    /// How many calls.
    pub calls: u64,
    /// How many of them were left without a return, by an exception or a jump or by the end of their process; they have no time.
    pub left: u64,
    /// How many failed; 0 where results say nothing, and in the table of a recording without `--sort failed`.
    pub failed: u64,
    /// Bytes moved or asked for; 0 as above.
    pub bytes: u64,
    /// Rows of statements; 0 as above.
    pub rows: u64,
    /// The time of those that returned; null here and below: no time is known, because none has returned, or the returns of the
    /// function are not hooked (`swapcontext`).
    pub total_ns: Option<u64>,
    /// The mean.
    pub mean_ns: Option<u64>,
    /// Half of them took at most so long: the upper bound of a bucket, at most a quarter too high.
    pub p50_ns: Option<u64>,
    /// 95 percent of them took at most so long.
    pub p95_ns: Option<u64>,
    /// 99 percent of them took at most so long.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// How many took how long: a list of `[from, to, calls]`, times in nanoseconds, those without calls left out.
    pub buckets: Vec<[u64; 3]>,
}
