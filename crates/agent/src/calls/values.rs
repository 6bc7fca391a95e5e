//! Words of the guest's VM as text: values, names, the arguments that a VM hands to its C functions.
//!
//! What a word leads to is proven readable page by page before it is read, for an argument may be anything. The text is
//! written where it will be read, into the call's record; how long it gets is bounded by the command's limits and by
//! the room there.

use super::lane::thread_pointer;
use super::languages::Reader;
use crate::sys;
use capture::What;
use core::cell::Cell;
use core::fmt::{self, Write};
use vm::perl::Perl;
use vm::php::Php;
use vm::python::{self, Python};
use vm::ruby::{self, Ruby};
use vm::{Fault, Memory};
use wire::PAGE;

/// Containers within containers that are shown.
const DEPTH: u8 = 2;
/// Arguments of a call that are shown.
const ARGUMENTS: u64 = 16;
/// Pages that one description remembers as readable.
const PAGES: usize = 8;

/// The guest's memory, each page proven before it is read.
pub struct Proven {
    pages: [Cell<u64>; PAGES],
    next: Cell<usize>,
}

impl Proven {
    /// Nothing is proven yet.
    pub const fn new() -> Self {
        Proven {
            pages: [const { Cell::new(0) }; PAGES],
            next: Cell::new(0),
        }
    }

    #[inline]
    fn is_readable(&self, at: u64) -> bool {
        let page = at & !(PAGE as u64 - 1);
        if page == 0 {
            return false;
        }
        if self.pages.iter().any(|known| known.get() == page) {
            return true;
        }
        if !sys::is_readable(page) {
            return false;
        }
        self.pages[self.next.get() % PAGES].set(page);
        self.next.set(self.next.get() + 1);
        true
    }
}

impl Memory for Proven {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < into.len() {
            let from = at.wrapping_add(done as u64);
            if !self.is_readable(from) {
                return Err(Fault { at: from });
            }
            let room = PAGE - (from as usize & (PAGE - 1));
            let length = room.min(into.len() - done);
            // SAFETY: within a page that has just been proven readable; another thread may unmap it now, as it may for
            // the function that was given this address.
            unsafe {
                let into = into.as_mut_ptr().add(done);
                core::ptr::copy_nonoverlapping(from as *const u8, into, length);
            }
            done += length;
        }
        Ok(())
    }
}

/// Text that is written into a piece of memory, and cut at its end.
pub struct Cut<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl<'a> Cut<'a> {
    /// Nothing is written yet.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Cut { bytes, length: 0 }
    }

    /// Bytes written.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds what has room.
    pub fn push(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes.len() - self.length);
        self.bytes[self.length..self.length + count].copy_from_slice(&bytes[..count]);
        self.length += count;
    }

    fn begins_with(&self, text: &str) -> bool {
        self.bytes[..self.length].starts_with(text.as_bytes())
    }
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// A word that is to be described, and the call that it is of.
#[derive(Clone, Copy)]
pub struct Word {
    /// What it is.
    pub what: What,
    /// The word.
    pub word: u64,
    /// Items of containers that are shown.
    pub items: u64,
    /// Characters of texts.
    pub text: u64,
    /// rdi, rsi, rdx, rcx, r8, r9 of the call.
    pub registers: [u64; 6],
    /// What [`Reader::kept`] gave when the function was called.
    pub kept: u64,
}

/// It has no text.
pub struct Nameless;

impl<E: core::error::Error> From<E> for Nameless {
    fn from(_: E) -> Self {
        Nameless
    }
}

impl Word {
    fn limits(&self) -> vm::ruby::Limits {
        ruby::Limits {
            text: self.text,
            items: self.items,
            arguments: ARGUMENTS,
            depth: DEPTH,
        }
    }
}

impl Reader {
    /// Writes the text of a word.
    pub fn describe_word(
        &self,
        word: Word,
        memory: &Proven,
        out: &mut Cut<'_>,
    ) -> Result<(), Nameless> {
        match self {
            Reader::None => Err(Nameless),
            Reader::Ruby(ruby, _) => {
                let ruby = Ruby::new(memory, *ruby.facts())?;
                of_ruby(&ruby, word, out)
            }
            Reader::Python(python) => of_python(&python.over(memory), word, out),
            Reader::Perl(perl) => {
                let perl = Perl::new(memory, *perl.facts())?;
                of_perl(&perl, word, out)
            }
            Reader::Php(php, _) => {
                let php = Php::new(memory, *php.facts())?;
                of_php(&php, word, out)
            }
        }
    }

    /// What must be known of a call of the VM's own to describe its result, in [`KEPT`] bits; 0 for most.
    pub fn kept(&self) -> u64 {
        let Reader::Perl(perl) = self else {
            return 0;
        };
        let mark = || {
            let interpreter = perl.interpreter(thread_pointer()).ok()??;
            perl.mark(&interpreter).ok()
        };
        // One more, so that 0 is none.
        match mark() {
            Some(mark) if mark + 1 < 1 << KEPT => mark + 1,
            _ => 0,
        }
    }

    /// What tells functions apart that share their code: [`wire::calls::Hook::names`].
    pub fn identity(&self, registers: [u64; 6]) -> u64 {
        match self {
            Reader::None | Reader::Ruby(..) | Reader::Python(_) => 0,
            // `void f(pTHX_ CV *)`.
            Reader::Perl(perl) => registers[usize::from(perl.facts().has_threads())],
            Reader::Php(php, _) => {
                let identity = |call| php.identity(php.called(call)?);
                identity(registers[0]).unwrap_or(0)
            }
        }
    }
}

