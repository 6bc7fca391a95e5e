//! The oracle is Ruby itself: `ObjectSpace.dump_all` of the same program, at rest, right after the snapshot.
//!
//! What may differ, because the dump itself makes it:
//!
//! - objects that were born for the dump (a few strings and memos), and 3.3's and 3.4's shapes, which are no objects;
//! - references of classes, code and inline caches, where a call of the dump was cached, and of threads and fibers, whose stacks are
//!   others by now; of the file that is written to, which 2.7 leaves out besides;
//! - roots on the machine stack, and calls that the VM keeps in a cache of its own.
//!
//! Everything else is equal, reference by reference, as often as it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use heap::{RootKind, Snapshot};
use serde_json::Value;

use super::taken::taken;
use crate::support::{Guest, Interpreter, LIMIT, TempDir, lancet, rubies, run, say};

/// Kinds of objects that the dump itself changes.
const CHANGED: [&str; 5] = ["IMEMO", "CLASS", "ICLASS", "DATA", "FILE"];
/// Objects that the dump makes, and objects of those kinds that it changes, at most.
const MADE: usize = 24;

/// Calls that the VM has cached for the dump, or no longer: its roots in the table `vm`.
const CACHED: usize = 8;

/// An object: kind, references without the class, bytes.
type Seen = (String, Vec<u64>, Option<u64>);

/// The kinds of which the dump has each object that lancet has seen, unchanged, with its bytes.
const COMPARED: [&str; 5] = ["STRING", "ARRAY", "HASH", "OBJECT", "STRUCT"];
/// Bytes of a slot where the dump does not say it, to 3.1.
const SLOT: u64 = 40;

/// What is there: objects by address, roots by table.
#[derive(Default)]
struct Heap {
    objects: BTreeMap<u64, Seen>,
    roots: BTreeMap<String, BTreeSet<u64>>,
    /// Bytes of slots that are not of the usual size.
    slots: BTreeMap<u64, u64>,
}

