//! Greenlets: coroutines of the module `greenlet`, which share a thread's C stack. A switch copies what the
//! other one needs of it to the heap; how much lies there is `_stack_saved`, and is paid at each switch. Used by
//! `languages::python::frames`.
//!
//! ```text
//!   to 1.1       PyGreenlet: │ object │ start │ stop │ copy │ saved │ prev │ parent │ run │ top_frame
//!                                     16      24     32     40      48     56       64    72
//!   since 2.0    PyGreenlet: │ object │ weakrefs │ dict │ pimpl ─▶ Greenlet (C++)
//!                                     16         24     32
//!   Greenlet:    │ vtable │ _self (since 3.1.1) │ exc_info │ exc_state │ args, kwargs │
//!                │ start │ stop │ copy │ saved │ prev │ context │ top_frame │ …
//! ```
//!
//! `greenlet.h` (0.4.17, 1.1.3, 2.0.2), `greenlet_greenlet.hpp` (2.0.2, 3.1.0), `TGreenlet.hpp` (3.1.1, 3.3.2).
//! `exc_state` is a `_PyErr_StackItem`: four words to 3.10, then two.
//!
//! Nobody lists greenlets, so all objects that the garbage collector knows are looked at.

use core::ops::Range;

use super::chain::Chain;
use super::frames::Frames;
use super::layout::Kind;
use super::object::BASIC_SIZE;
use super::{Error, Python};
use crate::Memory;

/// `tp_basicsize` of a greenlet's type since 2.0.
const SIZE_SINCE_2_0: u64 = 40;

/// `stack_start`, in a greenlet to 1.1; `pimpl`, since 2.0.
const STACK: u64 = 16;
const IMPLEMENTATION: u64 = 32;

/// From `stack_start` to `stack_stop`, `stack_copy`, `stack_saved`, and to `top_frame` (to 1.1; since).
const STOP: u64 = 8;
const COPY: u64 = 16;
const SAVED: u64 = 24;
const TOP_TO_1_1: u64 = 56;
const TOP: u64 = 48;

/// `f_frame` in `PyFrameObject`, since 3.11.
const INTERPRETER_FRAME: u64 = 24;

/// `frame_obj` in `_PyInterpreterFrame`, since 3.12. `_f_frame_data` is the last word of a `PyFrameObject`, which has
/// grown.
const FRAME_OBJECT: u64 = 48;

/// An object of class `greenlet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greenlet {
    /// Address of the object.
    pub address: u64,
    /// The part of the C stack it runs on, from the innermost address to the outermost; 0 for both before
    /// it has begun, 0 for the first when it has ended.
    pub stack: (u64, u64),
    /// Address of the copy of what is not on the stack now.
    pub copy: u64,
    /// Bytes of the copy, from the innermost on: `_stack_saved`.
    pub saved: u64,
    /// Its innermost frame object while it is parked, or 0: `gr_frame`.
    pub frame: u64,
}

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with each greenlet there is, subclasses and the main ones of threads included, and returns `false`
    /// if the module is not loaded. Every object of the process is looked at: a few loads a million times over.
    pub fn each_greenlet(
        &self,
        each: &mut dyn FnMut(Greenlet) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Some(base) = self.greenlet_class()? else {
            return Ok(false);
        };
        // Objects of one class come in groups.
        let mut last = (0, false);
        self.each_object(&mut |object, class| {
            if class != last.0 {
                last = (class, self.inherits(class, base)?);
            }
            if last.1 {
                each(self.read_greenlet(base, object)?)
            } else {
                Ok(())
            }
        })?;
        Ok(true)
    }

    /// Returns the class `greenlet.greenlet`; `None` if the module is not loaded.
    pub fn greenlet_class(&self) -> Result<Option<u64>, Error> {
        match self.lookup("greenlet.greenlet") {
            Ok(base) => Ok(Some(base)),
            Err(Error::Unknown { .. }) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Returns the greenlet at `object`, if that is one; `base` is the class.
    pub fn greenlet(&self, base: u64, object: u64) -> Result<Option<Greenlet>, Error> {
        if self.inherits(self.type_of(object)?, base)? {
            self.read_greenlet(base, object).map(Some)
        } else {
            Ok(None)
        }
    }

    fn read_greenlet(&self, base: u64, object: u64) -> Result<Greenlet, Error> {
        let size = self.memory.u64(base.wrapping_add(BASIC_SIZE))?;
        let (stack, top) = if size == SIZE_SINCE_2_0 {
            let inner = self.memory.u64(object.wrapping_add(IMPLEMENTATION))?;
            let itself = self.memory.u64(inner.wrapping_add(8))? == object;
            let exception = match self.layout.frame.kind {
                Kind::Objects(_) => 32,
                _ => 16,
            };
            let before = 8 + u64::from(itself) * 8 + 8 + exception + 16;
            (inner.wrapping_add(before), TOP)
        } else {
            (object.wrapping_add(STACK), TOP_TO_1_1)
        };
        let word = |offset: u64| self.memory.u64(stack.wrapping_add(offset));
        Ok(Greenlet {
            address: object,
            stack: (word(0)?, word(STOP)?),
            copy: word(COPY)?,
            saved: word(SAVED)?,
            frame: word(top)?,
        })
    }

    /// Returns the frames of a parked greenlet, innermost first. In 3.11 `native` is 0.
    pub fn greenlet_frames(&self, greenlet: &Greenlet) -> Frames<'_, '_, M> {
        let first = match (self.layout.frame.kind, greenlet.frame) {
            (Kind::Objects(_), frame) => Ok(frame),
            (_, 0) => Ok(0),
            (_, frame) => self.memory.u64(frame.wrapping_add(INTERPRETER_FRAME)),
        };
        let (start, end) = greenlet.stack;
        Frames::parked(self, Chain::new(first), start..end)
    }

    /// Returns the shim that belongs behind a frame of a greenlet with this C stack, since 3.12. While the greenlet is
    /// parked, the module takes the shims out of the chain, because they lie on a stack that others use, and keeps what
    /// led to them in the frame object (`PythonState::unexpose_frames`, `TPythonState.cpp`).
    pub(super) fn shim_taken_out(&self, frame: u64, stack: &Range<u64>) -> Option<u64> {
        let object = self.memory.u64(frame.wrapping_add(FRAME_OBJECT)).ok()?;
        let data = match self.layout.version {
            (3, 12) => 48,
            (3, 13) => 64,
            _ => 72,
        };
        let kept = self.memory.u64(object.wrapping_add(data)).ok()?;
        stack.contains(&kept).then_some(kept)
    }
}
