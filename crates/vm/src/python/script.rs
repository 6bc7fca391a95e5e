//! Python's implementation of the reader that all languages have: see [`reader`](crate::reader).

use core::fmt::Write;

use super::{Convention, Error, Facts, Point, Python, Text};
use crate::language::{Definer, Description};
use crate::reader::{
    Call, FactWords, Found, NoText, OwnThread, RawText, ScriptPoint, ScriptReader, State, all, few,
    until,
};
use crate::{Cut, Limits, Memory, Scalar, Word};

pub(crate) static DESCRIPTION: Description = Description {
    name: "Python",
    prefix: "python",
    examples: "python:module.Class.method",
    ignores_case: false,
    mark: "_PyRuntime",
    entry: "Py_RunMain",
    ends_interpreter: "",
    // The import system calls it for each module of C, when its name is in `sys.modules`.
    definer: Definer::Function("PyModule_ExecDef"),
    // `Modules/gcmodule.c`, since 3.13 `Python/gc.c`.
    collectors: &["gc_collect_main", "_PyGC_Collect", "collect"],
    counts_references: true,
    switches_off: "gc.disable",
    scans_stacks: false,
    takes_turns: true,
    enlarges_sets: false,
    frees_small_pieces: false,
    counted: ["block", "blocks"],
    libraries: super::LIBRARIES,
};

/// The convention that a word of a call stands for.
const fn convention(word: Word) -> Option<Convention> {
    Some(match word {
        Word::PythonTuple => Convention::Tuple,
        Word::PythonKeywords => Convention::TupleKeywords,
        Word::PythonFast => Convention::Fast,
        Word::PythonFastKeywords => Convention::FastKeywords,
        Word::PythonMethod => Convention::Method,
        _ => return None,
    })
}

impl Facts {
    /// Returns what the reader of script lines needs.
    pub fn for_script(self) -> Found {
        let state = if self.own() == 0 {
            State::Unknown("its threads keep no pointer to their Python state")
        } else {
            State::Known
        };
        Found {
            facts: all(self.to_words()),
            state,
        }
    }
}

impl<M: Memory> Python<'_, M> {
    #[inline]
    fn script_point(&self, point: Point) -> Option<ScriptPoint> {
        Some(ScriptPoint {
            code: point.code,
            point: point.lasti as u32 as u64,
            witness: self.witness(point.code).ok()?,
        })
    }

    fn copy_whole(&self, text: Result<Text, Error>, into: &mut [u8]) -> usize {
        let copied = text.ok().and_then(|text| self.copy(text, into).ok());
        copied.map_or(0, |copied| copied.len)
    }
}

impl<'a, M: Memory> ScriptReader<'a, M> for Python<'a, M> {
    type Error = Error;

    fn find(memory: &'a M, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Found, Error> {
        Ok(Facts::find(memory, symbol)?.for_script())
    }

    fn open(memory: &'a M, facts: &FactWords) -> Option<Self> {
        Python::new(memory, Facts::from_words(few(facts))).ok()
    }

    #[inline]
    fn nearest(&self, thread: OwnThread) -> Option<ScriptPoint> {
        let state = self.thread_state(thread.pointer).ok()??;
        self.script_point(self.point(state).ok()??)
    }

    fn outward(&self, thread: OwnThread, each: &mut impl FnMut(ScriptPoint, u64) -> bool) -> bool {
        let Ok(Some(state)) = self.thread_state(thread.pointer) else {
            return false;
        };
        let points = self.frames(state).skip(1).map(|frame| {
            let frame = frame.ok()?;
            self.script_point(frame.point)
        });
        until(points, &mut |point| each(point, 0))
    }

    fn reads_frames_alone(&self) -> bool {
        !self.facts.reads_objects()
    }

    /// Another thread replaces and frees the list of the copies of a function's instructions.
    fn is_wary(&self) -> bool {
        !self.facts.has_table() || self.layout.code.copies.is_some()
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
        let point = Point {
            code: at.code,
            lasti: at.point as i32,
        };
        Python::line(self, point).ok()?
    }

    fn copy_path(&self, at: ScriptPoint, into: &mut [u8]) -> usize {
        self.copy_whole(self.file(at.code), into)
    }

    fn copy_name(
        &self,
        at: ScriptPoint,
        _function: Option<u64>,
        _thread: OwnThread,
        into: &mut [u8],
    ) -> usize {
        self.copy_whole(self.function_name(at.code), into)
    }

    fn write_word(
        &self,
        word: Word,
        value: u64,
        call: &Call,
        limits: &Limits,
        out: &mut Cut<'_>,
    ) -> Result<(), NoText> {
        match word {
            // A function may be given none, or give none.
            Word::PythonObject if value == 0 => out.write_str("NULL")?,
            Word::PythonObject => self.write_object(value, limits, out)?,
            Word::PythonSelf => {
                if self.write_object(value, limits, out).is_err() || out.begins_with("<") {
                    out.clear();
                }
            }
            _ => {
                let convention = convention(word).ok_or(NoText)?;
                let [a, b, c, d, e, _] = call.registers;
                self.write_arguments(convention, [a, b, c, d, e], limits, out)?;
            }
        }
        Ok(())
    }

    fn scalar(&self, word: Word, value: u64, index: u64, call: &Call) -> Option<Scalar<RawText>> {
        let object = if word == Word::PythonObject {
            value
        } else {
            let [a, b, c, d, e, _] = call.registers;
            self.argument(convention(word)?, [a, b, c, d, e], index)
                .ok()??
        };
        let scalar = Python::scalar(self, object).ok()?;
        Some(scalar.map(|text| RawText {
            address: text.address,
            len: text.len,
            width: text.width,
        }))
    }

    fn copy_text(&self, text: RawText, into: &mut [u8]) -> Option<usize> {
        let text = Text {
            address: text.address,
            len: text.len,
            width: text.width,
        };
        Some(self.copy(text, into).ok()?.len)
    }
}
