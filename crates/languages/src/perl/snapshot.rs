//! The heap of a Perl, read from outside. Used by `perl`.
//!
//! Every SV lies in an arena and counts its references. Names come from packages and from the variables of subs. An SV with more references
//! than were found is held by something that is no SV: a stack of values, compiled code without threads, a C library. SVs to which nothing
//! leads form a cycle of references that the program has lost; nothing will free them.
//!
//! A reference that a single container holds is shown as a part of the container: `$cache{7}` of a hash of objects is a scalar that refers
//! to an object, and shown as an object between the two it would hide what the hash holds.

mod kinds;
mod roots;
mod walk;

use crate::snapshot;
use crate::snapshot::frozen::Frozen;
use crate::snapshot::heap_source::HeapSource;
use crate::snapshot::outer_references::{OuterReferences, Why};
use heap::{Builder, Collector, RootKind, RootName, Snapshot};
use std::ops::Range;
use vm::Memory;
use vm::perl::heap::{Places, is_head};
use vm::perl::{Error, Facts, Interpreter, Perl};
use walk::Walk;

/// Bytes of a head.
const HEAD: u64 = 24;

/// Finds the heap of a Perl.
pub fn find(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
) -> Result<Box<dyn snapshot::ReadAlone>, String> {
    let facts = Facts::find(&memory, symbol).map_err(|error| error.to_string())?;
    Ok(Box::new(facts))
}

impl snapshot::Heap for Facts {
    fn vm_version(&self) -> String {
        self.version().to_string()
    }

    fn of_core(&self, found: &HeapSource, builder: Builder) -> Result<Snapshot, String> {
        read(found, *self, builder).map(Builder::finish)
    }
}

impl snapshot::ReadAlone for Facts {
    fn of_memory(&self, found: &HeapSource, builder: Builder) -> Result<Builder, String> {
        read(found, *self, builder)
    }
}

/// Adds every SV in the arenas of all interpreters, with its references and the roots, to `builder`.
///
/// # Errors
/// The arenas cannot be read, or it took too long.
fn read(found: &HeapSource, facts: Facts, mut builder: Builder) -> Result<Builder, String> {
    builder.about_mut().collector = Collector::None;
    let frozen = Frozen::new(found.memory);
    let unreadable = |error: Error| error.to_string();
    let perl = Perl::new(&frozen, facts).map_err(|error| error.to_string())?;
    let mut interpreters = vec![perl.main_interpreter()];
    for pointer in found.threads {
        if let Ok(Some(other)) = perl.interpreter(*pointer)
            && !interpreters.contains(&other)
        {
            interpreters.push(other);
        }
    }
    let heap = Heap::find(&perl, found, &interpreters).map_err(unreadable)?;
    let mut walk = Walk::new(&perl, &heap, builder, found);
    walk.all()?;
    walk.roots();
    Ok(walk.finish())
}

/// Where the SVs of all interpreters of a process are.
struct Heap {
    /// Each interpreter, and the addresses of its variables.
    interpreters: Vec<(Interpreter, Places)>,
    /// In the order of their addresses.
    arenas: Vec<Range<u64>>,
}

impl Heap {
    fn find(
        perl: &Perl<Frozen>,
        found: &HeapSource,
        interpreters: &[Interpreter],
    ) -> Result<Self, Error> {
        let mut heap = Heap {
            interpreters: Vec::new(),
            arenas: Vec::new(),
        };
        let most = found.bytes / HEAD;
        for interpreter in interpreters {
            let places = perl.places(interpreter, found.symbol)?;
            perl.each_arena(&places, most, &mut |arena| heap.arenas.push(arena))?;
            heap.interpreters.push((*interpreter, places));
        }
        heap.arenas.sort_by_key(|arena| arena.start);
        Ok(heap)
    }

    /// Whether an SV may be at this address.
    fn may_have(&self, at: u64) -> bool {
        let before = self.arenas.partition_point(|arena| arena.start <= at);
        before > 0 && is_head(&self.arenas[before - 1], at)
    }

    fn is_shared_keys(&self, at: u64) -> bool {
        let mut all = self.interpreters.iter();
        all.any(|(_, places)| places.shared_keys == at)
    }
}

/// Adds what is held by references that were not found, and the notes of the snapshot.
fn finish(mut builder: Builder, held: &OuterReferences, unreadable: u64, lost: u64) -> Builder {
    let by_c = RootName::named(
        RootKind::Native,
        builder.text(b"(held by C code or the VM)"),
    );
    for (object, why) in held.rest() {
        if why == Why::Unknown {
            builder.root(object, by_c);
        }
    }
    let notes = &mut builder.about_mut().notes;
    if unreadable != 0 {
        notes.push(format!(
            "{unreadable} objects could not be read to their end: the process was changing them when it was copied, or they are damaged"
        ));
    }
    if lost != 0 {
        notes.push(format!("{lost} references lead to nothing that lives"));
    }
    notes.push(
        "of a Perl: compiled code, the programs of regular expressions and what C libraries have allocated are not in these bytes".to_owned(),
    );
    builder
}
