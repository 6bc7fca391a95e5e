//! Values as text.

use std::fmt::Write;

use capture::{What, Width, describe};

use super::call::{CallValues, Show};
use super::captures::Memory;
use super::number::{self, Base};
use super::storage::{Storage, argument_at, returned_at};
use super::text;
use crate::location::Locations;
use crate::types::{Array, Expr, Kind, Lens, Type};

/// A value, and the value that it is part of.
pub(super) struct Value<'v> {
    ty: &'v Type,
    at: Storage,
    parent: Option<&'v Value<'v>>,
}

impl<'v> Value<'v> {
    pub(super) fn new(ty: &'v Type, at: Storage) -> Self {
        Self {
            ty,
            at,
            parent: None,
        }
    }

    /// Returns the nearest lens: its own or that of what it is part of.
    fn lens(&self) -> Option<&'v Lens> {
        let own = self.ty.lens.as_ref();
        own.or_else(|| self.parent.and_then(Value::lens))
    }
}

/// The error for bytes that are not known.
struct Unknown;

type Result<T = (), E = Unknown> = std::result::Result<T, E>;

/// Characters of the longest text.
const LONGEST: usize = 64 << 10;
/// The deepest nesting of pointers: each level is a frame on our stack.
const DEEPEST: usize = 200;

pub(super) struct Writer<'w> {
    show: &'w Show<'w>,
    call: CallValues<'w>,
    locations: &'w Locations,
    memory: &'w dyn Memory,
    out: String,
    /// Pointers that are being followed, with the struct that each leads to, so that a circle is not followed again.
    followed: Vec<(u64, *const Type, bool)>,
    steps: usize,
}

impl<'w> Writer<'w> {
    pub(super) fn new(
        show: &'w Show<'w>,
        call: CallValues<'w>,
        locations: &'w Locations,
        memory: &'w dyn Memory,
    ) -> Self {
        Self {
            show,
            call,
            locations,
            memory,
            out: String::new(),
            followed: Vec::new(),
            steps: 0,
        }
    }

    /// Returns the text of a value; `?` if nothing of it is known.
    pub(super) fn whole(&mut self, value: &Value) -> String {
        self.out.clear();
        self.followed.clear();
        self.steps = 0;
        if self.value(value).is_err() {
            self.out.clear();
            self.out.push('?');
        }
        std::mem::take(&mut self.out)
    }

    /// Returns the text of an argument, where an array is a pointer.
    pub(super) fn argument(&mut self, ty: &Type, at: Storage) -> String {
        let Kind::Array(_) = ty.kind else {
            return self.whole(&Value::new(ty, at));
        };
        let mut pointer = ty.clone().pointer();
        pointer.lens.clone_from(&ty.lens);
        self.whole(&Value::new(&pointer, at))
    }

    fn read(&self, value: &Value, into: &mut [u8]) -> Result {
        match value.at {
            Storage::Registers(bytes) => {
                let bytes = bytes.get(..into.len()).ok_or(Unknown)?;
                into.copy_from_slice(bytes);
                Ok(())
            }
            Storage::Memory(at) if self.memory.read(at, into) => Ok(()),
            Storage::Memory(_) => Err(Unknown),
        }
    }

    /// Returns the value's first bytes as a word, with zeros above.
    fn word(&self, value: &Value) -> Result<u64> {
        let mut word = [0; 8];
        let size = match value.ty.kind {
            Kind::Array(_) => 8,
            _ => value.ty.size().min(8),
        };
        self.read(value, &mut word[..size as usize])?;
        Ok(u64::from_le_bytes(word))
    }

