//! A Python without a table: it is read as it describes itself (`_Py_DebugOffsets`, [`sections`]), if what is
//! found so holds in all of its threads.
//!
//! Which word of the structure says what differs between versions. So the words are tried: a row of them is that of
//! `PyThreadState` if it leads from each thread state to the next one and back, and so on. Of a wrong row some word leads elsewhere:
//!
//! | row | what it must lead to |
//! |---|---|
//! | `PyThreadState` | a list in both directions, in which all name the interpreter |
//! | `thread_id` | an address that holds itself, as a thread pointer does; a number of a thread behind it |
//! | `_PyInterpreterFrame` | code objects, by their type; the state of a frame that exists |
//! | `PyCodeObject` | three texts, of which the third ends with the second; a table of lines for just as many instructions as the code has; the instruction that runs is one of them; they lie behind what its class says is its size |
//!
//! There must be one reading of the words that holds, and it must hold for every frame of every thread. Whether lines are right is
//! shown by source text, for which this crate is not the place.

use core::cell::Cell;

use super::frames::SHIM;
use super::layout::free_threaded;
use super::layout::offsets::{COOKIE, FREE_THREADED};
use super::layout::sections::{self, INTERPRETERS, Sections, THREADS};
use super::lines;
use super::object::{BYTES, Builtin, OB_SIZE, TAG};
use super::state::GETTER;
use super::string::Text;
use super::{Error, Facts, Layout, Point, Python, Version};
use crate::Memory;

/// Words that are looked at; 3.15 has about 120.
const WORDS: usize = 160;
/// The first word that is none of the interpreter's, at the earliest; how far behind a row's beginning the next one begins, at most; how many
/// words the row of code objects has.
const FIRST: u8 = 10;
const FAR: u8 = 24;
const ROW: u8 = 10;

/// The version from which on a Python has the structure.
const SINCE: (u8, u8) = (3, 13);

/// Sizes that are believed of `PyThreadState` and of `_PyInterpreterFrame`, which have 300 to 700 and 80 to 90 bytes.
const THREAD_SIZES: core::ops::RangeInclusive<u64> = 128..=1 << 14;
const FRAME_SIZES: core::ops::RangeInclusive<u64> = 32..=1 << 10;
/// The largest number that the kernel gives a thread (`PID_MAX_LIMIT`, include/linux/threads.h).
const LARGEST_THREAD: u64 = 1 << 22;
/// `FRAME_OWNED_BY_CSTACK`, the last of the owners of a frame.
const LAST_OWNER: u8 = SHIM + 1;

/// Threads and frames by which a row is told from others. The proof has all.
const MOST_TRIED: usize = 16;
/// Steps of the whole search, so that a process which makes it long is given up: a word that is followed, a thread and a frame take one
/// each, and a table one for each 64 bytes.
const MOST_STEPS: u64 = 1 << 16;
const STEP: u64 = 64;

/// Longest path and name, and bytes of the largest function.
const LONGEST_TEXT: u64 = 4096;
const LARGEST_CODE: u64 = 1 << 26;
/// Bytes of two names that are compared.
const COMPARED: usize = 1024;

/// Code objects that are remembered as proven. A server has the same ones in all of its threads.
const REMEMBERED: usize = 1 << 10;
/// Bytes of the instructions before a function's first traceable one, at most; and of the code of frames that the interpreter pushes for
/// itself (`_Py_InitCleanup`, `Python/specialize.c`).
const LONGEST_PROLOGUE: i64 = 512;
const LARGEST_OWN: u64 = 16;
/// Bytes by which a frame that has not begun may be before its first instruction.
const LONGEST_BEFORE: i64 = 16;

/// What a layout was held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proven {
    /// All threads that have a frame.
    pub threads: u32,
    /// All frames of these.
    pub frames: u32,
}

