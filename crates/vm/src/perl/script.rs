//! Perl's implementation of the reader that all languages have: see [`reader`](crate::reader).

use core::fmt::Write;

use super::{Error, Facts, Interpreter, Perl, Point, Value};
use crate::language::{Definer, Description};
use crate::reader::{
    Call, FactWords, Found, KEPT, NoText, OwnThread, RawText, ScriptPoint, ScriptReader, State,
    all, few,
};
use crate::{Cut, Limits, Memory, Scalar, Word};

pub(crate) static DESCRIPTION: Description = Description {
    name: "Perl",
    prefix: "perl",
    examples: "perl:Package::sub",
    ignores_case: false,
    // The loop that runs operations (`run.c`), with and without threads.
    mark: "Perl_runops_standard",
    entry: "perl_run",
    // `perl_free` gives the memory back, and the thread's key still has its address (`perlmain.c`, `thread.h`).
    ends_interpreter: "perl_destruct",
    // `DynaLoader` and `XSLoader` call `boot_` and the library's name.
    definer: Definer::Prefix("boot_"),
    // Perl counts references.
    collectors: &[],
    counts_references: true,
    switches_off: "",
    scans_stacks: false,
    takes_turns: false,
    enlarges_sets: false,
    frees_small_pieces: false,
    counted: ["object", "objects"],
    libraries: super::LIBRARIES,
};

/// In the point: the operation is the one that follows, to which a call returns. Operations are aligned, so the bit is
/// free.
const AFTER: u64 = 1;

impl<M: Memory> Perl<'_, M> {
    /// Returns the interpreter that a thread runs. One without threads runs on the main thread.
    #[inline]
    fn own_interpreter(&self, thread: OwnThread) -> Option<Interpreter> {
        if !self.facts.has_threads() && thread.pointer != thread.state {
            return None;
        }
        self.interpreter(thread.pointer).ok()?
    }

    #[inline]
    fn script_point(&self, point: Point) -> Option<ScriptPoint> {
        let after = if point.after { AFTER } else { 0 };
        Some(ScriptPoint {
            code: point.cop,
            point: point.op | after,
            witness: self.witness(point).ok()?,
        })
    }

    /// Returns the sub that the nearest frame of a thread runs.
    fn innermost_sub(&self, thread: OwnThread) -> Option<u64> {
        let mut frames = self.callers(&self.own_interpreter(thread)?).ok()?;
        let frame = frames.next()?.ok()?;
        frames.sub_around(&frame)
    }
}

fn point(at: ScriptPoint) -> Point {
    Point {
        cop: at.code,
        op: at.point & !AFTER,
        after: at.point & AFTER != 0,
    }
}

/// Returns the mark in what was kept, which is one more, so that 0 is none.
fn kept_mark(call: &Call) -> Option<u64> {
    call.kept.checked_sub(1)
}

