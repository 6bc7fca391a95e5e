//! Finds the line of a point whose statement extends over several.
//!
//! Perl notes where it is once a statement, at an operation `nextstate` (a `struct cop`). Where a
//! block needs no scope of its own the `nextstate` inside it is switched off when the program is
//! compiled: the operation stays in the tree, with its line, but never runs. `caller`, `warn` and `die`
//! find such lines by looking for the present operation in the tree of the statement and taking the
//! last switched-off `nextstate` on the way to it (`Perl_closest_cop`, `util.c`):
//!
//! ```text
//!   nextstate (line 1)            ← place.cop
//!   and                           ← its sibling: the statement's tree, looked through in order
//!   ├─ condition
//!   └─ scope
//!      ├─ ex-nextstate (line 2)   ← the last one before …
//!      └─ entersub                ← … place.op
//! ```
//!
//! The tree needs no stack to be walked: the last child's `op_sibparent` is its parent
//! (`op_moresib` is 0 there; `op.h`). Offsets: `struct op`, `op.h`, the same in all versions.

use super::interpreter::Point;
use super::name::{CODE_FLAGS, CODE_START};
use super::stash::IS_XSUB;
use super::{Perl, Text};
use crate::{Fault, Memory};

/// `op_next`, `op_sibparent`, `op_targ`, the word with `op_type`, `op_flags` of `struct op`, and
/// `op_first` of `struct unop`.
const NEXT: usize = 0;
const SIBPARENT: usize = 8;
const TARG: usize = 24;
const TYPE: usize = 32;
const FLAGS: usize = 34;
const FIRST: usize = 40;
const SIZE: usize = 48;

/// `op_type` has nine bits; bit 14 is `op_moresib`.
const TYPE_BITS: u16 = 0x1ff;
const MORE_SIBLINGS: u16 = 1 << 14;

/// `OPf_KIDS` in `op_flags`: the operation has children.
const KIDS: u8 = 4;

/// `OP_NULL`, the number of an operation that was switched off.
const NULL: u16 = 0;

/// Operations that are looked at for one line. A longer search is given up, as if nothing had been found: the line is
/// then the one on which the statement begins.
const MOST_OPS: u32 = 1 << 14;

/// The fields of an operation that are read.
struct Op {
    bytes: [u8; SIZE],
}

impl Op {
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(word)
    }

    fn bits(&self) -> u16 {
        u16::from_le_bytes([self.bytes[TYPE], self.bytes[TYPE + 1]])
    }

    fn kind(&self) -> u16 {
        self.bits() & TYPE_BITS
    }

    fn sibling(&self) -> Option<u64> {
        let at = self.word(SIBPARENT);
        (self.bits() & MORE_SIBLINGS != 0 && at != 0).then_some(at)
    }

    fn parent(&self) -> Option<u64> {
        let at = self.word(SIBPARENT);
        (self.bits() & MORE_SIBLINGS == 0 && at != 0).then_some(at)
    }

    fn first(&self) -> Option<u64> {
        let at = self.word(FIRST);
        (self.bytes[FLAGS] & KIDS != 0 && at != 0).then_some(at)
    }
}