impl Facts {
    /// Finds the facts by what the process says of its own layout, and what they were held against. `symbol` is as in
    /// [`find`](Facts::find). With them only frames can be read: what they lead to, and threads.
    ///
    /// The threads may run meanwhile; if what was read does not fit, another try may succeed.
    ///
    /// # Errors
    /// It does not describe itself, or something that it says is not so.
    pub fn by_debug_offsets(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<(Facts, Proven), Error> {
        let need = |name: &'static str| symbol(name).ok_or(Error::Symbol(name));
        let runtime = need("_PyRuntime")?;
        let mut bytes = [[0; 8]; WORDS];
        memory.read(runtime, bytes.as_flattened_mut())?;
        let words = bytes.map(u64::from_le_bytes);
        let [cookie, hex, ..] = words;
        if cookie != COOKIE {
            return Err(Error::garbled("_Py_DebugOffsets", runtime));
        }
        let version = Version::unpack(hex);
        if let Some(at) = symbol("Py_Version")
            && Version::unpack(memory.u32(at)?.into()) != version
        {
            return Err(Error::garbled("_Py_DebugOffsets of this version", runtime));
        }
        let is_free_threaded = words[FREE_THREADED as usize] != 0;
        let facts = Facts::of_frames(version, runtime, need("PyCode_Type")?);
        let facts = facts.with_free_threads(is_free_threaded);
        let left = Cell::new(MOST_STEPS);
        let structure = Structure {
            memory,
            facts,
            words,
            left: &left,
        };
        let (python, proven, sections) = structure.only()?;
        let own = python.find_own(symbol(GETTER))?;
        Ok((facts.with_sections(sections, own), proven))
    }
}

/// The structure of a process, with the facts that are known before.
struct Structure<'m, 'l, M> {
    memory: &'m M,
    facts: Facts,
    words: [u64; WORDS],
    /// Steps that are left.
    left: &'l Cell<u64>,
}

/// Takes so many steps of those that are left.
fn spend(left: &Cell<u64>, steps: u64) -> Option<()> {
    left.set(left.get().checked_sub(steps)?);
    Some(())
}

impl<'m, M: Memory> Structure<'m, '_, M> {
    /// Returns the one reading that holds.
    fn only(&self) -> Result<(Python<'m, M>, Proven, Sections), Error> {
        let mut found: Option<(Python<'m, M>, Proven, Sections)> = None;
        let mut why = Error::garbled("thread with frames as told", self.facts.runtime());
        for sections in self.readings() {
            let python = self.python(sections)?;
            match python.proof(self.left) {
                Err(error) => {
                    why = error;
                    spend(self.left, 1).ok_or(self.too_large())?;
                }
                Ok(proven) => match &found {
                    // Two rows may begin in different places and say the same.
                    Some((known, ..)) if known.layout == python.layout => {}
                    Some(_) => {
                        return Err(Error::garbled("single reading", self.facts.runtime()));
                    }
                    None => found = Some((python, proven, sections)),
                },
            }
        }
        match self.left.get() {
            0 => Err(self.too_large()),
            _ => found.ok_or(why),
        }
    }

    fn too_large(&self) -> Error {
        Error::garbled(TOO_LARGE, self.facts.runtime())
    }

    fn python(&self, sections: Sections) -> Result<Python<'m, M>, Error> {
        let (runtime, version) = (self.facts.runtime(), self.facts.version());
        Ok(Python {
            memory: self.memory,
            layout: sections::read(self.memory, runtime, version, sections)?,
            facts: self.facts,
        })
    }

    /// Returns the readings that are possible by the first threads and frames, but for the row of code objects.
    fn readings(&self) -> impl Iterator<Item = Sections> {
        let own = (self.facts.version().major, self.facts.version().minor);
        let mut bases = Layout::all().iter().rev();
        let base = bases.find(|layout| layout.version != own && layout.version >= SINCE);
        let base = base.map_or(0, |layout| layout.version.1);
        let last = WORDS as u8 - 3 * FAR - ROW;
        let threads = (FIRST..last).filter(|thread| self.is_thread(*thread) == Some(true));
        let ids = threads.flat_map(move |thread| {
            let ids = thread + 5..thread + FAR;
            let ids = ids.filter(move |id| self.is_id(thread, *id) == Some(true));
            ids.map(move |id| (thread, id))
        });
        let frames = ids.flat_map(move |(thread, id)| {
            let frames = id + 2..id + FAR;
            let frames = frames.filter(move |frame| self.is_frame(thread, *frame) == Some(true));
            frames.map(move |frame| (thread, id, frame))
        });
        frames.flat_map(move |(thread, id, frame)| {
            let codes = frame + 6..frame + FAR;
            let codes = codes.filter(|code| self.row::<{ ROW as usize }>(*code).is_some());
            codes.map(move |code| Sections {
                base,
                thread,
                id,
                frame,
                code,
            })
        })
    }

    /// Returns words that follow each other, of which the first is a size and the others are different offsets below it.
    fn row<const N: usize>(&self, at: u8) -> Option<[u64; N]> {
        let row = *self.words.get(usize::from(at)..)?.first_chunk::<N>()?;
        let (size, offsets) = row.split_first()?;
        let mut others = offsets.iter().enumerate();
        let differ = others.all(|(index, offset)| !offsets[..index].contains(offset));
        let fit = offsets.iter().all(|offset| offset < size);
        (differ && fit).then_some(row)
    }

    /// How much larger the header of an object is than with the GIL.
    fn head(&self) -> u64 {
        match self.facts.is_free_threaded() {
            true => free_threaded::LARGER,
            false => 0,
        }
    }

