//! Makes objects of SVs: containers first, because they decide which references are shown as parts of them. Used by
//! `roots` and `snapshot`.

use super::kinds::{Special, kind};
use super::{Heap, finish};
use crate::snapshot::frozen::Frozen;
use crate::snapshot::heap_source::HeapSource;
use crate::snapshot::outer_references::OuterReferences;
use crate::snapshot::texts::{Kept, Texts};
use foldhash::{HashMap, HashSet};
use heap::{Builder, EdgeName, TextId};
use std::ops::ControlFlow;
use std::time::Instant;
use vm::Text;
use vm::perl::heap::{PadNames, Reference, Slot, Sort, Sv};
use vm::perl::{Error, Perl, Value};

/// Bytes of the longest name that is kept; a longer one is cut.
const LONGEST: usize = 256;
/// Immortal SVs (`PL_sv_undef`) have at least this count, and are parts of the interpreter.
const IMMORTAL: u32 = 1 << 30;

/// One walk over all SVs of a heap: objects and references go into `builder`, and each reference found is subtracted in `held`.
/// [`Walk::finish`] adds what references that were not found must hold.
pub struct Walk<'a> {
    pub perl: &'a Perl<'a, Frozen<'a>>,
    pub heap: &'a Heap,
    pub builder: Builder,
    pub held: OuterReferences,
    texts: Texts,
    /// Names of the variables in each pad, by the address of the pad's array; `None` where they could not be read.
    pads: HashMap<u64, Option<PadNames>>,
    /// Names of packages by the addresses of their hashes; `None` where a name could not be read.
    packages: HashMap<u64, Option<TextId>>,
    /// References that are shown as parts of their holders.
    parts: HashSet<u64>,
    /// The slots of the globs met so far. Globs that share their slots hold each of them once together.
    slots: HashSet<u64>,
    /// References of the present SV.
    edges: Vec<(u64, Reference)>,
    /// Words of memory that the process has, as the limit of a container's size.
    most: u64,
    until: Instant,
    late: bool,
    unreadable: u64,
    pub lost: u64,
}

impl<'a> Walk<'a> {
    /// Begins a walk over the heap of `found`; no SV is read yet.
    pub fn new(
        perl: &'a Perl<'a, Frozen<'a>>,
        heap: &'a Heap,
        builder: Builder,
        found: &HeapSource,
    ) -> Self {
        Walk {
            perl,
            heap,
            builder,
            held: OuterReferences::within(found.bytes),
            texts: Texts::default(),
            pads: HashMap::default(),
            packages: HashMap::default(),
            parts: HashSet::default(),
            slots: HashSet::default(),
            edges: Vec::new(),
            most: found.bytes / 8,
            until: found.until,
            late: false,
            unreadable: 0,
            lost: 0,
        }
    }

    /// Makes an object of every SV that is not a part of another.
    ///
    /// # Errors
    /// An arena cannot be read, or it took too long.
    pub fn all(&mut self) -> Result<(), String> {
        self.each(|walk, sv| {
            if matches!(sv.sort(), Sort::Code | Sort::Format) {
                walk.note_pads(&sv);
            }
        })?;
        let is_container = |sort| {
            matches!(
                sort,
                Sort::Array | Sort::Hash | Sort::Glob | Sort::Code | Sort::Format | Sort::Object
            )
        };
        self.each(|walk, sv| {
            if is_container(sv.sort()) {
                walk.tell(&sv);
            }
        })?;
        self.each(|walk, sv| {
            if !is_container(sv.sort()) && !walk.parts.contains(&sv.address) {
                walk.tell(&sv);
            }
        })
    }

