//! Generators and coroutines that are suspended: `PyGenObject` (`Include/cpython/genobject.h`; 3.14:
//! `pycore_interpframe_structs.h`), of which coroutines and asynchronous generators are copies. Used by
//! `languages::python::frames`.
//!
//! ```text
//!   3.9, 3.10    PyGenObject: │ object │ gi_frame ─▶ PyFrameObject │ …
//!   since 3.11   PyGenObject: │ object │ … │ gi_frame_state │ gi_iframe: _PyInterpreterFrame │ localsplus …
//! ```
//!
//! What one waits for, by `await` or `yield from`, lies on top of its value stack (`_PyGen_yf`, `Objects/genobject.c`).
//! Coroutines are never suspended otherwise; of a generator its state says so since 3.13, before that the instruction
//! that would run next.
//!
//! Their types are told by their names: they are no facts, because nothing else needs them.

use super::chain::Chain;
use super::class::LONGEST_NAME;
use super::frames::Frames;
use super::layout::{Generators, Values};
use super::object::{BASIC_SIZE, BYTES, HEAP_TYPE, TAG};
use super::{Error, Python};
use crate::Memory;

/// `gi_frame`; `cw_coroutine` in `PyCoroWrapper`, and `ags_gen` in `PyAsyncGenASend` (both `Objects/genobject.c`).
const FRAME: u64 = 16;
const WRAPPED: u64 = 16;
/// Bytes from `gi_frame_state` to `gi_iframe`, which lies behind it.
const STATE_BEFORE_FRAME: u64 = 5;
/// `RESUME` after `yield from` (1) or `await` (2, 3) has this in its argument.
const RESUME_DELEGATING: u8 = 2;

/// The kind of generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Made by a function with `yield`.
    Generator,
    /// Made by an `async def`.
    Coroutine,
    /// Made by an `async def` with `yield`.
    AsyncGenerator,
}

