//! The events of a guest, in the one form used from the reader of its rings to an output format or a file. Used by
//! `codec::decode`, `codec::parts` and others here, and by the crates `calls` and `report`.
//!
//! Many events name the same things: a process, a call edge, a script line, a native frame. In memory an event refers
//! to them by a pointer, in a file by a number; that is the only difference between the two, and the type parameters
//! below. Without them (`Event`, `Call`, `At`) the types are those of a file.

use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use std::time::Duration;

/// Something that happened in a guest. `P` names the process, `C` is a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub struct Event<P = u32, C = Call> {
    /// The event's origin: process, thread, stack and time.
    pub at: At<P>,
    /// What kind of event it is.
    pub kind: EventKind<C>,
}

/// The origin of an event: which process, thread, ring and stack, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At<P = u32> {
    /// The process: its id in memory, its number in a file.
    pub process: P,
    /// The thread's id: in the PID namespace of its process if a hook has told of it, in that of the command if its tracer
    /// or BPF has.
    pub tid: u32,
    /// Number of the ring among those of the process: there is one for each thread pointer.
    pub ring: u32,
    /// The stack that the thread ran on: the address at which its mapping began when it was first seen.
    pub stack: u64,
    /// The stack pointer above the return address. It names a call within its ring until that call returns.
    pub frame: u64,
    /// Time since 1970-01-01, UTC, in nanoseconds.
    pub time: Duration,
}

impl<P> At<P> {
    /// Returns the same origin with another name for the process.
    #[must_use]
    pub fn named<Q>(self, process: Q) -> At<Q> {
        At {
            process,
            tid: self.tid,
            ring: self.ring,
            stack: self.stack,
            frame: self.frame,
            time: self.time,
        }
    }

    /// Returns the nanoseconds since 1970-01-01, UTC.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.time.as_nanos() as u64
    }
}

/// The kinds of events. `C` is a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind<C = Call> {
    /// A process was opened; this comes before all other events of it. A file has a [`Guest`](crate::Guest) in its
    /// place.
    Opened(Opened),
    /// A function was called.
    Call(C),
    /// A call returned; its frame is that of the [`At`].
    Return(Return),
    /// This signal came for a program that lancet started.
    Signal(Signal),
    /// The process forked this child, which has a copy of its open calls.
    Forked(i32),
    /// Another event of one thread. Not recorded, because only a tracer sees it.
    Thread(OfThread),
    /// The process has ended.
    Ended(End),
}

/// A signal that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// The number of the signal (signal(7)).
    pub number: i32,
    /// The first [`Signal::INFORMATION`] bytes of its `siginfo_t` (include/uapi/asm-generic/siginfo.h); empty = unknown.
    pub information: Vec<u8>,
    /// The address at which its thread stood; `None` = unknown. It is not recorded.
    pub instruction: Option<u64>,
}

impl Signal {
    /// Bytes of a `siginfo_t` that mean something for any signal.
    pub const INFORMATION: usize = 48;
}

/// What is known of a process when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Words of its command line.
    pub command: Vec<String>,
    /// The language whose lines its calls have, with its version; empty = none.
    pub vm: String,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ended by itself, with this exit code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It is not known: lancet is not its parent, and the process reported nothing.
    Unknown,
    /// It runs another program now, whether that is followed or not.
    Replaced,
}

/// An event of one thread that a tracer sees, other than its calls and signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfThread {
    /// It was made by another thread or process.
    Began,
    /// It has ended by itself, or because its process did, with this exit code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It was the main thread, and this thread of its process has executed another program and received its id.
    Superseded(i32),
    /// Its tracer has left it, and its process, at its exec.
    Left,
    /// It is stopped with its whole process, because of this signal.
    Stopped(i32),
}

/// A call. `E` names its call edge, `L` a script line, `F` a native frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call<E = u32, L = u32, F = u32> {
    /// The call edge: from which module to which function.
    pub edge: E,
    /// The return address of the call.
    pub caller: u64,
    /// Registers that hold its arguments. In a file, `stack` is the frame of the [`At`].
    pub registers: Registers,
    /// Copies of the memory that its arguments point to.
    pub captures: Captures,
    /// The script's line that it was called from.
    pub line: Option<L>,
    /// The line of the library that it was called through, if `line` is one of the application further out.
    pub library: Option<L>,
    /// The native frames around it, the caller first.
    pub callers: Vec<F>,
}

/// The return of a call, which its [`At`] names by the frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Return {
    /// Registers that hold what was returned.
    pub returned: Returned,
    /// Copies of the memory that the result and late arguments point to; they overlay the call's copies.
    pub captures: Captures,
}