    fn value(&mut self, value: &Value) -> Result {
        self.steps += 1;
        if self.out.len() > LONGEST || self.steps > LONGEST {
            return Ok(());
        }
        match value.lens() {
            None => self.plain(value, Base::Default),
            Some(Lens::Hide) => Ok(()),
            Some(Lens::Octal) => self.plain(value, Base::Octal),
            Some(Lens::Hex) => self.plain(value, Base::Hex),
            Some(Lens::Guess) => self.plain(value, Base::Guess),
            Some(Lens::Bool) if value.ty.is_integer() => {
                let word = self.word(value)?;
                self.out.push_str(if word == 0 { "false" } else { "true" });
                Ok(())
            }
            Some(Lens::Bool) => self.plain(value, Base::Default),
            Some(Lens::Bitvec) => self.bits(value),
            Some(Lens::String) => self.string(value),
            Some(Lens::Enum(names)) if value.ty.is_integer() => {
                let word = self.word(value)?;
                match super::flags::name(word, value.ty.size(), names) {
                    Some(name) => self.out.push_str(name),
                    None => return self.plain(value, Base::Default),
                }
                Ok(())
            }
            Some(Lens::Flags(names)) if value.ty.is_integer() => {
                let word = self.word(value)?;
                self.out.push_str(&super::flags::flags(word, names));
                Ok(())
            }
            Some(Lens::Enum(_) | Lens::Flags(_)) => self.plain(value, Base::Default),
            Some(Lens::Vm(word)) => {
                let number = self.word(value)?;
                let decoded = self.show.decode.and_then(|decode| decode(*word, number));
                let described = decoded.or_else(|| self.described(What(word.number()), number));
                match described {
                    Some(text) => self.out.push_str(&text),
                    None if word.is_opaque() => self.out.push('…'),
                    None if number == 0 => self.out.push_str("nil"),
                    None => number::integer(number, 8, false, Base::Hex, &mut self.out),
                }
                Ok(())
            }
        }
    }

    /// Returns the text that the hook handed on for a word.
    fn described(&self, what: What, word: u64) -> Option<String> {
        let at = describe::address(what, word);
        let mut length = [0; describe::HEAD];
        self.memory.read(at, &mut length).then_some(())?;
        let length = u32::from_le_bytes(length) as usize;
        let mut text = vec![0; length.min(describe::LONGEST)];
        let read = self.memory.read(at + describe::HEAD as u64, &mut text);
        let text = read.then(|| String::from_utf8_lossy(&text).into_owned())?;
        // A class may have any name, and the text goes to a terminal.
        let shown = text.chars().flat_map(|character| {
            let escaped = character.is_control().then(|| character.escape_default());
            let plain = escaped.is_none().then_some(character);
            escaped.into_iter().flatten().chain(plain)
        });
        Some(shown.collect())
    }

    fn plain(&mut self, value: &Value, base: Base) -> Result {
        let ty = value.ty;
        match &ty.kind {
            Kind::Void => self.out.push_str("<void>"),
            Kind::Char if base == Base::Default => {
                let byte = self.word(value)? as u8;
                self.out.push('\'');
                text::character(byte, &mut self.out);
                self.out.push('\'');
            }
            Kind::Float => {
                let number = f32::from_bits(self.word(value)? as u32);
                number::floating(number.into(), base, &mut self.out);
            }
            Kind::Double => {
                let number = f64::from_bits(self.word(value)?);
                number::floating(number, base, &mut self.out);
            }
            Kind::LongDouble => {
                let mut bytes = [0; 10];
                self.read(value, &mut bytes)?;
                number::floating(number::extended(bytes), base, &mut self.out);
            }
            Kind::ComplexLongDouble => {
                let mut bytes = [0; 32];
                self.read(value, &mut bytes)?;
                let part =
                    |at: usize| number::extended(bytes[at..at + 10].try_into().expect("ten bytes"));
                self.out.push_str("{ ");
                number::floating(part(0), base, &mut self.out);
                self.out.push_str(", ");
                number::floating(part(16), base, &mut self.out);
                self.out.push_str(" }");
            }
            Kind::Pointer(to) => return self.pointer(value, to),
            Kind::Array(array) => {
                let most = self.show.detail.array;
                return self.array(value, array, most, ["[ ", ", ", " ]"]);
            }
            Kind::Struct(of) => {
                self.out.push_str("{ ");
                let mut begun = false;
                for (offset, field) in of.members() {
                    let before = self.out.len();
                    if begun {
                        self.out.push_str(", ");
                    }
                    let at = self.out.len();
                    self.value(&part(value, field, offset.into()))?;
                    // A hidden member leaves no comma.
                    if self.out.len() > at {
                        begun = true
                    } else {
                        self.out.truncate(before)
                    }
                }
                self.out.push_str(" }");
            }
            _ => {
                let word = self.word(value)?;
                number::integer(word, ty.size(), ty.is_signed(), base, &mut self.out);
            }
        }
        Ok(())
    }

