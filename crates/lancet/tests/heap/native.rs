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

/// Of most objects that are made in C Ruby knows all the memory: the structure is in the slot, or its type tells the size. What a digest of
/// OpenSSL has allocated its type does not tell.
#[test]
fn only_what_a_type_does_not_tell_is_memory_of_a_c_library() {
    let script = "begin; require 'openssl'; rescue LoadError; end
KEPT = Array.new(200) { [Time.now, [1].each, File.stat('/'), caller_locations(0), Random.new, Mutex.new, proc {}, Object.new.method(:hash)] }
DIGESTS = defined?(OpenSSL::Digest) ? Array.new(200) { OpenSSL::Digest.new('SHA256') } : []
GC.start
puts DIGESTS.size; $stdout.flush; gets";
    let folder = TempDir::new("unsized");
    for ruby in rubies("objects of Ruby's own") {
        let mut command = ruby.command();
        command.args(["-e", script]);
        let guest = Guest::start("unsized", command);
        let digests = guest.line().expect("a number");
        guest.settle('S');
        let (snapshot, _) = taken(guest.pid, &folder.join(&ruby.version));
        let of = |class: &str| -> Vec<u32> {
            let is_it = |one: &u32| snapshot.text(snapshot.type_name(*one)) == class.as_bytes();
            (0..snapshot.len() as u32).filter(is_it).collect()
        };
        let unsized_of = |class: &str| {
            let all = of(class).into_iter();
            all.filter(|one| snapshot.flags(*one).unsized_by_c).count()
        };
        let digest = "OpenSSL::Digest";
        assert_eq!(unsized_of(digest).to_string(), digests, "{ruby}");
        for class in [
            "Time",
            "Enumerator",
            "File::Stat",
            "Thread::Backtrace::Location",
            "Random",
            "Proc",
            "Method",
        ] {
            let counts = (of(class).len() >= 200, unsized_of(class));
            assert_eq!(counts, (true, 0), "{ruby}: {class}");
        }
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
