//! The heap of a Python, from what its copy writes and from the copy's memory. Used by `python`.

pub mod core;
mod kinds;
mod mapped;
mod names;
mod namespaces;

use crate::snapshot::copied::{CopiedProcess, lost};
use crate::snapshot::frozen::Frozen;
use crate::snapshot::outer_references::{OuterReferences, Why};
use crate::snapshot::stream::{Reader, Said};
use foldhash::HashMap;
use heap::{Builder, Collector, Flags, RootKind, RootName, TextId};
use kinds::{Class, Kinds};
use mapped::Mapped;
use names::Names;
use namespaces::{Namespace, Namespaces};
use process::error::{Error, Result};
use process::rss::Resident;
use std::time::Instant;
use vm::python::{self, Facts, Kind, Place, Point, Python, Root, Sort};

/// Bytes of a text that are kept if contents are requested.
const BEGINNING: usize = 64;

/// Limit of the named roots.
const MOST_ROOTS: usize = 1 << 22;

/// Adds every object that the copy reports, with its references and the roots, to `builder`.
///
/// # Errors
/// The copy ended too early, hung, or wrote invalid data.
pub fn read(
    copy: &dyn CopiedProcess,
    facts: Facts,
    builder: Builder,
    until: Instant,
) -> Result<Builder> {
    let pid = copy.parent();
    let frozen = Frozen::new(copy.memory());
    let unreadable = |error: python::Error| lost(pid, &error.to_string());
    let resident = Resident::of(pid).map_err(|error| Error::of_proc(pid, "status", error))?;
    let bytes = resident.memory.saturating_add(resident.swap);
    let python = Python::new(&frozen, facts).map_err(unreadable)?;
    let collecting = python.is_collector_on().ok().flatten();
    let mut builder = builder;
    builder.about_mut().collector = Collector::of(collecting);
    let most = builder.budget().edges;
    let mut maker = Maker::new(python, builder, bytes, until).map_err(unreadable)?;
    maker.pages = Mapped::of(pid);
    let mut stream = Reader::new(copy.pipe(until), most);
    let written = loop {
        // Names of references are looked up in tables whose size comes from the process.
        if copy.is_late(until) {
            return Err(lost(pid, "it took too long"));
        }
        match stream.next().map_err(|bad| lost(pid, &bad.to_string()))? {
            Said::Traced(object) => {
                maker.seen[1] += stream.references().len() as u64;
                maker.object(object, stream.references());
                for atom in stream.atoms() {
                    maker.object(*atom, &[]);
                }
            }
            Said::Atom(object) => maker.object(object, &[]),
            Said::End {
                objects,
                references,
                roots,
                left_out,
            } => {
                maker.builder.leave_out(left_out);
                break [objects, references, roots];
            }
            _ => return Err(lost(pid, "it wrote what only a Ruby does")),
        }
    };
    maker.roots().map_err(unreadable)?;
    if written != maker.seen {
        return Err(lost(pid, "it wrote other objects than it has counted"));
    }
    Ok(maker.finish())
}

/// Adds objects with names and kinds to the builder.
struct Maker<'a> {
    builder: Builder,
    python: Python<'a, Frozen<'a>>,
    kinds: Kinds,
    names: Names,
    namespaces: Namespaces,
    /// Names read so far, by the addresses of their strs; `None` where one could not be read.
    texts: HashMap<u64, Option<TextId>>,
    held: OuterReferences,
    /// Which pages are in memory; `None` where that is not known.
    pages: Option<Mapped>,
    /// Contents of strings may be shown.
    contents: bool,
    /// Objects, references and roots so far.
    seen: [u64; 3],
    /// Objects whose class or size could not be read.
    unreadable: u64,
}

impl<'a> Maker<'a> {
    /// Makes a value without objects, for a process with so many bytes of memory.
    fn new(
        python: Python<'a, Frozen<'a>>,
        builder: Builder,
        bytes: u64,
        until: Instant,
    ) -> std::result::Result<Self, python::Error> {
        let mut kinds = Kinds::default();
        Ok(Maker {
            namespaces: Namespaces::read(&python, &mut kinds, until)?,
            contents: builder.about().contents,
            builder,
            kinds,
            names: Names::default(),
            texts: HashMap::default(),
            held: OuterReferences::within(bytes),
            pages: None,
            python,
            seen: [0; 3],
            unreadable: 0,
        })
    }

    fn object(&mut self, object: u64, references: &[u64]) {
        self.seen[0] += 1;
        if self.described(object, references).is_err() {
            self.unreadable += 1;
        }
    }

