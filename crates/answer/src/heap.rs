//! The records of `lancet heap`: `process`, `snapshot`, `note`…, `suspect`…, `born`, `holder`…, `group`… (by `type`, `kind`,
//! `site`, `owner`), `allocated`…, `garbage`…, `stack`…, `equal_texts`…, `same_name`…, `sparse`…, `losses`. With `--path ADDRESS`:
//! `process`, `snapshot`, `note`…, `path`, `losses`; with `--path CLASS`: `way`… in the place of `path`; with `--diff`: `process`
//! and `snapshot` (of the later one), `note`…, `diff`, `holder`…, `change`…, `new_at`…, `losses`. Behind a list of which rows were
//! left out (`--top`) stands a `rest`. Used by `page` and `rss`, and by crate `report`.
//!
//! `retained`, `garbage` and the other words are those of docs/heap.md.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;
use crate::place::{Address, Place};
use crate::process::Process;

/// A record of `lancet heap --format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// The process that the snapshot is of.
    Process(Process<'a>),
    /// The snapshot.
    Snapshot {
        /// The id of the process that the record is of.
        pid: i32,
        /// Its machine.
        host: &'a str,
        /// When the copy of the heap was made.
        taken_at_ns: u64,
        /// Resident memory of the process then; null: not known.
        resident: Option<u64>,
        /// How many objects live.
        objects: u64,
        /// The bytes of `objects`.
        bytes: u64,
        /// How many do not.
        garbage_objects: u64,
        /// The bytes of `garbage_objects`.
        garbage_bytes: u64,
        /// Cycles of references among these, with no object in common.
        garbage_cycles: u64,
        /// The program has switched its collector off; null: it is not known, or the VM has none.
        collector_off: Option<bool>,
        /// How many references there are, those of garbage too.
        references: u64,
        /// How many roots.
        roots: u64,
        /// The snapshot has contents of objects.
        contents: bool,
    },
    /// A sentence that the rest means little without (the collector is switched off, most of the resident memory is no
    /// object's), or on what is missing.
    Note {
        /// The sentence.
        text: &'a str,
    },
    /// Who holds much.
    Suspect {
        /// `object`, `type`, `site`, `garbage`: what nothing frees, or `names`: a class, module or package with many names that
        /// differ in nothing but numbers; `retained` is then what has its path through them.
        what: &'static str,
        /// The same as the table has it.
        text: String,
        /// What it retains.
        retained: u64,
        /// The same in hundredths of what lives.
        percent: u64,
        /// The object; null: it is none.
        address: Option<Address>,
        /// The type, and the name if it has one; null: of a line.
        r#type: Option<String>,
        /// The line that made it; of a line, the line.
        site: Option<Place<'a>>,
        /// What it holds for the most part.
        holds: Option<Holds<'a>>,
        /// From the root to the object, or to the first of the group.
        path: Vec<Link>,
    },
    /// What was made since births are watched (`--births`) and lives; `holder`s follow.
    Born {
        /// Since when.
        since_ns: u64,
        /// How many there are.
        objects: u64,
        /// The bytes of `objects`.
        bytes: u64,
    },
    /// Who holds new objects.
    Holder {
        /// The same as a sentence.
        text: String,
        /// The holder; null: no single object.
        address: Option<Address>,
        /// How many new objects it dominates directly.
        objects: u64,
        /// What they retain.
        retained: u64,
        /// The type that retains most of that.
        r#type: String,
        /// The line that made what retains most of that.
        site: Option<Place<'a>>,
    },
    /// Living objects of one type, kind, line or owner.
    Group {
        /// `type`, `kind`, `site` or `owner`.
        by: &'static str,
        /// Its name; null: the line or owner is unknown.
        name: Option<String>,
        /// Of a line: the line.
        site: Option<Place<'a>>,
        /// How many there are.
        objects: u64,
        /// The bytes of `objects`.
        bytes: u64,
        /// What they retain.
        retained: u64,
    },
    /// What the VM has allocated beside slots.
    Allocated(Allocated<'a>),
    /// What does not live, of one type.
    Garbage {
        /// The type of the objects.
        r#type: String,
        /// How many there are.
        objects: u64,
        /// The bytes of `objects`.
        bytes: u64,
        /// How many of these are part of a cycle of references.
        in_cycles: u64,
        /// For how many of them code of the program runs: a finalizer, a `__del__`.
        finalizers: u64,
    },
    /// Equal texts.
    EqualTexts {
        /// One of them.
        address: Address,
        /// How many there are.
        objects: u64,
        /// How many of these are frozen.
        frozen: u64,
        /// Their length.
        length: Option<u64>,
        /// The bytes of all but the largest.
        wasted: u64,
        /// The line that made most of them.
        site: Option<Place<'a>>,
        /// What they are; only with `--contents`.
        contents: Option<String>,
    },
    /// Classes of one name.
    SameName {
        /// The name.
        name: String,
        /// How many there are.
        classes: u64,
        /// What they retain together.
        retained: u64,
    },
    /// Sparse lists or maps of one type.
    Sparse {
        /// The type of the lists or maps.
        r#type: String,
        /// How many there are.
        objects: u64,
        /// Elements in use.
        length: u64,
        /// Room for elements.
        capacity: u64,
        /// Bytes of the room that is not used.
        wasted: u64,
        /// The one that wastes most.
        worst: Address,
    },
    /// A thread or fiber.
    Stack {
        /// The name that the classes share.
        name: String,
        /// Its object; null: it has none.
        address: Option<Address>,
        /// The number that roots name.
        thread: Option<u32>,
        /// What it retains.
        retained: u64,
    },
    /// One object and what holds it.
    Path {
        /// The object.
        address: Address,
        /// Its type, and its name if it has one.
        r#type: String,
        /// Its size.
        bytes: u64,
        /// What it retains.
        retained: u64,
        /// Nothing holds it; `path` is empty.
        garbage: bool,
        /// What it is; only with `--contents`.
        contents: Option<String>,
        /// From the root to the object.
        path: Vec<Link>,
    },
    /// A way in which objects of a class are held.
    Way {
        /// Of how many objects it is the way.
        objects: u64,
        /// The bytes of `objects`.
        bytes: u64,
        /// How many steps between the first 500 and the last 500 are left out.
        left_out: usize,
        /// From the root on; of more than 1,000 the first and the last 500.
        steps: Vec<Step>,
    },
    /// What differs between two snapshots.
    Diff {
        /// All births between the two were seen; else address, type, kind and line decide of objects whose birth was not.
        by_birth: bool,
        /// What is new and lives.
        new_objects: u64,
        /// The bytes of `new_objects`.
        new_bytes: u64,
        /// What has lived before and does not now.
        gone_objects: u64,
        /// The bytes of `gone_objects`.
        gone_bytes: u64,
    },
    /// How a type has changed.
    Change {
        /// The type that has changed.
        name: String,
        /// What lived before.
        objects_before: u64,
        /// The bytes of `objects_before`.
        bytes_before: u64,
        /// What lives now.
        objects: u64,
        /// The bytes of `objects`.
        bytes: u64,
        /// The new ones.
        new_objects: u64,
        /// The bytes of `new_objects`.
        new_bytes: u64,
        /// What they retain.
        retained: u64,
    },
    /// New objects by the line that made them.
    NewAt {
        /// The line; null: unknown.
        site: Option<Place<'a>>,
        /// How many there are.
        objects: u64,
        /// The bytes of `objects`.
        bytes: u64,
        /// What they retain.
        retained: u64,
    },
    /// Rows that were left out of the list before.
    Rest {
        /// Which list.
        of: &'static str,
        /// How many rows.
        rows: u64,
        /// Their sum, where there is one.
        objects: Option<u64>,
        /// The bytes of `objects`, where there is a sum.
        bytes: Option<u64>,
    },
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}

/// What a Ruby has allocated beside slots for objects of one kind, garbage too.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Allocated<'a> {
    /// The kind; null: what malloc has in use and no object has (only where that is known).
    pub kind: Option<&'a str>,
    /// How many objects have something beside their slots; null with `kind`.
    pub objects: Option<u64>,
    /// What was asked for; null with `kind`.
    pub bytes: Option<u64>,
    /// What malloc takes for that (docs/heap-rss.md).
    pub in_malloc: u64,
}

/// What a suspect holds for the most part.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Holds<'a> {
    /// The type that is most of what it holds.
    pub r#type: String,
    /// How many there are.
    pub objects: u64,
    /// What they retain.
    pub retained: u64,
    /// The line that made most of them.
    pub site: Option<Place<'a>>,
}

/// An object on a path.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Link {
    /// What holds it: a root, a variable, an element.
    pub by: String,
    /// Its type, and its name if it has one.
    pub r#type: String,
    /// The object.
    pub address: Address,
    /// What it retains.
    pub retained: u64,
}

/// A step of a way.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Step {
    /// What holds it: a root, a variable, an element.
    pub by: String,
    /// Its type, and its name if it has one.
    pub r#type: String,
}
