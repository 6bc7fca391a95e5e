//! Writes one value by its type and lens. Used by `length`, `string` and `show`.

use capture::{What, describe};

use super::call::{CallValues, Show};
use super::captures::Memory;
use super::number::{self, Base};
use super::storage::Storage;
use super::text;
use crate::digits::hex;
use crate::plan::LONGEST_PATH;
use crate::types::{Array, Kind, Lens, Type};

/// A value, and the value that it is part of.
pub(super) struct Value<'v> {
    pub(super) ty: &'v Type,
    pub(super) at: Storage,
    pub(super) parent: Option<&'v Value<'v>>,
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
    pub(super) fn lens(&self) -> Option<&'v Lens> {
        let own = self.ty.lens.as_ref();
        own.or_else(|| self.parent.and_then(Value::lens))
    }
}

/// The error for bytes that are not known.
pub(super) struct Unknown;

pub(super) type Result<T = (), E = Unknown> = std::result::Result<T, E>;

/// Characters of the longest text.
const LONGEST: usize = 64 << 10;
/// The deepest nesting of pointers: each level is a frame on our stack.
const DEEPEST: usize = 200;

/// Appends the texts of one call's values to a line.
pub(super) struct Writer<'w> {
    pub(super) show: &'w Show<'w>,
    pub(super) call: CallValues<'w>,
    pub(super) memory: &'w dyn Memory,
    pub(super) out: &'w mut Vec<u8>,
    /// Where the value that is being written begins in `out`.
    start: usize,
    /// Pointers that are being followed, with the struct that each leads to, so that a circle is not followed again.
    followed: Vec<(u64, *const Type, bool)>,
    steps: usize,
}

impl<'w> Writer<'w> {
    pub(super) fn new(
        show: &'w Show<'w>,
        call: CallValues<'w>,
        memory: &'w dyn Memory,
        out: &'w mut Vec<u8>,
    ) -> Self {
        Self {
            show,
            call,
            memory,
            start: out.len(),
            out,
            followed: Vec::new(),
            steps: 0,
        }
    }