    fn described(
        &mut self,
        object: u64,
        references: &[u64],
    ) -> std::result::Result<(), python::Error> {
        let class_address = self.python.type_of(object)?;
        let (class, is_new) = self
            .kinds
            .class(&mut self.builder, &self.python, class_address)?;
        if is_new {
            // A static type, defined in C, is in none of the collector's lists.
            self.look_at_class(class_address)?;
        }
        let kind = class.kind;
        let size = self.python.size(object, &kind)?;
        let beside = self.bytes_beside(object, &kind)?;
        let count = self.python.reference_count(object)?;
        self.held.object(object, count);
        let namespace = self
            .namespaces
            .of(object)
            .filter(|_| kind.sort == Sort::Dict);
        let id = match namespace {
            Some(Namespace::Module(_) | Namespace::Class(_) | Namespace::Vm) => {
                kinds::namespace(&mut self.builder)
            }
            Some(Namespace::Object) | None => class.id,
        };
        let described = heap::Object {
            class: class.name,
            bytes: size.bytes.saturating_add(beside),
            length: size.length,
            capacity: size.capacity,
            label: self.label(object, &class),
            contents: self.beginning(object, kind.sort),
            flags: Flags {
                finalizer: class.has_finalizer,
                ..Flags::default()
            },
            ..heap::Object::new(object, id)
        };
        self.builder.object(described);
        self.references(object, &kind, &class.members, references);
        // Static types are never freed, so they live without references.
        if kind.sort == Sort::Type && !self.python.is_heap_type(object)? {
            let name = RootName::named(RootKind::Vm, self.builder.text(b"static types"));
            self.builder.root(object, name);
        }
        Ok(())
    }

    /// Bytes that an object has allocated beside itself; of a mapping those that are in memory.
    fn bytes_beside(&self, object: u64, kind: &Kind) -> std::result::Result<u64, python::Error> {
        let mapped = self.python.mapping_of(object, kind)?;
        let mapped = match (mapped, &self.pages) {
            (Some(range), Some(pages)) => pages.resident(&range),
            _ => 0,
        };
        Ok(mapped.saturating_add(self.python.bytes_beside(object, kind)?))
    }

    fn look_at_class(&mut self, class: u64) -> std::result::Result<(), python::Error> {
        let meta = self.python.type_of(class)?;
        self.namespaces
            .look(&self.python, &mut self.kinds, class, meta)
    }

    /// The name of the object itself, such as that of a function.
    fn label(&mut self, object: u64, class: &Class) -> Option<TextId> {
        match class.kind.sort {
            Sort::Other if class.is_method => {
                let function = self.python.function_of_method(object).ok()??;
                let code = self.python.code_of(function).ok()?;
                self.code_name(code)
            }
            Sort::Type => kinds::name(&mut self.builder, &self.python, object),
            Sort::Code => self.code_name(object),
            Sort::Generator => {
                let generator = self.python.generator(object).ok()??;
                let frame = self.python.generator_frame(&generator).next()?.ok()?;
                self.code_name(frame.point.code)
            }
            Sort::Function => {
                let code = self.python.code_of(object).ok()?;
                self.code_name(code)
            }
            Sort::Module => {
                let name = self.python.module_name(object).ok()??;
                self.name(name)
            }
            Sort::Dict => match self.namespaces.of(object)? {
                Namespace::Module(module) => {
                    let name = self.python.module_name(module).ok()??;
                    let name = format!("of module {}", self.text_of(name)?);
                    Some(self.builder.text(name.as_bytes()))
                }
                Namespace::Class(class) => {
                    let mut name = "of class ".to_owned();
                    self.python.write_class_name(class, &mut name).ok()?;
                    Some(self.builder.text(name.as_bytes()))
                }
                Namespace::Vm => Some(self.builder.text(b"sys.modules")),
                Namespace::Object => None,
            },
            _ => None,
        }
    }

    fn code_name(&mut self, code: u64) -> Option<TextId> {
        let name = self.python.function_name(code).ok()?;
        let mut bytes = [0; 256];
        let copied = self.python.copy(name, &mut bytes).ok()?;
        Some(self.builder.text(&bytes[..copied.len]))
    }

    fn beginning(&mut self, object: u64, sort: Sort) -> Option<TextId> {
        if !self.contents || sort != Sort::Str {
            return None;
        }
        self.copied(object, BEGINNING)
    }