impl<M: Memory> Perl<'_, M> {
    /// Returns the line of a point, as `caller`, `warn` and `die` do.
    ///
    /// This walks over the operations of the statement up to the point, most often a handful; a caller in a hot path
    /// should keep the answer by the [`Point`].
    pub fn line(&self, point: Point) -> Result<u32, Fault> {
        self.statement_line(Point {
            cop: self.closest(point)?.unwrap_or(point.cop),
            ..point
        })
    }

    /// Returns file and line of a point.
    pub fn position(&self, point: Point) -> Result<(Text, u32), super::Error> {
        Ok((self.file(point)?, self.line(point)?))
    }

    /// Returns the point at which the first statement of a sub stands; `None` for a sub that is written in C, is only declared, or begins with
    /// no statement.
    pub fn first_statement(&self, code: u64) -> Result<Option<Point>, Fault> {
        let body = self.body(code)?;
        if self.memory.u32(body.wrapping_add(CODE_FLAGS))? & IS_XSUB != 0 {
            return Ok(None);
        }
        let start = self.memory.u64(body.wrapping_add(CODE_START))?;
        if start == 0 {
            return Ok(None);
        }
        let kind = self.op(start)?.kind();
        // OP_DBSTATE, which programs have under a debugger, follows OP_NEXTSTATE.
        let is_statement = (0..=1).contains(&kind.wrapping_sub(self.layout.op_nextstate));
        Ok(is_statement.then_some(Point {
            cop: start,
            op: 0,
            after: false,
        }))
    }

    /// Returns the statement that an operation belongs to, as `Perl_closest_cop` does.
    fn closest(&self, point: Point) -> Result<Option<u64>, Fault> {
        let mut search = Search {
            perl: self,
            left: MOST_OPS,
        };
        match point.op {
            0 => Ok(None),
            _ => search.closest(point),
        }
    }

    /// Reads the operation at an address. Every operation but the smallest has 48 bytes or more; the smallest (`struct
    /// op`, 40) has no kids, so the last word is read only where there is one.
    fn op(&self, at: u64) -> Result<Op, Fault> {
        let mut bytes = [0; SIZE];
        self.memory.read(at, &mut bytes[..FIRST])?;
        if bytes[FLAGS] & KIDS != 0 {
            let first = self.memory.u64(at.wrapping_add(FIRST as u64))?;
            bytes[FIRST..].copy_from_slice(&first.to_le_bytes());
        }
        Ok(Op { bytes })
    }
}

/// A search through one statement, which ends when it has looked at too many operations.
struct Search<'s, 'm, M> {
    perl: &'s Perl<'m, M>,
    left: u32,
}

impl<M: Memory> Search<'_, '_, M> {
    fn op(&mut self, at: u64) -> Result<Option<Op>, Fault> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        self.perl.op(at).map(Some)
    }

    fn closest(&mut self, point: Point) -> Result<Option<u64>, Fault> {
        let Some(root) = self.op(point.cop)?.and_then(|op| op.sibling()) else {
            return Ok(None);
        };
        let mut at = root;
        while let Some(op) = self.op(at)? {
            let found = if point.after {
                op.word(NEXT) == point.op && op.kind() != self.perl.layout.op_scope
            } else {
                at == point.op
            };
            if found {
                return self.last_switched_off(root, at);
            }
            at = match op.first() {
                Some(kid) => kid,
                None => match self.following(root, at, op)? {
                    Some(next) => next,
                    None => break,
                },
            };
        }
        Ok(None)
    }

    /// Returns the operation after a childless one in the order of the tree under `root`.
    fn following(&mut self, root: u64, mut at: u64, mut op: Op) -> Result<Option<u64>, Fault> {
        while at != root {
            if let Some(next) = op.sibling() {
                return Ok(Some(next));
            }
            let Some(parent) = op.parent() else { break };
            let Some(up) = self.op(parent)? else { break };
            (at, op) = (parent, up);
        }
        Ok(None)
    }

    /// Returns the last switched-off `nextstate` among the elder siblings of `at` and itself, or else among those of
    /// its parent, and so on up to `root`.
    fn last_switched_off(&mut self, root: u64, mut at: u64) -> Result<Option<u64>, Fault> {
        while at != root {
            let Some(parent) = self.parent_of(at)? else {
                break;
            };
            let mut found = None;
            let mut kid = self.op(parent)?.and_then(|op| op.first());
            while let Some(here) = kid {
                let Some(op) = self.op(here)? else {
                    return Ok(None);
                };
                if op.kind() == NULL && op.word(TARG) == self.perl.layout.op_nextstate.into() {
                    found = Some(here);
                }
                kid = if here == at { None } else { op.sibling() };
            }
            if found.is_some() {
                return Ok(found);
            }
            at = parent;
        }
        Ok(None)
    }

    fn parent_of(&mut self, mut at: u64) -> Result<Option<u64>, Fault> {
        while let Some(op) = self.op(at)? {
            match op.sibling() {
                Some(next) => at = next,
                None => return Ok(op.parent()),
            }
        }
        Ok(None)
    }
}