    fn word(&self, at: u64, offset: u64) -> Option<u64> {
        spend(self.left, 1)?;
        self.memory.u64(at.wrapping_add(offset)).ok()
    }

    /// Returns the main interpreter and its first thread state.
    fn first(&self) -> Option<(u64, u64)> {
        let head = self.words[usize::from(INTERPRETERS)];
        let main = self.word(self.facts.runtime(), head.wrapping_add(8))?;
        let first = self.word(main, self.words[usize::from(THREADS)])?;
        (first != 0).then_some((main, first))
    }

    /// Returns the first thread states of the main interpreter, by the row at `thread`; the rest is 0.
    fn states(&self, thread: u8) -> Option<[u64; MOST_TRIED]> {
        let [_, _, next, ..] = self.row::<5>(thread)?;
        let (mut states, mut state) = ([0; MOST_TRIED], self.first()?.1);
        for place in &mut states {
            if state == 0 {
                break;
            }
            *place = state;
            state = self.word(state, next)?;
        }
        Some(states)
    }

    fn is_thread(&self, at: u8) -> Option<bool> {
        let [size, previous, _, interpreter, frame] = self.row(at)?;
        let main = self.first()?.0;
        let mut before = 0;
        for state in self.states(at)?.into_iter().take_while(|state| *state != 0) {
            if self.word(state, previous)? != before || self.word(state, interpreter)? != main {
                return Some(false);
            }
            before = state;
        }
        Some(THREAD_SIZES.contains(&size) && frame % 8 == 0)
    }

    fn is_id(&self, thread: u8, at: u8) -> Option<bool> {
        let size = *self.words.get(usize::from(thread))?;
        let [id, native] = *self.words.get(usize::from(at)..)?.first_chunk()?;
        let fit = id < size && native < size && id % 8 == 0 && native % 8 == 0;
        let mut known = [0; MOST_TRIED];
        let states = self.states(thread)?.into_iter();
        for (index, state) in states.enumerate().filter(|(_, state)| *state != 0) {
            let (pointer, number) = (self.word(state, id)?, self.word(state, native)?);
            let holds_itself = pointer != 0 && self.word(pointer, 0)? == pointer;
            let is_another = !known[..index].contains(&pointer);
            if !holds_itself || !is_another || !(1..=LARGEST_THREAD).contains(&number) {
                return Some(false);
            }
            known[index] = pointer;
        }
        Some(fit)
    }

    fn is_frame(&self, thread: u8, at: u8) -> Option<bool> {
        let [size, previous, code, instruction, _, owner] = self.row(at)?;
        let offset = self.row::<5>(thread)?[4];
        let aligned = [previous, code, instruction].iter().all(|of| of % 8 == 0);
        if !FRAME_SIZES.contains(&size) || !aligned {
            return Some(false);
        }
        let mut found = false;
        for state in self.states(thread)?.into_iter().filter(|state| *state != 0) {
            let mut frame = self.word(state, offset)?;
            for _ in 0..MOST_TRIED {
                if frame == 0 {
                    break;
                }
                spend(self.left, 1)?;
                let owner = self.memory.u8(frame.wrapping_add(owner)).ok()?;
                if owner < SHIM {
                    let code = self.word(frame, code)? & !TAG;
                    if self.word(code, 8 + self.head())? != self.facts.types().code {
                        return Some(false);
                    }
                    found = true;
                }
                if owner > LAST_OWNER {
                    return Some(false);
                }
                frame = self.word(frame, previous)?;
            }
        }
        Some(found)
    }
}

/// What is missing where the budget is spent.
const TOO_LARGE: &str = "end of its frames within the limit of what is read";

/// A proof that goes on.
struct Proof<'p, 'm, M> {
    python: &'p Python<'m, M>,
    proven: Proven,
    left: &'p Cell<u64>,
    /// Code that was looked at, each in a place by its address: recursions and threads have it many times.
    known: [u64; REMEMBERED],
    /// The code of frames that the interpreter pushes between those of functions; 0 as long as there was none.
    own: u64,
}

impl<'m, M: Memory> Python<'m, M> {
    /// Holds the layout against all frames of all threads.
    fn proof(&self, left: &Cell<u64>) -> Result<Proven, Error> {
        self.check_class_of_code()?;
        let mut proof = Proof {
            python: self,
            proven: Proven::default(),
            left,
            known: [0; REMEMBERED],
            own: 0,
        };
        for interpreter in self.interpreters() {
            proof.interpreter(interpreter?)?;
        }
        match proof.proven.frames {
            0 => Err(Error::NotRunning),
            _ => Ok(proof.proven),
        }
    }
}

