//! Frames: which Python code is running. Used by `code`, `generator` and others here, and by the crates `languages` and
//! `agent`.
//!
//! A thread state leads to its innermost frame, and each frame to its caller's. How frames belong to
//! activations of `_PyEval_EvalFrameDefault`, so to frames of the C stack, changed twice:
//!
//! ```text
//!   3.9, 3.10    tstate ─▶ frame ─▶ frame ─▶ frame              PyFrameObject, one activation each
//!
//!   3.11         tstate ─▶ cframe ────────────▶ cframe          _PyCFrame, one in each activation
//!                            └─▶ frame ─▶ frame*  └─▶ frame*    * is_entry: the outermost of its one
//!
//!   since 3.12   tstate ─▶ frame ─▶ frame ─▶ shim ─▶ frame ─▶ shim      a shim lies in each activation
//! ```
//!
//! Since 3.11 a Python function called from Python code runs in its caller's activation, a generator's
//! too since 3.12.
//!
//! A frame is *incomplete* until its first traceable instruction (`_PyFrame_IsIncomplete`,
//! `pycore_frame.h`), and `sys._getframe` and tracebacks leave it out; so do frames that the interpreter
//! pushes for itself, as around `__init__` since 3.12, which never get there. Frames of generators are
//! always complete.
//!
//! # The instruction
//!
//! `f_lasti`, `prev_instr` and `instr_ptr` are written back by the interpreter before each instruction
//! that can call anything, so a frame read in a function it calls is exact. `prev_instr` may stand in the
//! inline cache of a call, which belongs to the same line.
//!
//! Since 3.14, without the GIL, each thread runs a copy of the instructions of its own, because it changes them while they run. Where an
//! instruction is in its copy, it is in the code object:
//!
//! ```text
//!   frame:  │ … │ instr_ptr │ … │ tlbc_index │ …
//!                    │                └────────────┐
//!   code:   │ … │ co_tlbc ─▶ │ size │ entries[0] │ entries[1] │ …
//!                    ▼                     │            └─▶ │ copy … │
//!           │ co_code_adaptive … ◀─────────┘
//! ```

use core::ops::Range;

use super::chain::Chain;
use super::layout::{Copies, Kind};
use super::object::TAG;
use super::{Error, Python};
use crate::{Fault, Memory};

/// In `owner` of a `_PyInterpreterFrame`: `FRAME_OWNED_BY_GENERATOR`, the frame lies in a generator.
pub(super) const OWNED_BY_GENERATOR: u8 = 1;
/// `FRAME_OWNED_BY_CSTACK`; 3.14: `FRAME_OWNED_BY_INTERPRETER`, and above it `FRAME_OWNED_BY_CSTACK`.
pub(super) const SHIM: u8 = 3;

/// From `_co_firsttraceable` to what is behind `co_extra`, in all versions that have them.
const FIRST_TRACEABLE: u64 = 16;
/// `entries` in `_PyCodeArray` (`cpython/code.h`), behind their number.
const ENTRIES: u64 = 8;
/// Copies of one function's instructions, one for each thread that has run it; and how many of them are looked through for a frame.
const MOST_COPIES: u64 = 1 << 20;
const MOST_SEARCHED: u64 = 1 << 8;

/// Bytes of an instruction, `sizeof(_Py_CODEUNIT)`.
pub(super) const UNIT: i64 = 2;

/// Frames in a row that the interpreter hides; there are never more than a few.
const MOST_HIDDEN: u32 = 64;

/// Frames of a thread whose layout has no table, hidden ones and shims among them, at most.
const MOST_WITHOUT_TABLE: u64 = 1 << 16;

/// A point in code, which has one line and may key a cache of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// Address of the code object.
    pub code: u64,
    /// Offset of the instruction in bytes from the first, as `f_lasti` in Python; negative if none has run.
    pub lasti: i32,
}

/// A point that a thread has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Of the innermost frame that is complete.
    pub point: Point,
    /// Whether all frames are complete at this point. At any other one only those of generators are.
    pub is_traceable: bool,
}

/// A frame of Python code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its `_PyInterpreterFrame`, before 3.11 its `PyFrameObject`.
    pub address: u64,
    /// The point that it has reached.
    pub point: Point,
    /// Whether it is the outermost frame of an activation of `_PyEval_EvalFrameDefault`: the native frame
    /// of that function belongs just outside of it.
    pub entry: bool,
    /// An address within the native frame of that function, if it is the outermost, and since 3.11;
    /// otherwise 0. A native stack is merged by it without counting.
    pub native: u64,
}

/// The frames of a thread, innermost first; made by [`Python::frames`].
pub struct Frames<'p, 'a, M> {
    python: &'p Python<'a, M>,
    chain: Chain,
    /// 3.11: the `_PyCFrame` of the activation that the next frame belongs to.
    cframe: u64,
    /// The C stack of a parked greenlet, which has its shims.
    stack: Range<u64>,
}

