//! Values by their types: numbers, names, strings, pointers, arrays, structs with the names of their members. Used by
//! `forms::files`, `forms::network`, `forms::process` and others.

mod memory;
mod numbers;
mod overlay;

use crate::call::{DescriptorNames, Hex, IdKind, RawCall, Style};
use crate::{text, words};
use prototypes::digits::decimal;
use prototypes::types::{Array, Expr, Kind, Lens, Struct, Type};
use std::sync::Arc;

pub use overlay::Overlay;

/// Where a value is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// In an argument: this word.
    Word(u64),
    /// In the guest's memory, at this address.
    Memory(u64),
}

/// The error for bytes that were not copied.
#[derive(Debug)]
pub struct Unknown;

/// What writes a value; on an error what it has written so far is taken back.
pub type Written = Result<(), Unknown>;

/// How deep values may lie in one another. The grammar allows 40.
const DEEPEST: usize = 48;

/// So much of a text is always copied if it can be read (a record has room for it): where less is there, memory ends.
const COPIED: usize = 3 << 10;
/// The same where a tracer copies.
const WHOLE: usize = 64 << 10;

/// Bytes of the longest path with its NUL: `PATH_MAX` (include/uapi/linux/limits.h).
const LONGEST_PATH: usize = 4096;

/// Writes a value of a type.
pub type Form = fn(&mut Writer, &Type, Place) -> Written;

/// Returns the form of a typedef that has one of its own.
pub type Forms = fn(&str) -> Option<Form>;

/// Writes the messages in so many bytes at an address, of a protocol of netlink.
pub type Messages = fn(&mut Writer, u64, u64, u32) -> Written;

/// Writes the values of one call.
pub struct Writer<'w> {
    pub style: &'w Style,
    pub call: &'w RawCall<'w>,
    pub out: &'w mut Vec<u8>,
    /// Returns the form of a typedef that has one of its own.
    pub forms: Forms,
    /// Writes messages of netlink where a message of a socket holds some.
    pub messages: Option<Messages>,
    /// What was copied at the return is seen before what was copied at the call.
    pub late: bool,
    /// Something that a value leads to could not be read.
    pub cut: bool,
    pub overlay: Option<Overlay>,
    /// The structs around the value, the innermost last, with their addresses.
    around: Vec<(Arc<Struct>, u64)>,
}

impl<'w> Writer<'w> {
    pub fn new(
        style: &'w Style,
        call: &'w RawCall<'w>,
        forms: Forms,
        out: &'w mut Vec<u8>,
    ) -> Self {
        Self {
            forms,
            messages: None,
            style,
            call,
            out,
            late: false,
            cut: false,
            overlay: None,
            around: Vec::new(),
        }
    }

    /// Appends a value; its address, or `?`, if nothing is known of it.
    pub fn whole(&mut self, ty: &Type, at: Place) {
        let before = self.out.len();
        if self.value(ty, at).is_ok() {
            return;
        }
        self.out.truncate(before);
        match at {
            Place::Word(word) => self.address(word),
            Place::Memory(_) => self.push("?"),
        }
    }

    /// Appends the name of an argument, if names are asked for and it has one.
    pub fn argument_name(&mut self, index: usize) {
        if !self.style.names {
            return;
        }
        if let Some(name) = crate::arguments::argument_name(self.call.name, index) {
            self.push(name);
            self.push("=");
        }
    }

    /// Appends the name of a descriptor, if names are asked for and it has one.
    pub fn name_of(&mut self, number: i32) {
        self.named(number, self.call.descriptors);
    }

    /// Appends the name of a process, if names are asked for and it has one, and what it is in another namespace.
    pub fn process(&mut self, number: i32) {
        self.id(number, IdKind::Process);
    }

    /// The same of what may be a thread, a group or a session.
    pub fn id(&mut self, number: i32, kind: IdKind) {
        let Some(known) = self.call.processes.map(|known| known(number, kind)) else {
            return;
        };
        if let Some(comm) = known.comm {
            self.push("<");
            text::bracketed(comm.as_bytes(), self.style.hex, self.out);
            self.push(">");
        }
        if let Some(note) = known.note {
            self.push(&format!(" /* {note} */"));
        }
    }

    fn named(&mut self, number: i32, naming: Option<DescriptorNames>) {
        let Some(name) = naming.and_then(|names| names(number)) else {
            return;
        };
        self.push("<");
        text::bracketed(name.text.as_bytes(), self.style.hex, self.out);
        self.push(&name.more);
        self.push(">");
        if name.deleted {
            self.push("(deleted)");
        }
    }

    pub fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Reads as it was when the call was made.
    pub fn before<T>(&mut self, read: impl FnOnce(&Self) -> T) -> T {
        let late = std::mem::replace(&mut self.late, false);
        let found = read(self);
        self.late = late;
        found
    }