impl<M: Memory> Proof<'_, '_, M> {
    fn spend(&self, steps: u64) -> Result<(), Error> {
        let is_left = spend(self.left, steps);
        if is_left.is_none() {
            self.left.set(0);
        }
        is_left.ok_or(Error::garbled(TOO_LARGE, self.python.facts.runtime()))
    }

    fn interpreter(&mut self, interpreter: u64) -> Result<(), Error> {
        let python = self.python;
        self.spend(1)?;
        for thread in python.threads(interpreter) {
            let thread = thread?;
            self.spend(1)?;
            let is_own = |id: u64| Ok::<_, Error>(id == 0 || python.memory.u64(id)? == id);
            if thread.interpreter != interpreter || !is_own(thread.id)? {
                return Err(Error::garbled("thread", thread.address));
            }
            let frames = self.proven.frames;
            self.frames(thread.address)?;
            self.proven.threads += u32::from(self.proven.frames != frames);
        }
        Ok(())
    }

    /// Looks at all frames of a thread, those that are hidden too: of a wrong layout they might be ones that are to be shown.
    fn frames(&mut self, state: u64) -> Result<(), Error> {
        let python = self.python;
        let mut chain = python.frame_chain(state);
        let mut is_innermost = true;
        while let Some(address) = chain.step(python.memory, python.layout.frame.previous)? {
            self.spend(1)?;
            let owner = python.owner(address)?;
            if owner.owner >= SHIM {
                is_innermost = true;
                continue;
            }
            let (point, is_hidden) = python.raw_point(address, owner)?;
            let size = self.instructions(point)?;
            // Between frames of functions there is only one code that is hidden. It has no lines.
            let is_own = is_hidden && size <= LARGEST_OWN;
            if is_own && (self.own == 0 || self.own == point.code) {
                self.own = point.code;
            } else if is_hidden && !is_innermost {
                return Err(Error::garbled("frame that may be hidden", address));
            } else {
                self.known_code(point.code, size)?;
            }
            self.proven.frames += u32::from(!is_hidden);
            is_innermost = false;
        }
        Ok(())
    }

    /// Returns the bytes of the instructions that a frame's code has, if its point is one of them, or before the first.
    fn instructions(&self, point: Point) -> Result<u64, Error> {
        let python = self.python;
        if python.type_of(point.code)? != python.facts.types().code {
            return Err(Error::garbled("code object", point.code));
        }
        let size = python.instructions_of(point.code)?;
        let at = i64::from(point.lasti);
        let is_within = at >= -LONGEST_BEFORE && at < size.min(LARGEST_CODE).cast_signed();
        if size > LARGEST_CODE || !is_within {
            return Err(Error::garbled("instructions of a code object", point.code));
        }
        Ok(size)
    }

    /// Looks at a code object, unless it is known.
    fn known_code(&mut self, code: u64, size: u64) -> Result<(), Error> {
        let place = (code >> 4) as usize % REMEMBERED;
        if self.known[place] == code {
            return Ok(());
        }
        let first = self.python.first_traceable(code)?;
        let most = LONGEST_PROLOGUE.min(size.cast_signed());
        if !(0..most).contains(&first) {
            return Err(Error::garbled("first instruction of code", code));
        }
        self.code(code, size)?;
        self.known[place] = code;
        Ok(())
    }

    /// Looks at a code object with instructions of so many bytes.
    fn code(&mut self, code: u64, size: u64) -> Result<(), Error> {
        let (python, layout) = (self.python, &self.python.layout.code);
        let text = |offset: u64| python.text(python.memory.u64(code.wrapping_add(offset))?);
        let (file, whole) = (python.file(code)?, python.function_name(code)?);
        let name = text(layout.name)?;
        let fits = |text: &Text| (1..=LONGEST_TEXT).contains(&text.len);
        if ![file, name, whole].iter().all(fits) || !self.ends_with(whole, name)? {
            return Err(Error::garbled("file and names of a code object", code));
        }
        let table = python.memory.u64(code.wrapping_add(layout.table))?;
        let length = python.memory.u64(python.field(table, OB_SIZE))?;
        self.spend(length / STEP)?;
        let bytes = lines::Bytes::new(python.memory, python.field(table, BYTES), length);
        match python.is(table, Builtin::Bytes)? && lines::covered(bytes)? == size {
            true => Ok(()),
            false => Err(Error::garbled("line table of a code object", code)),
        }
    }

    /// Whether a name ends with another one, as far as both are short enough to be compared.
    fn ends_with(&self, whole: Text, name: Text) -> Result<bool, Error> {
        let (mut long, mut short) = ([0; COMPARED], [0; COMPARED]);
        let of_whole = self.python.copy(whole, &mut long)?;
        let of_name = self.python.copy(name, &mut short)?;
        let ends = long[..of_whole.len].ends_with(&short[..of_name.len]);
        Ok(ends || of_whole.truncated)
    }
}
