//! The heap of a Ruby from a core file of it. Used by `ruby`.
//!
//! No function can be called there, so crate `vm` reads references: everything that has a name, what Procs and methods hold, and for other
//! objects the words of the slot that are addresses of objects. Not read are compiled code and what objects of C types hold (`dmark`). Some
//! objects were reached by the last mark although none of the references read leads to them: something held them then. Of these, as many
//! become roots as are needed to reach the others.

use super::globals;
use super::names::each_named;
use super::ractors::{Ractors, runs};
use super::slots::Slots;
use super::{HeapSlot, Maker};
use crate::snapshot::frozen::Frozen;
use crate::snapshot::heap_source::HeapSource;
use foldhash::HashSet;
use heap::{Builder, Role, RootKind, RootName, Snapshot};
use std::ops::Range;
use std::time::Instant;
use vm::Memory;
use vm::ruby::{Facts, Imemo, Ruby, Slot, Type};

/// Limit of the words of machine stacks that are read, of all threads together.
const MOST_WORDS: u64 = 1 << 24;

/// Adds every object in the pages of the core's heap, with its references and the roots, to `builder`.
///
/// # Errors
/// The heap cannot be read, or it took longer than until then.
pub fn read(facts: Facts, found: &HeapSource, builder: Builder) -> Result<Snapshot, String> {
    let frozen = Frozen::new(found.memory);
    let unreadable = |error: vm::ruby::Unsupported| error.to_string();
    let plain = Ruby::new(&frozen, facts).map_err(unreadable)?;
    let shapes = if plain.wants_shapes() {
        globals::shapes(&plain, found.memory, found.data)
    } else {
        None
    };
    let facts = shapes.map_or(facts, |list| facts.with_shapes(list));
    let ruby = Ruby::new(&frozen, facts).map_err(unreadable)?;
    let globals = globals::names(&ruby, found.memory, found.data);
    let slots = Slots::of(&ruby).map_err(|error| error.to_string())?;
    let ractors = Ractors::of(&ruby, found.stacks, found.until);
    let mut walk = Walk {
        named: HashSet::default(),
        references: Vec::new(),
        maker: Maker::new(builder, ruby, globals, None),
        slots,
        ractors,
        found,
        words: MOST_WORDS,
        untold: 0,
    };
    if walk.maker.ruby.wants_shapes() {
        let note =
            "the VM's table of shapes was not found: what instance variables refer to is not known";
        walk.maker.builder.about_mut().notes.push(note.to_owned());
    }
    walk.roots();
    walk.maker.finalizers(found.until);
    walk.objects(found.until)?;
    Ok(walk.finish())
}

struct Walk<'a> {
    maker: Maker<'a>,
    slots: Slots,
    ractors: Ractors,
    found: &'a HeapSource<'a>,
    /// Addresses that the object read at present refers to by name.
    named: HashSet<u64>,
    references: Vec<u64>,
    /// Words of stacks that are still read.
    words: u64,
    /// Objects of C types whose references are not known.
    untold: u64,
}