/// What the interpreter notes about the owner of a frame.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub owner: u8,
    entry: bool,
}

impl<M: Memory> Iterator for Frames<'_, '_, M> {
    type Item = Result<Frame, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.advance().transpose();
        if matches!(found, Some(Err(_))) {
            self.chain.end();
        }
        found
    }
}

impl<'p, 'a, M: Memory> Frames<'p, 'a, M> {
    /// Walks the frames of code that no thread runs now; `stack` is that of a greenlet, or empty.
    pub(super) fn parked(
        python: &'p Python<'a, M>,
        chain: Chain,
        stack: Range<u64>,
    ) -> Frames<'p, 'a, M> {
        Frames {
            python,
            chain,
            cframe: 0,
            stack,
        }
    }

    fn advance(&mut self) -> Result<Option<Frame>, Error> {
        let python = self.python;
        while let Some(address) = self
            .chain
            .step(python.memory, python.layout.frame.previous)?
        {
            let owner = python.owner(address)?;
            let mut frame = Frame {
                address,
                point: Point { code: 0, lasti: -1 },
                entry: owner.entry,
                native: 0,
            };
            match python.layout.frame.kind {
                Kind::Objects(_) => {}
                Kind::Marked { current, .. } => {
                    // There is none where a greenlet is parked.
                    if owner.entry && self.cframe != 0 {
                        frame.native = self.cframe;
                        let outer = self.cframe.wrapping_add(current).wrapping_add(8);
                        self.cframe = python.memory.u64(outer)?;
                    }
                }
                Kind::Shims { .. } => {
                    if owner.owner >= SHIM {
                        continue;
                    }
                    let previous = self.chain.peek()?;
                    if previous != 0 && python.owner(previous)?.owner >= SHIM {
                        frame.entry = true;
                        frame.native = previous;
                    } else if let Some(shim) = python.shim_taken_out(address, &self.stack) {
                        frame.entry = true;
                        frame.native = shim;
                    }
                }
            }
            if let Some(Reached { point, .. }) = python.point_of(address, owner)? {
                frame.point = point;
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

impl<M: Memory> Python<'_, M> {
    /// Returns the frames of the thread whose `PyThreadState` is at `state`, innermost first.
    pub fn frames(&self, state: u64) -> Frames<'_, '_, M> {
        let cframe = match self.layout.frame.kind {
            Kind::Marked { .. } => self
                .memory
                .u64(state.wrapping_add(self.layout.thread.frame))
                .unwrap_or(0),
            _ => 0,
        };
        Frames {
            python: self,
            chain: self.frame_chain(state),
            cframe,
            stack: 0..0,
        }
    }

    /// The frames of a thread as they lie, with hidden ones and shims. Without a table the layout is only proven for what it was held
    /// against, so there is a limit.
    pub(super) fn frame_chain(&self, state: u64) -> Chain {
        let chain = Chain::new(self.innermost(state));
        match self.facts.has_table() {
            true => chain,
            false => chain.at_most(MOST_WITHOUT_TABLE),
        }
    }

    /// Returns the point at which the thread whose `PyThreadState` is at `state` runs Python code; `None` if it runs
    /// none.
    ///
    /// With a [`Memory`] of plain loads it is one load for the frame (two in 3.11 and 3.12) and two for its code and
    /// instruction, and since 3.11 two more for whether it is complete.
    #[inline(always)]
    pub fn point(&self, state: u64) -> Result<Option<Point>, Error> {
        Ok(self.reached(state)?.map(|reached| reached.point))
    }

    /// The same, and whether frames that are no generator's are complete there.
    #[inline(always)]
    pub fn reached(&self, state: u64) -> Result<Option<Reached>, Error> {
        let mut address = self.innermost(state)?;
        for _ in 0..MOST_HIDDEN {
            if address == 0 {
                return Ok(None);
            }
            let owner = self.owner(address)?;
            if let Some(reached) = self.point_of(address, owner)? {
                return Ok(Some(reached));
            }
            address = self
                .memory
                .u64(address.wrapping_add(self.layout.frame.previous))?;
        }
        Err(Error::garbled("complete frame", address))
    }

    /// Returns the innermost frame, complete or not; 0 if there is none.
    #[inline(always)]
    fn innermost(&self, state: u64) -> Result<u64, Fault> {
        let frame = self
            .memory
            .u64(state.wrapping_add(self.layout.thread.frame))?;
        match self.layout.frame.kind {
            Kind::Marked { current, .. }
            | Kind::Shims {
                current: Some(current),
                ..
            } if frame != 0 => self.memory.u64(frame.wrapping_add(current)),
            _ => Ok(frame),
        }
    }

    #[inline(always)]
    pub(super) fn owner(&self, frame: u64) -> Result<Owner, Fault> {
        // One aligned word, not bytes: a word is what every `Memory` loads directly.
        let word = |offset: u64| self.memory.u32(frame.wrapping_add(offset & !3));
        Ok(match self.layout.frame.kind {
            Kind::Objects(_) => Owner {
                owner: 0,
                entry: true,
            },
            Kind::Marked { entry, .. } => {
                let marks = word(entry)? >> (entry % 4 * 8);
                Owner {
                    owner: (marks >> 8) as u8,
                    entry: marks & 0xff != 0,
                }
            }
            Kind::Shims { owner, .. } => Owner {
                owner: (word(owner)? >> (owner % 4 * 8)) as u8,
                entry: false,
            },
        })
    }

    /// Returns the point that a frame has reached, if the frame is complete.
    #[inline(always)]
    fn point_of(&self, frame: u64, owner: Owner) -> Result<Option<Reached>, Error> {
        if owner.owner >= SHIM {
            return Ok(None);
        }
        let layout = &self.layout.frame;
        // A tagged reference since 3.14.
        let code = self.memory.u64(frame.wrapping_add(layout.code))? & !TAG;
        let at = frame.wrapping_add(layout.instruction);
        if let Kind::Objects(unit) = layout.kind {
            let lasti = self.memory.u32(at)? as i32;
            return Ok(Some(Reached {
                point: Point {
                    code,
                    lasti: lasti.saturating_mul(unit),
                },
                is_traceable: true,
            }));
        }
        let point = self.point_in(frame, code)?;
        let is_traceable = i64::from(point.lasti) >= self.first_traceable(code)?;
        let is_complete = is_traceable || owner.owner == OWNED_BY_GENERATOR;
        Ok(is_complete.then_some(Reached {
            point,
            is_traceable,
        }))
    }

    /// Returns the point of a frame, complete or not, of this code; since 3.11.
    #[inline(always)]
    fn point_in(&self, frame: u64, code: u64) -> Result<Point, Error> {
        let begin = code.wrapping_add(self.layout.code.instructions);
        let at = frame.wrapping_add(self.layout.frame.instruction);
        let instruction = self.memory.u64(at)?;
        let lasti = match self.layout.code.copies {
            None => instruction.wrapping_sub(begin) as i64,
            Some(copies) => self.offset_in_copies(frame, code, instruction, copies)?,
        };
        let lasti = i32::try_from(lasti);
        let lasti = lasti.map_err(|_| Error::garbled("instruction of a frame", frame))?;
        Ok(Point { code, lasti })
    }

    /// Returns how far an instruction is behind the first one in the copy of the code that it lies in. Which copy a frame runs it says
    /// itself; but a thread that begins to run a copy of its own writes that and the instruction one after the other (`RESUME_CHECK`:
    /// `Python/bytecodes.c`), so where it lies elsewhere all copies are looked through.
    #[cold]
    fn offset_in_copies(
        &self,
        frame: u64,
        code: u64,
        instruction: u64,
        copies: Copies,
    ) -> Result<i64, Error> {
        let size = self.instructions_of(code)?;
        let within = |begin: u64| {
            let offset = instruction.wrapping_sub(begin);
            (offset <= size).then_some(offset.cast_signed())
        };
        if let Some(offset) = within(code.wrapping_add(self.layout.code.instructions)) {
            return Ok(offset);
        }
        let array = self.memory.u64(code.wrapping_add(copies.array))?;
        let count = match array {
            0 => 0,
            array => self.memory.u64(array)?.min(MOST_COPIES),
        };
        let entry = |index: u64| self.memory.u64(array.wrapping_add(ENTRIES + index * 8));
        let own = u64::from(self.memory.u32(frame.wrapping_add(copies.index))?);
        let own = (own < count).then_some(own);
        for index in own.into_iter().chain(0..count.min(MOST_SEARCHED)) {
            let begin = entry(index)?;
            // A thread that has not run it has none.
            if let Some(offset) = within(begin).filter(|_| begin != 0) {
                return Ok(offset);
            }
        }
        Err(Error::garbled("instruction of a frame", frame))
    }

    /// Returns the point of a frame that is no shim, and whether the frame is hidden there; since 3.12.
    pub(super) fn raw_point(&self, frame: u64, owner: Owner) -> Result<(Point, bool), Error> {
        let code = self
            .memory
            .u64(frame.wrapping_add(self.layout.frame.code))?
            & !TAG;
        let point = self.point_in(frame, code)?;
        Ok((point, self.point_of(frame, owner)?.is_none()))
    }

    /// The offset of the first traceable instruction of code, in bytes; since 3.11.
    #[inline(always)]
    pub(super) fn first_traceable(&self, code: u64) -> Result<i64, Fault> {
        let layout = &self.layout.code;
        let end = layout
            .copies
            .map_or(layout.instructions, |copies| copies.array);
        let at = code.wrapping_add(end).wrapping_sub(FIRST_TRACEABLE);
        let first = self.memory.u32(at)? as i32;
        Ok(i64::from(first) * UNIT)
    }
}