    /// Writes a value; `?` if nothing of it is known.
    pub(super) fn whole(&mut self, ty: &Type, at: Storage) {
        self.start = self.out.len();
        self.followed.clear();
        self.steps = 0;
        if self.value(&Value::new(ty, at)).is_err() {
            self.out.truncate(self.start);
            self.out.push(b'?');
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Whether so many bytes more, and so many steps, stay within what the longest text may have.
    pub(super) fn has_room(&self, bytes: usize, steps: usize) -> bool {
        self.out.len() - self.start + bytes <= LONGEST && self.steps + steps <= LONGEST
    }

    /// Counts the steps of what was written without [`Writer::value`].
    pub(super) fn stepped(&mut self, steps: usize) {
        self.steps += steps;
    }

    pub(super) fn read(&self, value: &Value, into: &mut [u8]) -> Result {
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
    pub(super) fn word(&self, value: &Value) -> Result<u64> {
        let mut word = [0; 8];
        let size = match value.ty.kind {
            Kind::Array(_) => 8,
            _ => value.ty.size().min(8),
        };
        self.read(value, &mut word[..size as usize])?;
        Ok(u64::from_le_bytes(word))
    }

    pub(super) fn value(&mut self, value: &Value) -> Result {
        self.steps += 1;
        if !self.has_room(0, 0) {
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
                self.push(if word == 0 { "false" } else { "true" });
                Ok(())
            }
            Some(Lens::Bool) => self.plain(value, Base::Default),
            Some(Lens::Bitvec) => self.bits(value),
            Some(Lens::String) => self.string(value, self.show.detail.strings),
            Some(Lens::Path) => self.string(value, LONGEST_PATH),
            Some(Lens::Enum(names)) if value.ty.is_integer() => {
                let word = self.word(value)?;
                match name_of(word, value.ty.size(), names) {
                    Some(name) => self.push(name),
                    None => return self.plain(value, Base::Default),
                }
                Ok(())
            }
            Some(Lens::Flags(names)) if value.ty.is_integer() => {
                let word = self.word(value)?;
                write_flags(word, names, self.out);
                Ok(())
            }
            Some(Lens::Enum(_) | Lens::Flags(_)) => self.plain(value, Base::Default),
            Some(Lens::Vm(word)) => {
                let number = self.word(value)?;
                match self.show.decode.and_then(|decode| decode(*word, number)) {
                    Some(text) => self.push(&text),
                    None if self.described(What(word.number()), number) => {}
                    None if word.is_opaque() => self.push("…"),
                    None if number == 0 => self.push("nil"),
                    None => number::integer(number, 8, false, Base::Hex, self.out),
                }
                Ok(())
            }
        }
    }

    /// Writes the text that the hook handed on for a word; false if there is none.
    fn described(&mut self, what: What, word: u64) -> bool {
        let at = describe::address(what, word);
        let mut length = [0; describe::HEAD];
        if !self.memory.read(at, &mut length) {
            return false;
        }
        let length = (u32::from_le_bytes(length) as usize).min(describe::LONGEST);
        let at = at + describe::HEAD as u64;
        let piece = self.memory.piece(at).and_then(|piece| piece.get(..length));
        if let Some(text) =
            piece.filter(|text| text.iter().all(|byte| (b' '..=b'~').contains(byte)))
        {
            self.out.extend_from_slice(text);
            return true;
        }
        let mut text = vec![0; length];
        if !self.memory.read(at, &mut text) {
            return false;
        }
        // A class may have any name, and the text goes to a terminal.
        for character in String::from_utf8_lossy(&text).chars() {
            if character.is_control() {
                self.out
                    .extend(character.escape_default().map(|part| part as u8));
            } else {
                self.push(character.encode_utf8(&mut [0; 4]));
            }
        }
        true
    }

    pub(super) fn plain(&mut self, value: &Value, base: Base) -> Result {
        let ty = value.ty;
        match &ty.kind {
            Kind::Void => self.push("<void>"),
            Kind::Char if base == Base::Default => {
                let byte = self.word(value)? as u8;
                self.out.push(b'\'');
                text::character(byte, self.out);
                self.out.push(b'\'');
            }
            Kind::Float => {
                let number = f32::from_bits(self.word(value)? as u32);
                number::floating(number.into(), base, self.out);
            }
            Kind::Double => {
                let number = f64::from_bits(self.word(value)?);
                number::floating(number, base, self.out);
            }
            Kind::LongDouble => {
                let mut bytes = [0; 10];
                self.read(value, &mut bytes)?;
                number::floating(number::extended(bytes), base, self.out);
            }
            Kind::ComplexLongDouble => {
                let mut bytes = [0; 32];
                self.read(value, &mut bytes)?;
                let part =
                    |at: usize| number::extended(bytes[at..at + 10].try_into().expect("ten bytes"));
                self.push("{ ");
                number::floating(part(0), base, self.out);
                self.push(", ");
                number::floating(part(16), base, self.out);
                self.push(" }");
            }
            Kind::Pointer(to) => return self.pointer(value, to),
            Kind::Array(array) => {
                let most = self.show.detail.array;
                return self.array(value, array, most, ["[ ", ", ", " ]"]);
            }
            Kind::Struct(of) => {
                self.push("{ ");
                let mut begun = false;
                for (offset, field) in of.members() {
                    let before = self.out.len();
                    if begun {
                        self.push(", ");
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
                self.push(" }");
            }
            _ => {
                let word = self.word(value)?;
                number::integer(word, ty.size(), ty.is_signed(), base, self.out);
            }
        }
        Ok(())
    }

    pub(super) fn pointer(&mut self, value: &Value, to: &Type) -> Result {
        let address = self.word(value)?;
        if address == 0 {
            self.push("nil");
            return Ok(());
        }
        if matches!(to.kind, Kind::Void) {
            hex(address, self.out);
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
            self.push("...");
            return Ok(());
        }
        let ring = self
            .followed
            .iter()
            .rev()
            .position(|(followed, ..)| *followed == address);
        if let Some(levels) = ring {
            self.push("recurse");
            self.out.extend(std::iter::repeat_n(b'^', levels));
            return Ok(());
        }
        // Nothing that is written of it looks back at what is followed.
        let ends = match &to.kind {
            Kind::Array(array) => !array.element.leads_on(),
            _ => !to.leads_on(),
        };
        if !ends {
            self.followed.push((address, this, is_struct));
        }
        let before = self.out.len();
        let behind = Value {
            ty: to,
            at: Storage::Memory(address),
            parent: Some(value),
        };
        if self.value(&behind).is_err() {
            // Its bytes were not copied, or not readable: only its address is known.
            self.out.truncate(before);
            hex(address, self.out);
        }
        if !ends {
            self.followed.pop();
        }
        Ok(())
    }

    /// Writes elements between brackets, or characters between quotes: there the dots come behind the quote.
    pub(super) fn array(
        &mut self,
        value: &Value,
        array: &Array,
        most: u32,
        signs: [&str; 3],
    ) -> Result {
        let [open, comma, close] = signs;
        let stride = u64::from(array.element.size());
        let (length, open_end) = self.length(value, array, u64::from(most) + 1)?;
        let quoted = comma.is_empty();
        self.push(open);
        // ltrace puts dots behind a text that just fits, too.
        let fits = length < u64::from(most)
            || !(quoted && self.show.like_ltrace) && length == u64::from(most);
        let mut cut = open_end || !fits;
        let mut count = length.min(most.into());
        if quoted && self.characters(value, array, count) {
            count = 0;
        }
        for index in 0..count {
            let before = self.out.len();
            if index > 0 {
                self.push(comma);
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
            self.push("...");
        }
        self.push(close);
        if cut && quoted {
            self.push("...");
        }
        Ok(())
    }
}

/// Returns a member or an element of a value.
pub(super) fn part<'v>(of: &'v Value<'v>, ty: &'v Type, offset: u64) -> Value<'v> {
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

/// Returns the name of a word of `size` bytes.
fn name_of(word: u64, size: u32, names: &[(Box<str>, i64)]) -> Option<&str> {
    let mask = u64::MAX >> (64 - 8 * size);
    let named = |(_, number): &&(Box<str>, i64)| *number as u64 & mask == word;
    names.iter().find(named).map(|(name, _)| &**name)
}

/// Writes the names of the bits and the rest as a number: `O_WRONLY|O_CREAT|0x8`.
fn write_flags(word: u64, names: &[(Box<str>, i64)], out: &mut Vec<u8>) {
    let named = |wanted: u64| names.iter().find(|(_, bits)| *bits as u64 == wanted);
    if let Some((name, _)) = named(word) {
        return out.extend_from_slice(name.as_bytes());
    }
    let (mut rest, mut bar) = (word, "");
    for (name, bits) in names.iter().map(|(name, bits)| (name, *bits as u64)) {
        if bits != 0 && rest & bits == bits {
            out.extend_from_slice(bar.as_bytes());
            out.extend_from_slice(name.as_bytes());
            bar = "|";
            rest &= !bits;
        }
    }
    if rest != 0 || bar.is_empty() {
        out.extend_from_slice(bar.as_bytes());
        number::integer(rest, 8, false, Base::Guess, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names_and_the_rest_is_a_number() {
        let names = [("O_RDONLY", 0), ("O_WRONLY", 1), ("O_CREAT", 64)];
        let names = names.map(|(name, bits)| (name.into(), bits));
        let shown = [0, 1, 65, 64 | 8, 8].map(|word| {
            let mut out = Vec::new();
            write_flags(word, &names, &mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(
            shown,
            ["O_RDONLY", "O_WRONLY", "O_WRONLY|O_CREAT", "O_CREAT|8", "8"]
        );
    }
}
