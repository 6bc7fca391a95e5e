//! Makes objects of everything that variables and the list of objects lead to. Used by `snapshot` and `roots`.

use super::blocks::Blocks;
use super::kinds::{self, Special, kind};
use crate::snapshot::frozen::Frozen;
use crate::snapshot::heap_source::HeapSource;
use crate::snapshot::outer_references::{OuterReferences, Why};
use crate::snapshot::texts::{Kept, Texts};
use foldhash::{HashMap, HashSet};
use heap::{Builder, EdgeName, RootKind, RootName, TextId};
use std::rc::Rc;
use std::time::Instant;
use vm::php::heap::{Key, Owner, Places, Reference, Sort, Thing};
use vm::php::{Error, Php};
use vm::{Memory, Text};

/// Bytes of the longest name that is kept; a longer one is cut.
const LONGEST: u64 = 256;

/// What is known of a class for its objects.
struct Class {
    name: Option<TextId>,
    special: Special,
    /// Names of the properties that each object has, by their places in it, counted from 0.
    properties: HashMap<u64, TextId>,
}

/// One walk over what a PHP's variables lead to: things that were met wait in `open` and `open_objects` until they are added to `builder`.
/// [`Walk::finish`] adds what is in use and was not met.
pub struct Walk<'a> {
    pub php: &'a Php<'a, Frozen<'a>>,
    pub places: Places,
    blocks: Blocks<'a>,
    pub builder: Builder,
    pub held: OuterReferences,
    texts: Texts,
    classes: HashMap<u64, Rc<Class>>,
    /// Arrays that hold variables or properties and are not visible to the program, by address.
    pub special: HashMap<u64, Special>,
    met: HashSet<u64>,
    /// Queued objects. They come before all else, because they determine which arrays are not visible to the program.
    open_objects: Vec<Thing>,
    /// Other queued things.
    open: Vec<Thing>,
    edges: Vec<(Thing, Reference)>,
    /// Limit of the elements of one thing, and of the number of objects.
    pub most: u64,
    until: Instant,
    /// The number of properties, of all classes together, that may still be read.
    names: u64,
    pub unreadable: u64,
    lost: u64,
}

impl<'a> Walk<'a> {
    /// Begins a walk over the heap of `found`; nothing is read yet.
    pub fn new(
        php: &'a Php<'a, Frozen<'a>>,
        places: Places,
        blocks: Blocks<'a>,
        builder: Builder,
        found: &HeapSource,
    ) -> Self {
        Walk {
            php,
            places,
            blocks,
            builder,
            held: OuterReferences::within(found.bytes),
            texts: Texts::default(),
            classes: HashMap::default(),
            special: HashMap::default(),
            met: HashSet::default(),
            open_objects: Vec::new(),
            open: Vec::new(),
            edges: Vec::new(),
            most: found.bytes / 16,
            until: found.until,
            names: found.bytes / 16,
            unreadable: 0,
            lost: 0,
        }
    }

    /// Makes an object of everything that variables and the list of objects lead to.
    ///
    /// # Errors
    /// It took too long.
    pub fn all(&mut self) -> Result<(), String> {
        self.roots();
        let mut objects = Vec::new();
        let listed = self
            .php
            .each_object(self.most, &mut |object| objects.push(object));
        self.unreadable += u64::from(listed.is_err());
        for object in objects {
            self.meet(object);
        }
        while let Some(thing) = self.open_objects.pop().or_else(|| self.open.pop()) {
            // The amount to read comes from the process, so the time is limited.
            if Instant::now() > self.until {
                return Err("it took too long".into());
            }
            if self.tell(thing).is_err() {
                self.unreadable += 1;
            }
        }
        Ok(())
    }

    /// Whether a thing of the running request is at this address. A thing met for the first time is queued.
    pub fn meet(&mut self, thing: Thing) -> bool {
        if self.met.contains(&thing.address) {
            return true;
        }
        let count = match self.php.count(thing) {
            Ok(Some(count)) => count,
            // The thing is immutable, or shared by all requests.
            Ok(None) => return false,
            Err(_) => 0,
        };
        let first = self.php.block(thing).unwrap_or(0);
        if self.blocks.size(first).is_none() {
            // Persistent things lie outside of the allocator's memory; nothing counts them.
            self.lost += u64::from(count == 0);
            return false;
        }
        self.met.insert(thing.address);
        match thing.sort {
            Sort::Object => self.open_objects.push(thing),
            _ => self.open.push(thing),
        }
        true
    }

    fn tell(&mut self, thing: Thing) -> Result<(), Error> {
        let Some(count) = self.php.count(thing)? else {
            return Ok(());
        };
        let (php, most, places) = (self.php, self.most, self.places);
        let mut bytes = 0_u64;
        let taken = php.each_block(&places, thing, most, &mut |block| {
            bytes = bytes.saturating_add(self.blocks.take(block));
        });
        let class = match thing.sort {
            Sort::Object => Some(self.class(thing.address)?),
            _ => None,
        };
        let special = match &class {
            Some(class) => class.special,
            None => self
                .special
                .get(&thing.address)
                .copied()
                .unwrap_or(Special::No),
        };
        let (length, capacity) = match thing.sort {
            Sort::Array => {
                let (length, room) = self.php.room(thing.address)?;
                (Some(length.into()), Some(room.into()))
            }
            _ => (None, None),
        };
        let kept = self.kept(thing);
        let kind = kind(&mut self.builder, thing.sort, special);
        self.builder.object(heap::Object {
            class: class.as_ref().and_then(|class| class.name),
            bytes,
            length: length.or(kept.length),
            capacity,
            fingerprint: kept.fingerprint,
            contents: kept.contents,
            ..heap::Object::new(thing.address, kind)
        });
        self.held.object(thing.address, Some(count.into()));
        let mut edges = std::mem::take(&mut self.edges);
        edges.clear();
        let read = php.references(&places, thing, most, &mut |target, name| {
            edges.push((target, name));
        });
        for (target, name) in edges.drain(..) {
            if self.meet(target) {
                // The target is queued, unless the list of objects was damaged.
                match name {
                    Reference::Captured => {
                        self.special.insert(target.address, Special::Variables);
                    }
                    Reference::Properties => {
                        self.special.insert(target.address, Special::Properties);
                    }
                    _ => {}
                }
                let name = self.edge_name(special, class.as_deref(), name);
                self.builder.edge(target.address, name);
                self.held.found(target.address);
            }
        }
        self.edges = edges;
        taken.and(read)
    }

