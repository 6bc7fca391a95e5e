//! The script of the guest: crate `vm`'s reader of its language, over the memory of this process, for the running
//! thread. It names no language. Used by `places`.

use super::ring::thread_pointer;
use crate::memory::copied::Copied;
use crate::memory::direct::Direct;
use core::fmt::Write;
use vm::reader::{Call, NoText, OwnThread, ScriptPoint};
use vm::{Cut, Language, Limits, Reader};
use wire::calls::{Calls, LONGEST_NAME, Place};

/// The reader of the guest's VM; empty if there is none or it is unknown.
pub struct Script {
    reader: Option<Reader<'static, Direct>>,
    /// [`Calls::state_offset`]: how a thread finds its own state in the VM.
    state: u64,
}

/// The text of a script line.
pub struct Words {
    /// The line's number, from 1; 0 = there is none.
    pub line: u32,
    path: [u8; LONGEST_NAME],
    name: [u8; LONGEST_NAME],
    /// Bytes of path and name that were written.
    lengths: [usize; 2],
}

impl Default for Words {
    fn default() -> Self {
        Words {
            line: 0,
            path: [0; LONGEST_NAME],
            name: [0; LONGEST_NAME],
            lengths: [0; 2],
        }
    }
}

impl Words {
    /// The file; empty if it could not be read.
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.lengths[0]).unwrap_or_default()
    }

    /// The function; empty if it has no name.
    pub fn name(&self) -> &[u8] {
        self.name.get(..self.lengths[1]).unwrap_or_default()
    }

    /// Writes the line as it is shown: `path:line in 'name'`.
    pub fn show(&self, out: &mut Cut<'_>) {
        out.push(self.path());
        if self.line == 0 {
            return;
        }
        let _ = write!(out, ":{}", self.line);
        if !self.name().is_empty() {
            out.push(b" in '");
            out.push(self.name());
            out.push(b"'");
        }
    }
}

/// An entry of the table of lines that has no number yet.
const fn unnumbered(at: ScriptPoint) -> Place {
    Place {
        code: at.code,
        point: at.point,
        witness: at.witness,
        number: 0,
    }
}

impl Script {
    /// No script: the guest has no VM, or none whose lines can be read.
    pub const NONE: Self = Script {
        reader: None,
        state: 0,
    };

    /// Opens the script of the VM that the command found.
    pub fn open(calls: &Calls) -> Self {
        let language = Language::of_number(calls.language);
        Script {
            reader: language.and_then(|language| Reader::open(language, &Direct, &calls.facts)),
            state: calls.state_offset,
        }
    }

    /// Whether the guest has a script whose lines can be read.
    #[inline(always)]
    pub fn is_there(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns the running thread.
    #[inline]
    fn thread(&self) -> OwnThread {
        OwnThread {
            pointer: thread_pointer(),
            state: self.state,
        }
    }

    /// Returns where the script of this thread is. `wary`: the memory to read where [`Calls::wary`] says that the VM's notes of
    /// its frames may be wrong.
    #[inline]
    pub fn place(&self, wary: Option<&Copied>) -> Option<Place> {
        let reader = self.reader.as_ref()?;
        let at = match wary {
            Some(memory) => reader.nearest_wary(memory, self.thread())?,
            None => reader.nearest(self.thread())?,
        };
        Some(unnumbered(at))
    }

    /// Calls `each` with the places of the frames outside of the nearest, from the inside outward, and with what
    /// [`describe`](Script::describe) needs to know of them, until it returns false. Returns false if a frame could not be read: those
    /// outside of it are missing. `wary` as for [`place`](Script::place).
    pub fn outward(&self, wary: Option<&Copied>, mut each: impl FnMut(Place, u64) -> bool) -> bool {
        let Some(reader) = &self.reader else {
            return false;
        };
        let each = |at, function| each(unnumbered(at), function);
        match wary {
            Some(memory) => reader.outward_wary(memory, self.thread(), each),
            None => reader.outward(self.thread(), each),
        }
    }

    /// Whether a path is a library's.
    pub fn is_library(&self, path: &[u8]) -> bool {
        let reader = self.reader.as_ref();
        reader.is_some_and(|reader| reader.is_library(path))
    }

    /// Reads the text of a place; what cannot be read is empty. `function` is that of the frame, as
    /// [`outward`](Script::outward) passed it; `None` = the nearest frame. This is done once for each line, so it can
    /// afford to have the kernel copy what it reads.
    pub fn describe(&self, place: Place, function: Option<u64>, words: &mut Words) {
        let memory = Copied::new();
        let Some(reader) = self.over(&memory) else {
            return;
        };
        let at = ScriptPoint {
            code: place.code,
            point: place.point,
            witness: place.witness,
        };
        words.line = reader.line(at).unwrap_or(0);
        words.lengths = [
            reader.copy_path(at, &mut words.path),
            reader.copy_name(at, function, self.thread(), &mut words.name),
        ];
    }

    /// Returns a reader of what an argument leads to.
    pub fn over<'p>(&self, memory: &'p Copied) -> Option<Reader<'p, Copied>> {
        Some(self.reader.as_ref()?.over(memory))
    }

    /// Returns a call of this thread in the form that readers use.
    pub fn call(&self, registers: [u64; 6], kept: u64) -> Call {
        Call {
            registers,
            kept,
            thread: self.thread(),
        }
    }

    /// Writes the text of a word of a call; `number` is that of a [`vm::Word`].
    pub fn describe_word(
        &self,
        (number, value): (u8, u64),
        call: &Call,
        limits: &Limits,
        memory: &Copied,
        out: &mut Cut<'_>,
    ) -> Result<(), NoText> {
        let reader = self.over(memory).ok_or(NoText)?;
        reader.write_word(number, value, call, limits, out)
    }

    /// Returns what must be kept of a call of a VM's function to describe its result, in [`vm::reader::KEPT`] bits;
    /// mostly 0.
    pub fn kept(&self) -> u64 {
        let reader = self.reader.as_ref();
        reader.map_or(0, |reader| reader.kept(self.thread()))
    }

    /// Returns what distinguishes functions that share their code: see [`wire::calls::Hook::names`].
    pub fn identity(&self, registers: [u64; 6]) -> u64 {
        let reader = self.reader.as_ref();
        reader.map_or(0, |reader| reader.identity(registers))
    }
}
