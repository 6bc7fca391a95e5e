//! The heap of a Python from a core file of it. Used by `python`.
//!
//! No function can be called there. Instead of `tp_traverse`, crate `vm` reads references: everything that has a name, and the declared
//! members of C types. Objects with other references have a higher count than references found, and are shown as held by C code.

use super::Maker;
use super::kinds::Class;
use crate::snapshot::frozen::Frozen;
use crate::snapshot::heap_source::HeapSource;
use foldhash::HashSet;
use heap::{Builder, Snapshot};
use std::rc::Rc;
use std::time::Instant;
use vm::python::{Error, Facts, Python, Sort};
use vm::{Fault, Memory};

/// Named references of one object beside which members are looked for once more.
const FEW: usize = 64;
/// An object takes 16 bytes at least.
const SMALLEST: u64 = 16;

/// Reads the heap of a process.
///
/// # Errors
/// It cannot be read, or the deadline has passed.
pub fn read(facts: Facts, found: &HeapSource, builder: Builder) -> Result<Snapshot, String> {
    let HeapSource { bytes, until, .. } = *found;
    let frozen = Frozen::new(found.memory);
    let unreadable = |error: Error| error.to_string();
    let python = Python::new(&frozen, facts).map_err(unreadable)?;
    if !facts.has_lists() {
        return Err("the lists of its garbage collector were not found".into());
    }
    if python.is_collecting().map_err(unreadable)? {
        return Err(
            "it was collecting garbage when the core was written, and its lists of objects are taken apart meanwhile".into(),
        );
    }
    let mut walk = Walk {
        maker: Maker::new(python.over(&frozen), builder, bytes, until).map_err(unreadable)?,
        python,
        seen: HashSet::default(),
        open: Vec::new(),
        references: Vec::new(),
        most: usize::try_from(bytes / SMALLEST).unwrap_or(usize::MAX),
        until,
        late: false,
    };
    let walked = walk.all();
    if walk.late {
        return Err("it took too long".into());
    }
    walked.map_err(unreadable)?;
    let mut builder = walk.maker.finish();
    builder.about_mut().notes.push(
        "from a core file: what objects of C types refer to is known as far as they declare it as members (only their own functions tell all of \
         it); what else is referred to is told as held by C code, also where that is in a cycle"
            .to_owned(),
    );
    Ok(builder.finish())
}

struct Walk<'a> {
    maker: Maker<'a>,
    python: Python<'a, Frozen<'a>>,
    /// Objects outside of the collector's lists.
    seen: HashSet<u64>,
    /// Objects of `seen` that are still to be added.
    open: Vec<u64>,
    /// Addresses to which the present object refers.
    references: Vec<u64>,
    /// Limit of the number of objects, and of the references of one object.
    most: usize,
    until: Instant,
    late: bool,
}

impl Walk<'_> {
    fn all(&mut self) -> Result<(), Error> {
        let python = self.python.over(self.python.memory());
        python.each_root(&mut |root| {
            self.meet(root.target);
            true
        })?;
        self.drain()?;
        python.each_object(&mut |object, _| {
            self.tell(object)?;
            self.drain()
        })?;
        self.maker.roots()
    }

    fn drain(&mut self) -> Result<(), Error> {
        while let Some(object) = self.open.pop() {
            self.tell(object)?;
        }
        Ok(())
    }

    fn tell(&mut self, object: u64) -> Result<(), Error> {
        // The sizes of objects come from the core, so the time is limited.
        if Instant::now() > self.until {
            self.late = true;
            return Err(Fault { at: object }.into());
        }
        self.references.clear();
        // An object that cannot be read is counted when it is described.
        let _ = self.refer(object);
        let mut references = std::mem::take(&mut self.references);
        references.retain(|target| self.meet(*target));
        self.maker.object(object, &references);
        self.references = references;
        Ok(())
    }

    /// Collects what an object refers to.
    fn refer(&mut self, object: u64) -> Result<(), Error> {
        let class_address = self.python.type_of(object)?;
        self.meet(class_address);
        let class = self.class(class_address)?;
        let (python, kind) = (&self.python, class.kind);
        let (most, references) = (self.most, &mut self.references);
        let mut note = |target: u64| {
            if target != 0 && references.len() < most {
                references.push(target);
            }
        };
        if kind.may_have_dict() {
            note(class_address);
        }
        if matches!(kind.sort, Sort::Code | Sort::Type) {
            return python.each_untold(object, &kind, &mut note);
        }
        let shares_keys = kind.sort == Sort::Dict && python.is_split(object)?;
        python.references(object, &kind, most as u64, &mut |target, name| {
            if !(shares_keys && name == vm::python::Reference::Key) {
                note(target);
            }
        })?;
        let named = self.references.len();
        for (offset, _) in &class.members {
            let target = self.python.memory().u64(object.wrapping_add(*offset))?;
            let known = &self.references[..named.min(FEW)];
            if target != 0 && !known.contains(&target) {
                self.references.push(target);
            }
        }
        Ok(())
    }

    fn class(&mut self, address: u64) -> Result<Rc<Class>, Error> {
        let maker = &mut self.maker;
        let (class, is_new) = maker
            .kinds
            .class(&mut maker.builder, &self.python, address)?;
        if is_new {
            // A static type, defined in C, is in none of the collector's lists.
            maker.look_at_class(address)?;
        }
        Ok(class)
    }

    /// Whether an object is at this address. One that the collector does not list is queued.
    fn meet(&mut self, target: u64) -> bool {
        let python = &self.python;
        let is_listed = || {
            let class = python.type_of(target)?;
            Ok::<_, Error>(python.is_collected(target, class)? && python.is_tracked(target)?)
        };
        match is_listed() {
            Ok(true) => true,
            Ok(false) if self.seen.contains(&target) => true,
            Ok(false) if self.seen.len() < self.most => {
                self.seen.insert(target);
                self.open.push(target);
                true
            }
            _ => false,
        }
    }
}
