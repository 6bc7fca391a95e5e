//! The running thread and its innermost frame, read by offsets alone: what `mem` asks at each block that a program takes or frees.
//!
//! [`Python::current_state`] and [`Python::point`] compare the version and ask what kind the frames are of each time they are called. Here all
//! of that is decided once, when a [`Running`] is made, and what is left are loads and additions. It says only what these two say; where it
//! would have to look further, it says nothing, and they are asked:
//!
//! ```text
//!   to 3.11      tstate_current = own value of autoTSSkey, a key below 32, whose values lie in the thread's struct pthread
//!   since 3.12   _Py_tss_tstate, and the interpreter of that state
//!   then         state ─▶ [ _PyCFrame ─▶ ] frame ─▶ code, instruction
//! ```
//!
//! **Completeness.** Whether a frame is complete, which the first traceable instruction of its code says, is not asked here. Who keeps points
//! and compares them with what this reader says need not know it: a point that [`Python::point`] has named is one from the first traceable
//! instruction on, so any frame at it is complete. The exception are frames of generators, which are complete before that, too
//! ([`Reached`](super::Reached)). Frames that are none of a function have none, since 3.13 `None` in its place, or a code of their own: `point` never names these.

use super::Python;
use super::layout::Kind;
use super::object::TAG;
use super::state::{CURRENT_IS_THREADS, KEY_DATA, KEYS_PER_BLOCK, PTHREAD, TSS_KEY};
use crate::Memory;

/// How a version is read: what [`Running::state`] and [`Running::innermost`] are made for, so that nothing of it is asked when they run. They
/// take its number, because a parameter of a function can be that and no `Form`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// It is not: nothing is said.
    None = 0,
    /// 3.9 and 3.10: one lock, and the instruction is a number, in units of so many bytes.
    Objects = 1,
    /// 3.11: one lock, and the frame is behind a `_PyCFrame`.
    Marked = 2,
    /// 3.12: each interpreter may have a lock of its own, and the frame is behind a `_PyCFrame`.
    Shims = 3,
    /// Since 3.13: each interpreter may have a lock of its own, and the frame is the state's.
    Direct = 4,
}

/// The numbers of the forms.
const NONE: u8 = Form::None as u8;
const OBJECTS: u8 = Form::Objects as u8;
const MARKED: u8 = Form::Marked as u8;
const SHIMS: u8 = Form::Shims as u8;

/// Runs the same for each form, with its number as a constant: `with_form!(form, FORM => function::<FORM>())`.
#[macro_export]
macro_rules! with_form {
    ($form:expr, $number:ident => $run:expr) => {
        $crate::with_form!(@each $form, $number => $run; None Objects Marked Shims Direct)
    };
    (@each $form:expr, $number:ident => $run:expr; $($kind:ident)*) => {
        match $form {
            $($crate::python::Form::$kind => {
                const $number: u8 = $crate::python::Form::$kind as u8;
                $run
            })*
        }
    };
}

/// Reads which state the running thread has, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    form: Form,
    /// Where the current state is: to 3.11 an address, since 3.12 the distance from the thread's `%fs` base.
    current: u64,
    shared: Shared,
    own: Own,
    /// `thread_id` in a state.
    id: u64,
    /// What leads to the frames, in a state; and `current_frame` in a `_PyCFrame`.
    frame: u64,
    behind: u64,
    /// Of a frame.
    code: u64,
    instruction: u64,
    /// How many bytes an instruction's number stands for, in 3.9 and 3.10.
    unit: u32,
    /// Where the instructions of a code object begin.
    instructions: u64,
}

/// How it is seen to 3.11 that the thread has the lock: its own state is the current one.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// The address of `autoTSSkey`, and what was there: whether there is a key, and which.
    key: u64,
    tss: u64,
    /// The distance from the thread's `%fs` base to its value under that key.
    value: u64,
}

/// How it is seen since 3.12: a state that a thread has as its current one has the lock of its interpreter, and that must be the main one.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// `interp` in a state.
    interpreter: u64,
    main: u64,
}