impl<'a, M: Memory> ScriptReader<'a, M> for Perl<'a, M> {
    type Error = Error;

    fn find(memory: &'a M, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Found, Error> {
        let facts = Facts::find(memory, symbol)?;
        let state = if facts.has_threads() {
            State::Known
        } else {
            State::MainThread
        };
        Ok(Found {
            facts: all(facts.to_words()),
            state,
        })
    }

    fn open(memory: &'a M, facts: &FactWords) -> Option<Self> {
        Perl::new(memory, Facts::from_words(few(facts))).ok()
    }

    #[inline]
    fn nearest(&self, thread: OwnThread) -> Option<ScriptPoint> {
        let interpreter = self.own_interpreter(thread)?;
        self.script_point(self.here(&interpreter).ok()??)
    }

    fn outward(&self, thread: OwnThread, each: &mut impl FnMut(ScriptPoint, u64) -> bool) -> bool {
        let Some(interpreter) = self.own_interpreter(thread) else {
            return false;
        };
        let Ok(mut frames) = self.callers(&interpreter) else {
            return false;
        };
        frames.next();
        while let Some(frame) = frames.next() {
            let Ok(frame) = frame else { return false };
            let point = frame.point.and_then(|point| self.script_point(point));
            let Some(point) = point else { return false };
            if !each(point, frames.sub_around(&frame).unwrap_or(0)) {
                return true;
            }
        }
        true
    }

    fn nearest_wary(&self, memory: &impl Memory, thread: OwnThread) -> Option<ScriptPoint> {
        self.over(memory).nearest(thread)
    }

    fn outward_wary(
        &self,
        memory: &impl Memory,
        thread: OwnThread,
        each: &mut impl FnMut(ScriptPoint, u64) -> bool,
    ) -> bool {
        self.over(memory).outward(thread, each)
    }

    fn line(&self, at: ScriptPoint) -> Option<u32> {
        Perl::line(self, point(at)).ok()
    }

    fn copy_path(&self, at: ScriptPoint, into: &mut [u8]) -> usize {
        let longest = into.len() as u64;
        let mut cut = Cut::new(into);
        if let Ok(file) = self.file(point(at)) {
            let _ = self.write_text(file, longest, &mut cut);
        }
        cut.length()
    }

    fn copy_name(
        &self,
        _at: ScriptPoint,
        function: Option<u64>,
        thread: OwnThread,
        into: &mut [u8],
    ) -> usize {
        let mut cut = Cut::new(into);
        let sub = function.or_else(|| self.innermost_sub(thread));
        if let Some(sub) = sub.filter(|sub| *sub != 0) {
            let _ = self.write_code_name(sub, &mut cut);
        }
        cut.length()
    }

    fn write_word(
        &self,
        word: Word,
        value: u64,
        call: &Call,
        limits: &Limits,
        out: &mut Cut<'_>,
    ) -> Result<(), NoText> {
        let own = || self.own_interpreter(call.thread).ok_or(NoText);
        match word {
            Word::PerlSv => self.write_value(value, limits.text, out)?,
            Word::PerlResult => {
                let interpreter = own()?;
                let mark = kept_mark(call).ok_or(NoText)?;
                out.write_char('(')?;
                let count = self.write_above(&interpreter, mark, limits.items, limits.text, out)?;
                if count == 1 {
                    out.drop_first();
                } else {
                    out.write_char(')')?;
                }
            }
            Word::PerlArguments => {
                let interpreter = own()?;
                let mark = self.mark(&interpreter)?;
                self.write_above(&interpreter, mark, limits.arguments, limits.text, out)?;
            }
            _ => return Err(NoText),
        }
        Ok(())
    }

    fn scalar(&self, word: Word, value: u64, index: u64, call: &Call) -> Option<Scalar<RawText>> {
        let own = || self.own_interpreter(call.thread);
        let sv = match word {
            Word::PerlSv => value,
            Word::PerlResult => self.above(&own()?, kept_mark(call)?, 0).ok()??,
            Word::PerlArguments => {
                let interpreter = own()?;
                let mark = self.mark(&interpreter).ok()?;
                self.above(&interpreter, mark, index).ok()??
            }
            _ => return None,
        };
        Some(match self.value(sv).ok()? {
            Value::Undef => Scalar::Nothing,
            Value::Integer(number) => Scalar::Integer(number),
            Value::Text(text) => Scalar::Text(RawText::bytes(text.address, text.len)),
            _ => Scalar::Other,
        })
    }

    /// Keeps the mark below the arguments, which is where the results begin.
    fn kept(&self, thread: OwnThread) -> u64 {
        let mark = || {
            let interpreter = self.own_interpreter(thread)?;
            self.mark(&interpreter).ok()
        };
        match mark() {
            Some(mark) if mark + 1 < 1 << KEPT => mark + 1,
            _ => 0,
        }
    }

    /// The `CV *` of `void f(pTHX_ CV *)`, because all methods of DBI share one function.
    fn identity(&self, registers: [u64; 6]) -> u64 {
        registers[usize::from(self.facts.has_threads())]
    }
}
