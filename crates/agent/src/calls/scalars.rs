//! Values of the guest's VM in conditions: looked up as they are when the hook asks, over memory that is proven readable
//! page by page.

use super::lane::thread_pointer;
use super::languages::Reader;
use super::places;
use super::values::Proven;
use capture::What;
use capture::value::{Item, Text, Value, Values};
use vm::perl::{self, Perl};
use vm::php::{self, Php};
use vm::python::{self, Python};
use vm::ruby::{self, Ruby};
use vm::{Memory, Scalar};

/// A call whose values are asked.
pub struct Scalars<'a> {
    /// What was proven for it.
    pub proven: &'a Proven,
    /// rdi, rsi, rdx, rcx, r8, r9 of the call.
    pub registers: [u64; 6],
    /// What [`Reader::kept`] gave at the call.
    pub kept: u64,
}

impl Scalars<'_> {
    fn find(&self, item: Item, word: u64) -> Option<Value> {
        let index = u64::from(item.index);
        let [a, b, c, d, e, _] = self.registers;
        match places::reader() {
            Reader::None => None,
            Reader::Ruby(ruby, _) => {
                let ruby = Ruby::new(self.proven, *ruby.facts()).ok()?;
                let convention = ruby::Convention::Arguments;
                let value = match item.what.convention() {
                    None if item.what == What::VALUE => word,
                    // Number and address; an Array.
                    Some(0 | 1) => ruby
                        .argument(convention, [a, b, 0, 0, 0, 0], index)
                        .ok()??,
                    Some(2) => {
                        let convention = ruby::Convention::Array;
                        let registers = [0, word, 0, 0, 0, 0];
                        ruby.argument(convention, registers, index).ok()??
                    }
                    _ => return None,
                };
                Some(of_scalar(ruby.scalar(value).ok()?, |text| Text {
                    at: text.address,
                    left: text.len,
                    width: 0,
                }))
            }
            Reader::Python(python) => {
                use python::Convention as C;
                let python = python.over(self.proven);
                let convention = match item.what.convention() {
                    None if item.what == What::VALUE => None,
                    Some(0) => Some(C::Tuple),
                    Some(1) => Some(C::TupleKeywords),
                    Some(2) => Some(C::Fast),
                    Some(3) => Some(C::FastKeywords),
                    Some(4) => Some(C::Method),
                    _ => return None,
                };
                let object = match convention {
                    None => word,
                    Some(convention) => {
                        let registers = [a, b, c, d, e];
                        python.argument(convention, registers, index).ok()??
                    }
                };
                Some(of_scalar(python.scalar(object).ok()?, |text| Text {
                    at: text.address,
                    left: text.len,
                    width: text.width,
                }))
            }
            Reader::Perl(perl) => {
                let perl = Perl::new(self.proven, *perl.facts()).ok()?;
                let sv = match (item.what, item.what.convention()) {
                    (What::VALUE, _) => word,
                    (What::RESULT, _) => {
                        let interpreter = perl.interpreter(thread_pointer()).ok()??;
                        let mark = self.kept.checked_sub(1)?;
                        perl.above(&interpreter, mark, 0).ok()??
                    }
                    (_, Some(0)) => {
                        let interpreter = perl.interpreter(thread_pointer()).ok()??;
                        let mark = perl.mark(&interpreter).ok()?;
                        perl.above(&interpreter, mark, index).ok()??
                    }
                    _ => return None,
                };
                Some(match perl.value(sv).ok()? {
                    perl::Value::Undef => Value::Nothing,
                    perl::Value::Integer(number) => Value::Integer(number),
                    perl::Value::Text(text) => of_bytes(text.address, text.len),
                    _ => Value::Other,
                })
            }
            Reader::Php(php, _) => {
                let php = Php::new(self.proven, *php.facts()).ok()?;
                let zval = match (item.what, item.what.convention()) {
                    (What::VALUE, _) => word,
                    (What::RESULT, _) => b,
                    (_, Some(0)) => php.argument(a, index).ok()??,
                    (What::NAME, _) if word == 0 => return Some(Value::Nothing),
                    (What::NAME, _) => {
                        let text = php.string(word).ok()?;
                        return Some(of_bytes(text.address, text.len));
                    }
                    _ => return None,
                };
                Some(match php.value(zval).ok()? {
                    php::Value::Null => Value::Nothing,
                    php::Value::Long(number) => Value::Integer(number),
                    php::Value::String(text) => of_bytes(text.address, text.len),
                    _ => Value::Other,
                })
            }
        }
    }
}

fn of_scalar<T>(scalar: Scalar<T>, text: impl FnOnce(T) -> Text) -> Value {
    match scalar {
        Scalar::Nothing => Value::Nothing,
        Scalar::Integer(number) => Value::Integer(number),
        Scalar::Text(of) => Value::Text(text(of)),
        Scalar::Other => Value::Other,
    }
}

fn of_bytes(at: u64, left: u64) -> Value {
    Value::Text(Text { at, left, width: 0 })
}

impl Values for Scalars<'_> {
    fn value(&mut self, item: Item, word: u64) -> Option<Value> {
        self.find(item, word)
    }

    fn fetch(&mut self, text: &mut Text, into: &mut [u8]) -> Option<usize> {
        if text.left == 0 {
            return Some(0);
        }
        if text.width == 0 {
            let count = (into.len() as u64).min(text.left) as usize;
            self.proven.read(text.at, &mut into[..count]).ok()?;
            text.at = text.at.wrapping_add(count as u64);
            text.left -= count as u64;
            return Some(count);
        }
        let Reader::Python(python) = places::reader() else {
            return None;
        };
        let python: Python<'_, Proven> = python.over(self.proven);
        let rest = python::Text {
            address: text.at,
            len: text.left,
            width: text.width,
        };
        let copied = python.copy(rest, into).ok()?.len;
        // Bytes that begin a character.
        let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
        let characters = into[..copied].iter().filter(begins).count() as u64;
        text.at = text.at.wrapping_add(characters * u64::from(text.width));
        text.left -= characters;
        Some(copied)
    }
}
