//! The classes met so far: the memory layout of their objects, their kind, and the names of their members. Used by
//! `snapshot`, `core` and `namespaces`.

use foldhash::HashMap;
use heap::{Builder, KindId, Role, TextId};
use std::rc::Rc;
use vm::Memory;
use vm::python::{Error, Kind, Python, Sort};

/// Bytes of the name of a class that are kept.
const LONGEST: usize = 1 << 10;
/// Limit of the named members of a class.
const MOST_MEMBERS: usize = 1024;

/// The class of functions that are bound to an object.
const METHOD: &str = "method";

/// The classes met so far.
#[derive(Debug, Default)]
pub struct Kinds {
    kinds: HashMap<u64, Kind>,
    classes: HashMap<u64, Rc<Class>>,
}

/// What is known of a class, for each of its objects.
#[derive(Debug)]
pub struct Class {
    /// How its objects lie in memory.
    pub kind: Kind,
    /// The kind of its objects.
    pub id: KindId,
    /// Name of the class, cut to `LONGEST` bytes; `None` where it cannot be read.
    pub name: Option<TextId>,
    /// Objects run code of the program when they are freed.
    pub has_finalizer: bool,
    /// They are functions bound to an object.
    pub is_method: bool,
    /// Offset and name of the members of its objects.
    pub members: Vec<(u64, TextId)>,
}

impl Kinds {
    /// The memory layout of a class's objects.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of<M: Memory>(&mut self, python: &Python<M>, class: u64) -> Result<Kind, Error> {
        if let Some(kind) = self.kinds.get(&class) {
            return Ok(*kind);
        }
        let kind = python.kind(class)?;
        self.kinds.insert(class, kind);
        Ok(kind)
    }

    /// Returns a class, and whether it is met for the first time.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn class<M: Memory>(
        &mut self,
        builder: &mut Builder,
        python: &Python<M>,
        class: u64,
    ) -> Result<(Rc<Class>, bool), Error> {
        let is_new = !self.classes.contains_key(&class);
        if is_new {
            let kind = self.of(python, class)?;
            let mut native = String::new();
            python.write_class_name(kind.native, &mut native)?;
            let mut members = Vec::new();
            python.each_member(class, &mut |offset, name| {
                if members.len() < MOST_MEMBERS {
                    members.push((offset, builder.text(name)));
                }
            })?;
            let found = Class {
                kind,
                id: builder.kind(native.as_bytes(), role(&kind, &native)),
                name: name(builder, python, class),
                is_method: native == METHOD,
                has_finalizer: python.has_finalizer(&kind)?,
                members,
            };
            self.classes.insert(class, Rc::new(found));
        }
        Ok((self.classes[&class].clone(), is_new))
    }
}

/// The name of a class.
pub fn name<M: Memory>(builder: &mut Builder, python: &Python<M>, class: u64) -> Option<TextId> {
    let mut name = String::new();
    python.write_class_name(class, &mut name).ok()?;
    let end = name.floor_char_boundary(LONGEST);
    Some(builder.text(&name.as_bytes()[..end]))
}

/// The kind of the dicts with the globals of a module or the attributes of a class: every module of a process hangs on them.
pub fn namespace(builder: &mut Builder) -> KindId {
    builder.kind(b"namespace", Role::Module)
}

fn role(kind: &Kind, native: &str) -> Role {
    match kind.sort {
        Sort::Other if native == METHOD => Role::Function,
        Sort::Int => Role::Number,
        Sort::Str | Sort::Bytes | Sort::ByteArray => Role::Text,
        Sort::List | Sort::Tuple => Role::List,
        Sort::Dict | Sort::Set => Role::Map,
        Sort::Type => Role::Class,
        Sort::Module => Role::Module,
        Sort::Function => Role::Function,
        Sort::Code => Role::Code,
        Sort::Cell | Sort::Frame => Role::Internal,
        Sort::Generator => Role::Fiber,
        Sort::Instance => Role::Instance,
        Sort::Other => Role::Native,
    }
}