impl<M: Memory> Python<'_, M> {
    /// Makes the reader in a thread that has the lock of the main interpreter, and of which the `%fs` base is `id`. [`current`](Self::current) must
    /// have been proven in it. `None` where what is to be read lies elsewhere: a key of 32 or above.
    pub fn running(&self, id: u64) -> Option<Running> {
        let layout = &self.layout;
        let (form, behind, unit) = match layout.frame.kind {
            Kind::Objects(unit) => (Form::Objects, 0, u32::try_from(unit).ok()?),
            Kind::Marked { current, .. } => (Form::Marked, current, 0),
            Kind::Shims { current, .. } => match current {
                Some(current) => (Form::Shims, current, 0),
                None => (Form::Direct, 0, 0),
            },
        };
        let mut running = Running {
            form,
            current: self.facts.current_place(),
            id: layout.thread.id,
            frame: layout.thread.frame,
            behind,
            code: layout.frame.code,
            instruction: layout.frame.instruction,
            unit,
            instructions: layout.code.instructions,
            ..Running::NONE
        };
        if self.facts.version() < CURRENT_IS_THREADS {
            running.shared = self.shared(id)?;
        } else {
            running.own = Own {
                interpreter: layout.thread.interpreter,
                main: self.main_interpreter().ok().filter(|main| *main != 0)?,
            };
        }
        (running.current != 0).then_some(running)
    }

    fn shared(&self, id: u64) -> Option<Shared> {
        let key = self.facts.runtime().wrapping_add(self.layout.runtime.tss?);
        let tss = self.memory.u64(key).ok()?;
        let number = tss >> TSS_KEY;
        if tss as u32 == 0 || number >= KEYS_PER_BLOCK {
            return None;
        }
        let value = self.first_value(id)? + number * KEY_DATA;
        Some(Shared { key, tss, value })
    }

    /// The distance from a thread's `%fs` base to the value that it has under key 0: `specific_1stblock` lies in `struct pthread` itself
    /// (`nptl/descr.h`), and this thread has the address of it.
    fn first_value(&self, id: u64) -> Option<u64> {
        if self.facts.own() == 0 {
            return None;
        }
        let block = self.memory.u64(id.wrapping_add(self.facts.own())).ok()?;
        let distance = block.wrapping_sub(id);
        (distance < PTHREAD).then_some(distance + KEY_DATA / 2)
    }
}

impl Running {
    /// Says nothing.
    pub const NONE: Running = Running {
        form: Form::None,
        current: 0,
        shared: Shared {
            key: 0,
            tss: 0,
            value: 0,
        },
        own: Own {
            interpreter: 0,
            main: 0,
        },
        id: 0,
        frame: 0,
        behind: 0,
        code: 0,
        instruction: 0,
        unit: 0,
        instructions: 0,
    };

    /// The form with whose number it is called.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Returns the state with which the running thread, of which the `%fs` base is `id`, has the lock of the main interpreter, or to 3.11 the
    /// one lock there is. `None`: it has not, or [`Python::current_state`] must be asked.
    #[inline(always)]
    pub fn state<const FORM: u8>(&self, memory: &impl Memory, id: u64) -> Option<u64> {
        let is_shared = matches!(FORM, OBJECTS | MARKED);
        if FORM == NONE {
            return None;
        }
        let base = if is_shared { 0 } else { id };
        let current = memory.u64(base.wrapping_add(self.current)).ok()?;
        if current == 0 {
            return None;
        }
        let is_locked = if is_shared {
            let Shared { key, tss, value } = self.shared;
            memory.u64(key) == Ok(tss) && memory.u64(id.wrapping_add(value)) == Ok(current)
        } else {
            let Own { interpreter, main } = self.own;
            memory.u64(current.wrapping_add(interpreter)) == Ok(main)
        };
        let is_thread = || memory.u64(current.wrapping_add(self.id)) == Ok(id);
        (is_locked && is_thread()).then_some(current)
    }

    /// Returns the code and the instruction that the innermost frame of this state has reached, as a [`Point`](super::Point) has them, whether the
    /// frame is complete or not; `None` if there is no frame.
    #[inline(always)]
    pub fn innermost<const FORM: u8>(
        &self,
        memory: &impl Memory,
        state: u64,
    ) -> Option<(u64, u64)> {
        let word = |at: u64, offset: u64| memory.u64(at.wrapping_add(offset)).ok();
        if FORM == NONE {
            return None;
        }
        let mut frame = word(state, self.frame).filter(|frame| *frame != 0)?;
        if matches!(FORM, MARKED | SHIMS) {
            frame = word(frame, self.behind).filter(|frame| *frame != 0)?;
        }
        // A tagged reference since 3.14.
        let code = word(frame, self.code)? & !TAG;
        let at = frame.wrapping_add(self.instruction);
        let lasti = if FORM == OBJECTS {
            u64::from(memory.u32(at).ok()?.wrapping_mul(self.unit))
        } else {
            word(at, 0)?
                .wrapping_sub(code)
                .wrapping_sub(self.instructions)
        };
        Some((code, lasti))
    }

    /// What both say, whatever the form: the state, and where its innermost frame is.
    pub fn both(&self, memory: &impl Memory, id: u64) -> Option<(u64, Option<(u64, u64)>)> {
        crate::with_form!(self.form, FORM => self.both_of::<FORM>(memory, id))
    }

    fn both_of<const FORM: u8>(
        &self,
        memory: &impl Memory,
        id: u64,
    ) -> Option<(u64, Option<(u64, u64)>)> {
        let state = self.state::<FORM>(memory, id)?;
        Some((state, self.innermost::<FORM>(memory, state)))
    }
}

#[cfg(test)]
mod tests;
