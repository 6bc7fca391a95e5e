//! Perl: the oracles are Devel::MAT::Dumper and Devel::Size, which the same program is asked for, at rest, right after the snapshot.
//!
//! What may differ: what the oracles themselves make and change, and references that one container alone holds, which are a part of that here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use heap::{Analysis, Snapshot};

use super::holders::{asked, first_suspect};
use super::taken::taken;
use super::unseen::children;
use crate::support::{Guest, Interpreter, Load, TempDir, chosen, fixtures, say, skip};

/// SVs that the oracles make and change, at most.
const MADE: usize = 200;

/// What Devel::MAT says of an SV.
struct Said {
    kind: String,
    count: u64,
    package: Option<String>,
}

/// What the program has written, as Devel::MAT reads it.
fn told(file: &Path) -> BTreeMap<u64, Said> {
    let script = fixtures().join("perl/heap/told.pl");
    let output = Command::new("perl").arg(script).arg(file).output();
    let output = output.expect("perl runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = |line: &str| {
        let [at, kind, count, package] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let said = Said {
            kind: kind.to_owned(),
            count: count.parse().expect("a number"),
            package: (package != "-").then(|| package.to_owned()),
        };
        (u64::from_str_radix(at, 16).expect("an address"), said)
    };
    text.lines().map(line).collect()
}

/// Whether a kind of ours is what Devel::MAT calls so.
fn agrees(kind: &str, said: &Said) -> bool {
    let plain = kind.strip_prefix("blessed ").unwrap_or(kind);
    match said.kind.as_str() {
        "SCALAR" | "BOOL" => plain.starts_with("SCALAR"),
        "UNDEF" => plain.starts_with("SCALAR"),
        "STASH" => plain == "PACKAGE",
        "HASH" => matches!(plain, "HASH" | "KEYS OF ALL HASHES"),
        // An array of arguments is a pad's, too, until the sub is called.
        "ARRAY" => matches!(plain, "ARRAY" | "PAD"),
        other => plain == other,
    }
}

fn kind_of(snapshot: &Snapshot, object: u32) -> String {
    let name = snapshot.kind_name(snapshot.kind(object));
    String::from_utf8_lossy(name).into_owned()
}

fn text(snapshot: &Snapshot, id: heap::TextId) -> String {
    String::from_utf8_lossy(snapshot.text(id)).into_owned()
}

fn compare(perl: &Interpreter, said: &BTreeMap<u64, Said>, snapshot: &Snapshot) {
    let ours: BTreeMap<u64, u32> = (0..snapshot.len() as u32)
        .map(|object| (snapshot.address(object), object))
        .collect();
    let (mut same, mut parts) = (0, 0);
    let (mut missing, mut other) = (Vec::new(), Vec::new());
    for (at, said) in said {
        let Some(object) = ours.get(at) else {
            match said.kind == "REF" && said.count == 1 {
                true => parts += 1,
                false => missing.push(format!("{at:x} {} {}", said.kind, said.count)),
            }
            continue;
        };
        let kind = kind_of(snapshot, *object);
        let package = snapshot.class(*object).map(|class| text(snapshot, class));
        if agrees(&kind, said) && package == said.package {
            same += 1;
        } else {
            let theirs = format!("{} {:?}", said.kind, said.package);
            other.push(format!("{at:x} {theirs}, we {kind} {package:?}"));
        }
    }
    let more = ours.keys().filter(|at| !said.contains_key(at)).count();
    say(format_args!(
        "{perl}: {same} SVs equal, {parts} references are parts, {} missing, {} other, {more} that Devel::MAT does not have",
        missing.len(),
        other.len()
    ));
    for one in missing.iter().chain(&other).take(20) {
        say(one);
    }
    assert!(missing.len() <= MADE, "{perl}: missing {missing:#?}");
    assert!(other.len() <= MADE, "{perl}: other {other:#?}");
    assert!(more <= MADE, "{perl}: {more} that Devel::MAT does not have");
    assert!(same > 50_000, "{perl}: the program has more");
    // Each order is in the hash by a reference that nobody else has.
    assert!(parts > 20_000, "{perl}: {parts}");
}

#[test]
fn svs_packages_and_sizes_are_those_that_its_own_tools_tell() {
    for perl in chosen("perl", "perl truth") {
        let folder = TempDir::new(&format!("truth-{perl}"));
        let (said, file) = (folder.join("said.pmat"), folder.join("heap"));
        // In a root there is neither the module nor this folder.
        let is_system = perl.version == "system";
        let argument = said.display().to_string();
        let arguments: &[&str] = if is_system { &[&argument] } else { &[] };
        let mut guest = Guest::script(&perl, "heap/truth.pl", arguments);
        guest.expect("ready");
        guest.settle('S');
        let (snapshot, _) = taken(guest.pid, &file);
        holds(&perl, &snapshot);
        guest.tell("");
        if is_system {
            let size: u64 = guest.find("size ").parse().expect("a number");
            close(&perl, &snapshot, size);
            compare(&perl, &told(&said), &snapshot);
        } else {
            guest.expect("nothing");
            skip("perl truth", format_args!("{perl}: no Devel::MAT in it"));
        }
        guest.tell("");
        assert!(guest.ends_well());
    }
}

