//! The heap of a Ruby, from what its copy writes and from the copy's memory. Used by `ruby`.

pub mod core;
mod globals;
mod kinds;
mod malloced;
mod names;
mod ractors;
mod slots;

use crate::snapshot::batches::{self, Taker};
use crate::snapshot::births::Births;
use crate::snapshot::copied::{CopiedProcess, lost};
use crate::snapshot::frozen::Frozen;
use crate::snapshot::stream::{HeapSlot, Reader, Said};
use crate::snapshot::texts::{Kept, Texts};
use foldhash::HashMap;
use heap::{Builder, Collector, Flags, Role, RootKind, RootName, TextId};
use kinds::Kinds;
use malloced::Malloced;
use names::Names;
use process::error::{Error, Result};
use process::priority::lower_this_thread;
pub use slots::room;
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;
use std::time::Instant;
use vm::Language;
use vm::ruby::{Facts, Ruby, Type};

/// Bytes of a name that are kept.
const LONGEST_NAME: usize = 1 << 10;
/// `FL_FREEZE` and `FL_PROMOTED` (`include/ruby/internal/fl_type.h`; 2.7: `include/ruby/ruby.h`): bits 11 and, for both of
/// `FL_PROMOTED0` and `FL_PROMOTED1` up to 3.2, 5 and 6.
const FROZEN: u64 = 1 << 11;
/// `RUBY_FL_FINALIZE` (`fl_type.h`, in 2.7 `ruby/ruby.h`): `ObjectSpace.define_finalizer` was called for it.
const FINALIZE: u64 = 1 << 7;

