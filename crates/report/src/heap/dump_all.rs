//! The lines of Ruby's `ObjectSpace.dump_all`, for the tools that read them: heapy, sheap, harb, reap, heap-profiler.
//!
//! Keys and their meaning are those of `ext/objspace/objspace_dump.c` (Ruby 3.1), as far as the snapshot knows them: a
//! test holds them against the dump of a Ruby. All objects of the snapshot are in it, garbage too, as there. The class of an
//! object is where the reference to it leads and is not repeated among its references. `generation` is the birth.

use std::collections::BTreeMap;
use std::io::{self, Write};

use heap::answers::Answers;
use heap::{EdgeName, Role, Snapshot};
use serde::Serialize;

use super::format::{Format, Options};
use super::words;
use crate::json::line as record;

/// For tools that read heap dumps of Ruby.
pub static FORMAT: Format = Format {
    name: "dump_all",
    about: "The lines of ObjectSpace.dump_all, for heapy, sheap, harb and others",
    is_json: false,
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
    frozen: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<Flags>,
}

#[derive(Serialize)]
struct Flags {
    old: bool,
}

fn write(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let mut roots: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for root in snapshot.roots() {
        let name = match root.name.text {
            Some(id) => words::text(snapshot, id),
            None => root.name.kind.word().to_owned(),
        };
        roots
            .entry(name)
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
    for object in 0..snapshot.len() as u32 {
        record(out, &line(snapshot, object, options))?;
    }
    Ok(())
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
    let is_class = |edge: &heap::Edge| edge.name == EdgeName::ClassOf;
    let class = snapshot
        .edges(object)
        .find(is_class)
        .map(|edge| edge.target);
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
        imemo_type: inner,
        class: class.map(|class| address(snapshot, class)),
        frozen: flags.frozen.then_some(true),
        name: snapshot
            .label(object)
            .filter(|_| role == Role::Class)
            .map(|id| words::text(snapshot, id)),
        bytesize: only(Role::Text),
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
        flags: flags.old.then_some(Flags { old: true }),
    }
}