    fn pointer(&mut self, value: &Value, to: &Type) -> Result {
        let address = self.word(value)?;
        if address == 0 {
            self.out.push_str("nil");
            return Ok(());
        }
        if matches!(to.kind, Kind::Void) {
            let _ = write!(self.out, "{address:#x}");
            return Ok(());
        }
        let this: *const Type = match &to.kind {
            // A struct is the same one by whichever name.
            Kind::Struct(of) => (&raw const **of).cast(),
            _ => &raw const *to,
        };
        let is_struct = matches!(to.kind, Kind::Struct(_));
        let same = self
            .followed
            .iter()
            .filter(|(_, of, is_struct)| *is_struct && *of == this)
            .count();
        let deep = is_struct && same >= self.show.detail.array as usize;
        if deep || self.followed.len() > DEEPEST {
            self.out.push_str("...");
            return Ok(());
        }
        let ring = self
            .followed
            .iter()
            .rev()
            .position(|(followed, ..)| *followed == address);
        if let Some(levels) = ring {
            self.out.push_str("recurse");
            self.out.extend(std::iter::repeat_n('^', levels));
            return Ok(());
        }
        self.followed.push((address, this, is_struct));
        let before = self.out.len();
        let behind = Value {
            ty: to,
            at: Storage::Memory(address),
            parent: Some(value),
        };
        if self.value(&behind).is_err() {
            // Its bytes were not copied, or not readable: only its address is known.
            self.out.truncate(before);
            let _ = write!(self.out, "{address:#x}");
        }
        self.followed.pop();
        Ok(())
    }

    /// Writes elements between brackets, or characters between quotes: there the dots come behind the quote.
    fn array(&mut self, value: &Value, array: &Array, most: u32, signs: [&str; 3]) -> Result {
        let [open, comma, close] = signs;
        let stride = u64::from(array.element.size());
        let (length, open_end) = self.length(value, array, u64::from(most) + 1)?;
        let quoted = comma.is_empty();
        self.out.push_str(open);
        // ltrace puts dots behind a text that just fits, too.
        let fits = length < u64::from(most)
            || !(quoted && self.show.like_ltrace) && length == u64::from(most);
        let mut cut = open_end || !fits;
        for index in 0..length.min(most.into()) {
            let before = self.out.len();
            if index > 0 {
                self.out.push_str(comma);
            }
            let element = part(value, &array.element, index * stride);
            if self.value(&element).is_err() {
                if index == 0 {
                    return Err(Unknown);
                }
                // The array ends where the guest's memory did.
                self.out.truncate(before);
                cut = true;
                break;
            }
        }
        if cut && !quoted {
            self.out.push_str("...");
        }
        self.out.push_str(close);
        if cut && quoted {
            self.out.push_str("...");
        }
        Ok(())
    }

    fn string(&mut self, value: &Value) -> Result {
        let most = self.show.detail.strings;
        match &value.ty.kind {
            Kind::Pointer(to) if to.is_integer() => {
                // string(char *) means a NUL-terminated string, as in C.
                let array = Type::new(Kind::Array(std::sync::Arc::new(Array {
                    element: (**to).clone(),
                    length: Expr::Zero(None),
                })));
                let mut ty = array.pointer();
                ty.lens = Some(Lens::String);
                let again = Value {
                    ty: &ty,
                    at: value.at,
                    parent: value.parent,
                };
                self.plain(&again, Base::Default)
            }
            Kind::Array(array) => self.array(value, array, most, ["\"", "", "\""]),
            Kind::Char => {
                let byte = self.word(value)? as u8;
                text::character(byte, &mut self.out);
                Ok(())
            }
            _ if value.ty.is_integer() => {
                let word = self.word(value)?;
                let part = value.parent.is_some() && value.ty.lens.is_none();
                let quote = if part { "" } else { "'" };
                self.out.push_str(quote);
                if !text::wide(word, &mut self.out) {
                    return Err(Unknown);
                }
                self.out.push_str(quote);
                Ok(())
            }
            _ => self.plain(value, Base::Default),
        }
    }