    fn class(&mut self, object: u64) -> Result<Rc<Class>, Error> {
        let at = self.php.class_of(object)?;
        if let Some(known) = self.classes.get(&at) {
            return Ok(known.clone());
        }
        let name = self.php.name_of_class(at)?;
        let special = match self.php.special_class(&self.places, at) {
            Some(vm::php::heap::Known::Closure) => Special::Closure,
            Some(vm::php::heap::Known::Generator) => Special::Generator,
            None => Special::No,
        };
        let mut properties = HashMap::default();
        let (php, builder) = (self.php, &mut self.builder);
        let read = php.each_property(at, &mut self.names, &mut |owner, place, name| {
            let mut text = String::new();
            if owner == Owner::Object && php.write_text(name, LONGEST, &mut text).is_ok() {
                properties.insert(place, builder.text(text.as_bytes()));
            }
        });
        // Properties without a readable name are shown all the same.
        let _ = read;
        let class = Rc::new(Class {
            name: self.text(name),
            special,
            properties,
        });
        self.classes.insert(at, class.clone());
        Ok(class)
    }

    fn kept(&mut self, thing: Thing) -> Kept {
        if thing.sort != Sort::Text {
            return Kept::default();
        }
        let Ok(text) = self.php.text(thing.address) else {
            return Kept::default();
        };
        let contents = self.builder.about().contents;
        let memory = self.php.memory();
        self.texts
            .kept(text.len, contents, &mut self.builder, |into| {
                let read = memory.read(text.address, into);
                read.ok().map(|()| into.len())
            })
    }

    /// A name as text.
    pub fn text(&mut self, text: Text) -> Option<TextId> {
        let mut written = String::new();
        self.php.write_text(text, LONGEST, &mut written).ok()?;
        Some(self.builder.text(written.as_bytes()))
    }

    /// The name of a variable, with its `$`.
    fn variable(&mut self, name: u64) -> Option<TextId> {
        let mut written = "$".to_owned();
        let name = self.php.text(name).ok()?;
        self.php.write_text(name, LONGEST, &mut written).ok()?;
        Some(self.builder.text(written.as_bytes()))
    }

    fn edge_name(&mut self, special: Special, class: Option<&Class>, name: Reference) -> EdgeName {
        match name {
            Reference::Value(Key::Index(index)) => {
                EdgeName::Index(u32::try_from(index).unwrap_or(u32::MAX))
            }
            Reference::Value(Key::Name(name)) => match special {
                Special::Variables => EdgeName::Local(self.variable(name)),
                Special::Properties => EdgeName::Attribute(self.string(name)),
                // The text of a key belongs to the contents.
                _ if self.builder.about().contents => EdgeName::Value(self.string(name)),
                _ => EdgeName::Value(None),
            },
            Reference::Key => EdgeName::Key,
            Reference::Data => EdgeName::Value(None),
            Reference::Property(place) => {
                let name = class.and_then(|class| class.properties.get(&place));
                EdgeName::Attribute(name.copied())
            }
            Reference::Properties => EdgeName::Internal,
            Reference::Referent => EdgeName::Referent,
            Reference::This => EdgeName::Member(Some(self.builder.text(b"$this"))),
            Reference::Captured => EdgeName::Closure,
            Reference::Variable(name) => EdgeName::FrameLocal(self.variable(name)),
            Reference::Internal => EdgeName::Internal,
        }
    }

    fn string(&mut self, at: u64) -> Option<TextId> {
        let text = self.php.text(at).ok()?;
        self.text(text)
    }

    /// Adds what references that were not found must hold, what is in use and was not found, and the notes.
    pub fn finish(mut self) -> Builder {
        let by_c = self
            .builder
            .text(b"(held by C code, or by a value that is being computed)");
        for (object, why) in self.held.rest() {
            if why == Why::Unknown {
                let name = RootName::named(RootKind::Native, by_c);
                self.builder.root(object, name);
            }
        }
        let is_more = kinds::add_rest(&mut self.builder, &self.blocks);
        let notes = &mut self.builder.about_mut().notes;
        if self.unreadable != 0 {
            notes.push(format!(
                "{} objects or tables could not be read to their end: the process was changing them when it was copied, or they are damaged",
                self.unreadable
            ));
        }
        if self.lost != 0 {
            notes.push(format!(
                "{} references lead to nothing that lives",
                self.lost
            ));
        }
        if is_more {
            notes.push(
                "the allocator counts fewer bytes than were found: it was at work when the process was copied".to_owned(),
            );
        }
        notes.push(
            "of a PHP: `(compiled code, buffers)` is what is in use besides: compiled code, the stack of frames, buffers of streams and of C libraries, \
             and what only C code leads to. All bytes together are those of memory_get_usage()"
                .to_owned(),
        );
        self.builder
    }
}
