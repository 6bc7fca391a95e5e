//! PHP's implementation of the reader that all languages have: see [`reader`](crate::reader).

use super::{Error, Facts, Php, Point, Value};
use crate::language::{Definer, Description};
use crate::reader::{
    Call, FactWords, Found, NoText, OwnThread, RawText, ScriptPoint, ScriptReader, State, all, few,
    until,
};
use crate::{Cut, Limits, Memory, Scalar, Word};

pub(crate) static DESCRIPTION: Description = Description {
    name: "PHP",
    prefix: "php",
    examples: "php:function, php:Class::method",
    ignores_case: true,
    mark: "module_registry",
    entry: "php_execute_script",
    ends_interpreter: "",
    // `dl` ends with it.
    definer: Definer::Function("zend_startup_module_ex"),
    // `Zend/zend_gc.c`; exported.
    collectors: &["zend_gc_collect_cycles"],
    counts_references: true,
    switches_off: "gc_disable",
    scans_stacks: false,
    takes_turns: false,
    enlarges_sets: false,
    frees_small_pieces: false,
    counted: ["object", "objects"],
    libraries: super::LIBRARIES,
};

fn point(at: ScriptPoint) -> Point {
    Point {
        function: at.code,
        opline: at.point,
    }
}

impl<M: Memory> Php<'_, M> {
    #[inline]
    fn script_point(&self, point: Point) -> Option<ScriptPoint> {
        Some(ScriptPoint {
            code: point.function,
            point: point.opline,
            witness: self.witness(point).ok()?,
        })
    }
}

impl<'a, M: Memory> ScriptReader<'a, M> for Php<'a, M> {
    type Error = Error;

    fn find(memory: &'a M, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Found, Error> {
        let facts = Facts::find(memory, symbol)?;
        Ok(Found {
            facts: all(facts.to_words()),
            state: State::MainThread,
        })
    }

    fn open(memory: &'a M, facts: &FactWords) -> Option<Self> {
        Php::new(memory, Facts::from_words(few(facts))).ok()
    }

    /// The VM is built without threads: only the thread that runs it has a line.
    #[inline]
    fn nearest(&self, thread: OwnThread) -> Option<ScriptPoint> {
        if thread.pointer != thread.state {
            return None;
        }
        self.script_point(self.here().ok()??)
    }

    fn outward(&self, _thread: OwnThread, each: &mut impl FnMut(ScriptPoint, u64) -> bool) -> bool {
        let Ok(data) = self.current() else {
            return false;
        };
        let frames = self.frames(data);
        let points = frames.filter_map(|frame| frame.map(|frame| frame.point).transpose());
        let points = points.skip(1).map(|point| self.script_point(point.ok()?));
        until(points, &mut |point| each(point, 0))
    }

    fn line(&self, at: ScriptPoint) -> Option<u32> {
        Php::line(self, point(at)).ok()
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
        at: ScriptPoint,
        _function: Option<u64>,
        _thread: OwnThread,
        into: &mut [u8],
    ) -> usize {
        let mut cut = Cut::new(into);
        let _ = self.write_function_name(at.code, &mut cut);
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
        match word {
            Word::PhpZval => self.write_value(value, limits.text, out)?,
            Word::PhpString => self.write_string(value, limits.text, out)?,
            // `void f(zend_execute_data *, zval *return_value)`.
            Word::PhpResult => self.write_value(call.registers[1], limits.text, out)?,
            Word::PhpArguments => {
                self.write_arguments(value, limits.arguments, limits.text, out)?;
            }
            _ => return Err(NoText),
        }
        Ok(())
    }

    fn scalar(&self, word: Word, value: u64, index: u64, call: &Call) -> Option<Scalar<RawText>> {
        let zval = match word {
            Word::PhpZval => value,
            Word::PhpResult => call.registers[1],
            Word::PhpArguments => self.argument(call.registers[0], index).ok()??,
            Word::PhpString if value == 0 => return Some(Scalar::Nothing),
            Word::PhpString => {
                let text = self.string(value).ok()?;
                return Some(Scalar::Text(RawText::bytes(text.address, text.len)));
            }
            _ => return None,
        };
        Some(match self.value(zval).ok()? {
            Value::Null => Scalar::Nothing,
            Value::Long(number) => Scalar::Integer(number),
            Value::String(text) => Scalar::Text(RawText::bytes(text.address, text.len)),
            _ => Scalar::Other,
        })
    }

    /// Methods that several classes inherit have one handler, so the function that is called is needed.
    fn identity(&self, registers: [u64; 6]) -> u64 {
        let identity = |call| Php::identity(self, self.called(call)?);
        identity(registers[0]).unwrap_or(0)
    }
}
