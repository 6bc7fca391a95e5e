//! The heap of a Python as a stream: each object that the collector lists, what it refers to, and what of that the collector does not list.
//! Used by `jobs`, `births::census`, `births::counting` and others.
//!
//! What an object refers to its class says by `tp_traverse`, which the collector calls for the same purpose: it allocates nothing, takes no
//! lock and changes no object (`Doc/c-api/gcsupport.rst`). Objects that cannot be part of a cycle are in no list; they are found by who refers
//! to them. Of those the ones that refer to something are put aside until the object at hand is told; the others are told within its references.

use crate::guard;
use crate::memory::direct::Direct;
use crate::shared::SNAPSHOT;
use crate::snapshot::heap::Heap;
use crate::snapshot::seen::{Open, Seen};
use crate::snapshot::stream::Stream;
use core::mem::transmute;
use core::sync::atomic::Ordering;
use vm::Memory;
use vm::python::{Error, Facts, Kind, Python, Sort};
use wire::snapshot::stream::zigzag;
use wire::snapshot::{Collector, stream};

/// `tp_traverse` in `PyTypeObject` (`Include/cpython/object.h`).
const TRAVERSE: u64 = 184;
/// Most elements of a dict whose keys are told, and of an array of objects.
const MOST_KEYS: usize = 1 << 28;
/// Classes whose kinds are kept, and bytes after which their addresses differ in what the place is made of.
const KINDS: usize = 16;
const CLASS_ALIGNMENT: u64 = 16;
/// References of one object that its layout gives and its class may not tell.
const PARTS: usize = 4;

/// How the heap of a Python is told.
pub static HEAP: Heap = Heap {
    is_known: || reader().is_some(),
    collector: || Collector::Unknown,
    note: || (),
    write,
    compact: None,
};

/// Whether the collector is at work: then its lists are not whole.
pub fn is_collecting() -> bool {
    reader().is_some_and(|python| python.is_collecting().unwrap_or(true))
}

/// The VM's reader, as far as the command has said what it must know.
pub fn reader() -> Option<Python<'static, Direct>> {
    let mut words = [0; Facts::WORDS];
    for (word, fact) in words.iter_mut().zip(&SNAPSHOT.facts) {
        *word = fact.load(Ordering::Relaxed);
    }
    Python::new(&Direct, Facts::from_words(words)).ok()
}

/// What has become known of an object that something refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    /// It was written to the stream already, or will be.
    Known,
    /// It refers to nothing and is to be written now.
    Atom,
}

struct Walk<'a> {
    stream: &'a mut Stream,
    python: &'a Python<'static, Direct>,
    seen: Seen,
    open: Open,
    /// The object whose references are being written.
    object: u64,
    /// The kinds of classes that were asked for, each at the place that its address gives it.
    kinds: [Option<Kind>; KINDS],
    /// What the object at hand is known to refer to by its layout, as far as its class has not told it yet: 0 = nothing.
    parts: [u64; PARTS],
    /// Something was told twice, or there was no memory: the stream is not whole.
    failed: bool,
    /// The first key of a dict, and how often it was told.
    first_key: u64,
    first_told: u64,
    objects: u64,
    edges: u64,
    roots: u64,
}

/// Writes everything. In the child, which has the VM's lock and no other thread.
fn write(stream: &mut Stream) {
    let (Some(python), Some(seen), Some(open)) = (reader(), Seen::new(), Open::new()) else {
        return;
    };
    let mut walk = Walk {
        stream,
        python: &python,
        seen,
        open,
        object: 0,
        kinds: [None; KINDS],
        parts: [0; PARTS],
        failed: false,
        first_key: 0,
        first_told: 0,
        objects: 0,
        edges: 0,
        roots: 0,
    };
    let walked = walk.all();
    if guard::broken() || walked.is_err() || walk.failed {
        // Without its end a stream is not whole.
        return;
    }
    let counts = [walk.objects, walk.edges, walk.roots];
    stream.byte(stream::END);
    for count in counts {
        stream.number(count);
    }
    stream.send();
}