fn address(text: &Value) -> Option<u64> {
    u64::from_str_radix(text.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn addresses(list: &Value) -> Vec<u64> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(address).collect()
}

/// What `dump_all` has written.
fn dumped(file: &Path) -> Heap {
    let mut heap = Heap::default();
    let text = fs::read(file).expect("the dump was written");
    for line in text.split(|byte| *byte == b'\n') {
        // 2.7 writes some strings in a way that is no JSON; those lines are cut to what is looked at here.
        let Ok(line) = serde_json::from_str::<Value>(&String::from_utf8_lossy(line)) else {
            continue;
        };
        let references = addresses(&line["references"]);
        if line["type"] == "ROOT" {
            let table = line["root"].as_str().expect("a root table has a name");
            heap.roots
                .entry(table.to_owned())
                .or_default()
                .extend(references);
            continue;
        }
        let Some(at) = address(&line["address"]) else {
            continue;
        };
        let class = address(&line["class"]);
        let kind = line["type"].as_str().expect("each has a type").to_owned();
        let seen = (kind, without(references, class), line["memsize"].as_u64());
        heap.objects.insert(at, seen);
        if let Some(slot) = line["slot_size"].as_u64() {
            heap.slots.insert(at, slot);
        }
    }
    heap
}

/// What the VM has beside slots, by kind, is what the dump says that its objects have beyond them.
fn beside_slots(ruby: &Interpreter, dump: &Heap, ours: &Heap, snapshot: &Snapshot) {
    for kind in COMPARED {
        let (mut bytes, mut objects) = (0, 0);
        for (at, there) in &dump.objects {
            if there.0 != kind || !ours.objects.contains_key(at) {
                continue;
            }
            let slot = dump.slots.get(at).copied().unwrap_or(SLOT);
            let beside = there.2.unwrap_or(0).saturating_sub(slot);
            bytes += beside;
            objects += u64::from(beside > 0);
        }
        let found = snapshot.about().allocated.iter();
        let found = { found }
            .find(|one| one.kind == kind)
            .cloned()
            .unwrap_or_default();
        // 2.7 writes some strings in a way that is no JSON.
        let unread = { ours.objects.iter() }
            .filter(|(at, one)| one.0 == kind && !dump.objects.contains_key(at));
        let unread = unread.count() as u64;
        assert!(
            found
                .objects
                .checked_sub(objects)
                .is_some_and(|more| more <= unread),
            "{ruby}: {kind}: {found:?} and not {objects}, {unread} unread"
        );
        assert!(
            found.bytes == bytes || unread > 0 && found.bytes > bytes,
            "{ruby}: {kind}: {found:?} and not {bytes}"
        );
        let least = found.bytes + found.objects * 8;
        let most = found.bytes + found.objects * 32;
        assert!(
            (least..=most).contains(&found.in_malloc),
            "{ruby}: {found:?}"
        );
        say(format_args!(
            "{ruby}: {kind}: {objects} objects have {bytes} bytes beside their slots"
        ));
    }
}

fn without(mut references: Vec<u64>, class: Option<u64>) -> Vec<u64> {
    references.retain(|to| Some(*to) != class);
    references.sort_unstable();
    references
}

/// What lancet has seen.
fn ours(snapshot: &Snapshot, dump: &Heap, classes: &BTreeMap<u64, u64>) -> Heap {
    let mut heap = Heap::default();
    for object in 0..snapshot.len() as u32 {
        let at = snapshot.address(object);
        let name = snapshot.kind_name(snapshot.kind(object));
        let name = String::from_utf8_lossy(name).into_owned();
        let kind = name.split(':').next().unwrap_or_default().to_owned();
        let references = snapshot
            .edges(object)
            .map(|edge| snapshot.address(edge.target));
        let references = without(references.collect(), classes.get(&at).copied());
        let bytes = dump.objects.get(&at).and_then(|seen| seen.2);
        let bytes = bytes.map(|_| snapshot.bytes(object));
        heap.objects.insert(at, (kind, references, bytes));
    }
    for root in snapshot.roots() {
        let text = root.name.text.map(|text| snapshot.text(text));
        let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
        let table = match root.name.kind {
            RootKind::Global => "global_tbl".to_owned(),
            _ => text,
        };
        let to = snapshot.address(root.target);
        heap.roots.entry(table).or_default().insert(to);
    }
    heap
}

/// The class of each object, as the dump says it.
fn classes(file: &Path) -> BTreeMap<u64, u64> {
    let text = fs::read(file).expect("the dump was written");
    let lines = text.split(|byte| *byte == b'\n');
    let parsed = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    parsed
        .filter_map(|line| Some((address(&line["address"])?, address(&line["class"])?)))
        .collect()
}

fn compare(ruby: &Interpreter, dump: &Heap, ours: &Heap) {
    let mut only_there = 0;
    for (at, (kind, ..)) in &dump.objects {
        if !ours.objects.contains_key(at) && kind != "SHAPE" {
            only_there += 1;
        }
    }
    assert!(
        only_there <= MADE,
        "{ruby}: {only_there} objects are missing"
    );
    let (mut same, mut changed) = (0, 0);
    for (at, object) in &ours.objects {
        let Some(there) = dump.objects.get(at) else {
            assert!(
                object.0 == "FILE" || !at.is_multiple_of(8),
                "{ruby}: {at:#x}, {object:?}, is in no dump"
            );
            continue;
        };
        if object == there {
            same += 1;
        } else {
            assert!(
                CHANGED.contains(&object.0.as_str()) && object.0 == there.0,
                "{ruby}: {at:#x} is {object:x?} and was to be {there:x?}"
            );
            changed += 1;
        }
    }
    assert!(changed <= MADE, "{ruby}: {changed} objects have changed");
    say(format_args!(
        "{ruby}: {same} objects equal, {changed} that the dump changed, {only_there} that it made"
    ));
    let stack = |heap: &Heap| heap.roots.get("machine_context").map_or(0, BTreeSet::len);
    say(format_args!(
        "{ruby}: {} objects on the machine stack, for the dump {}",
        stack(ours),
        stack(dump)
    ));
    for (table, roots) in &dump.roots {
        if table != "machine_context" {
            let found = ours.roots.get(table).cloned().unwrap_or_default();
            let different = found.symmetric_difference(roots).count();
            let most = if table == "vm" { CACHED } else { 0 };
            assert!(
                different <= most,
                "{ruby}: {different} of the roots in {table}"
            );
        }
    }
    assert!(same > 15_000, "{ruby}: the program has more");
}

/// What tools read of an object's line beside its references and bytes.
const KEYS: [&str; 8] = [
    "class",
    "superclass",
    "struct",
    "imemo_type",
    "name",
    "length",
    "size",
    "bytesize",
];

/// The lines of objects, by address.
fn lines(file: &Path) -> BTreeMap<u64, Value> {
    let text = fs::read(file).expect("it was written");
    let lines = text.split(|byte| *byte == b'\n');
    let parsed = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    parsed
        .filter_map(|line| Some((address(&line["address"])?, line)))
        .collect()
}

/// Whatever Ruby's lines say of an object ours say too.
fn compare_lines(ruby: &Interpreter, dump: &BTreeMap<u64, Value>, ours: &BTreeMap<u64, Value>) {
    let mut said = BTreeMap::new();
    for (at, line) in ours {
        let Some(there) = dump.get(at) else {
            continue;
        };
        for key in KEYS {
            // The classes of all others are held against each other as references, and what an IMEMO has in this place is none.
            let is_held = key == "class" && there["type"] != "SYMBOL";
            if there[key].is_null() || is_held {
                continue;
            }
            // Ruby 2.7 names a singleton class after the class that is above it.
            let name = line[key].as_str().unwrap_or_default();
            if ruby.version == "2.7" && key == "name" && name.starts_with("#<Class:") {
                continue;
            }
            assert_eq!(
                line[key], there[key],
                "{ruby}: {key} of {at:#x}: {line}, {there}"
            );
            *said.entry(key).or_insert(0) += 1;
        }
    }
    say(format_args!(
        "{ruby}: keys of lines that are equal: {said:?}"
    ));
    assert!(said.len() >= KEYS.len() - 1, "{ruby}: {said:?}");
}

/// How many objects were left out.
fn garbage(said: &str) -> u64 {
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words.windows(2).position(|two| two == ["left", "out"]);
    let count = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
    count.unwrap_or_else(|| panic!("no count in {said}"))
}

fn held_against_the_dump(ruby: &Interpreter, how: &str) {
    let folder = TempDir::new(&format!("truth-{how}-{}", ruby.version));
    let (dump, file) = (folder.join("dump"), folder.join("heap"));
    let path = dump.to_str().expect("plain text");
    let mut guest = Guest::script(ruby, "heap/truth.rb", &[path, how]);
    guest.expect("ready");
    guest.settle('S');
    let (snapshot, said) = taken(guest.pid, &file);
    if how == "lazy" {
        assert!(
            garbage(&said) > 1000,
            "{ruby}: nothing waited for a sweep: {said}"
        );
    }
    guest.tell("");
    guest.expect("written");
    let there = dumped(&dump);
    let ours = ours(&snapshot, &there, &classes(&dump));
    compare(ruby, &there, &ours);
    let written = folder.join("lines");
    let mut command = lancet();
    command.arg("heap").arg(&file);
    command.args(["--format", "dump_all", "-o"]).arg(&written);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    compare_lines(ruby, &lines(&dump), &lines(&written));
    beside_slots(ruby, &there, &ours, &snapshot);
    guest.tell("");
    assert!(guest.ends_well());
}

#[test]
fn objects_references_and_roots_are_those_of_dump_all() {
    for ruby in rubies("truth") {
        held_against_the_dump(&ruby, "swept");
    }
}

#[test]
fn what_a_sweep_would_free_is_left_out() {
    for ruby in rubies("lazy") {
        held_against_the_dump(&ruby, "lazy");
    }
}
