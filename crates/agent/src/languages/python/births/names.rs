//! What the books ask about code and types of a Python. The code is that of a running frame, which keeps it. Used by
//! `allocator` and `counting`.

use crate::births::living::Script;
use crate::births::texts::{Buffer, Class, Texts};
use crate::memory::direct::Direct;
use vm::python::{Error, Point, Python, Text};

/// The numbers that stand for types: which of the VM's two allocators has made a block.
pub const OBJECT: u64 = 1;
pub const MEMORY: u64 = 2;

/// In the instruction of a key: a frame at this point is complete only if it is a generator's. `Births::born_again` does not ask whose a frame
/// is, and has no such key.
const OF_GENERATOR: u64 = 1 << 32;

/// The reader of this process's Python, with the one buffer that every text is read into.
pub struct Names {
    pub reader: Option<Python<'static, Direct>>,
    buffer: Buffer,
}

impl Names {
    pub const fn new() -> Self {
        Names {
            reader: None,
            buffer: Buffer::new(),
        }
    }

    fn copy(
        &mut self,
        text: impl FnOnce(&Python<'static, Direct>) -> Result<Text, Error>,
    ) -> &[u8] {
        let buffer = &mut self.buffer;
        let copied = self.reader.as_ref().and_then(|python| {
            let text = text(python).ok()?;
            python.copy(text, &mut buffer.bytes).ok()
        });
        buffer.length = copied.map_or(0, |copied| copied.len);
        buffer.text()
    }
}

impl Texts for Names {
    fn line(&self, code: u64, pc: u64) -> u32 {
        let point = Point {
            code,
            lasti: pc as i32,
        };
        let line = self
            .reader
            .as_ref()
            .and_then(|python| python.line(point).ok());
        line.flatten().unwrap_or(0)
    }

    fn path(&mut self, code: u64) -> &[u8] {
        self.copy(|python| python.file(code))
    }

    fn method(&mut self, code: u64) -> &[u8] {
        self.copy(|python| python.function_name(code))
    }

    fn class(&mut self, class: u64) -> Class<'_> {
        Class::Named {
            name: match class {
                OBJECT => b"(PyObject)".as_slice(),
                _ => b"(PyMem)".as_slice(),
            },
            internal: false,
        }
    }

    /// What is born in frozen modules is booked there, as `tracemalloc` has it.
    fn is_own(&mut self, _code: u64) -> bool {
        false
    }
}

/// Where a thread is says its state.
impl Script for Names {
    #[inline(always)]
    fn point(&self, state: u64) -> Option<(u64, u64)> {
        let reached = self.reader.as_ref()?.reached(state).ok()?;
        Some(reached.map_or((0, 0), |reached| {
            let point = reached.point;
            let mark = if reached.is_traceable {
                0
            } else {
                OF_GENERATOR
            };
            (point.code, u64::from(point.lasti as u32) | mark)
        }))
    }

    fn frames(&mut self, state: u64, mut each: impl FnMut(u64, u64) -> Option<()>) {
        let Some(reader) = self.reader.as_ref() else {
            return;
        };
        let mut frames = reader.frames(state).map_while(Result::ok);
        let _ = frames
            .try_for_each(|frame| each(frame.point.code, u64::from(frame.point.lasti as u32)));
    }
}
