//! The interpreter that a thread runs, and the point that it has reached. Used by `frames`, `script` and others here,
//! and by crate `languages`.
//!
//! A Perl with threads has an interpreter per thread (`struct interpreter`, `intrpvar.h`), which the
//! thread finds by `pthread_getspecific(PL_thr_key)` (`PERL_GET_CONTEXT`, `thread.h`). glibc keeps that
//! in the thread's descriptor, `struct pthread` (`nptl/descr.h`), which the thread pointer (the base
//! of segment fs) points to:
//!
//! ```text
//!   struct pthread
//!   ├─ specific − 512: specific_1stblock[32] = (seq, data) of the keys 0 to 31
//!   ├─ specific: struct pthread_key_data *specific[32]: one block of 32 keys each
//! ```

use super::{Error, Perl, Text};
use crate::{Fault, Memory, bytes};

/// Keys in a block, `PTHREAD_KEY_2NDLEVEL_SIZE`; size of one entry and place of its data.
const BLOCK: u64 = 32;
const ENTRY: u64 = 16;
const ENTRY_DATA: u64 = 8;

/// `Istack_sp`, `Iop` and `Istack_base` in `struct interpreter`: the same in all versions.
const STACK_SP: u64 = 0;
const OP: u64 = 8;
const STACK_BASE: u64 = 24;

/// `cop_line`, `cop_stashoff` (without threads `cop_stash`) and `cop_file` (without threads
/// `cop_filegv`) in `struct cop` (`cop.h`).
const COP_LINE: u64 = 36;
const COP_STASH: u64 = 40;
const COP_FILE: u64 = 48;

/// Bytes of a file name; a longer one is cut.
const LONGEST_FILE: u64 = 4096;

/// Bytes before the file in the name of a glob: without threads a file is known by the glob `_<` and its path.
const FILE_PREFIX: u64 = 2;

/// One interpreter: the addresses of its variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    pub(super) stack_sp: u64,
    pub(super) stack_base: u64,
    pub(super) markstack_ptr: u64,
    pub(super) op: u64,
    pub(super) curcop: u64,
    pub(super) curstackinfo: u64,
    pub(super) defstash: u64,
    /// Address of `PL_stashpad`; 0 without threads.
    pub(super) stashpad: u64,
}

/// A point in a program: a statement, and an operation in it.
///
/// It is two words, cheap to read and to compare. [`Perl::line`] finds the line, [`Perl::file`] the file. The same
/// words mean the same point until the code is freed, as code of `eval STRING` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The statement that was begun last, a `struct cop`.
    pub cop: u64,
    /// The operation in it, a `struct op`; 0 where it is not known.
    pub op: u64,
    /// Whether `op` is not the operation itself but the one that follows it, to which a call returns.
    pub after: bool,
}

impl<M: Memory> Perl<'_, M> {
    /// Returns the interpreter that the thread with this thread pointer (the base of segment fs) runs, or `None` if it
    /// runs no Perl. One or two loads.
    #[inline]
    pub fn interpreter(&self, thread_pointer: u64) -> Result<Option<Interpreter>, Fault> {
        if !self.facts.has_threads() {
            return Ok(Some(self.facts.variables()));
        }
        let key = self.facts.thread_key();
        let specific = thread_pointer.wrapping_add(self.facts.specific());
        let block = if key < BLOCK {
            specific.wrapping_sub(BLOCK * ENTRY)
        } else {
            match self.memory.u64(specific.wrapping_add(key / BLOCK * 8))? {
                0 => return Ok(None),
                block => block,
            }
        };
        let entry = block.wrapping_add(key % BLOCK * ENTRY);
        match self.memory.u64(entry.wrapping_add(ENTRY_DATA))? {
            0 => Ok(None),
            interpreter => Ok(Some(self.at(interpreter))),
        }
    }

    /// Returns the interpreter that was made first: the main thread's, where no thread pointer is at hand.
    pub fn main_interpreter(&self) -> Interpreter {
        if self.facts.has_threads() {
            self.at(self.facts.main())
        } else {
            self.facts.variables()
        }
    }

    /// Returns the interpreter that a `PerlInterpreter *` points to: the first argument of C code (`pTHX`) where Perl
    /// has threads.
    #[inline]
    pub fn at(&self, interpreter: u64) -> Interpreter {
        let member = |offset| interpreter.wrapping_add(offset);
        Interpreter {
            stack_sp: member(STACK_SP),
            stack_base: member(STACK_BASE),
            markstack_ptr: member(self.layout.markstack_ptr),
            op: member(OP),
            curcop: member(self.layout.curcop),
            curstackinfo: member(self.layout.curstackinfo),
            defstash: member(self.layout.defstash),
            stashpad: member(self.layout.stashpad),
        }
    }

    /// Returns the point that the interpreter has reached; two loads. `None` before the program has begun and after it
    /// has ended.
    #[inline]
    pub fn here(&self, interpreter: &Interpreter) -> Result<Option<Point>, Fault> {
        Ok(match self.memory.u64(interpreter.curcop)? {
            0 => None,
            cop => Some(Point {
                cop,
                op: self.memory.u64(interpreter.op)?,
                after: false,
            }),
        })
    }

    /// Returns the line on which the statement at a point begins: one load. [`line`](Perl::line) returns the line that
    /// Perl itself reports.
    #[inline]
    pub fn statement_line(&self, point: Point) -> Result<u32, Fault> {
        self.memory.u32(point.cop.wrapping_add(COP_LINE))
    }

    /// Returns the file of a point.
    pub fn file(&self, point: Point) -> Result<Text, Error> {
        let file = self.memory.u64(point.cop.wrapping_add(COP_FILE))?;
        if file == 0 {
            return Err(Error::garbled("file of a statement", point.cop));
        }
        if self.facts.has_threads() {
            return Ok(bytes::c_string(self.memory, file, LONGEST_FILE)?);
        }
        let name = self
            .glob_name(file)?
            .ok_or(Error::garbled("file of a statement", file))?;
        match name.len.checked_sub(FILE_PREFIX) {
            Some(len) => Ok(Text {
                address: name.address.wrapping_add(FILE_PREFIX),
                len,
                ..name
            }),
            None => Err(Error::garbled("file of a statement", file)),
        }
    }

    /// Returns a word that changes when the statement at a point becomes another: its line, package and file, mixed.
    /// Three loads. It is no proof, but an address would have to be used again for the same three.
    #[inline]
    pub fn witness(&self, point: Point) -> Result<u64, Fault> {
        let word = |offset: u64| self.memory.u64(point.cop.wrapping_add(offset));
        let (line, stash) = (self.statement_line(point)?, word(COP_STASH)?);
        Ok(word(COP_FILE)? ^ u64::from(line).rotate_left(21) ^ stash.rotate_left(42))
    }

    /// Returns the package that a point was compiled in; `None` if that is gone.
    pub fn package(&self, interpreter: &Interpreter, point: Point) -> Result<Option<Text>, Error> {
        let at = self.memory.u64(point.cop.wrapping_add(COP_STASH))?;
        let stash = if self.facts.has_threads() {
            let pad = self.memory.u64(interpreter.stashpad)?;
            self.memory.u64(pad.wrapping_add(at.wrapping_mul(8)))?
        } else {
            at
        };
        if stash == 0 {
            Ok(None)
        } else {
            self.stash_name(stash)
        }
    }
}
