//! The VM's structures as text and numbers: crate `vm`'s Ruby reader over plain loads. Used by `agent`, `birth` and
//! `large`.
//!
//! Every address that it is given is valid at this moment because the VM uses it: code that is running, the class of an object that is
//! being born or is alive. All texts are read into one buffer, so each must be used before the next is read.

use crate::births::texts::{Buffer, Class, Texts};
use crate::memory::direct::Direct;
use vm::Memory;
use vm::ruby::{Facts, Frame, Frames, Imemo, Ruby, Unsupported};
pub use vm::ruby::{Type, frames::trace_arg, is_code};
use wire::control_page::{FACTS, first};

/// Class numbers below this are no addresses: see [`class_key`].
const FIRST_ADDRESS: u64 = 0x1000;
const HIDDEN: u64 = 0x100;
const INTERNAL_MODULE: u64 = 0x200;
const IMEMO: u64 = 0x400;

/// Bytes of an entry of a Hash's `st_table` (`struct st_table_entry`, `st.c`): hash, key, record.
const ENTRY: u64 = 24;
/// Bytes of an element of an Array.
const ELEMENT: u64 = 8;

/// The reader of this process's Ruby, with the one buffer that every text is read into.
pub struct Names {
    ruby: Option<Ruby<'static, Direct>>,
    buffer: Buffer,
}

impl Names {
    /// Returns a reader without a VM, which finds nothing until `open` is called.
    pub const fn new() -> Self {
        Names {
            ruby: None,
            buffer: Buffer::new(),
        }
    }

    /// Reads this VM from now on.
    pub fn open(&mut self, facts: &[u64; FACTS]) -> Result<(), Unsupported> {
        self.ruby = Some(Ruby::new(&Direct, Facts::from_words(first(facts)))?);
        Ok(())
    }

    /// The reader of the VM; `None` until `open` has been called.
    #[inline]
    pub fn reader(&self) -> Option<&Ruby<'static, Direct>> {
        self.ruby.as_ref()
    }

    /// Returns the bytes of what a String, an Array or a Hash holds, without the room that it has for more; `None` for other objects, and
    /// for what cannot be read.
    pub fn used(&self, of: Type, object: u64) -> Option<u64> {
        let ruby = self.reader()?;
        let of_elements = |each: u64| Some(ruby.length(object).ok()?.saturating_mul(each));
        match of {
            Type::String => ruby.text(object).ok().map(|text| text.len),
            Type::Array => of_elements(ELEMENT),
            Type::Hash => of_elements(ENTRY),
            _ => None,
        }
    }

    /// The Ruby frames of a running execution context, innermost first.
    #[inline]
    pub fn frames(&self, ec: u64, cfp: u64) -> Option<Frames<'_, Direct>> {
        self.ruby.as_ref()?.frames(ec, cfp).ok()
    }

    /// The Ruby frame that runs now: the nearest at or outside `cfp`.
    #[inline]
    pub fn frame(&self, ec: u64, cfp: u64) -> Option<Frame> {
        self.ruby.as_ref()?.ruby_frame(ec, cfp).ok()?
    }

    fn copy(&mut self, text: Option<vm::ruby::Text>) -> &[u8] {
        self.buffer.length = match (&self.ruby, text) {
            (Some(ruby), Some(text)) => ruby
                .copy(text, &mut self.buffer.bytes)
                .map_or(0, |copied| copied.len),
            _ => 0,
        };
        self.buffer.text()
    }
}

impl Texts for Names {
    fn line(&self, code: u64, pc: u64) -> u32 {
        self.ruby
            .as_ref()
            .and_then(|ruby| ruby.line(code, pc).ok())
            .unwrap_or(0)
    }

    fn path(&mut self, code: u64) -> &[u8] {
        let text = self.ruby.as_ref().and_then(|ruby| ruby.path(code).ok());
        self.copy(text)
    }

    fn method(&mut self, code: u64) -> &[u8] {
        let text = self.ruby.as_ref().and_then(|ruby| ruby.label(code).ok());
        self.copy(text)
    }

    fn class(&mut self, class: u64) -> Class<'_> {
        self.buffer.length = 0;
        if class < FIRST_ADDRESS {
            let name = type_name(self.ruby.as_ref(), class);
            return Class::Named {
                name: name.as_bytes(),
                internal: true,
            };
        }
        let Some(ruby) = &self.ruby else {
            return UNREADABLE;
        };
        let Ok(Some(real)) = ruby.real_class(class) else {
            return UNREADABLE;
        };
        match ruby.class_path(real) {
            Ok(None) => Class::Anonymous { address: real },
            Ok(Some(_)) => {
                if ruby.write_class_name(real, &mut self.buffer).is_err() {
                    return UNREADABLE;
                }
                Class::Named {
                    name: self.buffer.text(),
                    internal: false,
                }
            }
            Err(_) => UNREADABLE,
        }
    }

    fn is_own(&mut self, code: u64) -> bool {
        self.path(code).starts_with(b"<internal:")
    }
}

impl Names {
    /// Whether `class` is the class that the VM keeps at `place`, or inherits from it.
    pub fn descends(&self, class: u64, place: u64) -> bool {
        let Some(ruby) = &self.ruby else {
            return false;
        };
        if place == 0 || class < FIRST_ADDRESS {
            return false;
        }
        let Ok(wanted) = Direct.u64(place) else {
            return false;
        };
        let mut at = ruby.real_class(class).ok().flatten();
        for _ in 0..DEEPEST_CLASS {
            match at {
                Some(class) if class == wanted => return true,
                Some(class) => at = ruby.superclass(class).ok().flatten(),
                None => return false,
            }
        }
        false
    }
}

/// Limit of superclasses that are followed, so that a circular chain ends.
const DEEPEST_CLASS: u32 = 1000;

const UNREADABLE: Class<'static> = Class::Named {
    name: b"__unreadable__",
    internal: true,
};

fn type_name(ruby: Option<&Ruby<'static, Direct>>, number: u64) -> &'static str {
    if number & IMEMO != 0 {
        let flags = number << IMEMO_SHIFT;
        ruby.map_or(Imemo::Unknown, |ruby| ruby.imemo(flags)).name()
    } else {
        Type::of(number).hidden_name()
    }
}

/// Where an imemo's subtype starts in its flags (`FL_USHIFT`).
const IMEMO_SHIFT: u32 = 12;

/// Returns the key that an object is booked under: its class, or a small number if it has no class that may be followed.
#[inline]
pub fn class_key(flags: u64, class: u64) -> u64 {
    match Type::of(flags) {
        Type::Imemo => IMEMO | flags >> IMEMO_SHIFT & 0xf,
        Type::None | Type::Iclass | Type::Node | Type::Zombie | Type::Moved | Type::Unknown => {
            HIDDEN | flags & 0x1f
        }
        _ if class < FIRST_ADDRESS => HIDDEN | flags & 0x1f,
        _ => class,
    }
}

/// Returns the number under which instances of a class that the VM keeps to itself are booked.
pub fn internal_module_key(flags: u64) -> u64 {
    INTERNAL_MODULE | flags & 0x1f
}

#[cfg(test)]
mod tests;
