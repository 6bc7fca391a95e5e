//! No sentence of a report of `lancet heap` or `lancet mem` is contradicted by a number of the same report. Heaps and censuses are made at
//! random; the oracle is the same answer as JSON, and who dominates whom.

use heap::answers::Answers;
use heap::{
    About, Analysis, Builder, Collector, Dominator, EdgeName, Object, Role, RootKind, RootName,
    Snapshot,
};
use proptest::prelude::*;
use report::Style;
use report::heap::{Options, json, owner, table};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const OPTIONS: Options = Options {
    top: 1000,
    contents: false,
    style: Style {
        color: false,
        width: None,
    },
    stacks: &report::forms::stacks::FOLDED,
};

const KINDS: [(&str, Role); 10] = [
    ("Order", Role::Instance),
    ("Hash", Role::Map),
    ("String", Role::Text),
    ("Array", Role::List),
    ("Thread", Role::Thread),
    ("Class", Role::Class),
    ("IMEMO", Role::Internal),
    ("namespace", Role::Module),
    ("Proc", Role::Function),
    ("coroutine", Role::Fiber),
];

/// What a heap is made of: kind, bytes and line of each object; references; roots; what else is said of the process.
#[derive(Clone, Debug)]
struct Heap {
    objects: Vec<(usize, u64, u8)>,
    references: Vec<(usize, usize)>,
    roots: Vec<usize>,
    resident: u64,
    collector: u8,
    /// Whether the VM counts references.
    counts: bool,
}

fn heap() -> impl Strategy<Value = Heap> {
    (1_usize..60).prop_flat_map(|count| {
        let bytes = prop_oneof![0_u64..100, 1000_u64..5000, Just(4096), 1_u64 << 16..1 << 27];
        let objects = prop::collection::vec((0..KINDS.len(), bytes, 0_u8..4), count);
        let references = prop::collection::vec((0..count, 0..count), 0..count * 2);
        let roots = prop::collection::vec(0..count, 0..count.min(6) + 1);
        let said = (0_u64..1 << 30, 0_u8..4, any::<bool>());
        (objects, references, roots, said).prop_map(
            |(objects, references, roots, (resident, collector, counts))| Heap {
                objects,
                references,
                roots,
                resident,
                collector,
                counts,
            },
        )
    })
}

fn address(number: usize) -> u64 {
    0x1000 + number as u64 * 16
}

fn snapshot(heap: &Heap) -> Snapshot {
    let collector = [
        Collector::On,
        Collector::Off,
        Collector::None,
        Collector::Unknown,
    ];
    let mut builder = Builder::new(About {
        language: if heap.counts { "python" } else { "ruby" }.into(),
        collector: collector[usize::from(heap.collector)],
        rss: heap.resident,
        ..About::default()
    });
    let file = builder.text(b"app.rb");
    let functions = [&b"app.rb:7"[..], b"lib.rb:9"].map(|name| builder.text(name));
    let (named, unnamed) = (
        builder.text(b"callbacks"),
        builder.text(b"(held by C code)"),
    );
    for (number, (kind, bytes, line)) in heap.objects.iter().enumerate() {
        let (name, role) = KINDS[*kind];
        let kind = builder.kind(name.as_bytes(), role);
        builder.object(Object {
            bytes: *bytes,
            site: (*line != 0).then_some((file, u32::from(*line))),
            label: matches!(role, Role::Function | Role::Fiber).then_some(functions[number % 2]),
            ..Object::new(address(number), kind)
        });
        let references = heap.references.iter().filter(|(from, _)| *from == number);
        for (_, to) in references {
            builder.edge(address(*to), EdgeName::Internal);
        }
    }
    for root in &heap.roots {
        let name = match root % 3 {
            0 => RootName::named(RootKind::Native, unnamed),
            _ => RootName::named(RootKind::Vm, named),
        };
        builder.root(address(*root), name);
    }
    builder.finish()
}

/// The number that stands right before these words.
fn before(text: &str, words: &str) -> Option<u64> {
    let head = text.split(words).next().filter(|head| *head != text)?;
    let digits = head.rsplit(|one: char| !one.is_ascii_digit() && one != ',');
    digits.take(1).next()?.replace(',', "").parse().ok()
}

