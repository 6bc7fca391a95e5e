//! The VM's own frames of this thread: one arm for each language in each of two functions, the hot one that says where
//! the script is, and the cold one that says it in words.

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

/// A line in words: its number, and the bytes of path and name that were written.
pub struct Words {
    /// From 1; 0 = none.
    pub line: u32,
    /// Bytes of the path.
    pub path: usize,
    /// Bytes of the name.
    pub name: usize,
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
                let place = perl.here(&interpreter).ok()??;
                Some(Place {
                    code: place.cop,
                    point: place.op,
                    witness: perl.witness(place).ok()?,
                    number: 0,
                })
            }
            Reader::Php(_, thread) if *thread != thread_pointer() => None,
            Reader::Php(php, _) => {
                let place = php.here().ok()??;
                Some(Place {
                    code: place.function,
                    point: place.opline,
                    witness: php.witness(place).ok()?,
                    number: 0,
                })
            }
        }
    }

    /// The same in words; what cannot be read is empty.
    pub fn describe(&self, place: Place, wary: bool, path: &mut [u8], name: &mut [u8]) -> Words {
        let mut words = Words {
            line: 0,
            path: 0,
            name: 0,
        };
        match self {
            Reader::None => {}
            Reader::Ruby(ruby, _) => {
                let copy = |text: Result<ruby::Text, _>, into: &mut [u8]| {
                    let copied = text.ok().and_then(|text| ruby.copy(text, into).ok());
                    copied.map_or(0, |copied| copied.len)
                };
                words.line = ruby.line(place.code, place.point).unwrap_or(0);
                words.path = copy(ruby.path(place.code), path);
                words.name = copy(ruby.label(place.code), name);
            }
            Reader::Python(python) if wary => {
                let proven = Proven::new();
                if let Ok(python) = Python::new(&proven, *python.facts()) {
                    describe_python(&python, place, &mut words, path, name);
                }
            }
            Reader::Python(python) => describe_python(python, place, &mut words, path, name),
            Reader::Perl(perl) => {
                let at = perl::Place {
                    cop: place.code,
                    op: place.point,
                    after: false,
                };
                words.line = perl.line(at).unwrap_or(0);
                words.path = written(path, |out| {
                    let file = perl.file(at)?;
                    perl.write_text(file, LONGEST_NAME as u64, out)
                });
                words.name = written(name, |out| {
                    let Ok(Some(interpreter)) = perl.interpreter(thread_pointer()) else {
                        return Ok(());
                    };
                    match perl.frames(&interpreter)?.next() {
                        Some(Ok(perl::Frame {
                            kind: perl::Kind::Sub { code },
                            ..
                        })) => perl.write_code_name(code, out),
                        _ => Ok(()),
                    }
                });
            }
            Reader::Php(php, _) => {
                let at = php::Place {
                    function: place.code,
                    opline: place.point,
                };
                words.line = php.line(at).unwrap_or(0);
                words.path = written(path, |out| {
                    let file = php.file(at)?;
                    php.write_text(file, LONGEST_NAME as u64, out)
                });
                words.name = written(name, |out| php.write_function_name(place.code, out));
            }
        }
        words
    }
}

#[inline]
fn python_place(python: &Python<impl Memory>) -> Option<Place> {
    let state = python.thread_state(thread_pointer()).ok()??;
    let place = python.place(state).ok()??;
    Some(Place {
        code: place.code,
        point: place.lasti as u32 as u64,
        witness: python.witness(place.code).ok()?,
        number: 0,
    })
}

fn describe_python(
    python: &Python<impl Memory>,
    place: Place,
    words: &mut Words,
    path: &mut [u8],
    name: &mut [u8],
) {
    let copy = |text: Result<python::Text, _>, into: &mut [u8]| {
        let copied = text.ok().and_then(|text| python.copy(text, into).ok());
        copied.map_or(0, |copied| copied.len)
    };
    let at = python::Place {
        code: place.code,
        lasti: place.point as i32,
    };
    words.line = python.line(at).ok().flatten().unwrap_or(0);
    words.path = copy(python.file(place.code), path);
    words.name = copy(python.function_name(place.code), name);
}

/// Six loads, two for each C frame, and three for the witness.
#[inline]
fn ruby_place(ruby: &Ruby<'static, Direct>, offset: u64) -> Option<Place> {
    // SAFETY: the thread's own block; the command found the VM's pointer there.
    let thread = unsafe { *(thread_pointer().wrapping_add(offset) as *const u64) };
    let ec = ruby.running_ec(thread).ok()?;
    let cfp = ruby.current_cfp(ec).ok()?;
    let frame = ruby.frames(ec, cfp).ok()?.next()?.ok()?;
    Some(Place {
        code: frame.iseq,
        point: frame.pc,
        witness: ruby.witness(frame.iseq).ok()?,
        number: 0,
    })
}
