//! What the reader of rings returns: calls and returns, script lines, counts, losses. Used by `rings`, `figures` and
//! others here, and by the crates `calls`, `report` and `lancet`.

use std::fmt;
use wire::calls::NO_APPLICATION_TEXT;

/// A record that was read from a ring. What follows the fixed part of the record (floating-point registers, captured
/// bytes) comes beside it, as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingEvent {
    /// The kernel's id of the thread, in the PID namespace of the process.
    pub tid: u32,
    /// The number of the ring. Each thread pointer has one, so it tells threads apart that had the same id one after
    /// the other.
    pub ring: u32,
    /// When the record was written: the time-stamp counter.
    pub ticks: u64,
    /// What the record says, decoded.
    pub kind: RingEventKind,
}

/// The content of a [`RingEvent`], by the kind of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEventKind {
    /// A function was called.
    Call {
        /// The number of its hook.
        hook: u32,
        /// The script line that called, as an index into [`super::Rings::places`].
        place: Option<usize>,
        /// The line of the innermost script frame, if that is a library's and `place` is a line further out.
        library: Option<usize>,
        /// The stack pointer at the call: tells this call from all others of its ring until it returns.
        frame: u64,
        /// The return address of the call.
        caller: u64,
        /// rdi, rsi, rdx, rcx, r8, r9, rax at the call.
        registers: [u64; 7],
    },
    /// A function that was called before has returned.
    Return {
        /// The number of its hook.
        hook: u32,
        /// The stack pointer at the call: the same as in its [`RingEventKind::Call`].
        frame: u64,
        /// rax and rdx at the return.
        registers: [u64; 2],
        /// How many of the words after xmm0 and xmm1 are of st(0) and st(1).
        x87: usize,
    },
    /// The thread has made a child, which has a copy of the calls that have not returned yet.
    Forked {
        /// The id of the child in the PID namespace of the process.
        child: u32,
    },
}

/// A line of a script, in the function that was running.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The file as the VM has it.
    pub path: String,
    /// The line in the file, from 1; 0 = the VM has none.
    pub line: u32,
    /// The method or function.
    pub name: String,
}

impl Line {
    /// The line that is reported where no line of the application exists; `library` is the nearest line of a library.
    pub(super) fn of_no_application(library: &Line) -> Self {
        let beside = vm::library::within(&library.path);
        Line {
            path: format!("{NO_APPLICATION_TEXT} ({beside}:{})", library.line),
            line: 0,
            name: String::new(),
        }
    }

    /// The line that is reported where no line of the application exists and no library's line is known.
    pub fn none() -> Self {
        Line {
            path: NO_APPLICATION_TEXT.into(),
            line: 0,
            name: String::new(),
        }
    }

    /// Whether it stands for the missing line of the application.
    pub fn is_of_no_application(&self) -> bool {
        self.line == 0 && self.path.starts_with(NO_APPLICATION_TEXT)
    }

    /// Whether it stands for the missing line of the application and names a library's line.
    pub fn names_library(&self) -> bool {
        self.is_of_no_application() && self.path.len() > NO_APPLICATION_TEXT.len()
    }

    /// Of one that stands for the missing line of the application, the library's line: its path as far as it is told, and its number.
    pub fn library(&self) -> Option<(&str, u32)> {
        let beside = self.path.strip_prefix(NO_APPLICATION_TEXT)?;
        let place = beside.strip_prefix(" (")?.strip_suffix(')')?;
        let (path, line) = place.rsplit_once(':')?;
        Some((path, line.parse().ok()?))
    }

    /// Returns the text that conditions on lines test.
    pub fn tested(&self) -> String {
        if self.is_of_no_application() {
            NO_APPLICATION_TEXT.into()
        } else {
            self.to_string()
        }
    }
}

/// Writes `app.rb:12 in 'show'`, or only the path where there is no line.
impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { path, line, name } = self;
        out.write_str(path)?;
        // The frame in which Ruby calls a library's `Init_` function has no line.
        if *line != 0 {
            write!(out, ":{line}")?;
            if !name.is_empty() {
                write!(out, " in '{name}'")?;
            }
        }
        Ok(())
    }
}

/// What was counted of one function and line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The number of its hook; of a system call it may be that of the place that makes it
    /// ([`Tracing::system_call_places`](crate::Tracing::system_call_places)).
    pub hook: u32,
    /// The line, as for [`RingEventKind::Call`].
    pub place: Option<usize>,
    /// How many calls have returned.
    pub returned: u64,
    /// Number of calls that were left without a return: by an exception or a jump, or by the end of the process.
    pub left: u64,
    /// Cycles of the time-stamp counter that the calls that have returned took together.
    pub total: u64,
    /// Cycles that the longest call took.
    pub longest: u64,
    /// Cycles that the shortest call took; 0 = none has returned.
    pub shortest: u64,
    /// Calls that have returned an error, as far as their hook tells it.
    pub errors: u64,
    /// Bytes that they have moved or got, as far as their hook tells it.
    pub bytes: u64,
    /// Numbers of calls by duration, see [`wire::calls::bucket`]: those buckets that have any, by rising number.
    pub buckets: Vec<(u8, u64)>,
}

/// How much was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records that found no room in their ring.
    pub records: u64,
    /// Calls by threads that have no ring.
    pub without_ring: u64,
    /// Calls that found no room in a table of counts.
    pub uncounted: u64,
    /// Script lines that were not kept, because there were too many; calls from there are told without their line.
    pub lines: u64,
    /// Hooks that have panicked: a fault of the agent. Nothing is recorded from the first on, until the next session.
    pub panics: u64,
    /// Pieces of memory that arguments lead to and that could not be copied, because a seccomp filter or the kernel does not
    /// allow `process_vm_readv`.
    pub uncopied: u64,
}

impl Losses {
    /// The sum of all losses.
    pub fn sum(&self) -> u64 {
        [
            self.without_ring,
            self.uncounted,
            self.lines,
            self.panics,
            self.uncopied,
        ]
        .into_iter()
        .fold(self.records, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_line_of_the_application_says_whether_it_names_a_library() {
        let none = Line::none();
        let of = |path: String, line| Line {
            path,
            line,
            ..Line::none()
        };
        let through = of(format!("{NO_APPLICATION_TEXT} (through pg.rb:7)"), 0);
        let own = of("app.rb".into(), 7);
        let said = |line: &Line| (line.is_of_no_application(), line.names_library());
        assert_eq!(
            [&none, &through, &own].map(said),
            [(true, false), (true, true), (false, false)]
        );
        assert_eq!(
            [&none, &through].map(Line::tested),
            [NO_APPLICATION_TEXT; 2]
        );
        assert!(own.tested().starts_with("app.rb:7"));
        let beside = Line::of_no_application(&own);
        assert_eq!(beside.library(), Some(("app.rb", 7)));
        assert_eq!([&none, &own].map(Line::library), [None; 2]);
    }
}
