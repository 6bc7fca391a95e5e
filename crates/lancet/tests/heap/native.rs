//! Objects of Python's classes that are made in C: what they have allocated beside themselves, and what they refer to without telling
//! the collector. The guest knows how much each of its holders holds.

use heap::{Analysis, Snapshot};

use super::holders::asked;
use super::taken::taken;
use crate::support::{Guest, Interpreter, TempDir, chosen, rubies, skip};

/// What each holder of the guest holds, at least.
const HELD: u64 = 16 << 20;

/// The snapshot of a guest; `None` where it has not what it needs.
fn of(python: &Interpreter, arguments: &[&str]) -> Option<(Guest, Snapshot)> {
    let folder = TempDir::new(&format!("native-{}", python.version));
    let guest = Guest::script(python, "heap/native.py", arguments);
    if guest.line().as_deref() != Some("ready") {
        return None;
    }
    guest.settle('S');
    let (snapshot, _) = taken(guest.pid, &folder.join("heap"));
    Some((guest, snapshot))
}

/// What the only object of a class of the guest's retains.
fn retained(snapshot: &Snapshot, analysis: &Analysis, class: &str) -> u64 {
    let class = format!("__main__.{class}");
    let is_it = |object: &u32| snapshot.text(snapshot.type_name(*object)) == class.as_bytes();
    let mut objects = (0..snapshot.len() as u32).filter(is_it);
    let object = objects
        .next()
        .unwrap_or_else(|| panic!("there is no {class}"));
    analysis.retained(object)
}

fn each_holds(python: &Interpreter, snapshot: &Snapshot, classes: &[&str]) {
    let analysis = Analysis::of(snapshot);
    let missing: Vec<String> = classes
        .iter()
        .map(|class| (class, retained(snapshot, &analysis, class)))
        .filter(|(_, bytes)| *bytes < HELD || *bytes > 10 * HELD)
        .map(|(class, bytes)| format!("{class}: {bytes}"))
        .collect();
    assert!(missing.is_empty(), "{python}: {missing:?}");
}

#[test]
fn what_lies_beside_an_object_is_its_own() {
    for python in chosen("python", "objects made in C") {
        let (guest, snapshot) = of(&python, &[]).expect("a guest");
        each_holds(
            &python,
            &snapshot,
            &[
                "FilledBytes",
                "GivenBytes",
                "WrittenText",
                "ReadText",
                "Numbers",
                "Window",
                "Bytes",
                "Mapped",
                "Block",
                "Queue",
                "Ordered",
                "Tree",
            ],
        );
        let analysis = Analysis::of(&snapshot);
        let untouched = retained(&snapshot, &analysis, "Untouched");
        assert!(untouched < 1 << 20, "{python}: {untouched}");
        explains(&python, &snapshot, 90);
        assert!(guest.ends_well());
    }
}

/// So many hundredths of what is in memory are objects.
fn explains(python: &Interpreter, snapshot: &Snapshot, least: u64) {
    let living = Analysis::of(snapshot).living().bytes;
    let resident = snapshot.about().rss;
    assert!(
        living >= resident / 100 * least && living <= resident,
        "{python}: objects are {living} of {resident} bytes in memory"
    );
}

#[test]
fn a_view_of_numpy_keeps_its_array() {
    for python in chosen("python", "arrays of numpy") {
        let Some((guest, snapshot)) = of(&python, &["numpy"]) else {
            skip("arrays of numpy", format_args!("{python} has no numpy"));
            continue;
        };
        let all = [
            "View",
            "Reshaped",
            "OfObjects",
            "OfBuffer",
            "OfBytes",
            "Subclass",
            "Field",
        ];
        each_holds(&python, &snapshot, &all);
        assert!(guest.ends_well());
    }
}

/// Documents of libxml2 are some slots of Ruby's and much memory that their type does not tell: they are named, and who holds them.
#[test]
fn objects_whose_c_library_has_the_memory_are_named() {
    let script = "begin; require 'nokogiri'; rescue LoadError; puts 'none'; exit; end
XML = '<feed>' + '<item><name>n</name></item>' * 3000 + '</feed>'
TITLES = Array.new(200) { Nokogiri::XML(XML).at('name') }
GC.start
puts 'ready'; $stdout.flush; gets";
    for ruby in rubies("objects of C libraries") {
        let mut command = ruby.command();
        let guest = Guest::start("documents", {
            command.args(["-e", script]);
            command
        });
        if guest.line().as_deref() != Some("ready") {
            skip(
                "objects of C libraries",
                format_args!("{ruby} has no nokogiri"),
            );
            continue;
        }
        let text = asked(guest.pid).stdout;
        let first = text.lines().find(|line| line.starts_with("C libraries "));
        let first = first.unwrap_or_else(|| panic!("{ruby}: {text}"));
        assert!(
            first.contains("× Nokogiri::XML::")
                && first.contains(" hang on Array @constant TITLES"),
            "{ruby}: {first}"
        );
    }
}