impl Walk<'_> {
    fn all(&mut self) -> Result<(), Error> {
        let python = self.python;
        python.each_root(&mut |root| {
            self.roots += 1;
            if self.meet(root.target) == Met::Atom {
                self.stream.byte(stream::ATOM);
                self.stream.number(root.target);
                self.objects += 1;
            }
            true
        })?;
        self.drain()?;
        python.each_object(&mut |object, class| {
            self.meet_class(class);
            self.tell(object, class)?;
            self.drain()
        })
    }

    /// Writes the objects that were put aside, and what they refer to in turn.
    fn drain(&mut self) -> Result<(), Error> {
        while let Some(object) = self.open.pop() {
            self.tell(object, self.python.type_of(object)?)?;
        }
        Ok(())
    }

    /// An object of a class, and everything that it refers to.
    fn tell(&mut self, object: u64, class: u64) -> Result<(), Error> {
        SNAPSHOT.at.store(object, Ordering::Relaxed);
        let kind = self.kind(class)?;
        let python = self.python;
        let distance = (object.wrapping_sub(self.object) as i64 >> 3) as u64;
        self.stream.byte(stream::TRACED);
        self.stream.number(zigzag(distance));
        self.object = object;
        self.objects += 1;
        let is_dict = kind.sort == Sort::Dict;
        self.parts = self.parts_of(object, &kind)?;
        (self.first_key, self.first_told) = (0, 0);
        if is_dict && let Some(Ok((key, _))) = python.entries(object)?.next() {
            self.first_key = key;
        }
        if python.is_collected(object, class)? {
            let traverse = Direct.u64(class.wrapping_add(TRAVERSE))?;
            if traverse != 0 {
                // SAFETY: the class's own function with its prototype (`traverseproc`), for an object that its class says
                // may be traversed; the lock is held and the collector does not run.
                unsafe {
                    let traverse: unsafe extern "C" fn(u64, Visit, *mut u8) -> i32 =
                        transmute(traverse);
                    traverse(object, on_reference, (&raw mut *self).cast());
                }
            }
        } else {
            python.each_untold(object, &kind, &mut |target| self.refer(target))?;
        }
        if kind.beside.refers() {
            // Those that are left: the class has told the others.
            for part in core::mem::take(&mut self.parts) {
                self.refer(part);
            }
            let most = MOST_KEYS as u64;
            python.objects_of_array(object, &kind, most, &mut |target| self.refer(target))?;
        }
        if is_dict && self.first_key != 0 && !self.has_told_keys(object)? {
            for entry in python.entries(object)?.take(MOST_KEYS) {
                self.refer(entry?.0);
            }
        }
        self.stream.byte(0);
        Ok(())
    }

    /// What an object refers to by its layout.
    fn parts_of(&self, object: u64, kind: &Kind) -> Result<[u64; PARTS], Error> {
        let (mut parts, mut used) = ([0; PARTS], 0);
        if kind.beside.refers() {
            self.python.parts(object, kind, &mut |target, _| {
                if let Some(part) = parts.get_mut(used) {
                    *part = target;
                    used += 1;
                }
            })?;
        }
        Ok(parts)
    }

    /// Whether `tp_traverse` of a dict has visited its keys. Where the dict does not say so, the first key was visited more often than it
    /// is a value.
    fn has_told_keys(&self, dict: u64) -> Result<bool, Error> {
        if let Some(visited) = self.python.visits_keys(dict)? {
            return Ok(visited);
        }
        let mut values = 0;
        for entry in self.python.entries(dict)?.take(MOST_KEYS) {
            values += u64::from(entry?.1 == self.first_key);
        }
        Ok(self.first_told > values)
    }

    /// Tells a reference of the object at hand.
    fn refer(&mut self, target: u64) {
        if target == 0 {
            return;
        }
        self.first_told += u64::from(target == self.first_key);
        if let Some(part) = self.parts.iter_mut().find(|part| **part == target) {
            *part = 0;
        }
        let is_atom = self.meet(target) == Met::Atom;
        self.objects += u64::from(is_atom);
        self.edges += 1;
        let difference = (target.wrapping_sub(self.object) as i64 >> 3) as u64;
        let code = zigzag(difference) << 1 | u64::from(is_atom);
        self.stream.number(code.wrapping_add(1));
    }

    fn meet(&mut self, target: u64) -> Met {
        self.met(target).unwrap_or_else(|_| {
            self.failed = true;
            Met::Known
        })
    }

    fn met(&mut self, target: u64) -> Result<Met, Error> {
        let python = self.python;
        let class = python.type_of(target)?;
        let is_collected = python.is_collected(target, class)?;
        if is_collected && python.is_tracked(target)? {
            return Ok(Met::Known);
        }
        match self.seen.insert(target) {
            Some(true) => {}
            Some(false) => return Ok(Met::Known),
            None => {
                self.failed = true;
                return Ok(Met::Known);
            }
        }
        self.meet_class(class);
        let refers = is_collected || {
            let kind = self.kind(class)?;
            matches!(kind.sort, Sort::Code | Sort::Type) || kind.beside.refers()
        };
        if !refers {
            return Ok(Met::Atom);
        }
        self.failed |= !self.open.push(target);
        Ok(Met::Known)
    }

    /// A class is an object that its instances do not all tell of.
    fn meet_class(&mut self, class: u64) {
        if self.known(class).is_none() {
            // It is an atom in no case; the classes of classes end at `type`, which is its own.
            self.meet(class);
        }
    }

    fn kind(&mut self, class: u64) -> Result<Kind, Error> {
        if let Some(kind) = self.known(class) {
            return Ok(kind);
        }
        let kind = self.python.kind(class)?;
        if let Some(place) = self.kinds.get_mut(place_of(class)) {
            *place = Some(kind);
        }
        Ok(kind)
    }

    fn known(&self, class: u64) -> Option<Kind> {
        let kept = self.kinds.get(place_of(class))?;
        kept.filter(|kind| kind.class == class)
    }
}

/// Where the kind of a class is kept.
fn place_of(class: u64) -> usize {
    (class / CLASS_ALIGNMENT) as usize % KINDS
}

/// `visitproc` (`Include/object.h`): the object that is referred to, and the caller's own word; 0 = go on.
type Visit = unsafe extern "C" fn(u64, *mut u8) -> i32;

/// Called by the classes' functions for each reference.
unsafe extern "C" fn on_reference(target: u64, data: *mut u8) -> i32 {
    // SAFETY: `tell` passes its own live value, which it does not use meanwhile.
    unsafe { &mut *data.cast::<Walk>() }.refer(target);
    0
}