/// Reads the heap; returns the builder and how many objects were left out as garbage.
///
/// # Errors
/// The copy ended too early, hung, or wrote invalid data.
pub fn read<'a>(
    copy: &'a dyn CopiedProcess,
    guest: (&Facts, &[Range<u64>]),
    builder: Builder,
    births: Option<Births<'a>>,
    until: Instant,
) -> Result<(Builder, u64)> {
    let (give, take) = batches::pair();
    let most = builder.budget().edges;
    thread::scope(|scope| {
        let making = scope.spawn(move || {
            lower_this_thread();
            make(copy, guest, builder, births, (&take, until))
        });
        give.read(Reader::new(copy.pipe(until), most));
        let made = making.join();
        made.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Adds the objects that another thread reads from the pipe.
fn make<'a>(
    copy: &'a dyn CopiedProcess,
    (facts, data): (&Facts, &[Range<u64>]),
    builder: Builder,
    births: Option<Births<'a>>,
    (read, until): (&Taker, Instant),
) -> Result<(Builder, u64)> {
    let frozen = Frozen::new(copy.memory());
    let pid = copy.parent();
    let unreadable = |error: String| Error::UnreadableVm {
        pid,
        language: Language::Ruby,
        reason: error,
    };
    let plain = Ruby::new(&frozen, *facts).map_err(|error| unreadable(error.to_string()))?;
    let facts = match copy.shapes() {
        Some((list, size)) if size == plain.shape_size() => facts.with_shapes(list),
        _ => *facts,
    };
    let ruby = Ruby::new(&frozen, facts).map_err(|error| unreadable(error.to_string()))?;
    let globals = globals::names(&ruby, copy.memory(), data);
    let mut builder = builder;
    builder.about_mut().collector = Collector::of(copy.collector());
    let mut maker = Maker::new(builder, ruby, globals, births);
    while let Some(batch) = read.next() {
        let batch = batch.map_err(|error| lost(pid, &error.to_string()))?;
        let written = batch.each(|said, references| maker.take(said, references));
        read.give_back(batch);
        if let Some(error) = maker.unreadable {
            return Err(error);
        }
        if let Some(written) = written {
            if written != maker.seen {
                return Err(lost(pid, "it wrote other objects than it has counted"));
            }
            maker.finalizers(until);
            let allocated = maker.beside.sums(&maker.builder);
            maker.builder.about_mut().allocated = allocated;
            return Ok((maker.builder, maker.garbage));
        }
    }
    Err(lost(pid, "what it wrote has no end"))
}

/// Adds objects with names and kinds to the builder.
struct Maker<'a> {
    builder: Builder,
    ruby: Ruby<'a, Frozen<'a>>,
    kinds: Kinds,
    names: Names,
    texts: Texts,
    beside: Malloced,
    /// IDs of global variables, by the addresses to which they refer.
    globals: HashMap<u64, u64>,
    births: Option<Births<'a>>,
    /// Why the agent's records of births cannot be read.
    unreadable: Option<Error>,
    /// Contents of strings may be shown.
    contents: bool,
    /// Names by the class word of objects, and the last one: neighbours mostly have the same class.
    classes: HashMap<u64, Option<TextId>>,
    last_class: (u64, Option<TextId>),
    /// The VM's table to which the following roots belong.
    category: RootName,
    garbage: u64,
    /// Objects, references and roots so far.
    seen: [u64; 3],
}

impl<'a> Maker<'a> {
    fn new(
        builder: Builder,
        ruby: Ruby<'a, Frozen<'a>>,
        globals: HashMap<u64, u64>,
        births: Option<Births<'a>>,
    ) -> Self {
        Maker {
            contents: builder.about().contents,
            builder,
            ruby,
            kinds: Kinds::default(),
            names: Names::default(),
            texts: Texts::default(),
            beside: Malloced::default(),
            globals,
            births,
            unreadable: None,
            classes: HashMap::default(),
            last_class: (0, None),
            category: RootName::new(RootKind::Vm),
            garbage: 0,
            seen: [0; 3],
        }
    }

    /// Handles a section. For the last one, returns how many objects, references and roots were written in all.
    fn take(&mut self, said: &Said, references: &[u64]) -> Option<[u64; 3]> {
        match *said {
            Said::Category(ref name) => self.category = self.root_name(name),
            Said::Root(target) => {
                self.seen[2] += 1;
                let name = self.named_root(target);
                self.builder.root(target, name);
            }
            Said::Garbage(count) => self.garbage = self.garbage.saturating_add(count),
            Said::Object(object) => {
                self.seen[0] += 1;
                self.seen[1] += references.len() as u64;
                self.object(object, references);
            }
            Said::End {
                objects,
                references,
                roots,
                left_out,
            } => {
                self.builder.leave_out(left_out);
                return Some([objects, references, roots]);
            }
            // Counts as no object, so that the end does not agree.
            Said::Traced(_) | Said::Atom(_) => {}
        }
        None
    }

    /// The name of a root; for a global variable the name of the variable.
    fn named_root(&mut self, target: u64) -> RootName {
        let id = self.globals.get(&target).copied();
        match (self.category.kind, id) {
            (RootKind::Global, Some(id)) => match self.id(id) {
                Some(name) => RootName::named(RootKind::Global, name),
                None => self.category,
            },
            _ => self.category,
        }
    }

    /// The name for the roots of one of the VM's tables (`MARK_CHECKPOINT` in `rb_gc_mark_roots`, `gc.c`, 2.7 to 4.0).
    fn root_name(&mut self, table: &[u8]) -> RootName {
        let kind = match table {
            b"machine_context" => RootKind::MachineStack,
            b"finalizers" => RootKind::Finalizer,
            b"global_tbl" => RootKind::Global,
            // Filled by `rb_gc_register_address` and `rb_gc_register_mark_object`.
            b"global_list" => RootKind::Native,
            _ => RootKind::Vm,
        };
        RootName::named(kind, self.builder.text(table))
    }

    /// Adds what only finalizers hold, where the VM does not tell them among its roots.
    fn finalizers(&mut self, until: Instant) {
        let name = self.root_name(b"finalizers");
        let (ruby, builder) = (&self.ruby, &mut self.builder);
        let most = builder.budget().roots;
        let in_time = || Instant::now() < until;
        let each = &mut |callbacks| builder.root(callbacks, name);
        let why = match ruby.finalizers(most, &in_time, each) {
            Ok(true) => return,
            Ok(false) => {
                builder.lose_roots(1);
                "was not read to its end".to_owned()
            }
            Err(error) => format!("cannot be read ({error})"),
        };
        let note =
            format!("the VM's table of finalizers {why}: what only they hold counts as garbage");
        builder.about_mut().notes.push(note);
    }

    fn object(&mut self, object: HeapSlot, references: &[u64]) {
        let of = Type::of(object.flags);
        let kind = self.kinds.of(&mut self.builder, &self.ruby, &object);
        let (site, birth) = self.birth(object.address);
        let (kept, capacity) = match of {
            Type::String => (self.kept(object.address), None),
            Type::Symbol => (self.kept_of_symbol(object.address), None),
            Type::Array | Type::Hash => self.room(&object),
            _ => (Kept::default(), None),
        };
        let bytes = self.bytes(&object);
        let described = heap::Object {
            site,
            birth,
            class: self.class(of, object.class),
            bytes,
            length: kept.length,
            capacity,
            fingerprint: kept.fingerprint,
            contents: kept.contents,
            flags: Flags {
                frozen: object.flags & FROZEN != 0 && of != Type::Imemo,
                finalizer: object.flags & FINALIZE != 0 && of != Type::Imemo,
                unsized_by_c: self.kinds.is_unsized(),
                ..Flags::default()
            },
            label: self.label(of, object.address),
            ..heap::Object::new(object.address, kind)
        };
        self.beside.add(kind, described.bytes, object.slot);
        self.builder.object(described);
        self.references(&object, references);
    }

    /// The bytes of an object; of a thread without its VM stack, which is room and hardly any memory.
    fn bytes(&self, object: &HeapSlot) -> u64 {
        let bytes = object.bytes.unwrap_or(object.slot);
        let of_thread = self.kinds.is_thread().then_some(object.address);
        let room = of_thread.and_then(|thread| self.ruby.stack_of_thread(thread));
        bytes - room.filter(|room| *room < bytes).unwrap_or(0)
    }

    /// What is kept of a String.
    fn kept(&mut self, string: u64) -> Kept {
        let Ok(text) = self.ruby.text(string) else {
            return Kept::default();
        };
        let (texts, builder) = (&mut self.texts, &mut self.builder);
        texts.kept(text.len, self.contents, builder, |into| {
            self.ruby.copy(text, into).ok().map(|copied| copied.len)
        })
    }

    /// What is kept of a Symbol: only the length and text of its String, as no two Symbols are equal.
    fn kept_of_symbol(&mut self, symbol: u64) -> Kept {
        match self.ruby.string_of_symbol(symbol) {
            Ok(string) => Kept {
                fingerprint: None,
                ..self.kept(string)
            },
            Err(_) => Kept::default(),
        }
    }

    /// The line that made an object, and its earliest time; `None` and 0 where unknown.
    fn birth(&mut self, object: u64) -> (Option<(TextId, u32)>, u64) {
        let Some(births) = &mut self.births else {
            return (None, 0);
        };
        match births.of(object, &mut self.builder) {
            Ok(birth) => birth,
            Err(error) => {
                self.births = None;
                self.unreadable = Some(error);
                (None, 0)
            }
        }
    }

    /// The name of an object's class; `None` for imemos and include classes, and for objects without a class.
    fn class(&mut self, of: Type, klass: u64) -> Option<TextId> {
        if matches!(of, Type::Imemo | Type::Iclass) || klass == 0 {
            return None;
        }
        if self.last_class.0 != klass {
            self.last_class = (klass, self.class_of_word(klass));
        }
        self.last_class.1
    }

    /// The name of the class that this word of an object leads to.
    fn class_of_word(&mut self, klass: u64) -> Option<TextId> {
        if let Some(known) = self.classes.get(&klass) {
            return *known;
        }
        let class = self.ruby.real_class(klass).ok().flatten();
        let name = class.and_then(|class| self.class_name(class));
        self.classes.insert(klass, name);
        name
    }

    fn class_name(&mut self, class: u64) -> Option<TextId> {
        let mut name = String::new();
        self.ruby.write_class_name(class, &mut name).ok()?;
        Some(self.text(&name))
    }

    fn text(&mut self, text: &str) -> TextId {
        let end = text.floor_char_boundary(LONGEST_NAME);
        self.builder.text(&text.as_bytes()[..end])
    }

    /// The number of elements of a list or map, and its capacity.
    fn room(&self, object: &HeapSlot) -> (Kept, Option<u64>) {
        let bytes = object.bytes.unwrap_or(0);
        let capacity = self.ruby.capacity(object.address, bytes).ok().flatten();
        let kept = Kept {
            length: self.ruby.length(object.address).ok(),
            ..Kept::default()
        };
        (kept, capacity)
    }

    /// The name of the object itself, such as that of a class.
    fn label(&mut self, of: Type, object: u64) -> Option<TextId> {
        match of {
            Type::Class | Type::Module => self.class_name(object),
            // Names of methods and variables stay here, also those that nothing has any more.
            Type::Array if self.ruby.is_table_of_symbols(object) => Some(
                self.builder
                    .text(b"(table of symbols: names of methods and variables)"),
            ),
            // Where it is written: all have the same class.
            _ if self.kinds.role() == Some(Role::Function) => {
                let code = self.ruby.code_of_proc(object)?;
                self.place(code)
            }
            _ if self.kinds.is_thread() => {
                let thread = self.ruby.context_of_object(object)?;
                let thread = self.ruby.thread_of(thread).ok()?;
                let name = self.ruby.thread_name(thread).ok().flatten()?;
                self.copied(name)
            }
            _ => None,
        }
    }
}
