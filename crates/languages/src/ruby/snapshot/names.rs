//! Names references: those that the VM reports are joined by their targets to those that `vm` can name. Used by
//! `snapshot` and `core`.

use super::Maker;
use super::kinds::Kinds;
use crate::snapshot::by_target::ByTarget;
use crate::snapshot::stream::HeapSlot;
use foldhash::HashMap;
use heap::{EdgeName, TextId};
use vm::Memory;
use vm::ruby::{Imemo, Reference, Ruby, Type, is_code};

/// Limit of the bytes of a name.
const LONGEST: usize = 256;
/// Members of a Struct that have names here.
const MEMBERS: usize = 256;
/// How many superclasses are searched for the names of a Struct's members.
const ANCESTORS: u32 = 16;

/// Names that have been read.
#[derive(Default)]
pub struct Names {
    /// Texts of names by their IDs, and by their serial numbers.
    ids: HashMap<u64, Option<TextId>>,
    serials: HashMap<u32, Option<TextId>>,
    /// Names of local variables of running code.
    frame_locals: HashMap<(u64, u64), Option<TextId>>,
    /// Names of the members of Structs, by class.
    members: HashMap<u64, Vec<Option<TextId>>>,
    /// Names of the present object's references, by target.
    known: ByTarget<Reference>,
}

/// Calls `note` with the references of the object that `kinds` was asked for last, as far as they have names. What cannot be read has
/// none; and of a list or table at most so many places are looked at, whatever the object says of its size.
pub fn each_named<M: Memory>(
    ruby: &Ruby<M>,
    kinds: &Kinds,
    object: &HeapSlot,
    most: u64,
    note: &mut dyn FnMut(u64, Reference),
) {
    if !kinds.has_stack() {
        let most = (object.bytes.unwrap_or(0) / 8 + 64).min(most);
        let _ = ruby.references(object.address, most, note);
        return;
    }
    if let Some(ec) = ruby.context_of_object(object.address) {
        let _ = ruby.frame_locals(ec, &mut |target, frame, id| {
            note(target, Reference::FrameLocal(id, frame.iseq));
        });
    }
    if kinds.is_thread() {
        let _ = ruby.thread_locals(object.address, note);
    }
}

