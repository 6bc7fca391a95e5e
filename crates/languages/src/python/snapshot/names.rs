//! Names references: those that the VM reports are joined by their targets to those that `vm` can name. Used by
//! `snapshot`.

use super::Maker;
use super::namespaces::Namespace;
use crate::snapshot::by_target::ByTarget;
use heap::{EdgeName, TextId};
use vm::Memory;
use vm::python::{Kind, Reference, Sort};

/// Bytes of a name.
const LONGEST: usize = 256;

/// The names of the references of one object.
#[derive(Default)]
pub struct Names {
    /// The names by the addresses that the references lead to.
    known: ByTarget<Named>,
}

#[derive(Clone, Copy)]
enum Named {
    Reference(Reference),
    Member(TextId),
}

impl Maker<'_> {
    /// Adds the references of an object to the builder.
    pub fn references(
        &mut self,
        object: u64,
        kind: &Kind,
        members: &[(u64, TextId)],
        references: &[u64],
    ) {
        self.read_names(object, kind, members);
        let namespace = match kind.sort {
            Sort::Dict if self.python.is_split(object).unwrap_or(false) => Some(Namespace::Object),
            Sort::Dict => self.namespaces.of(object),
            _ => None,
        };
        let mut class_left = true;
        for target in references {
            let name = if class_left && *target == kind.class {
                class_left = false;
                EdgeName::ClassOf
            } else {
                match self.names.known.next(*target) {
                    Some(Named::Member(name)) => EdgeName::Member(Some(name)),
                    Some(Named::Reference(name)) => self.edge_name(object, namespace, name),
                    None => EdgeName::Internal,
                }
            };
            self.builder.edge(*target, name);
            self.held.found(*target);
        }
    }

    fn read_names(&mut self, object: u64, kind: &Kind, members: &[(u64, TextId)]) {
        // Elements of a list or entries of a dict that are looked at, whatever an object says of its size.
        let (python, most) = (&self.python, self.builder.budget().edges);
        self.names.known.fill(|note| {
            let mut note = |target, name| {
                if target != 0 {
                    note(target, name);
                }
            };
            // What cannot be read has no names.
            let _ = python.references(object, kind, most, &mut |target, name| {
                note(target, Named::Reference(name));
            });
            for (offset, name) in members {
                let at = object.wrapping_add(*offset);
                if let Ok(target) = python.memory().u64(at) {
                    note(target, Named::Member(*name));
                }
            }
        });
    }

    fn edge_name(
        &mut self,
        object: u64,
        namespace: Option<Namespace>,
        name: Reference,
    ) -> EdgeName {
        match name {
            Reference::Element(index) => EdgeName::Index(u32::try_from(index).unwrap_or(u32::MAX)),
            Reference::Key => EdgeName::Key,
            Reference::Value(key) => match namespace {
                Some(Namespace::Module(_)) => EdgeName::Global(self.name(key)),
                Some(Namespace::Class(_) | Namespace::Object) => {
                    EdgeName::Attribute(self.name(key))
                }
                // The keys are names of modules.
                Some(Namespace::Vm) => EdgeName::Value(self.name(key)),
                None => EdgeName::Value(self.key(key)),
            },
            Reference::Attribute(name) => EdgeName::Attribute(self.name(name)),
            Reference::Dict => EdgeName::Attribute(Some(self.builder.text(b"__dict__"))),
            Reference::Superclass => EdgeName::Superclass,
            Reference::Code => EdgeName::Code,
            Reference::Closure => EdgeName::Closure,
            Reference::Contents => {
                let variable = self.namespaces.variable(object);
                EdgeName::Cell(variable.and_then(|name| self.name(name)))
            }
            Reference::Local(name) => EdgeName::FrameLocal(self.name(name)),
            Reference::Stack => EdgeName::Stack,
            Reference::Part(name) => EdgeName::Member(Some(self.builder.text(name.as_bytes()))),
            Reference::Frame => EdgeName::Attribute(Some(self.builder.text(b"gi_frame"))),
        }
    }

    /// The text of a name.
    pub fn name(&mut self, name: u64) -> Option<TextId> {
        if let Some(known) = self.texts.get(&name) {
            return *known;
        }
        let text = self.copied(name, LONGEST);
        self.texts.insert(name, text);
        text
    }

    /// The text of a str, cut.
    pub fn copied(&mut self, string: u64, longest: usize) -> Option<TextId> {
        let text = self.python.text(string).ok()?;
        let mut bytes = [0; LONGEST];
        let copied = self.python.copy(text, &mut bytes[..longest]).ok()?;
        Some(self.builder.text(&bytes[..copied.len]))
    }

    /// The name for a key: its text if the str is interned, and so a name of the program; that of another str only if
    /// contents are requested.
    fn key(&mut self, key: u64) -> Option<TextId> {
        if self.python.is_interned(key).unwrap_or(false) {
            return self.name(key);
        }
        if self.contents {
            return self.copied(key, LONGEST);
        }
        None
    }
}