fn number(record: &Value, field: &str) -> u64 {
    record[field].as_u64().unwrap_or_default()
}

/// Whether one object dominates all living objects of a type that are no dominator of it themselves.
fn one_holds_all(analysis: &Analysis, name: &str) -> bool {
    let snapshot = analysis.snapshot();
    let all = 0..snapshot.len() as u32;
    let of_type = all.filter(|object| {
        analysis.is_living(*object) && snapshot.text(snapshot.type_name(*object)) == name.as_bytes()
    });
    let mut common: Option<Vec<u32>> = None;
    for object in of_type {
        let mut above = Vec::new();
        let mut at = object;
        while let Dominator::Object(holder) = analysis.dominator(at) {
            above.push(holder);
            at = holder;
        }
        common = Some(match common {
            None => above,
            Some(common) => common
                .into_iter()
                .filter(|one| above.contains(one))
                .collect(),
        });
    }
    common.is_some_and(|common| !common.is_empty())
}

/// The living objects of a type, and of a function of this name if one is told behind it.
fn of_type<'a>(analysis: &'a Analysis, told: &'a str) -> impl Iterator<Item = u32> + 'a {
    let snapshot = analysis.snapshot();
    let all = 0..snapshot.len() as u32;
    all.filter(move |one| {
        let name = String::from_utf8_lossy(snapshot.text(snapshot.type_name(*one))).into_owned();
        let label = snapshot.label(*one).map(|label| snapshot.text(label));
        let label = label.map(|label| String::from_utf8_lossy(label).into_owned());
        let is_it = told == name || label.is_some_and(|label| told == format!("{name} {label}"));
        analysis.is_living(*one) && is_it
    })
}

/// How many of these are said to be held by a root, or to hang on an object: so many are.
fn check_holder(
    analysis: &Analysis,
    told: &str,
    objects: u64,
    text: &str,
) -> Result<(), TestCaseError> {
    let snapshot = analysis.snapshot();
    if text.contains("holds them: ") {
        let count = before(text, " are held")
            .or_else(|| before(text, " is held"))
            .unwrap_or(objects);
        let is_root = |one: &u32| {
            let mut roots = snapshot.roots().iter().filter(|root| root.target == *one);
            let by_c = text.contains("held by C code");
            analysis.dominator(*one) == Dominator::Roots
                && roots.any(|root| (root.name.kind == RootKind::Native) == by_c)
        };
        let held = of_type(analysis, told).filter(is_root).count() as u64;
        prop_assert!(held >= count, "{held}: {text}");
    }
    if text.contains(" hang on ") || text.contains(" hangs on ") {
        let count = before(text, " hang on")
            .or_else(|| before(text, " hangs on"))
            .unwrap_or(objects);
        let mut below: BTreeMap<u32, u64> = BTreeMap::new();
        for object in of_type(analysis, told) {
            let mut at = object;
            while let Dominator::Object(holder) = analysis.dominator(at) {
                *below.entry(holder).or_default() += 1;
                at = holder;
            }
        }
        prop_assert!(below.values().any(|held| *held >= count), "{text}");
    }
    Ok(())
}

/// Bytes of garbage that cycles lead to, and of the cycles themselves, found by going from each object as far as it leads.
fn in_cycles(analysis: &Analysis) -> u64 {
    let snapshot = analysis.snapshot();
    let garbage = |one: &u32| !analysis.is_living(*one);
    let reached = |from: u32| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(object) = open.pop() {
            let targets = snapshot.edges(object).map(|edge| edge.target);
            open.extend(targets.filter(garbage).filter(|one| seen.insert(*one)));
        }
        seen
    };
    let all = (0..snapshot.len() as u32).filter(garbage);
    let in_cycles = all
        .map(|one| (one, reached(one)))
        .filter(|(one, seen)| seen.contains(one));
    let held: BTreeSet<u32> = in_cycles.flat_map(|(_, seen)| seen).collect();
    held.into_iter().map(|one| snapshot.bytes(one)).sum()
}

