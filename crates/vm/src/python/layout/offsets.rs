//! What a Python since 3.13 says of its own layout: `_Py_DebugOffsets`, the first thing in `_PyRuntime`
//! (`pycore_runtime.h`, 3.14: `pycore_debug_offsets.h`), made for readers like this one. It is a row of
//! 64-bit words; which word says what is fixed within a minor version. Used by `python` and `facts`.

use super::{Copies, Kind, Layout, free_threaded};
use crate::Memory;
use crate::python::{Error, Version};

/// The first eight bytes, `cookie`.
pub const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// The number of the word that is 1 in a build without the GIL.
pub const FREE_THREADED: u64 = 2;

/// The largest offset believed: an interpreter state has 200 KB to 400 KB.
pub(super) const LARGEST: u64 = 1 << 20;

/// The number of the word for each field. What the structure does not tell stays as in the table.
struct Words {
    interpreters: u64,
    next: u64,
    threads: u64,
    modules: u64,
    gc: u64,
    system: u64,
    thread_next: u64,
    thread_interpreter: u64,
    thread_frame: u64,
    thread_id: u64,
    thread_native_id: u64,
    previous: u64,
    executable: u64,
    instruction: u64,
    owner: u64,
    file: u64,
    name: u64,
    qualname: u64,
    table: u64,
    first_line: u64,
    instructions: u64,
    /// `interpreter_frame.tlbc_index` and `code_object.co_tlbc`, which are 0 with the GIL.
    copies: Option<[u64; 2]>,
    tuple_items: u64,
}

const WORDS_3_13: Words = Words {
    interpreters: 5,
    next: 8,
    threads: 9,
    modules: 11,
    gc: 10,
    system: 12,
    thread_next: 21,
    thread_interpreter: 22,
    thread_frame: 23,
    thread_id: 24,
    thread_native_id: 25,
    previous: 29,
    executable: 30,
    instruction: 31,
    owner: 33,
    file: 35,
    name: 36,
    qualname: 37,
    table: 38,
    first_line: 39,
    instructions: 43,
    copies: None,
    tuple_items: 51,
};

const WORDS_3_14: Words = Words {
    interpreters: 5,
    next: 8,
    threads: 9,
    modules: 12,
    gc: 11,
    system: 13,
    thread_next: 24,
    thread_interpreter: 25,
    thread_frame: 26,
    thread_id: 27,
    thread_native_id: 28,
    previous: 32,
    executable: 33,
    instruction: 34,
    owner: 36,
    file: 40,
    name: 41,
    qualname: 42,
    table: 43,
    first_line: 44,
    instructions: 48,
    copies: Some([38, 49]),
    tuple_items: 57,
};

const WORDS_3_15: Words = Words {
    thread_id: 30,
    thread_native_id: 31,
    previous: 40,
    executable: 41,
    instruction: 42,
    owner: 44,
    file: 48,
    name: 49,
    qualname: 50,
    table: 51,
    first_line: 52,
    instructions: 56,
    copies: Some([46, 57]),
    tuple_items: 69,
    ..WORDS_3_14
};

/// The table for `version`, with what the process at `runtime` says put in its place.
pub fn read(memory: &impl Memory, runtime: u64, version: Version) -> Result<Layout, Error> {
    let mut layout = Layout::of(version)?.clone();
    let words = match layout.version {
        (3, 13) => &WORDS_3_13,
        (3, 14) => &WORDS_3_14,
        (3, 15) => &WORDS_3_15,
        _ => return Ok(layout),
    };
    let word = |number: u64| memory.u64(runtime.wrapping_add(number * 8));
    if word(0)? != COOKIE {
        return Err(Error::garbled("_Py_DebugOffsets", runtime));
    }
    let stated = Version::of_hex(word(1)? as u32)?;
    if (stated.major, stated.minor) != layout.version {
        return Err(Error::garbled("_Py_DebugOffsets of this version", runtime));
    }
    let offset = |number: u64| match word(number)? {
        offset if offset < LARGEST => Ok(offset),
        _ => Err(Error::garbled("offset", runtime.wrapping_add(number * 8))),
    };
    if word(FREE_THREADED)? != 0 {
        let copies = |[index, array]: [u64; 2]| {
            Ok::<_, Error>(Copies {
                array: offset(array)?,
                index: offset(index)?,
            })
        };
        free_threaded::apply(&mut layout, words.copies.map(copies).transpose()?);
    }
    layout.runtime.interpreters = offset(words.interpreters)?;
    layout.interpreter.next = offset(words.next)?;
    layout.interpreter.threads = offset(words.threads)?;
    layout.interpreter.modules = offset(words.modules)?;
    layout.interpreter.gc = offset(words.gc)?;
    layout.interpreter.system = offset(words.system)?;
    layout.thread.next = offset(words.thread_next)?;
    layout.thread.interpreter = offset(words.thread_interpreter)?;
    layout.thread.frame = offset(words.thread_frame)?;
    layout.thread.id = offset(words.thread_id)?;
    layout.thread.native_id = Some(offset(words.thread_native_id)?);
    layout.frame.previous = offset(words.previous)?;
    layout.frame.code = offset(words.executable)?;
    layout.frame.instruction = offset(words.instruction)?;
    layout.frame.kind = Kind::Shims {
        current: None,
        owner: offset(words.owner)?,
    };
    layout.code.file = offset(words.file)?;
    layout.code.name = offset(words.name)?;
    layout.code.qualname = Some(offset(words.qualname)?);
    layout.code.table = offset(words.table)?;
    layout.code.first_line = offset(words.first_line)?;
    layout.code.instructions = offset(words.instructions)?;
    layout.tuple_items = offset(words.tuple_items)?;
    Ok(layout)
}