    fn bits(&mut self, value: &Value) -> Result {
        let size = match &value.ty.kind {
            Kind::Pointer(to) => return self.pointer(value, to),
            Kind::Void => return self.plain(value, Base::Default),
            Kind::Array(array) => {
                let (length, _) = self.length(value, array, 4096)?;
                length.min(4096) * u64::from(array.element.size())
            }
            _ => value.ty.size().into(),
        };
        let mut bytes = vec![0; size.min(4096) as usize];
        self.read(value, &mut bytes)?;
        number::bits(&bytes, &mut self.out);
        Ok(())
    }

    /// Returns the number of elements, and whether what follows them is not known; no more than `enough` are looked at.
    fn length(&self, value: &Value, array: &Array, enough: u64) -> Result<(u64, bool)> {
        let Expr::Zero(bound) = &array.length else {
            // A negative length is an error code, and nothing was filled in.
            let length = self.number(&array.length, value)?.cast_signed();
            return Ok((length.max(0).cast_unsigned(), false));
        };
        let is_string = value.lens() == Some(&Lens::String) && array.element.is_integer();
        let bound = match bound {
            Some(bound) => match self.number(bound, value)?.cast_signed() {
                0.. => self.number(bound, value)?,
                // In many libraries a text's length of -1 means up to its NUL.
                _ if is_string && **bound != Expr::Returned => u64::MAX,
                _ => 0,
            },
            None => u64::MAX,
        };
        let size = u64::from(array.element.size());
        let mut bytes = vec![0; size as usize];
        for index in 0..bound.min(enough) {
            let element = part(value, &array.element, index * size);
            match self.read(&element, &mut bytes) {
                Ok(()) if bytes.iter().all(|byte| *byte == 0) => return Ok((index, false)),
                Ok(()) => {}
                Err(Unknown) if index == 0 => return Err(Unknown),
                Err(Unknown) => return Ok((index, true)),
            }
        }
        Ok((bound.min(enough), false))
    }

    /// Returns the number that an expression has here.
    fn number(&self, of: &Expr, value: &Value) -> Result<u64> {
        let found = match of {
            Expr::Number(number) => return Ok((*number).into()),
            Expr::Zero(_) => return Err(Unknown),
            Expr::Argument(index) => {
                let index = usize::from(*index);
                let place = *self.locations.arguments.get(index).ok_or(Unknown)?;
                let ty = &self.call.prototype.parameters[index].ty;
                Value::new(ty, argument_at(place, self.call.registers))
            }
            Expr::Returned => {
                let returned = self.call.returned.ok_or(Unknown)?;
                let ty = &self.call.prototype.returns;
                Value::new(ty, returned_at(self.locations.returned, returned))
            }
            Expr::Member(index) => {
                let mut around = value.parent;
                let (of, at) = loop {
                    let parent = around.ok_or(Unknown)?;
                    match &parent.ty.kind {
                        Kind::Struct(of) => break (of, parent),
                        _ => around = parent.parent,
                    }
                };
                let (offset, field) = of.members().nth((*index).into()).ok_or(Unknown)?;
                let field = part(at, field, offset.into());
                return self.count(&field);
            }
        };
        self.count(&found)
    }

    fn count(&self, value: &Value) -> Result<u64> {
        let width = Width {
            bytes: value.ty.size().clamp(1, 8) as u8,
            signed: value.ty.is_signed(),
            skip: 0,
        };
        Ok(width.of(self.word(value)?))
    }
}

/// Returns a member or an element of a value.
fn part<'v>(of: &'v Value<'v>, ty: &'v Type, offset: u64) -> Value<'v> {
    let at = match of.at {
        Storage::Memory(at) => Storage::Memory(at.wrapping_add(offset)),
        Storage::Registers(bytes) => {
            let mut moved = [0; 32];
            if let Some(rest) = usize::try_from(offset)
                .ok()
                .and_then(|offset| bytes.get(offset..))
            {
                moved[..rest.len()].copy_from_slice(rest);
            }
            Storage::Registers(moved)
        }
    };
    Value {
        ty,
        at,
        parent: Some(of),
    }
}