/// What an array holds is no garbage where a loop alone holds it and two of its own globs lead to it by one name.
#[test]
fn what_globs_share_is_counted_once() {
    for perl in chosen("perl", "perl globs") {
        let folder = TempDir::new(&format!("globs-{perl}"));
        let mut guest = Guest::script(&perl, "heap/globs.pl", &[]);
        guest.expect("ready");
        guest.settle('S');
        let (snapshot, _) = taken(guest.pid, &folder.join("heap"));
        guest.tell("");
        assert!(guest.ends_well());
        let analysis = Analysis::of(&snapshot);
        let orders = of_type(&snapshot, "Order");
        assert_eq!(orders.len(), 1000, "{perl}");
        let living = orders.iter().filter(|order| analysis.is_living(**order));
        assert_eq!(living.count(), 1000, "{perl}: orders that live");
    }
}

/// The number of objects of a type, and what they are all together.
fn of_type(snapshot: &Snapshot, name: &str) -> Vec<u32> {
    let all = 0..snapshot.len() as u32;
    all.filter(|object| text(snapshot, snapshot.type_name(*object)) == name)
        .collect()
}

/// What the program is known to have.
fn holds(perl: &Interpreter, snapshot: &Snapshot) {
    assert_eq!(of_type(snapshot, "Shop::Order").len(), 20_000, "{perl}");
    let analysis = Analysis::of(snapshot);
    // A hundred cycles of two hashes each, and their keys' values are references that are parts of them.
    assert_eq!(analysis.garbage().objects, 200, "{perl}: cycles");
    let names: Vec<String> = snapshot
        .roots()
        .iter()
        .filter_map(|root| root.name.text)
        .map(|name| text(snapshot, name))
        .collect();
    for wanted in [
        "%Shop::cache",
        "@Shop::shelves",
        "main program",
        "frame of main::deep",
        "frame of main::waits",
    ] {
        assert!(names.iter().any(|name| name == wanted), "{perl}: {wanted}");
    }
    let all = 0..snapshot.len() as u32;
    let edges: Vec<String> = all
        .flat_map(|object| snapshot.edges(object))
        .filter_map(|edge| edge.name.text())
        .map(|name| text(snapshot, name))
        .collect();
    for wanted in ["%lexical", "$hook", "@captured", "@here"] {
        assert!(edges.iter().any(|name| name == wanted), "{perl}: {wanted}");
    }
    // One of each depth, from 20 to 0.
    let depths = edges.iter().filter(|name| *name == "@here").count();
    assert_eq!(depths, 21, "{perl}: a variable for each call");
}

/// What the cache retains is what Devel::Size counts of it.
fn close(perl: &Interpreter, snapshot: &Snapshot, size: u64) {
    let analysis = Analysis::of(snapshot);
    let is_cache = |name: heap::TextId| text(snapshot, name) == "%Shop::cache";
    let root = snapshot
        .roots()
        .iter()
        .find(|root| root.name.text.is_some_and(is_cache));
    let retained = analysis.retained(root.expect("it is one").target);
    say(format_args!(
        "{perl}: Devel::Size counts {size} bytes of the cache, we {retained}"
    ));
    // Devel::Size counts the keys that hashes share with each hash, and allocations as malloc rounds them up: 9 % more here.
    let difference = retained.abs_diff(size) * 100 / size;
    assert!(difference <= 12, "{perl}: {retained} and {size}");
}

fn is_right(number: u64, answer: &str) -> bool {
    answer == format!("number {number}, 20100\n")
}

/// A text of 100,000 bytes that 101 values share is there once.
#[test]
fn a_text_that_values_share_is_counted_once() {
    for perl in chosen("perl", "perl shared") {
        let guest = Guest::script(&perl, "heap/shared.pl", &[]);
        guest.expect("ready");
        let folder = TempDir::new("perl-shared");
        let (snapshot, _) = taken(guest.pid, &folder.join("shared.lancet"));
        let analysis = Analysis::of(&snapshot);
        let is_wanted = |name: heap::TextId| text(&snapshot, name) == "@main::copies";
        let mut roots = snapshot.roots().iter();
        let root = roots.find(|root| root.name.text.is_some_and(is_wanted));
        let retained = analysis.retained(root.expect("it is one").target);
        // A hundred of the 101 parts of the text, and a hundred values.
        assert!((99_000..120_000).contains(&retained), "{perl}: {retained}");
        assert!(guest.ends_well());
    }
}

#[test]
fn a_server_under_load_is_read_and_no_request_fails() {
    for perl in chosen("perl", "perl served") {
        let guest = Guest::script(&perl, "heap/serve.pl", &[]);
        let port = guest.find("listening on ");
        let load = Load::start(port.parse().expect("a port"), 3, is_right);
        let before = load.answers();
        let output = asked(guest.pid);
        let meanwhile = load.answers() - before;
        let suspect = first_suspect(&output);
        assert!(
            suspect.contains("HASH @global %main::cache retains ")
                && suspect.contains("× Shop::Order"),
            "{perl}: {suspect}"
        );
        let answers = load.end();
        say(format_args!(
            "{perl}: {answers} answers, {meanwhile} of them meanwhile, all right; {}",
            output.stderr.trim()
        ));
        assert_eq!(children(guest.pid), "", "its copy is gone");
    }
}
