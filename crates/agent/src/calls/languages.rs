//! The VM's own frames of this thread: one arm for each language in each of three functions, the hot one that says where
//! the script is, the one that says from where that was called, and the cold one that says it in words.

use super::lane::thread_pointer;
use super::values::Cut;
use super::values::Proven;
use crate::names::Direct;
use core::fmt::Write;
use vm::Memory;
use vm::perl::{self, Perl};
use vm::php::{self, Php};
use vm::python::{self, Python};
use vm::ruby::{self, Ruby};
use wire::calls::{Calls, LONGEST_NAME, Place, language};

/// The reader of the guest's VM.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, and no allocator to box it"
)]
pub enum Reader {
    /// There is none, or none that is known.
    None,
    /// Ruby; with the distance of its thread's pointer from the thread pointer.
    Ruby(Ruby<'static, Direct>, u64),
    /// Python.
    Python(Python<'static, Direct>),
    /// Perl.
    Perl(Perl<'static, Direct>),
    /// PHP without threads of its own; with the thread pointer of the one that runs it.
    Php(Php<'static, Direct>, u64),
}

/// How many bytes `write` wrote into `bytes`; what it could not read is left out.
fn written<E>(bytes: &mut [u8], write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> usize {
    let mut cut = Cut::new(bytes);
    let _ = write(&mut cut);
    cut.length()
}

/// A line in words.
pub struct Words {
    /// From 1; 0 = none.
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

    /// As the line is shown: `path:line in 'name'`.
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

/// A place; its number is the table's to give.
const fn at(code: u64, point: u64, witness: u64) -> Place {
    Place {
        code,
        point,
        witness,
        number: 0,
    }
}

/// Perl: the point is the operation that follows, where a call returns to. Operations are aligned.
const AFTER: u64 = 1;

fn perl_place(perl: &Perl<'_, Direct>, place: perl::Place) -> Option<Place> {
    let after = if place.after { AFTER } else { 0 };
    Some(at(place.cop, place.op | after, perl.witness(place).ok()?))
}

fn php_place(php: &Php<'_, Direct>, place: php::Place) -> Option<Place> {
    Some(at(place.function, place.opline, php.witness(place).ok()?))
}

fn facts<const N: usize>(calls: &Calls) -> [u64; N] {
    let mut words = [0; N];
    for (word, given) in words.iter_mut().zip(&calls.facts) {
        *word = *given;
    }
    words
}

impl Reader {
    /// The reader for what the command found.
    pub fn open(calls: &Calls) -> Self {
        let reader = match calls.language {
            language::RUBY if calls.state_offset != 0 => {
                Ruby::new(&Direct, ruby::Facts::from_words(facts(calls)))
                    .map(|ruby| Reader::Ruby(ruby, calls.state_offset))
                    .ok()
            }
            language::PYTHON => Python::new(&Direct, python::Facts::from_words(facts(calls)))
                .map(Reader::Python)
                .ok(),
            language::PERL => Perl::new(&Direct, perl::Facts::from_words(facts(calls)))
                .map(Reader::Perl)
                .ok(),
            language::PHP => Php::new(&Direct, php::Facts::from_words(facts(calls)))
                .map(|php| Reader::Php(php, calls.state_offset))
                .ok(),
            _ => None,
        };
        reader.unwrap_or(Reader::None)
    }

    /// Where the script of this thread is. `wary`: see [`Calls::wary`].
    #[inline]
    pub fn place(&self, wary: bool) -> Option<Place> {
        match self {
            Reader::None => None,
            Reader::Ruby(ruby, offset) => ruby_place(ruby, *offset),
            Reader::Python(python) if wary => {
                let proven = Proven::new();
                python_place(&Python::new(&proven, *python.facts()).ok()?)
            }
            Reader::Python(python) => python_place(python),
            Reader::Perl(perl) => {
                let interpreter = perl.interpreter(thread_pointer()).ok()??;
                perl_place(perl, perl.here(&interpreter).ok()??)
            }
            Reader::Php(_, thread) if *thread != thread_pointer() => None,
            Reader::Php(php, _) => php_place(php, php.here().ok()??),
        }
    }

    /// Hands the places of the frames outside of the nearest to `each`, from the inside outward, with what
    /// [`describe`](Reader::describe) wants to know of them, until it says that it is enough.
    pub fn outward(&self, wary: bool, mut each: impl FnMut(Place, u64) -> bool) {
        match self {
            Reader::None => {}
            Reader::Ruby(ruby, offset) => {
                if let Some(frames) = ruby_frames(ruby, *offset) {
                    // One that has not begun is in no backtrace.
                    let begun = frames
                        .skip(1)
                        .map_while(Result::ok)
                        .filter(|one| one.pc != 0);
                    let mut places = begun.map_while(|frame| ruby_frame(ruby, frame));
                    places.all(|place| each(place, 0));
                }
            }
            Reader::Python(python) if wary => {
                let proven = Proven::new();
                if let Ok(python) = Python::new(&proven, *python.facts()) {
                    python_outward(&python, &mut each);
                }
            }
            Reader::Python(python) => python_outward(python, &mut each),
            Reader::Perl(perl) => {
                if let Ok(Some(interpreter)) = perl.interpreter(thread_pointer())
                    && let Ok(mut frames) = perl.callers(&interpreter)
                {
                    frames.next();
                    while let Some(Ok(frame)) = frames.next()
                        && let Some(place) = frame.place
                        && let Some(place) = perl_place(perl, place)
                        && each(place, frames.sub_around(&frame).unwrap_or(0))
                    {}
                }
            }
            Reader::Php(php, _) => {
                if let Ok(data) = php.current() {
                    let frames = php.frames(data).map_while(Result::ok);
                    let places = frames.filter_map(|frame| frame.place).skip(1);
                    let mut places = places.map_while(|place| php_place(php, place));
                    places.all(|place| each(place, 0));
                }
            }
        }
    }

    /// Whether a path is a library's.
    pub fn is_library(&self, path: &[u8]) -> bool {
        let marks = match self {
            Reader::None => return false,
            Reader::Ruby(..) => ruby::LIBRARIES,
            Reader::Python(_) => python::LIBRARIES,
            Reader::Perl(_) => perl::LIBRARIES,
            Reader::Php(..) => php::LIBRARIES,
        };
        vm::library::is_library(path, marks)
    }

    /// The same in words; what cannot be read is empty. `code` is the function of the frame, as
    /// [`outward`](Reader::outward) gave it; `None`: it is the nearest frame.
    pub fn describe(&self, place: Place, code: Option<u64>, wary: bool, words: &mut Words) {
        let Words {
            line,
            path,
            name,
            lengths,
        } = words;
        match self {
            Reader::None => {}
            Reader::Ruby(ruby, _) => {
                let copy = |text: Result<ruby::Text, _>, into: &mut [u8]| {
                    let copied = text.ok().and_then(|text| ruby.copy(text, into).ok());
                    copied.map_or(0, |copied| copied.len)
                };
                *line = ruby.line(place.code, place.point).unwrap_or(0);
                *lengths = [
                    copy(ruby.path(place.code), path),
                    copy(ruby.label(place.code), name),
                ];
            }
            Reader::Python(python) if wary => {
                let proven = Proven::new();
                if let Ok(python) = Python::new(&proven, *python.facts()) {
                    describe_python(&python, place, words);
                }
            }
            Reader::Python(python) => describe_python(python, place, words),
            Reader::Perl(perl) => {
                let at = perl::Place {
                    cop: place.code,
                    op: place.point & !AFTER,
                    after: place.point & AFTER != 0,
                };
                let innermost = || {
                    let interpreter = perl.interpreter(thread_pointer()).ok()??;
                    let mut frames = perl.callers(&interpreter).ok()?;
                    let frame = frames.next()?.ok()?;
                    frames.sub_around(&frame)
                };
                let code = code.unwrap_or_else(|| innermost().unwrap_or(0));
                *line = perl.line(at).unwrap_or(0);
                *lengths = [
                    written(path, |out| {
                        let file = perl.file(at)?;
                        perl.write_text(file, LONGEST_NAME as u64, out)
                    }),
                    written(name, |out| match code {
                        0 => Ok(()),
                        code => perl.write_code_name(code, out),
                    }),
                ];
            }
            Reader::Php(php, _) => {
                let at = php::Place {
                    function: place.code,
                    opline: place.point,
                };
                *line = php.line(at).unwrap_or(0);
                *lengths = [
                    written(path, |out| {
                        let file = php.file(at)?;
                        php.write_text(file, LONGEST_NAME as u64, out)
                    }),
                    written(name, |out| php.write_function_name(place.code, out)),
                ];
            }
        }
    }
}

#[inline]
fn python_place(python: &Python<impl Memory>) -> Option<Place> {
    let state = python.thread_state(thread_pointer()).ok()??;
    python_frame(python, python.place(state).ok()??)
}

#[inline]
fn python_frame(python: &Python<impl Memory>, place: python::Place) -> Option<Place> {
    let witness = python.witness(place.code).ok()?;
    Some(at(place.code, place.lasti as u32 as u64, witness))
}

fn python_outward(python: &Python<impl Memory>, each: &mut impl FnMut(Place, u64) -> bool) {
    let Ok(Some(state)) = python.thread_state(thread_pointer()) else {
        return;
    };
    let frames = python.frames(state).skip(1).map_while(Result::ok);
    let mut places = frames.map_while(|frame| python_frame(python, frame.place));
    places.all(|place| each(place, 0));
}

fn describe_python(python: &Python<impl Memory>, place: Place, words: &mut Words) {
    let copy = |text: Result<python::Text, _>, into: &mut [u8]| {
        let copied = text.ok().and_then(|text| python.copy(text, into).ok());
        copied.map_or(0, |copied| copied.len)
    };
    let at = python::Place {
        code: place.code,
        lasti: place.point as i32,
    };
    words.line = python.line(at).ok().flatten().unwrap_or(0);
    words.lengths = [
        copy(python.file(place.code), &mut words.path),
        copy(python.function_name(place.code), &mut words.name),
    ];
}

/// Six loads, two for each C frame, and three for the witness.
#[inline]
fn ruby_place(ruby: &Ruby<'static, Direct>, offset: u64) -> Option<Place> {
    ruby_frame(ruby, ruby_frames(ruby, offset)?.next()?.ok()?)
}

#[inline]
fn ruby_frames<'r>(
    ruby: &'r Ruby<'static, Direct>,
    offset: u64,
) -> Option<ruby::Frames<'r, Direct>> {
    // SAFETY: the thread's own block; the command found the VM's pointer there.
    let thread = unsafe { *(thread_pointer().wrapping_add(offset) as *const u64) };
    let ec = ruby.running_ec(thread).ok()?;
    ruby.frames(ec, ruby.current_cfp(ec).ok()?).ok()
}

#[inline]
fn ruby_frame(ruby: &Ruby<'static, Direct>, frame: ruby::Frame) -> Option<Place> {
    Some(at(frame.iseq, frame.pc, ruby.witness(frame.iseq).ok()?))
}
