//! The lines of Ruby's `ObjectSpace.dump_all`, for the tools that read them: heapy, sheap, harb, reap, heap-profiler.
//! Used by `heap`.
//!
//! Keys and their meaning are those of `ext/objspace/objspace_dump.c` (Ruby 3.1), as far as the snapshot knows them: a
//! test holds them against the dump of a Ruby. All objects of the snapshot are in it, garbage too, as there. The class of an
//! object is where the reference to it leads and is not repeated among its references. `generation` is the birth.
//!
//! Tools read the text by regular expressions, so it is Ruby's to the space: a comma is followed by one, roots are called by words of
//! small letters, and `memsize` is never the last key (sheap 0.2 finds no references and no bytes otherwise).

use std::collections::BTreeMap;
use std::io::{self, Write};

use heap::answers::Answers;
use heap::{EdgeName, Role, RootKind, RootName, Snapshot};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::format::{Format, Options};
use super::words;
use crate::Writes;
use crate::json::Safe;

/// For tools that read heap dumps of Ruby.
pub static FORMAT: Format = Format {
    writes: Writes::text(
        "dump_all",
        "The lines of ObjectSpace.dump_all, for heapy, sheap, harb and others",
    ),
    rows: usize::MAX,
    most_objects: u64::MAX,
    shows_memory: false,
    write,
};

/// The references of one category of roots.
#[derive(Serialize)]
struct Roots {
    r#type: &'static str,
    root: String,
    references: Vec<String>,
}

/// An object. What is not known, or not so, is left out.
#[derive(Serialize)]
struct Line {
    address: String,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    imemo_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    superclass: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#struct: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytesize: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    memsize: u64,
    flags: Flags,
}

/// The collector's bits, of which a snapshot keeps none.
#[derive(Serialize)]
struct Flags {}

fn write(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let mut roots: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for root in snapshot.roots() {
        roots
            .entry(category(snapshot, root.name))
            .or_default()
            .push(address(snapshot, root.target));
    }
    for (root, references) in roots {
        let r#type = "ROOT";
        record(
            out,
            &Roots {
                r#type,
                root,
                references,
            },
        )?;
    }
    let symbols = class_of_symbols(snapshot);
    for object in 0..snapshot.len() as u32 {
        let mut line = line(snapshot, object, options);
        if snapshot.role(object) == Role::Symbol {
            line.class = line.class.or_else(|| symbols.clone());
        }
        record(out, &line)?;
    }
    Ok(())
}

/// The address of the class Symbol: the VM tells no reference of a Symbol's, not even that to its class.
fn class_of_symbols(snapshot: &Snapshot) -> Option<String> {
    let is_it = |object: &u32| {
        let label = snapshot.label(*object).map(|id| snapshot.text(id));
        label == Some(b"Symbol") && snapshot.kind_name(snapshot.kind(*object)) == b"CLASS"
    };
    let found = (0..snapshot.len() as u32).find(is_it);
    found.map(|class| address(snapshot, class))
}

/// What Ruby calls the roots of this kind (`rb_gc_mark_roots`, gc.c), or what we do in such letters.
fn category(snapshot: &Snapshot, name: RootName) -> String {
    match name.kind {
        RootKind::Global => "global_tbl".to_owned(),
        RootKind::MachineStack => "machine_context".to_owned(),
        kind => {
            let text = name.text.map(|id| words::text(snapshot, id));
            let is_word = |text: &String| text.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
            let text = text.filter(is_word);
            text.unwrap_or_else(|| kind.word().replace(' ', "_"))
        }
    }
}

/// JSON with the white space that Ruby writes.
struct Spaced;

impl Spaced {
    fn comma<W: Write + ?Sized>(out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        Self::comma(out, first)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        Self::comma(out, first)
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        Safe.write_string_fragment(out, text)
    }
}

fn record(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Spaced))?;
    out.write_all(b"\n")
}

fn address(snapshot: &Snapshot, object: u32) -> String {
    format!("{:#x}", snapshot.address(object))
}

fn line(snapshot: &Snapshot, object: u32, options: &Options) -> Line {
    let kind = String::from_utf8_lossy(snapshot.kind_name(snapshot.kind(object)));
    let (kind, inner) = match kind.split_once(':') {
        Some((kind, inner)) => (kind, Some(inner.to_owned())),
        None => (&*kind, None),
    };
    let to = |names: &[EdgeName]| {
        let mut edges = snapshot.edges(object);
        let edge = edges.find(|edge| names.contains(&edge.name));
        edge.map(|edge| edge.target)
    };
    let class = to(&[EdgeName::ClassOf]);
    // What is included stands between a class and its superclass, as it does for Ruby.
    let superclass = to(&[EdgeName::Superclass, EdgeName::Included])
        .filter(|_| matches!(kind, "CLASS" | "ICLASS"));
    let (imemo_type, data) = match kind {
        "DATA" => (None, inner),
        _ => (inner, None),
    };
    let references = snapshot
        .edges(object)
        .filter(|edge| Some(edge.target) != class);
    let (role, length) = (snapshot.role(object), snapshot.length(object));
    let only = |wanted: Role| length.filter(|_| role == wanted);
    let value = snapshot.contents(object).filter(|_| options.contents);
    let site = snapshot.site(object);
    let birth = snapshot.birth(object);
    let flags = snapshot.flags(object);
    Line {
        address: address(snapshot, object),
        r#type: kind.to_owned(),
        imemo_type,
        class: class.map(|class| address(snapshot, class)),
        superclass: superclass.map(|class| address(snapshot, class)),
        frozen: flags.frozen.then_some(true),
        name: snapshot
            .label(object)
            .filter(|_| role == Role::Class)
            .map(|id| words::text(snapshot, id)),
        r#struct: data,
        bytesize: only(Role::Text).or(only(Role::Symbol)),
        value: value.map(|id| words::text(snapshot, id)),
        length: only(Role::List),
        size: only(Role::Map),
        shared: flags.shared.then_some(true),
        references: references
            .map(|edge| address(snapshot, edge.target))
            .collect(),
        file: site.map(|site| words::text(snapshot, site.file)),
        line: site.map(|site| site.line),
        generation: (birth != 0).then_some(birth),
        memsize: snapshot.bytes(object),
        flags: Flags {},
    }
}