fn check_suspect(analysis: &Analysis, record: &Value, all: &Value) -> Result<(), TestCaseError> {
    let text = record["text"].as_str().expect("a sentence");
    let (living, garbage) = (number(all, "bytes"), number(all, "garbage_bytes"));
    let (retained, percent) = (number(record, "retained"), number(record, "percent"));
    let what = record["what"].as_str().expect("what it is");
    let of = if what == "garbage" {
        living + garbage
    } else {
        living
    };
    prop_assert!(retained <= of.max(retained.min(garbage)), "{text}");
    prop_assert!(
        retained.saturating_mul(10) + 10 >= of,
        "less than a tenth: {text}"
    );
    prop_assert_eq!(before(text, " %)"), Some(percent), "{}", text);
    let near = (percent as f64 - retained as f64 * 100.0 / of.max(1) as f64).abs();
    prop_assert!(near <= 0.51, "{text}");
    if let Some(objects) = before(text, " × ") {
        prop_assert_eq!(objects, number(&record["holds"], "objects"), "{}", text);
        let most = if what == "garbage" {
            "garbage_objects"
        } else {
            "objects"
        };
        prop_assert!(objects <= number(all, most), "{text}");
    }
    if what == "type" && text.contains("no single object holds") {
        let name = record["type"].as_str().expect("a type");
        prop_assert!(!one_holds_all(analysis, name), "{text}");
    }
    if what == "type" {
        let told = record["holds"]["type"].as_str().expect("a type");
        check_holder(analysis, told, number(&record["holds"], "objects"), text)?;
    }
    if what == "garbage" {
        let cycles = number(all, "garbage_cycles");
        if text.contains("kept by ") {
            let said = before(text, " cycle of").or_else(|| before(text, " cycles of"));
            prop_assert_eq!(said, Some(cycles), "{}", text);
            prop_assert!(in_cycles(analysis) >= garbage / 2, "{text}");
            let counts = analysis.snapshot().about().language == "python";
            prop_assert!(
                counts,
                "a collector that marks is kept from nothing by cycles: {text}"
            );
        }
        prop_assert!(!text.contains("in no cycle") || cycles == 0, "{text}");
        prop_assert_eq!(retained, garbage, "{}", text);
        let nothing_frees = text.contains("which nothing frees");
        prop_assert!(nothing_frees, "{text}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_heap_says_agrees_with_its_numbers(heap in heap()) {
        let snapshot = snapshot(&heap);
        let analysis = Analysis::of(&snapshot);
        let answers = Answers::of(&analysis, owner);
        let written = |format: &report::heap::Format| {
            let mut out = Vec::new();
            format.write(&mut out, &answers, &OPTIONS).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let (text, lines) = (written(&table::FORMAT), written(&json::FORMAT));
        let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let named = |name: &'static str| records.iter().filter(move |record| record["record"] == name);
        let all = named("snapshot").next().expect("a snapshot");
        for record in named("suspect") {
            check_suspect(&analysis, record, all)?;
        }
        prop_assert_eq!(before(&text, " living object"), Some(number(all, "objects")), "{}", text);
        if number(all, "garbage_objects") != 0 {
            let objects = before(&text, " objects of garbage").or_else(|| before(&text, " object of garbage"));
            prop_assert_eq!(objects, Some(number(all, "garbage_objects")), "{}", text);
        }
        prop_assert_eq!(text.contains("no suspect"), named("suspect").next().is_none(), "{}", text);
        if text.contains("no object, type or line of the program's retains a tenth") {
            let large = named("group").find(|group| {
                let is_named = matches!(group["by"].as_str(), Some("type" | "site")) && !group["name"].is_null();
                is_named && number(group, "retained") * 10 >= number(all, "bytes").max(1)
            });
            prop_assert!(large.is_none(), "{large:?}\n{text}");
        }
        for note in named("note").filter_map(|note| note["text"].as_str()) {
            if note.starts_with("all objects together are ") {
                let objects = number(all, "bytes") + number(all, "garbage_bytes");
                let part: f64 = note.split(' ').nth(4).expect("a number").parse().expect("a number");
                let true_part = objects as f64 * 100.0 / number(all, "resident") as f64;
                prop_assert!((part - true_part).abs() <= 0.051, "{note}");
            }
            if note.contains("nothing frees ") {
                let objects = before(note, " objects of garbage").or_else(|| before(note, " object of garbage"));
                prop_assert_eq!(objects, Some(number(all, "garbage_objects")), "{}", note);
            }
        }
    }
}