    /// Writes by what was copied when the call was made.
    pub fn before_mut<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        let late = std::mem::replace(&mut self.late, false);
        let written = write(self);
        self.late = late;
        written
    }

    /// Returns a number of the type's size, with zeros above.
    pub fn word(&self, ty: &Type, at: Place) -> Result<u64, Unknown> {
        let size = ty.size().clamp(1, 8) as usize;
        match at {
            Place::Word(word) => Ok(word & u64::MAX >> (64 - 8 * size)),
            Place::Memory(at) => {
                let mut bytes = [0; 8];
                if self.read(at, &mut bytes[..size]) {
                    Ok(u64::from_le_bytes(bytes))
                } else {
                    Err(Unknown)
                }
            }
        }
    }

    /// Appends a value: by the form of its own that its typedef has, or else by its type.
    pub fn value(&mut self, ty: &Type, at: Place) -> Written {
        if let Some(form) = ty.alias().and_then(self.forms) {
            return form(self, ty, at);
        }
        self.plain(ty, at)
    }

    /// Appends a value by its type alone.
    pub fn plain(&mut self, ty: &Type, at: Place) -> Written {
        match &ty.lens {
            Some(Lens::Enum(names)) => {
                let word = self.word(ty, at)?;
                words::name(word, ty.size(), names, self.style.constants, self.out);
                return Ok(());
            }
            Some(Lens::Flags(names)) => {
                let word = self.word(ty, at)?;
                words::flags(word, names, self.style.constants, self.out);
                return Ok(());
            }
            Some(Lens::Hide) => return Ok(()),
            Some(Lens::Octal) if ty.is_integer() => {
                let word = self.word(ty, at)?;
                self.octal(word);
                return Ok(());
            }
            Some(Lens::Hex | Lens::Guess) if ty.is_integer() => {
                let word = self.word(ty, at)?;
                self.hexadecimal(word);
                return Ok(());
            }
            _ => {}
        }
        match &ty.kind {
            Kind::Pointer(to) => self.pointer(ty, to, at),
            Kind::Array(array) => self.array(array, at),
            Kind::Struct(of) => self.structure(of, at),
            _ if ty.is_integer() => {
                let word = self.word(ty, at)?;
                if ty.is_signed() {
                    let unused = 64 - 8 * ty.size();
                    decimal((word << unused).cast_signed() >> unused, self.out);
                } else {
                    decimal(word, self.out);
                }
                Ok(())
            }
            _ => Err(Unknown),
        }
    }

    fn pointer(&mut self, ty: &Type, to: &Type, at: Place) -> Written {
        let address = self.word(ty, at)?;
        if address == 0 || matches!(to.kind, Kind::Void) {
            self.address(address);
            return Ok(());
        }
        let is_struct = matches!(to.kind, Kind::Struct(_) | Kind::Array(_)) && ty.lens.is_none();
        if self.style.addresses && is_struct {
            self.address(address);
            return Ok(());
        }
        let before = self.out.len();
        let written = match (&ty.lens, &to.kind) {
            (Some(Lens::String | Lens::Path), Kind::Array(array)) => {
                self.string(array, address, ty.lens == Some(Lens::Path))
            }
            _ if self.around.len() >= DEEPEST => Err(Unknown),
            // What one number points to stands in brackets.
            _ if to.is_integer() && to.alias().and_then(self.forms).is_none() => {
                self.push("[");
                let written = self.value(to, Place::Memory(address));
                self.push("]");
                written
            }
            _ => self.value(to, Place::Memory(address)),
        };
        if written.is_err() {
            // Nothing was copied: only its address is known.
            self.out.truncate(before);
            self.address(address);
        }
        Ok(())
    }

    /// Returns how many bytes of a text were copied for certain, if they could be read.
    fn copied(&self, is_path: bool) -> usize {
        match (self.style.whole, is_path) {
            (false, _) => COPIED,
            (true, true) => LONGEST_PATH,
            (true, false) => WHOLE,
        }
    }

    /// Appends text between quotes; dots where there is more of it.
    fn string(&mut self, array: &Array, at: u64, is_path: bool) -> Written {
        let most = if is_path {
            usize::MAX
        } else {
            self.style.strings
        };
        let (length, ends) = match &array.length {
            Expr::Zero(_) => {
                let known = self.bytes(at, most.saturating_add(1));
                let end = known.iter().position(|byte| *byte == 0);
                // Of a text that goes on, as much as is shown was copied; one that ends where memory ends is none.
                if end.is_none() && known.len() < most.saturating_add(1).min(self.copied(is_path)) {
                    return Err(Unknown);
                }
                (end.unwrap_or(known.len()), end.is_some())
            }
            length => (self.length(length)? as usize, true),
        };
        // Of a path that does not end, the kernel looks at all bytes but the last (fs/namei.c, `getname_flags`).
        let most = match is_path && !ends {
            true => LONGEST_PATH - 1,
            false => most,
        };
        let shown = length.min(most);
        let wanted = match ends {
            true => length.min(shown.saturating_add(1)),
            false => shown,
        };
        let mut bytes = self.bytes(at, wanted);
        if bytes.len() < wanted.min(self.copied(is_path)) || length == 0 && !ends {
            return Err(Unknown);
        }
        bytes.truncate(shown);
        let cut = bytes.len() < length || !ends;
        text::quoted(&bytes, self.style.hex, self.out);
        if cut {
            self.push("...");
        }
        Ok(())
    }

    /// Appends bytes as a string, of which `length` are there and those that were copied are shown.
    pub fn buffer(&mut self, at: u64, length: usize) -> Written {
        self.buffer_as(at, length, self.style.hex)
    }

    /// The same, in hexadecimal where `hex` says.
    pub fn buffer_as(&mut self, at: u64, length: usize, hex: Hex) -> Written {
        let shown = length.min(self.style.strings);
        // One more than is shown was copied, if it could be read.
        let wanted = length.min(shown.saturating_add(1));
        let mut bytes = self.bytes(at, wanted);
        if bytes.len() < wanted.min(self.copied(false)) {
            return Err(Unknown);
        }
        bytes.truncate(shown);
        text::quoted(&bytes, hex, self.out);
        if bytes.len() < length {
            self.push("...");
        }
        Ok(())
    }

    fn array(&mut self, array: &Array, at: Place) -> Written {
        let Place::Memory(at) = at else {
            return Err(Unknown);
        };
        let stride = u64::from(array.element.size()).max(1);
        let length = match &array.length {
            Expr::Zero(_) => u64::MAX,
            length => self.length(length)?,
        };
        self.push("[");
        for index in 0..length {
            let before = self.out.len();
            let here = at.wrapping_add(index * stride);
            if matches!(array.length, Expr::Zero(_)) {
                match self.is_zero(here, stride) {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(Unknown) if index == 0 => return Err(Unknown),
                    // Memory ends before the array does.
                    Err(Unknown) => {
                        self.push(&format!(", ... /* {here:#x} */"));
                        break;
                    }
                }
            }
            if index > 0 {
                self.push(", ");
            }
            if index >= self.style.elements() {
                // One more than is shown was copied: memory may end there.
                match self.bytes(here, stride as usize).len() as u64 == stride {
                    true => self.push("..."),
                    false if index == 0 => return Err(Unknown),
                    false => self.push(&format!("... /* {here:#x} */")),
                }
                break;
            }
            if self.value(&array.element, Place::Memory(here)).is_err() {
                if index == 0 {
                    return Err(Unknown);
                }
                // As far as it could be read, and where that ends.
                self.out.truncate(before);
                self.push(&format!(", ... /* {here:#x} */"));
                break;
            }
        }
        self.push("]");
        Ok(())
    }

    fn is_zero(&self, at: u64, size: u64) -> Result<bool, Unknown> {
        let bytes = self.bytes(at, size as usize);
        if bytes.len() as u64 != size {
            return Err(Unknown);
        }
        Ok(bytes.iter().all(|byte| *byte == 0))
    }

    /// Appends a struct: `{tv_sec=1, tv_nsec=0}`. Members whose names begin with `pad` are none of its own.
    fn structure(&mut self, of: &Arc<Struct>, at: Place) -> Written {
        let Place::Memory(at) = at else {
            return Err(Unknown);
        };
        self.around.push((of.clone(), at));
        self.push("{");
        let mut written = Ok(());
        let mut first = true;
        for (index, (offset, field)) in of.members().enumerate() {
            let name = of.field_name(index);
            if name.starts_with("pad") {
                continue;
            }
            if !first {
                self.push(", ");
            }
            first = false;
            self.push(name);
            if !name.is_empty() {
                self.push("=");
            }
            written = self.value(field, Place::Memory(at.wrapping_add(offset.into())));
            if written.is_err() {
                break;
            }
        }
        self.push("}");
        self.around.pop();
        written
    }

    /// The number that an expression stands for.
    fn length(&self, of: &Expr) -> Result<u64, Unknown> {
        let number = match of {
            Expr::Number(number) => u64::from(*number),
            Expr::Returned => return Ok(self.call.count()),
            Expr::Argument(index) => {
                let index = usize::from(*index);
                let parameter = self.call.prototype.parameters.get(index).ok_or(Unknown)?;
                let word = *self.call.arguments.get(index).ok_or(Unknown)?;
                self.word(&parameter.ty, Place::Word(word))?
            }
            Expr::Member(index) => {
                let (of, at) = self.around.last().ok_or(Unknown)?;
                let member = of.members().nth((*index).into());
                let (offset, field) = member.ok_or(Unknown)?;
                self.word(field, Place::Memory(at.wrapping_add(offset.into())))?
            }
            Expr::Zero(_) | Expr::Command(_) => return Err(Unknown),
        };
        Ok(number)
    }
}