impl Walk<'_> {
    fn roots(&mut self) {
        let object = self.maker.ruby.facts().object();
        let constants = self.maker.builder.text(b"Object");
        self.root(object, RootName::named(RootKind::Vm, constants));
        let globals: Vec<u64> = self.maker.globals.keys().copied().collect();
        self.maker.category = RootName::new(RootKind::Global);
        for target in globals {
            let name = self.maker.named_root(target);
            self.root(target, name);
        }
        let text = self.maker.builder.text(b"machine_context");
        let stacks = self.found.stacks.iter().enumerate();
        for (_, (thread, range)) in stacks.filter(|one| !self.ractors.has_stack(one.0)) {
            let name = RootName::named(RootKind::MachineStack, text).of_thread(*thread);
            for word in words(self.maker.ruby, range, &mut self.words) {
                if self.slots.has(word) {
                    self.maker.builder.root(word, name);
                }
            }
        }
    }

    /// Adds a root, if an object is at `target`.
    fn root(&mut self, target: u64, name: RootName) {
        if self.slots.has(target) {
            self.maker.builder.root(target, name);
        }
    }

    fn objects(&mut self, until: Instant) -> Result<(), String> {
        let ruby = self.maker.ruby;
        for page in ruby.pages().map_err(|error| error.to_string())?.flatten() {
            for slot in ruby.slots(page).flatten() {
                // The sizes of objects come from the core, so the time is limited.
                if Instant::now() > until {
                    return Err("it took too long".into());
                }
                if self.slots.has(slot.address) {
                    self.object(slot, page.slot_size);
                }
            }
        }
        Ok(())
    }

    fn object(&mut self, slot: Slot, slot_size: u64) {
        let ruby = self.maker.ruby;
        let bytes = ruby.size(slot.address, slot_size).unwrap_or(slot_size);
        // The core file has so many.
        let bytes = bytes.min(self.found.bytes);
        let object = HeapSlot {
            address: slot.address,
            slot: slot_size,
            flags: slot.flags,
            class: slot.klass,
            bytes: Some(bytes),
        };
        let of = Type::of(slot.flags);
        let Maker { kinds, builder, .. } = &mut self.maker;
        kinds.of(builder, &ruby, &object);
        let (slots, references, named) = (&self.slots, &mut self.references, &mut self.named);
        references.clear();
        named.clear();
        let mut note = |target: u64| {
            if slots.has(target) {
                references.push(target);
            }
        };
        if of != Type::Imemo {
            note(slot.klass);
        }
        let (kinds, most) = (&self.maker.kinds, self.maker.builder.budget().edges);
        each_named(&ruby, kinds, &object, most, &mut |target, _| {
            note(target);
            named.insert(target);
        });
        // References that cannot be read are left out.
        let _ = match of {
            Type::Data if self.maker.kinds.role() == Some(Role::Function) => {
                ruby.each_of_proc(slot.address, &mut note)
            }
            Type::Imemo if ruby.imemo(slot.flags) == Imemo::Ment => {
                ruby.each_of_method(slot.address, &mut note)
            }
            _ => Ok(()),
        };
        if has_words(of, ruby.imemo(slot.flags)) {
            let _ = ruby.each_word(slot.address, of == Type::Imemo, &mut |word| {
                if !named.contains(&word) {
                    note(word);
                }
            });
        }
        if of == Type::Data {
            self.ractors
                .threads(slot.address)
                .iter()
                .for_each(|thread| note(*thread));
            if let Some(stack) = self.ractors.stack(slot.address) {
                let range = &self.found.stacks[stack].1;
                words(ruby, range, &mut self.words).for_each(&mut note);
            }
        }
        let is_thread = self.maker.kinds.is_thread();
        let is_told = matches!(
            self.maker.kinds.role(),
            Some(Role::Function | Role::Thread | Role::Fiber)
        );
        self.untold += u64::from(of == Type::Data && !is_told);
        let references = std::mem::take(&mut self.references);
        self.maker.object(object, &references);
        self.references = references;
        let is_ractor = !self.ractors.threads(slot.address).is_empty();
        let is_held = self.ractors.holds(slot.address);
        if is_ractor || is_thread && !is_held && runs(&ruby, slot.address) {
            let name = if is_ractor { "ractors" } else { "threads" };
            let name = self.maker.builder.text(name.as_bytes());
            self.root(slot.address, RootName::named(RootKind::Vm, name));
        }
    }

    fn finish(mut self) -> Snapshot {
        let builder = &mut self.maker.builder;
        let by_c = builder.text(b"(held by C code or the VM)");
        let notes = &mut builder.about_mut().notes;
        notes.push(format!(
            "from a core file: what the {} objects of C types and compiled code refer to is not known (only the VM's own functions tell it); what \
             the last collection kept and nothing else leads to is told as held by C code or the VM",
            self.untold
        ));
        let mut snapshot = self.maker.builder.finish();
        let slots = &self.slots;
        let name = RootName::named(RootKind::Native, by_c);
        snapshot.hold_unreached(name, |address| slots.is_marked(address));
        snapshot
    }
}

/// The words of a stack, `left` at most.
fn words<'a>(
    ruby: Ruby<'a, Frozen<'a>>,
    stack: &Range<u64>,
    left: &mut u64,
) -> impl Iterator<Item = u64> + use<'a> {
    let count = (stack.end.saturating_sub(stack.start) / 8).min(*left);
    *left -= count;
    let first = stack.start.next_multiple_of(8);
    let places = (0..count).map(move |number| first.saturating_add(number * 8));
    places.filter_map(move |at| ruby.memory().u64(at).ok())
}

/// Whether words of an object's slot, in addition to named ones, may be references.
fn has_words(of: Type, imemo: Imemo) -> bool {
    match of {
        Type::Imemo => !matches!(imemo, Imemo::Tmpbuf | Imemo::Ast),
        Type::String
        | Type::Array
        | Type::Hash
        | Type::Regexp
        | Type::Match
        | Type::Complex
        | Type::Rational
        | Type::Symbol
        | Type::Iclass => true,
        _ => false,
    }
}