    fn each(&mut self, mut what: impl FnMut(&mut Self, Sv)) -> Result<(), String> {
        let (perl, heap) = (self.perl, self.heap);
        for arena in &heap.arenas {
            let walked = perl.each_sv(arena.clone(), &mut |sv| {
                what(self, sv);
                // The amount to read comes from the process, so the time is limited.
                self.late |= Instant::now() > self.until;
                match self.late {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            walked.map_err(|error| error.to_string())?;
            if self.late {
                return Err("it took too long".into());
            }
        }
        Ok(())
    }

    fn note_pads(&mut self, code: &Sv) {
        let names = self.perl.pad_names(code, self.most).ok().flatten();
        let (pads, heap) = (&mut self.pads, self.heap);
        // A pad that cannot be read is counted when it is itself met.
        let _ = self.perl.references(code, self.most, &mut |target, name| {
            if name == Reference::Pad && heap.may_have(target) {
                pads.insert(target, names);
            }
        });
    }

    fn tell(&mut self, sv: &Sv) {
        if self.told(sv).is_err() {
            self.unreadable += 1;
        }
    }

    fn told(&mut self, sv: &Sv) -> Result<(), Error> {
        let is_keys = self.heap.is_shared_keys(sv.address);
        let size = self.perl.size(sv, is_keys, self.most)?;
        let package = self.package_of(sv)?;
        let own_name = match sv.sort() {
            Sort::Hash => self.package_name(sv.address),
            _ => None,
        };
        let special = match sv.sort() {
            Sort::Hash if is_keys => Special::SharedKeys,
            Sort::Hash if own_name.is_some() => Special::Package,
            Sort::Array if self.pads.contains_key(&sv.address) => Special::Pad,
            _ if package.is_some() => Special::Blessed,
            _ => Special::No,
        };
        let mut edges = std::mem::take(&mut self.edges);
        edges.clear();
        let read = match is_keys {
            true => Ok(()),
            false => self.perl.references(sv, self.most, &mut |target, name| {
                edges.push((target, name));
            }),
        };
        // Slots shared with a glob met before are neither counted nor weighed again.
        let counts = sv.slots().is_none_or(|slots| self.slots.insert(slots));
        let mut bytes = size.bytes;
        for (target, name) in &mut edges {
            match self.part(*target, *name) {
                Some((referent, more)) => {
                    let more = if counts { more } else { 0 };
                    (*target, bytes) = (referent, bytes.saturating_add(more));
                }
                None if !self.lives(*target) => *target = 0,
                None => {}
            }
        }
        let kept = self.kept(sv);
        let kind = kind(&mut self.builder, sv.sort(), special);
        let label = match sv.sort() {
            Sort::Code | Sort::Format | Sort::Glob => self.label(sv),
            _ => own_name,
        };
        self.builder.object(heap::Object {
            class: package,
            bytes: bytes.min(self.most.saturating_mul(8)),
            length: size.length,
            capacity: size.capacity,
            label,
            fingerprint: kept.fingerprint,
            contents: kept.contents,
            ..heap::Object::new(sv.address, kind)
        });
        self.held.object(sv.address, Some(sv.count.into()));
        for (target, name) in edges.drain(..).filter(|(target, _)| *target != 0) {
            let is_slot = matches!(name, Reference::Slot(_));
            let name = self.edge_name(sv, special, name);
            self.builder.edge(target, name);
            if counts || !is_slot {
                self.held.found(target);
            }
        }
        self.edges = edges;
        read
    }

    /// What a reference refers to that is a part of its holder, and the bytes of the reference.
    fn part(&mut self, target: u64, name: Reference) -> Option<(u64, u64)> {
        let holds = matches!(
            name,
            Reference::Element(_)
                | Reference::Value(_)
                | Reference::Field(_)
                | Reference::Slot(Slot::Scalar)
        );
        if !holds {
            return None;
        }
        let (sv, referent) = self.plain_reference(target)?;
        let bytes = self.perl.size(&sv, false, self.most).ok()?.bytes;
        self.parts.insert(target);
        Some((referent, bytes))
    }

    /// The SV at `at` and the address that it refers to, if it is a plain reference to an SV that lives.
    pub fn plain_reference(&self, at: u64) -> Option<(Sv, u64)> {
        let sv = self.living(at)?;
        let referent = sv.referent()?;
        (sv.is_plain_reference() && self.living(referent).is_some()).then_some((sv, referent))
    }

    /// The SV that lives at an address.
    pub fn living(&self, at: u64) -> Option<Sv> {
        match self.heap.may_have(at) {
            true => self.perl.sv(at).ok().flatten(),
            false => None,
        }
    }

    /// Whether an SV lives at an address. If not, that is noted, unless it is a part of the interpreter.
    fn lives(&mut self, at: u64) -> bool {
        if self.living(at).is_some() {
            return true;
        }
        let sv = self.perl.sv(at).ok().flatten();
        let is_immortal = !self.heap.may_have(at) && sv.is_some_and(|sv| sv.count >= IMMORTAL);
        self.lost += u64::from(!is_immortal);
        false
    }

    fn package_of(&mut self, sv: &Sv) -> Result<Option<TextId>, Error> {
        match self.perl.package_of(sv)? {
            Some(stash) => {
                let unnamed = self.builder.text(b"__ANON__");
                Ok(Some(self.package_name(stash).unwrap_or(unnamed)))
            }
            None => Ok(None),
        }
    }

    /// The name of a package; `None` if the hash is none.
    fn package_name(&mut self, hash: u64) -> Option<TextId> {
        if let Some(known) = self.packages.get(&hash) {
            return *known;
        }
        let name = self.perl.stash_name(hash).ok()??;
        let name = self.text(name);
        self.packages.insert(hash, name);
        name
    }

    /// A name as text.
    pub fn text(&mut self, text: Text) -> Option<TextId> {
        let mut written = String::new();
        let longest = LONGEST as u64;
        self.perl.write_text(text, longest, &mut written).ok()?;
        Some(self.builder.text(written.as_bytes()))
    }

    fn label(&mut self, sv: &Sv) -> Option<TextId> {
        let mut name = String::new();
        let written = match sv.sort() {
            Sort::Glob => self.perl.write_glob_name(sv.address, &mut name),
            _ => self.perl.write_code_name(sv.address, &mut name),
        };
        written.ok()?;
        if sv.sort() == Sort::Code {
            // A sub without a name is told by where it is written.
            let _ = self.write_place(sv.address, &mut name);
        }
        let end = name.floor_char_boundary(LONGEST);
        Some(self.builder.text(&name.as_bytes()[..end]))
    }

    /// Writes file and line of the first statement of a sub: ` app.pl:12`.
    fn write_place(&self, code: u64, out: &mut String) -> Result<(), Error> {
        let Some(point) = self.perl.first_statement(code)? else {
            return Ok(());
        };
        let (file, line) = (self.perl.file(point)?, self.perl.statement_line(point)?);
        let mut place = String::from(" ");
        self.perl.write_text(file, LONGEST as u64, &mut place)?;
        out.push_str(&format!("{place}:{line}"));
        Ok(())
    }

    fn kept(&mut self, sv: &Sv) -> Kept {
        if sv.sort() != Sort::Text {
            return Kept::default();
        }
        let Ok(Value::Text(text)) = self.perl.value(sv.address) else {
            return Kept::default();
        };
        let contents = self.builder.about().contents;
        let memory = self.perl.memory();
        self.texts
            .kept(text.len, contents, &mut self.builder, |into| {
                let read = vm::Memory::read(memory, text.address, into);
                read.ok().map(|()| into.len())
            })
    }

    fn edge_name(&mut self, sv: &Sv, special: Special, name: Reference) -> EdgeName {
        match name {
            Reference::Referent => EdgeName::Referent,
            Reference::Element(index) if special == Special::Pad => {
                let names = self.pads.get(&sv.address).copied().flatten();
                let name = names.and_then(|names| self.perl.pad_name(&names, index).ok()?);
                match name {
                    Some(name) => EdgeName::Local(self.text(name)),
                    None => EdgeName::Stack,
                }
            }
            Reference::Element(index) | Reference::Field(index) => {
                EdgeName::Index(u32::try_from(index).unwrap_or(u32::MAX))
            }
            Reference::Value(key) => self.value_name(special, key),
            Reference::Package => EdgeName::ClassOf,
            Reference::Slot(slot) => EdgeName::Member(Some(self.builder.text(sigil(slot)))),
            Reference::Pad => EdgeName::Closure,
            Reference::Outside => EdgeName::Code,
            Reference::Constant => EdgeName::Constant(None),
            Reference::Name | Reference::Internal => EdgeName::Internal,
        }
    }

    /// Keys of packages and of blessed hashes are names of the program; those of other hashes are contents.
    fn value_name(&mut self, special: Special, key: u64) -> EdgeName {
        let is_name = matches!(special, Special::Package | Special::Blessed);
        if !is_name && !self.builder.about().contents {
            return EdgeName::Value(None);
        }
        let text = self.perl.key(key).ok().and_then(|key| self.text(key));
        match special {
            Special::Package | Special::Blessed => EdgeName::Attribute(text),
            _ => EdgeName::Value(text),
        }
    }

    /// Adds what references that were not found must hold, and the notes of the snapshot.
    pub fn finish(self) -> Builder {
        finish(self.builder, &self.held, self.unreadable, self.lost)
    }
}

/// The sigil of a slot of a glob in the program's source.
pub fn sigil(slot: Slot) -> &'static [u8] {
    match slot {
        Slot::Scalar => b"$",
        Slot::Array => b"@",
        Slot::Hash => b"%",
        Slot::Code => b"&",
        Slot::Io => b"handle",
        Slot::Format => b"format",
    }
}
