//! What the reader of lanes hands on.

use std::fmt;

/// What a lane tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The kernel's id of the thread.
    pub tid: u32,
    /// Which lane: one for each thread pointer.
    pub lane: u32,
    /// Time-stamp counter.
    pub ticks: u64,
    /// What.
    pub what: What,
}

/// See [`Told`]. What follows the fixed part of a record (floating-point registers, captures) comes beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A function was called.
    Call {
        /// The number of its hook.
        hook: u32,
        /// The script line that called, as an index into [`super::Lanes::places`].
        place: Option<usize>,
        /// The line of the library that it called through, if `place` stands further out: the nearest of all.
        library: Option<usize>,
        /// Names this call in its lane until it returns.
        frame: u64,
        /// The return address.
        caller: u64,
        /// rdi, rsi, rdx, rcx, r8, r9, rax.
        registers: [u64; 7],
    },
    /// It returned.
    Return {
        /// The number of its hook.
        hook: u32,
        /// See `Call`.
        frame: u64,
        /// rax, rdx.
        registers: [u64; 2],
        /// How many words, behind xmm0 and xmm1, are of st(0) and st(1).
        x87: usize,
    },
    /// The thread has made a child, which has a copy of the calls that are open here.
    Forked {
        /// The child, as the guest numbers it.
        child: u32,
    },
}

/// A script line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The file as the VM has it.
    pub path: String,
    /// From 1; 0 = the VM has none.
    pub line: u32,
    /// The method or function.
    pub name: String,
}

/// `app.rb:12 in 'show'`.
impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { path, line, name } = self;
        out.write_str(path)?;
        // The empty frame in which the VM calls a library's `Init_` has none.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The number of its hook.
    pub hook: u32,
    /// The line, as for [`What::Call`].
    pub place: Option<usize>,
    /// Calls, cycles of all, of the longest, of the shortest.
    pub figures: [u64; 4],
    /// Calls by duration, see [`wire::calls::bucket`].
    pub buckets: Vec<u32>,
}

/// What got lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records that found no room in their lane.
    pub records: u64,
    /// Calls by threads that have no lane.
    pub unlaned: u64,
    /// Calls that found no room in a table of counts.
    pub uncounted: u64,
}

impl Losses {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.records + self.unlaned + self.uncounted
    }
}
