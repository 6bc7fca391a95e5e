//! The oracle is Python itself: what `gc.get_objects`, `gc.get_referents` and `sys.getsizeof` say of the same program, at rest, right after
//! the snapshot.
//!
//! What may differ:
//!
//! - what the oracle itself makes and changes: its frame, its file, a few names that are looked up for the first time;
//! - keys of a dict that are all str, what code objects refer to, and what classes that were not made at run time do: `gc.get_referents` has
//!   nothing of these, and they hold memory;
//! - sizes of objects that allocate beside themselves and say so in a `__sizeof__` of their own ([`NATIVE`]), which only a call could tell; of
//!   classes that inherit from builtin types ([`Heap::is_builtin`]), whose own attributes `__sizeof__` leaves out; and of functions' code.
//!
//! Everything else is equal, reference by reference, as often as it is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use heap::{EdgeName, Snapshot};

use super::taken::taken;
use crate::support::{Guest, Interpreter, TempDir, chosen, say};

/// Objects that the oracle makes, and those that it changes, at most.
const MADE: usize = 60;

/// Types whose objects allocate beside themselves.
const NATIVE: [&str; 9] = [
    "builtins.code",
    "builtins.frame",
    "builtins.generator",
    "builtins.coroutine",
    "builtins.type",
    "re.Pattern",
    "decimal.Decimal",
    "_io.TextIOWrapper",
    "_io.BufferedReader",
];

/// Types of other modules whose sizes are compared.
const COUNTED: [&str; 4] = [
    "__main__.Slots",
    "array.array",
    "collections.OrderedDict",
    "collections.deque",
];

/// What Python says of an object.
#[derive(Debug)]
struct Said {
    class: String,
    bytes: u64,
    references: Vec<u64>,
    keys: Vec<u64>,
}

fn number(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address")
}

fn sorted(words: &[&str]) -> Vec<u64> {
    let mut all: Vec<u64> = words.iter().map(|word| number(word)).collect();
    all.sort_unstable();
    all
}

/// What the program has written.
fn told(file: &Path) -> BTreeMap<u64, Said> {
    let text = fs::read_to_string(file).expect("it was written");
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let bar = words.iter().position(|word| *word == "|").expect("a bar");
        let said = Said {
            class: words[1].to_owned(),
            bytes: words[2].parse().expect("a size"),
            references: sorted(&words[3..bar]),
            keys: sorted(&words[bar + 1..]),
        };
        (number(words[0]), said)
    };
    text.lines().map(line).collect()
}

/// What the snapshot has of an object.
fn seen(snapshot: &Snapshot, object: u32) -> Vec<u64> {
    let edges = snapshot.edges(object);
    let mut all: Vec<u64> = edges.map(|edge| snapshot.address(edge.target)).collect();
    all.sort_unstable();
    all
}

/// Whether the references are those that Python tells, or those and the ones that it does not.
fn agrees(said: &Said, seen: &[u64]) -> bool {
    if said.references == seen {
        return true;
    }
    let mut with_keys = said.references.clone();
    with_keys.extend(&said.keys);
    with_keys.sort_unstable();
    if with_keys == seen {
        return true;
    }
    said.references.is_empty()
        && matches!(
            said.class.as_str(),
            "builtins.code" | "builtins.type" | "abc.ABCMeta"
        )
}

fn compare(python: &Interpreter, said: &BTreeMap<u64, Said>, snapshot: &Snapshot) {
    let ours: BTreeMap<u64, u32> = (0..snapshot.len() as u32)
        .map(|object| (snapshot.address(object), object))
        .collect();
    let (mut same, mut changed, mut sizes, mut missing) = (0, Vec::new(), Vec::new(), Vec::new());
    for (at, said) in said {
        let Some(object) = ours.get(at) else {
            missing.push(format!("{at:x} {said:x?}"));
            continue;
        };
        let seen = seen(snapshot, *object);
        if agrees(said, &seen) {
            same += 1;
        } else {
            changed.push(format!("{at:x} {said:x?}, seen {seen:x?}"));
        }
        let bytes = snapshot.bytes(*object);
        let module = said.class.split('.').next().unwrap_or_default();
        let counted = !NATIVE.contains(&said.class.as_str())
            && (module == "builtins" || COUNTED.contains(&said.class.as_str()));
        if counted && said.bytes != bytes {
            sizes.push(format!("{at:x} {} {} we {bytes}", said.class, said.bytes));
        }
    }
    say(format_args!(
        "{python}: {same} objects equal, {} changed, {} missing, {} of another size",
        changed.len(),
        missing.len(),
        sizes.len()
    ));
    for one in changed.iter().chain(&missing).chain(&sizes).take(20) {
        say(one);
    }
    let list = |what: &[String]| what.iter().take(30).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        missing.len() <= MADE,
        "{python}: missing\n{}",
        list(&missing)
    );
    assert!(
        changed.len() <= MADE,
        "{python}: changed\n{}",
        list(&changed)
    );
    assert!(sizes.len() <= MADE, "{python}: sizes\n{}", list(&sizes));
    // The oracle makes none of these, so all of them must agree.
    let mut counted = sizes.iter();
    let is_counted = |line: &&String| COUNTED.iter().any(|class| line.contains(class));
    assert_eq!(counted.find(is_counted), None, "{python}");
    assert!(same > 10_000, "{python}: the program has more");
}

/// The names of the references of all objects of a type, or of what holds for it to 3.10.
fn names(snapshot: &Snapshot, [class, older]: [&str; 2]) -> Vec<String> {
    let all = 0..snapshot.len() as u32;
    let of = |object: &u32| {
        let name = snapshot.text(snapshot.type_name(*object));
        name == class.as_bytes() || name == older.as_bytes()
    };
    let text = |name: EdgeName| {
        let text = name.text().map(|text| snapshot.text(text));
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    };
    let edges = { all }.filter(of).flat_map(|object| snapshot.edges(object));
    edges.map(|edge| text(edge.name)).collect()
}

#[test]
fn objects_references_and_sizes_are_those_that_python_tells() {
    for python in chosen("python", "python truth") {
        let folder = TempDir::new(&format!("truth-python-{}", python.version));
        let (said, file) = (folder.join("said"), folder.join("heap"));
        let path = said.to_str().expect("plain text");
        let mut guest = Guest::script(&python, "heap/truth.py", &[path]);
        guest.expect("ready");
        guest.settle('S');
        let (snapshot, _) = taken(guest.pid, &file);
        guest.tell("");
        guest.expect("written");
        compare(&python, &told(&said), &snapshot);
        for (class, name) in [
            (["__main__.Plain", "dict"], "text"),
            (["__main__.Slots", ""], "other"),
            (["functools.partial", ""], "func"),
            (["cell", ""], "captured"),
            (["generator", "frame"], "last"),
        ] {
            let names = names(&snapshot, class);
            assert!(
                names.iter().any(|found| found == name),
                "{python}: no {name} of {class:?} in {names:?}"
            );
        }
        guest.tell("");
        assert!(guest.ends_well());
    }
}
