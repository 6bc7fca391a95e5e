//! Chrome's `.heapsnapshot`, which DevTools (Memory, Load), VS Code and memlab open. Used by `heap`.
//!
//! The layout is that of V8's `HeapSnapshotJSONSerializer` (`src/profiler/heap-snapshot-generator.cc`), read by DevTools'
//! worker (`front_end/entrypoints/heap_snapshot_worker/HeapSnapshot.ts`): flat lists of numbers that `snapshot.meta` describes.
//!
//! - DevTools keeps all numbers in 32 bits, so addresses cannot be ids: an id is twice the object's number among the living plus one. Nor are they in
//!   names, because all objects of one name are one row of DevTools. An object of more than 4 GiB is shown with 4 GiB.
//! - Node 0 must be the root. Its edges are the roots, one for each object that some lead to: the worker counts such an object
//!   once for each edge of the root and then refuses the file ("BFS failed"). Only what can be reached is written, because
//!   viewers fail on nodes that nobody holds.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use heap::answers::Answers;
use heap::answers::paths::Via;
use heap::{EdgeName, Role, RootKind, RootName, Snapshot};

use super::format::{Format, Options};
use super::words;
use crate::Writes;
use crate::json::Safe;

/// For DevTools. Beyond so many objects the lists exceed what its worker can hold.
pub static FORMAT: Format = Format {
    writes: Writes::text(
        "heapsnapshot",
        "Chrome's .heapsnapshot, for DevTools, VS Code and memlab",
    ),
    rows: usize::MAX,
    most_objects: 5_000_000,
    shows_memory: false,
    write,
};

const META: &str = r#"{"node_fields":["type","name","id","self_size","edge_count","trace_node_id","detachedness"],"node_types":[["hidden","array","string","object","code","closure","regexp","number","native","synthetic","concatenated string","sliced string","symbol","bigint","object shape"],"string","number","number","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"string_or_number","node"],"trace_function_info_fields":["function_id","name","script_name","script_id","line","column"],"trace_node_fields":["id","function_info_index","count","size","children"],"sample_fields":["timestamp_us","last_assigned_id"],"location_fields":["object_index","script_id","line","column"]}"#;

/// How many numbers of the list `nodes` make up one node.
const NODE_FIELDS: u64 = 7;
/// The place of the root's type in `node_types`.
const SYNTHETIC: u32 = 9;
/// The places of types in `edge_types`.
const ELEMENT: u32 = 1;
const PROPERTY: u32 = 2;
const INTERNAL: u32 = 3;

/// Returns the place of an object's type in `node_types`.
fn node_type(role: Role) -> u32 {
    match role {
        Role::Internal => 0,
        Role::Text => 2,
        Role::Code => 4,
        Role::Function => 5,
        Role::Number => 7,
        Role::Native => 8,
        Role::Symbol => 12,
        _ => 3,
    }
}

/// Texts by their places in the list `strings`, in the order in which they were first named.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Strings {
    fn number(&mut self, text: String) -> usize {
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        self.all.push(text.clone());
        self.numbers.insert(text, self.all.len() - 1);
        self.all.len() - 1
    }
}

/// Each object that roots lead to, with the root that says most: one of the program's own, if there is one.
fn roots(snapshot: &Snapshot) -> BTreeMap<u32, RootName> {
    let says_little = |name: &RootName| {
        matches!(
            name.kind,
            RootKind::Vm | RootKind::Native | RootKind::MachineStack
        )
    };
    let mut roots: BTreeMap<u32, RootName> = BTreeMap::new();
    for root in snapshot.roots() {
        let known = roots.entry(root.target).or_insert(root.name);
        if says_little(known) && !says_little(&root.name) {
            *known = root.name;
        }
    }
    roots
}

fn write(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let (analysis, snapshot) = (answers.analysis, answers.analysis.snapshot());
    let living: Vec<u32> = (0..snapshot.len() as u32)
        .filter(|object| analysis.is_living(*object))
        .collect();
    // By object its number among the nodes.
    let mut nodes = vec![0_u32; snapshot.len()];
    for (at, object) in living.iter().enumerate() {
        nodes[*object as usize] = at as u32 + 1;
    }
    let edges: usize = living
        .iter()
        .map(|object| snapshot.edges(*object).len())
        .sum();
    let roots = roots(snapshot);
    write!(
        out,
        r#"{{"snapshot":{{"meta":{META},"node_count":{},"edge_count":{},"trace_function_count":0,"extra_native_bytes":0}},"#,
        living.len() + 1,
        edges + roots.len()
    )?;
    let mut strings = Strings::default();
    let name = strings.number("(roots)".into());
    write!(out, "\"nodes\":[{SYNTHETIC},{name},1,0,{},0,0", roots.len())?;
    for (at, object) in living.iter().enumerate() {
        let name = match snapshot.role(*object) {
            // All objects of one name are one row of DevTools.
            Role::Text => match snapshot.contents(*object).filter(|_| options.contents) {
                Some(contents) => words::text(snapshot, contents),
                None => words::object(snapshot, *object),
            },
            _ => words::object(snapshot, *object),
        };
        write!(
            out,
            "\n,{},{},{},{},{},0,0",
            node_type(snapshot.role(*object)),
            strings.number(name),
            2 * at + 3,
            snapshot.bytes(*object).min(u32::MAX.into()),
            snapshot.edges(*object).len()
        )?;
    }
    out.write_all(b"],\n\"edges\":[")?;
    let place = |object: u32| u64::from(nodes[object as usize]) * NODE_FIELDS;
    let mut comma = "";
    for (target, name) in roots {
        let name = strings.number(words::via(snapshot, Via::Root(name)));
        write!(out, "{comma}{PROPERTY},{name},{}", place(target))?;
        comma = "\n,";
    }
    for edge in living.iter().flat_map(|object| snapshot.edges(*object)) {
        let (kind, name) = match edge.name {
            EdgeName::Index(index) => (ELEMENT, index as usize),
            EdgeName::Internal | EdgeName::ClassOf | EdgeName::Stack | EdgeName::Code => {
                (INTERNAL, strings.number(words::edge(snapshot, edge.name)))
            }
            name => (PROPERTY, strings.number(words::edge(snapshot, name))),
        };
        write!(out, "{comma}{kind},{name},{}", place(edge.target))?;
        comma = "\n,";
    }
    out.write_all(
        b"],\n\"trace_function_infos\":[],\"trace_tree\":[],\"samples\":[],\"locations\":[],\n\"strings\":[",
    )?;
    for (at, text) in strings.all.iter().enumerate() {
        if at > 0 {
            out.write_all(b"\n,")?;
        }
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Safe);
        serde::Serialize::serialize(text, &mut serializer)?;
    }
    out.write_all(b"]}\n")
}