    /// Adds the roots that interpreters and frames report.
    fn roots(&mut self) -> std::result::Result<(), python::Error> {
        let mut found = Vec::new();
        let mut is_full = false;
        self.python.each_root(&mut |root| {
            is_full = found.len() == MOST_ROOTS;
            if !is_full {
                found.push(root);
            }
            !is_full
        })?;
        // The number of the remaining ones is not determined.
        self.builder.lose_roots(is_full.into());
        self.seen[2] = found.len() as u64;
        for root in found {
            let name = self.root_name(&root);
            self.builder.root(root.target, name);
            if root.counted {
                self.held.found(root.target);
            }
        }
        self.at_exit()
    }

    /// Adds the callbacks of `atexit` as roots. An object that the collector does not list may not be in the snapshot.
    fn at_exit(&mut self) -> std::result::Result<(), python::Error> {
        let name = RootName::named(RootKind::Vm, self.builder.text(b"atexit callbacks"));
        for interpreter in self.python.interpreters() {
            let mut found = Vec::new();
            self.python.each_at_exit(interpreter?, &mut |target| {
                if found.len() < MOST_ROOTS {
                    found.push(target);
                }
            })?;
            for target in found {
                let is_listed = || {
                    let class = self.python.type_of(target)?;
                    Ok::<_, python::Error>(
                        self.python.is_collected(target, class)?
                            && self.python.is_tracked(target)?,
                    )
                };
                if is_listed().unwrap_or(false) {
                    self.builder.root(target, name);
                    self.held.found(target);
                }
            }
        }
        Ok(())
    }

    fn root_name(&mut self, root: &Root) -> RootName {
        let text = match root.place {
            Place::Modules => "sys.modules".to_owned(),
            Place::System => "sys".to_owned(),
            Place::Builtins => "builtins".to_owned(),
            Place::Uncollectable => "gc.garbage".to_owned(),
            Place::Frame {
                thread,
                point,
                held,
            } => return self.frame_name(thread, point, held),
        };
        RootName::named(RootKind::Vm, self.builder.text(text.as_bytes()))
    }

    fn frame_name(&mut self, thread: u64, point: Point, held: Option<python::Held>) -> RootName {
        let place = self.place(point);
        let (kind, text) = match held {
            Some(python::Held::Variable(name)) => {
                let variable = self.text_of(name).unwrap_or_else(|| "?".into());
                (
                    RootKind::Frame,
                    format!("local variable {variable} in {place}"),
                )
            }
            Some(python::Held::Value) => (RootKind::Frame, format!("temporary value in {place}")),
            Some(python::Held::Own) | None => (RootKind::Vm, format!("frame of {place}")),
        };
        let text = self.builder.text(text.as_bytes());
        let name = RootName::named(kind, text);
        name.of_thread(u32::try_from(thread).unwrap_or(0))
    }

    /// Returns function, file and line of a point as text.
    fn place(&self, point: Point) -> String {
        let mut place = String::new();
        let read = || -> std::result::Result<String, python::Error> {
            self.python
                .write_text(self.python.function_name(point.code)?, 256, &mut place)?;
            place.push(' ');
            self.python
                .write_text(self.python.file(point.code)?, 1024, &mut place)?;
            if let Some(line) = self.python.line(point)? {
                place.push_str(&format!(":{line}"));
            }
            Ok(place)
        };
        read().unwrap_or_else(|_| "?".into())
    }

    fn text_of(&self, string: u64) -> Option<String> {
        let mut text = String::new();
        let found = self.python.text(string).ok()?;
        self.python.write_text(found, 256, &mut text).ok()?;
        Some(text)
    }

    /// Adds what C code and the VM hold.
    fn finish(mut self) -> Builder {
        let by_c = self.builder.text(b"(held by C code)");
        let by_c = RootName::named(RootKind::Native, by_c);
        let immortal = RootName::named(RootKind::Vm, self.builder.text(b"immortal"));
        for (object, why) in self.held.rest() {
            let name = match why {
                Why::Unknown => by_c,
                Why::Immortal => immortal,
            };
            self.builder.root(object, name);
        }
        if self.held.lost() != 0 {
            let note = format!(
                "{} references lead to where the process has no memory, or to objects with more references than lancet keeps numbers of; who else holds those objects is not known",
                self.held.lost()
            );
            self.builder.about_mut().notes.push(note);
        }
        if self.unreadable != 0 {
            let note = format!(
                "{} objects could not be read and are left out",
                self.unreadable
            );
            self.builder.about_mut().notes.push(note);
        }
        self.builder
    }
}
