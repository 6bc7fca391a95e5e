//! The layout of a version without a table, as far as frames need it, from `_Py_DebugOffsets`.
//!
//! Each section of that structure begins with the size of what it describes. Within a section the words that frames need
//! have followed each other in the same order since 3.13, but each version has put new words before, between and behind them:
//!
//! ```text
//!   … │ size prev next interp current_frame │ … │ thread_id native_thread_id │ …        PyThreadState
//!   … │ size previous executable instr_ptr localsplus owner │ …                         _PyInterpreterFrame
//!   … │ size filename name qualname linetable firstlineno – – – co_code_adaptive │ …    PyCodeObject
//! ```
//!
//! So it is enough to know with which word each row begins; [`told`](crate::python::debug_offsets) finds that out.

use super::offsets::FREE_THREADED;
use super::offsets::LARGEST;
use super::{Copies, Kind, Layout, free_threaded};
use crate::Memory;
use crate::python::{Error, Version};

/// The numbers of the words that are where they are in all versions: `interpreters_head`, and of an interpreter `next` and `threads_head`.
pub const INTERPRETERS: u8 = 5;
const NEXT: u8 = 8;
pub const THREADS: u8 = 9;
/// The numbers within their rows of `code_object.co_tlbc` and of `interpreter_frame.tlbc_index`, and since when there are any.
const CODE_ARRAY: u8 = 10;
const FRAME_INDEX: u8 = 7;
const COPIES_SINCE: (u8, u8) = (3, 14);

/// The numbers of the words with which the rows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The minor version whose table has what the structure does not tell.
    pub base: u8,
    /// `thread_state.size`.
    pub thread: u8,
    /// `thread_state.thread_id`.
    pub id: u8,
    /// `interpreter_frame.size`.
    pub frame: u8,
    /// `code_object.size`.
    pub code: u8,
}

impl Sections {
    /// Returns them as one word of the facts, which is not 0.
    pub const fn packed(self) -> u64 {
        let Sections {
            base,
            thread,
            id,
            frame,
            code,
        } = self;
        u64::from_le_bytes([base, thread, id, frame, code, 0, 0, 0])
    }

    /// The inverse of [`packed`](Sections::packed); `None` for 0.
    pub const fn unpack(word: u64) -> Option<Sections> {
        let [base, thread, id, frame, code, ..] = word.to_le_bytes();
        let sections = Sections {
            base,
            thread,
            id,
            frame,
            code,
        };
        if word == 0 { None } else { Some(sections) }
    }
}

/// Returns the layout of the Python of this version whose `_PyRuntime` is at `runtime`.
pub fn read(
    memory: &impl Memory,
    runtime: u64,
    version: Version,
    sections: Sections,
) -> Result<Layout, Error> {
    let base = (3, sections.base);
    let mut known = Layout::all().iter();
    let known = known.find(|layout| layout.version == base);
    let mut layout = known.ok_or(Error::garbled("layout", runtime))?.clone();
    let offset = |section: u8, number: u8| {
        let at = runtime.wrapping_add((u64::from(section) + u64::from(number)) * 8);
        match memory.u64(at)? {
            offset if offset < LARGEST => Ok(offset),
            _ => Err(Error::garbled("offset", at)),
        }
    };
    layout.version = (version.major, version.minor);
    if memory.u64(runtime.wrapping_add(FREE_THREADED * 8))? != 0 {
        let copies = match layout.version >= COPIES_SINCE {
            true => Some(Copies {
                array: offset(sections.code, CODE_ARRAY)?,
                index: offset(sections.frame, FRAME_INDEX)?,
            }),
            false => None,
        };
        free_threaded::apply(&mut layout, copies);
    }
    layout.runtime.interpreters = offset(0, INTERPRETERS)?;
    // Where a version keeps the key is not told; what leads to a thread's own state is found in a function that returns it.
    layout.runtime.tss = None;
    layout.interpreter.next = offset(0, NEXT)?;
    layout.interpreter.threads = offset(0, THREADS)?;
    layout.thread.next = offset(sections.thread, 2)?;
    layout.thread.interpreter = offset(sections.thread, 3)?;
    layout.thread.frame = offset(sections.thread, 4)?;
    layout.thread.id = offset(sections.id, 0)?;
    layout.thread.native_id = Some(offset(sections.id, 1)?);
    layout.frame.previous = offset(sections.frame, 1)?;
    layout.frame.code = offset(sections.frame, 2)?;
    layout.frame.instruction = offset(sections.frame, 3)?;
    layout.frame.kind = Kind::Shims {
        current: None,
        owner: offset(sections.frame, 5)?,
    };
    layout.code.file = offset(sections.code, 1)?;
    layout.code.name = offset(sections.code, 2)?;
    layout.code.qualname = Some(offset(sections.code, 3)?);
    layout.code.table = offset(sections.code, 4)?;
    layout.code.first_line = offset(sections.code, 5)?;
    layout.code.instructions = offset(sections.code, 9)?;
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::Sections;

    #[test]
    fn packs_into_a_word() {
        let sections = Sections {
            base: 15,
            thread: 22,
            id: 30,
            frame: 39,
            code: 47,
        };
        assert_eq!(Sections::unpack(sections.packed()), Some(sections));
        assert_eq!(Sections::unpack(0), None);
    }
}
