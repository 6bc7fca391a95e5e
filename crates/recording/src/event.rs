//! The one form of what happens in a guest, from the reader of its rings to a format or a file.
//!
//! Many events name the same things: a process, a call edge, a script line, a native frame. In memory an event refers to
//! them by a pointer, in a file by a number; that is the only difference between the two, and the type parameters below.
//! Without them (`Event`, `Call`, `At`) the types are those of a file.

use prototypes::Captures;
use prototypes::capture::{Registers, Returned};
use std::time::Duration;

/// Something that happened in a guest. `P` names the process, `C` is a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub struct Event<P = u32, C = Call> {
    /// Where and when.
    pub at: At<P>,
    /// What happened.
    pub kind: EventKind<C>,
}

/// Where and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At<P = u32> {
    /// The process: its id in memory, its number in a file.
    pub process: P,
    /// The thread, as the kernel numbers it.
    pub tid: u32,
    /// Which ring of that process: there is one for each thread pointer.
    pub ring: u32,
    /// The stack it runs on, by number: where its mapping began when it was first seen.
    pub stack: u64,
    /// The stack pointer above the return address. Names a call within its ring until it returns.
    pub frame: u64,
    /// Since 1970, to the nanosecond.
    pub time: Duration,
}

impl<P> At<P> {
    /// The same with another name for the process.
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

    /// Nanoseconds since 1970.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.time.as_nanos() as u64
    }
}

/// What happened. `C` is a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind<C = Call> {
    /// A process was opened; comes before all else of it. A file has a [`Guest`](crate::Guest) in its place.
    Opened(Opened),
    /// A function was called.
    Call(C),
    /// It returned.
    Return(Return),
    /// A signal came for a program that we started.
    Signal(i32),
    /// The process has this child, with a copy of its open calls.
    Forked(i32),
    /// The process has ended.
    Ended(End),
}

/// What is known of a process when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Its command line.
    pub command: Vec<String>,
    /// The language whose lines its calls have, and its version; empty = none.
    pub vm: String,
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

/// A call. `E` names its call edge, `L` a script line, `F` a native frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call<E = u32, L = u32, F = u32> {
    /// From which module to which function.
    pub edge: E,
    /// The return address.
    pub caller: u64,
    /// Its arguments. In a file, `stack` is the frame of the [`At`].
    pub registers: Registers,
    /// What they point to.
    pub captures: Captures,
    /// The script's line.
    pub line: Option<L>,
    /// The line of the library that it called through, if `line` is the application's, further out.
    pub library: Option<L>,
    /// The native frames around it, the caller first.
    pub callers: Vec<F>,
}

impl Call {
    /// The numbers in it.
    #[must_use]
    pub fn numbers(&self) -> Numbers<'_> {
        Numbers {
            edge: self.edge,
            line: self.line,
            library: self.library,
            callers: &self.callers,
        }
    }
}

/// A return.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Return {
    /// What it returns.
    pub returned: Returned,
    /// What that and late arguments point to, to be laid over the call's.
    pub captures: Captures,
}

/// The numbers by which a call that is written names what other calls name, too ([`Writer::call`](crate::Writer::call)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers<'a> {
    /// Of its call edge.
    pub edge: u32,
    /// Of the script's line.
    pub line: Option<u32>,
    /// Of the library's line.
    pub library: Option<u32>,
    /// Of the native frames around it, the caller first.
    pub callers: &'a [u32],
}