/// Bits of what is kept from a call to its return.
pub const KEPT: u32 = 20;

fn of_ruby(ruby: &Ruby<'_, Proven>, word: Word, out: &mut Cut<'_>) -> Result<(), Nameless> {
    let limits = word.limits();
    let [argc, argv, receiver, ..] = word.registers;
    match (word.what, word.what.convention()) {
        (What::VALUE, _) => ruby.write_value(word.word, &limits, out)?,
        (What::NAME, _) => ruby.write_id(word.word, word.text, out)?,
        (What::RECEIVER, _) => {
            write_receiver(ruby, word.word, word, out);
        }
        (_, Some(convention @ (0 | 1))) => {
            if convention == 0 && write_receiver(ruby, receiver, word, out) && argc as u32 > 0 {
                out.write_str(", ")?;
            }
            let registers = [argc, argv, receiver, 0, 0, 0];
            ruby.write_arguments(ruby::Convention::Arguments, registers, &limits, out)?;
        }
        (_, Some(2)) => {
            let registers = [0, word.word, 0, 0, 0, 0];
            ruby.write_arguments(ruby::Convention::Array, registers, &limits, out)?;
        }
        (_, Some(3)) => ruby::write_reason(word.word as u32, out)?,
        // The first argument leads to the counter, as far on as the command says in place of a length.
        (What::RESULT, _) => {
            let count = ruby.memory().u64(argc.wrapping_add(word.text))?;
            write!(out, "{count}")?;
        }
        _ => return Err(Nameless),
    }
    Ok(())
}

/// Writes the receiver unless all there is to say is its class, which the method's name has; whether it did.
fn write_receiver(ruby: &Ruby<'_, Proven>, value: u64, word: Word, out: &mut Cut<'_>) -> bool {
    let written = ruby.write_value(value, &word.limits(), out);
    if written.is_err() || out.begins_with("#<") {
        out.length = 0;
        return false;
    }
    // Room for the mark is made afterwards: most receivers have no text.
    let mark = "self: ";
    let end = (out.length + mark.len()).min(out.bytes.len());
    let from = 0..end.saturating_sub(mark.len());
    out.bytes.copy_within(from, mark.len().min(end));
    let mark = &mark.as_bytes()[..mark.len().min(end)];
    out.bytes[..mark.len()].copy_from_slice(mark);
    out.length = end;
    true
}

fn of_python(python: &Python<'_, Proven>, word: Word, out: &mut Cut<'_>) -> Result<(), Nameless> {
    use python::Convention;
    let limits = word.limits();
    let convention = match (word.what, word.what.convention()) {
        // A function may be given none, or give none.
        (What::VALUE, _) if word.word == 0 => return Ok(out.write_str("NULL")?),
        (What::VALUE, _) => return Ok(python.write_object(word.word, &limits, out)?),
        (What::RECEIVER, _) => {
            if python.write_object(word.word, &limits, out).is_err() || out.begins_with("<") {
                out.length = 0;
            }
            return Ok(());
        }
        (_, Some(0)) => Convention::Tuple,
        (_, Some(1)) => Convention::TupleKeywords,
        (_, Some(2)) => Convention::Fast,
        (_, Some(3)) => Convention::FastKeywords,
        (_, Some(4)) => Convention::Method,
        _ => return Err(Nameless),
    };
    let [a, b, c, d, e, _] = word.registers;
    Ok(python.write_arguments(convention, [a, b, c, d, e], &limits, out)?)
}

fn of_perl(perl: &Perl<'_, Proven>, word: Word, out: &mut Cut<'_>) -> Result<(), Nameless> {
    let here = || perl.interpreter(thread_pointer()).ok().flatten();
    match (word.what, word.what.convention()) {
        (What::VALUE, _) => perl.write_value(word.word, word.text, out)?,
        (What::RESULT, _) => {
            let interpreter = here().ok_or(Nameless)?;
            let mark = word.kept.checked_sub(1).ok_or(Nameless)?;
            out.write_char('(')?;
            let count = perl.write_above(&interpreter, mark, word.items, word.text, out)?;
            match count {
                1 => {
                    out.bytes.copy_within(1..out.length, 0);
                    out.length -= 1;
                }
                _ => out.write_char(')')?,
            }
        }
        (_, Some(0)) => {
            let interpreter = here().ok_or(Nameless)?;
            let mark = perl.mark(&interpreter)?;
            perl.write_above(&interpreter, mark, ARGUMENTS, word.text, out)?;
        }
        _ => return Err(Nameless),
    }
    Ok(())
}

fn of_php(php: &Php<'_, Proven>, word: Word, out: &mut Cut<'_>) -> Result<(), Nameless> {
    match (word.what, word.what.convention()) {
        (What::VALUE, _) => php.write_value(word.word, word.text, out)?,
        (What::NAME, _) => php.write_string(word.word, word.text, out)?,
        (What::RESULT, _) => php.write_value(word.registers[1], word.text, out)?,
        (_, Some(0)) => php.write_arguments(word.word, ARGUMENTS, word.text, out)?,
        _ => return Err(Nameless),
    }
    Ok(())
}
