//! The objects of a Ruby's heap, one by one. Used by `ruby`.

use crate::objects::{EachPage, Object, Objects};
use process::error::{Error, Result};
use process::memory::GuestMemory;
use vm::ruby::{Facts, Ruby, Type};
use vm::{Language, Limits};

/// Reads the heap of a Ruby.
struct Heap<'a> {
    ruby: Ruby<'a, GuestMemory>,
    pid: i32,
}

/// Returns the objects of the Ruby with these facts.
///
/// # Errors
/// Its version is not known.
pub fn of(facts: Facts, memory: &GuestMemory) -> Result<Box<dyn Objects + '_>> {
    let pid = memory.pid();
    let ruby = Ruby::new(memory, facts).map_err(|error| unreadable(pid, error.into()))?;
    Ok(Box::new(Heap { ruby, pid }))
}

fn unreadable(pid: i32, error: vm::ruby::Error) -> Error {
    Error::UnreadableVm {
        pid,
        language: Language::Ruby,
        reason: error.to_string(),
    }
}

fn type_of(object: &Object) -> Type {
    let [flags, _] = object.words;
    Type::of(flags)
}

impl Objects for Heap<'_> {
    fn each_page(&self, each: &mut EachPage) -> Result<bool> {
        let pages = self.ruby.pages();
        for page in pages
            .map_err(|error| unreadable(self.pid, error))?
            .flatten()
        {
            let (start, bytes) = (page.start, page.slot_size);
            let slots = self.ruby.slots(page).flatten();
            let objects = slots.map(|slot| Object {
                address: slot.address,
                bytes,
                words: [slot.flags, slot.klass],
            });
            let mut living =
                objects.filter(|object| !matches!(type_of(object), Type::None | Type::Moved));
            if !each(start, &mut living)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn kind(&self, object: &Object) -> &'static str {
        type_of(object).hidden_name().trim_matches('_')
    }

    fn length(&self, object: &Object) -> Option<u64> {
        match type_of(object) {
            Type::String => self.ruby.text(object.address).ok().map(|text| text.len),
            Type::Array | Type::Hash => self.ruby.length(object.address).ok(),
            _ => None,
        }
    }

    fn contents(&self, object: &Object) -> Option<String> {
        let mut text = String::new();
        let limits = Limits::default();
        let written = self.ruby.write_value(object.address, &limits, &mut text);
        written.ok().map(|()| text)
    }

    fn is_internal(&self, object: &Object) -> bool {
        self.ruby.is_internal(object.address).unwrap_or(true)
    }

    fn type_key(&self, object: &Object) -> (u64, u64) {
        let [flags, class] = object.words;
        (flags & 0x1f, class)
    }

    fn type_name(&self, object: &Object) -> Option<String> {
        let mut name = String::new();
        let written = self.ruby.write_type(object.address, &mut name);
        written.ok().map(|()| name)
    }
}