/// A generator or coroutine that is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    /// Address of the object.
    pub address: u64,
    /// By what kind of function it was made.
    pub flavour: Flavour,
    /// The generator or coroutine it waits for; 0 if it waits for something else, or for nothing.
    pub awaits: u64,
    frame: u64,
}

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with each generator or coroutine that is suspended. Every object of the process is looked at.
    pub fn each_generator(
        &self,
        each: &mut dyn FnMut(Generator) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Objects of one class come in groups.
        let mut last = (0, None);
        self.each_object(&mut |object, class| {
            if class != last.0 {
                last = (class, self.flavour(class)?);
            }
            match last.1 {
                Some(flavour) => self.suspended(object, flavour)?.map_or(Ok(()), &mut *each),
                None => Ok(()),
            }
        })
    }

    /// Returns the generator at `object`, if there is one and it is suspended.
    pub fn generator(&self, object: u64) -> Result<Option<Generator>, Error> {
        match self.flavour(self.type_of(object)?)? {
            Some(flavour) => self.suspended(object, flavour),
            None => Ok(None),
        }
    }

    /// Returns its frame. The generator that it waits for has frames of its own.
    pub fn generator_frame(&self, generator: &Generator) -> Frames<'_, '_, M> {
        Frames::parked(self, Chain::new(Ok(generator.frame)), 0..0)
    }

    fn flavour(&self, class: u64) -> Result<Option<Flavour>, Error> {
        Ok(match self.builtin_name(class, &mut [0; LONGEST_NAME])? {
            b"generator" => Some(Flavour::Generator),
            b"coroutine" => Some(Flavour::Coroutine),
            b"async_generator" => Some(Flavour::AsyncGenerator),
            _ => None,
        })
    }

    /// Returns the name of a class that is not the program's own; empty for those that are.
    fn builtin_name<'b>(
        &self,
        class: u64,
        room: &'b mut [u8; LONGEST_NAME],
    ) -> Result<&'b [u8], Error> {
        if self.flags(class)? & HEAP_TYPE != 0 {
            return Ok(&[]);
        }
        self.raw_name(class, room)
    }

    fn suspended(&self, object: u64, flavour: Flavour) -> Result<Option<Generator>, Error> {
        let word = |at: u64| self.memory.u64(at);
        let layout = &self.layout.generators;
        let frame = match layout {
            Generators::Behind { .. } => word(object.wrapping_add(FRAME))?,
            Generators::Inside { locals, .. } => {
                let size = word(self.type_of(object)?.wrapping_add(BASIC_SIZE))?;
                object.wrapping_add(size).wrapping_sub(*locals)
            }
        };
        if frame == 0 {
            return Ok(None);
        }
        let delegates = match *layout {
            Generators::Behind {
                state,
                delegates,
                code,
                unit,
                ..
            } => {
                let lasti = self
                    .memory
                    .u32(frame.wrapping_add(self.layout.frame.instruction))?;
                // 3.9 has no state: the stack is set aside while it does not run, and freed when it has ended.
                let is_suspended = match state {
                    Some((at, suspended)) => {
                        self.memory.u8(frame.wrapping_add(at))? == suspended.cast_unsigned()
                    }
                    None => self.top(frame)? != 0 && lasti != u32::MAX,
                };
                if !is_suspended {
                    return Ok(None);
                }
                let code =
                    word(word(frame.wrapping_add(self.layout.frame.code))?.wrapping_add(code))?;
                let next = u64::from(lasti).wrapping_mul(unit).wrapping_add(2);
                self.memory
                    .u8(code.wrapping_add(BYTES).wrapping_add(next))?
                    == delegates
            }
            Generators::Inside {
                suspended,
                delegating,
                resumes,
                ..
            } => {
                let state = self
                    .memory
                    .u8(frame.wrapping_sub(STATE_BEFORE_FRAME))?
                    .cast_signed();
                if state != suspended && Some(state) != delegating {
                    return Ok(None);
                }
                match delegating {
                    Some(delegating) => state == delegating,
                    None => {
                        let next = word(frame.wrapping_add(self.layout.frame.instruction))?
                            .wrapping_add(2);
                        let code = self.memory.u16(next)?.to_le_bytes();
                        resumes.contains(&code[0]) && code[1] >= RESUME_DELEGATING
                    }
                }
            }
        };
        let awaits = if delegates || flavour == Flavour::Coroutine {
            let below = match *layout {
                Generators::Behind { .. } => 1,
                Generators::Inside { awaited, .. } => awaited,
            };
            self.awaited(self.top(frame)?.wrapping_sub(below * 8))?
        } else {
            0
        };
        Ok(Some(Generator {
            address: object,
            flavour,
            awaits,
            frame,
        }))
    }

    /// Returns the address behind the topmost value of the value stack; 0 if there is no stack.
    fn top(&self, frame: u64) -> Result<u64, Error> {
        let word = |at: u64| self.memory.u64(frame.wrapping_add(at));
        let count = |at: u64| self.memory.u32(frame.wrapping_add(at)).map(u64::from);
        let (values, locals) = match self.layout.generators {
            Generators::Behind { values, .. } => (values, 0),
            Generators::Inside { values, locals, .. } => (values, locals),
        };
        Ok(match values {
            Values::Pointer(at) => word(at)?,
            Values::Index(at) => frame
                .wrapping_add(locals)
                .wrapping_add(count(at)?.wrapping_mul(8)),
            Values::Depth(stack, depth) => word(stack)?.wrapping_add(count(depth)?.wrapping_mul(8)),
        })
    }

    /// Returns the generator or coroutine that the value at this place of the stack is, or leads to; 0 if it is something else.
    fn awaited(&self, place: u64) -> Result<u64, Error> {
        let object = self.memory.u64(place)? & !TAG;
        if object == 0 {
            return Ok(0);
        }
        let class = self.type_of(object)?;
        Ok(match self.builtin_name(class, &mut [0; LONGEST_NAME])? {
            b"generator" | b"coroutine" | b"async_generator" => object,
            b"coroutine_wrapper" | b"async_generator_asend" => {
                self.memory.u64(object.wrapping_add(WRAPPED))?
            }
            _ => 0,
        })
    }
}
