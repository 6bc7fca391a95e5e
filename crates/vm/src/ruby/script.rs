//! Ruby's implementation of the reader that all languages have: see [`reader`](crate::reader).

use core::fmt::Write;

use super::{Convention, Error, Facts, Frame, Frames, Ruby, Text, write_reason};
use crate::language::{Definer, Description};
use crate::reader::{
    Call, FactWords, Found, NoText, OwnThread, RawText, ScriptPoint, ScriptReader, State, all, few,
    until,
};
use crate::{Cut, Limits, Memory, Scalar, Word};

pub(crate) static DESCRIPTION: Description = Description {
    name: "Ruby",
    prefix: "ruby",
    examples: "ruby:Class#method, ruby:Module.method",
    ignores_case: false,
    mark: "ruby_version",
    entry: "ruby_run_node",
    ends_interpreter: "",
    // `dln_load` calls `Init_` and the library's name.
    definer: Definer::Prefix("Init_"),
    // `gc.c`, since 3.4 `gc/default/default.c`.
    collectors: &["gc_start"],
    counts_references: false,
    switches_off: "GC.disable",
    scans_stacks: true,
    takes_turns: true,
    enlarges_sets: true,
    frees_small_pieces: true,
    counted: ["object", "objects"],
    libraries: super::LIBRARIES,
};

impl<M: Memory> Ruby<'_, M> {
    /// Returns the frames of a thread. The pointer that it keeps may be old: from 3.3 on, native threads are shared,
    /// and one that is idle still points to the thread that it ran last, which may have been freed. Such a thread runs
    /// no script.
    #[inline]
    fn own_frames(&self, thread: OwnThread) -> Option<Frames<'_, M>> {
        let at = thread.pointer.wrapping_add(thread.state);
        let ec = self.ec_if_thread(self.facts.vm(), self.memory.u64(at).ok()?)?;
        self.frames(ec, self.current_cfp(ec).ok()?).ok()
    }

    /// Returns what the reader of script lines needs.
    pub fn for_script(&self) -> Result<Found, Error> {
        let vm = self.vm()?;
        Ok(Found {
            facts: all(self.facts.with_vm(vm).to_words()),
            // 0 is no pointer, so that none is found.
            state: State::Pointer(self.main_thread(vm).unwrap_or(0)),
        })
    }

    /// Returns the point of a frame; `None` if it cannot be read: without a table that of compiled code is none.
    #[inline]
    fn script_point(&self, frame: Frame) -> Option<ScriptPoint> {
        if !self.facts.has_table() && self.is_compiled(frame) != Ok(false) {
            return None;
        }
        Some(ScriptPoint {
            code: frame.iseq,
            point: frame.pc,
            witness: self.witness(frame.iseq).ok()?,
        })
    }

    fn copy_whole(&self, text: Result<Text, Error>, into: &mut [u8]) -> usize {
        let copied = text.ok().and_then(|text| self.copy(text, into).ok());
        copied.map_or(0, |copied| copied.len)
    }

    /// Writes the receiver, unless its text would be its class alone, which the method's name has. Returns whether it
    /// was written.
    fn write_receiver(&self, value: u64, limits: &Limits, out: &mut Cut<'_>) -> bool {
        let written = self.write_value(value, limits, out);
        if written.is_err() || out.begins_with("#<") {
            out.clear();
            return false;
        }
        out.put_first("self: ");
        true
    }
}

impl<'a, M: Memory> ScriptReader<'a, M> for Ruby<'a, M> {
    type Error = Error;

    fn find(memory: &'a M, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Found, Error> {
        let facts = Facts::find(memory, symbol)?;
        Ruby::new(memory, facts)?.for_script()
    }

    fn open(memory: &'a M, facts: &FactWords) -> Option<Self> {
        Ruby::new(memory, Facts::from_words(few(facts))).ok()
    }

    /// Nine loads, and two more for each C frame.
    #[inline]
    fn nearest(&self, thread: OwnThread) -> Option<ScriptPoint> {
        self.script_point(self.own_frames(thread)?.next()?.ok()?)
    }

    fn outward(&self, thread: OwnThread, each: &mut impl FnMut(ScriptPoint, u64) -> bool) -> bool {
        let Some(frames) = self.own_frames(thread) else {
            return false;
        };
        // A frame that has not begun is in no backtrace.
        let begun = |frame: &Result<Frame, _>| !matches!(frame, Ok(Frame { pc: 0, .. }));
        let frames = frames.skip(1).filter(begun);
        let points = frames.map(|frame| self.script_point(frame.ok()?));
        until(points, &mut |point| each(point, 0))
    }

    fn reads_frames_alone(&self) -> bool {
        !self.facts.has_table()
    }

    fn is_wary(&self) -> bool {
        !self.facts.has_table()
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
        Ruby::line(self, at.code, at.point).ok()
    }

    fn copy_path(&self, at: ScriptPoint, into: &mut [u8]) -> usize {
        self.copy_whole(self.path(at.code), into)
    }

    fn copy_name(
        &self,
        at: ScriptPoint,
        _function: Option<u64>,
        _thread: OwnThread,
        into: &mut [u8],
    ) -> usize {
        self.copy_whole(self.label(at.code), into)
    }

    fn write_word(
        &self,
        word: Word,
        value: u64,
        call: &Call,
        limits: &Limits,
        out: &mut Cut<'_>,
    ) -> Result<(), NoText> {
        let [argc, argv, receiver, ..] = call.registers;
        match word {
            Word::RubyValue => self.write_value(value, limits, out)?,
            Word::RubyId => self.write_id(value, limits.text, out)?,
            Word::RubySelf => {
                self.write_receiver(value, limits, out);
            }
            Word::RubyMethod | Word::RubyFunction => {
                if word == Word::RubyMethod
                    && self.write_receiver(receiver, limits, out)
                    && argc as u32 > 0
                {
                    out.write_str(", ")?;
                }
                let registers = [argc, argv, receiver, 0, 0, 0];
                self.write_arguments(Convention::Arguments, registers, limits, out)?;
            }
            Word::RubySplat => {
                let registers = [0, value, 0, 0, 0, 0];
                self.write_arguments(Convention::Array, registers, limits, out)?;
            }
            Word::RubyReason => write_reason(value as u32, out)?,
            Word::RubyCollections => {
                let count = self.memory.u64(argc.wrapping_add(limits.text))?;
                write!(out, "{count}")?;
            }
            _ => return Err(NoText),
        }
        Ok(())
    }

    fn scalar(&self, word: Word, value: u64, index: u64, call: &Call) -> Option<Scalar<RawText>> {
        let [argc, argv, ..] = call.registers;
        let value = match word {
            Word::RubyValue => value,
            Word::RubyMethod | Word::RubyFunction => {
                let registers = [argc, argv, 0, 0, 0, 0];
                self.argument(Convention::Arguments, registers, index)
                    .ok()??
            }
            Word::RubySplat => {
                let registers = [0, value, 0, 0, 0, 0];
                self.argument(Convention::Array, registers, index).ok()??
            }
            _ => return None,
        };
        let scalar = Ruby::scalar(self, value).ok()?;
        Some(scalar.map(|text| RawText::bytes(text.address, text.len)))
    }
}