impl Maker<'_> {
    /// Adds the references of an object to the builder.
    pub fn references(&mut self, object: &HeapSlot, references: &[u64]) {
        let of = Type::of(object.flags);
        self.read_names(object, references);
        let mut class_left = of != Type::Imemo;
        for target in references {
            let name = if class_left && *target == object.class {
                class_left = false;
                EdgeName::ClassOf
            } else {
                match self.names.known.next(*target) {
                    Some(name) => self.edge_name(object, *target, name),
                    None => self.unnamed(object, *target),
                }
            };
            self.builder.edge(*target, name);
        }
    }

    fn read_names(&mut self, object: &HeapSlot, references: &[u64]) {
        let (ruby, kinds) = (&self.ruby, &self.kinds);
        let most = self.builder.budget().edges;
        self.names.known.fill(|note| {
            // A String has one reference at most, to the string whose bytes it shares.
            if references.len() > 1 {
                each_named(ruby, kinds, object, most, note);
            }
        });
    }

    fn edge_name(&mut self, object: &HeapSlot, target: u64, name: Reference) -> EdgeName {
        match name {
            Reference::Variable(id) => self.variable(id),
            Reference::Element(index) => EdgeName::Index(u32::try_from(index).unwrap_or(u32::MAX)),
            Reference::Key => EdgeName::Key,
            Reference::Value(key) => EdgeName::Value(self.key(key)),
            Reference::Member(index) => EdgeName::Member(self.member(object.class, index)),
            Reference::Constant(serial) => EdgeName::Constant(self.serial(serial)),
            Reference::Method(serial) => EdgeName::Method(self.serial(serial)),
            Reference::Superclass if self.is(target, Type::Iclass) => EdgeName::Included,
            Reference::Superclass => EdgeName::Superclass,
            Reference::Local(id) => EdgeName::Local(self.id(id)),
            Reference::FrameLocal(id, code) => EdgeName::FrameLocal(self.frame_local(id, code)),
            Reference::ThreadLocal(serial) => EdgeName::ThreadLocal(self.serial(serial)),
        }
    }

    /// The name for a reference without one.
    fn unnamed(&self, object: &HeapSlot, target: u64) -> EdgeName {
        let flags = self.ruby.flags(target).unwrap_or(0);
        if is_code(flags) {
            return EdgeName::Code;
        }
        match Type::of(object.flags) {
            Type::Data => self.kinds.unnamed(),
            Type::Imemo if self.ruby.imemo(object.flags) == Imemo::Env => EdgeName::Closure,
            _ => EdgeName::Internal,
        }
    }

    fn is(&self, object: u64, wanted: Type) -> bool {
        self.ruby
            .flags(object)
            .is_ok_and(|flags| Type::of(flags) == wanted)
    }

    fn variable(&mut self, id: u64) -> EdgeName {
        let Some(text) = self.id(id) else {
            return EdgeName::Internal;
        };
        match self.beginning(id) {
            [b'@', b'@'] => EdgeName::ClassVariable(Some(text)),
            [b'@', _] => EdgeName::InstanceVariable(Some(text)),
            // Internal to the VM, such as `__members__`.
            _ => EdgeName::Internal,
        }
    }

    fn beginning(&self, id: u64) -> [u8; 2] {
        let mut two = [0; 2];
        if let Ok(Some(text)) = self.ruby.id_text(id) {
            let _ = self.ruby.copy(text, &mut two);
        }
        two
    }

    /// The name of an ID.
    pub fn id(&mut self, id: u64) -> Option<TextId> {
        if let Some(known) = self.names.ids.get(&id) {
            return *known;
        }
        let text = self.ruby.id_text(id).ok().flatten();
        let name = text.and_then(|text| self.copied(text));
        self.names.ids.insert(id, name);
        name
    }

    /// The name of a local variable of running code: `rows in block in run app.rb:12`.
    fn frame_local(&mut self, id: u64, code: u64) -> Option<TextId> {
        if let Some(known) = self.names.frame_locals.get(&(id, code)) {
            return *known;
        }
        let name = self
            .written_local(id, code)
            .map(|name| self.builder.text(name.as_bytes()));
        self.names.frame_locals.insert((id, code), name);
        name
    }

    fn written_local(&self, id: u64, code: u64) -> Option<String> {
        let ruby = &self.ruby;
        let mut said = String::new();
        let mut write = |text, before: &str| {
            said += before;
            ruby.write_text(text, LONGEST as u64, &mut said).ok()
        };
        write(ruby.id_text(id).ok().flatten()?, "")?;
        write(ruby.label(code).ok()?, " in ")?;
        write(ruby.path(code).ok()?, " ")?;
        let line = ruby.first_line(code).ok()?;
        Some(format!("{said}:{line}"))
    }

    /// File and first line of code: `app.rb:12`.
    pub fn place(&mut self, code: u64) -> Option<TextId> {
        let mut said = String::new();
        let path = self.ruby.path(code).ok()?;
        self.ruby.write_text(path, LONGEST as u64, &mut said).ok()?;
        let line = self.ruby.first_line(code).ok()?;
        Some(self.builder.text(format!("{said}:{line}").as_bytes()))
    }

    fn serial(&mut self, serial: u32) -> Option<TextId> {
        if let Some(known) = self.names.serials.get(&serial) {
            return *known;
        }
        let text = self.ruby.serial_text(serial).ok().flatten();
        let name = text.and_then(|text| self.copied(text));
        self.names.serials.insert(serial, name);
        name
    }

    pub fn copied(&mut self, text: vm::ruby::Text) -> Option<TextId> {
        let mut bytes = [0; LONGEST];
        let copied = self.ruby.copy(text, &mut bytes).ok()?;
        Some(self.builder.text(&bytes[..copied.len]))
    }

    /// The name for a key: the text of a Symbol; that of a String only if contents are requested.
    fn key(&mut self, key: u64) -> Option<TextId> {
        if let Some(id) = self.ruby.symbol_id(key) {
            return self.id(id);
        }
        if !self.contents || !self.is(key, Type::String) {
            return None;
        }
        let text = self.ruby.text(key).ok()?;
        self.copied(text)
    }

    fn member(&mut self, class: u64, index: u64) -> Option<TextId> {
        if !self.names.members.contains_key(&class) {
            let names = self.members_of(class);
            self.names.members.insert(class, names);
        }
        let index = usize::try_from(index).ok()?;
        *self.names.members.get(&class)?.get(index)?
    }

    /// The names in the hidden variable `__members__` of a class or an ancestor of it (`struct_ivar_get`, `struct.c`).
    fn members_of(&mut self, class: u64) -> Vec<Option<TextId>> {
        let mut at = self.ruby.real_class(class).ok().flatten();
        for _ in 0..ANCESTORS {
            let Some(class) = at else {
                break;
            };
            let mut list = None;
            let mut look = |target, name| {
                if let Reference::Variable(id) = name
                    && self.ruby.is_id(id, b"__members__")
                {
                    list = Some(target);
                }
            };
            let _ = self.ruby.references(class, 0, &mut look);
            if let Some(list) = list {
                let mut ids = [0; MEMBERS];
                let found = self.ruby.symbols_in_array(list, &mut ids);
                let found = found.unwrap_or_default();
                return found.iter().map(|id| self.id(*id)).collect();
            }
            at = self.ruby.superclass(class).ok().flatten();
        }
        Vec::new()
    }
}
