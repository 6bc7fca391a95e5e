//! Holders that were planted are found, by their name and with what they hold.

#[path = "../../examples/shop.rs"]
mod shop;

use heap::answers::garbage::{self, garbage};
use heap::answers::paths::{Paths, Via};
use heap::answers::suspects::{Suspect, Suspected, suspects};
use heap::answers::{duplicates, groups, sparse, threads};
use heap::{
    About, Analysis, Builder, Collector, EdgeName, Flags, Object, Role, RootKind, RootName,
};
use shop::*;

#[test]
fn each_planted_holder_is_a_suspect_with_what_it_holds() {
    let snapshot = planted();
    assert_eq!(snapshot.losses().dangling_roots, 1);
    let analysis = Analysis::of(&snapshot);
    let found = suspects(&analysis, &garbage(&analysis));
    let holders: Vec<_> = found
        .iter()
        .map(|suspect| {
            let Suspected::Object(object) = suspect.what else {
                panic!("{suspect:?}")
            };
            let mass = suspect.mass.expect("many objects");
            let site = mass.site.map(|(site, count)| (site.line, count));
            let name = String::from_utf8_lossy(snapshot.text(mass.name)).into_owned();
            (
                snapshot.address(object),
                suspect.retained,
                mass.objects,
                name,
                site,
            )
        })
        .collect();
    let order = |count: u64| Some((31, count));
    assert_eq!(
        holders,
        [
            (CACHE, 385_000, 4000, "Order".into(), order(3990)),
            (CAUGHT, 240_400, 3000, "String".into(), None),
            (SESSION, 200_400, 2000, "Log".into(), None),
        ]
    );
}

#[test]
fn the_shortest_path_has_names_and_ways_are_merged() {
    let snapshot = planted();
    let paths = Paths::of(&snapshot);
    let shown = |address: u64| {
        let steps = paths.to(snapshot.at(address).expect("an object"));
        let steps = steps.iter().map(|step| {
            let name = match step.via {
                Via::Root(name) => format!("{:?}", name.kind),
                Via::Edge(name) => format!("{name:?}"),
            };
            let text = match step.via {
                Via::Root(name) => name.text,
                Via::Edge(name) => name.text(),
            };
            let text = text.map_or("".into(), |text| {
                String::from_utf8_lossy(snapshot.text(text)).into_owned()
            });
            format!("{} {text}", name.split('(').next().unwrap_or_default())
        });
        steps.collect::<Vec<_>>().join(", ")
    };
    // The root that the VM has for it besides says nothing.
    assert_eq!(shown(CACHE), "Global $cache");
    // One reference without a name, from the VM to a class, is shorter than two.
    assert_eq!(shown(ORDERS + 40), "Global $cache, Value ");
    assert_eq!(
        shown(TEXTS),
        "Vm , Superclass , Constant CALLBACKS, Index , Closure , Local rows, Index "
    );
    assert_eq!(shown(ORDERS + 4150 * 40), "");

    let orders = (0..snapshot.len() as u32)
        .filter(|one| snapshot.text(snapshot.type_name(*one)) == b"Order");
    let ways = paths.merged(orders, usize::MAX);
    let counts: Vec<_> = ways
        .told
        .iter()
        .map(|way| (way.objects, way.bytes, way.steps.len()))
        .collect();
    assert_eq!(counts, [(4000, 384_000, 2), (100, 9600, 2)]);
}

#[test]
fn groups_hold_what_their_objects_hold_together() {
    let snapshot = planted();
    let analysis = Analysis::of(&snapshot);
    assert_eq!(analysis.garbage().objects, 100);
    let types = groups::by_type(&analysis);
    let of = |name: &str| {
        let found = types
            .iter()
            .find(|group| snapshot.text(group.key) == name.as_bytes());
        let group = found.expect("a type");
        (group.objects, group.bytes, group.retained)
    };
    assert_eq!(of("Order"), (4100, 4100 * 96, 4100 * 96));
    // The array of callbacks dominates the one that is caught, which is counted once.
    assert_eq!(of("Array").2, 40 + 40 + 40 + 240_400 + 200_400 + 80);
    let all: u64 = types.iter().map(|group| group.bytes).sum();
    assert_eq!(all, analysis.living().bytes);
    let kinds: u64 = groups::by_kind(&analysis)
        .iter()
        .map(|group| group.objects)
        .sum();
    assert_eq!(kinds, analysis.living().objects);
    let sites = groups::by_site(&analysis);
    let lines: Vec<_> = sites
        .iter()
        .map(|group| (group.key.map(|site| site.line), group.objects))
        .collect();
    assert_eq!(
        lines,
        [
            (None, analysis.living().objects - 4100),
            (Some(31), 4090),
            (Some(7), 10)
        ]
    );
    let owners = groups::by_owner(&analysis, |path| {
        format!("owner of {}", String::from_utf8_lossy(path))
    });
    let orders = owners
        .iter()
        .find(|group| group.key.as_deref() == Some("owner of app/order.rb"));
    assert_eq!(orders.map(|group| group.objects), Some(4100));
}

#[test]
fn what_is_there_twice_and_what_is_half_empty() {
    let snapshot = planted();
    let analysis = Analysis::of(&snapshot);
    let texts = duplicates::texts(&analysis);
    assert_eq!(texts.len(), 1000);
    assert!(
        texts
            .iter()
            .all(|text| (text.objects, text.wasted) == (3, 160))
    );
    let classes = duplicates::classes(&analysis);
    let classes: Vec<_> = classes
        .iter()
        .map(|one| (snapshot.text(one.name), one.classes))
        .collect();
    assert_eq!(classes, [(&b"Order"[..], 3)]);
    // One of 64 is used; the hash is full.
    let sparse = sparse::sparse(&analysis);
    let sparse: Vec<_> = sparse
        .iter()
        .map(|one| (one.objects, one.length, one.capacity, one.wasted))
        .collect();
    assert_eq!(sparse, [(1, 1, 64, 39)]);
    let stacks = threads::stacks(&analysis);
    let stacks: Vec<_> = stacks
        .iter()
        .map(|stack| (stack.object, stack.retained))
        .collect();
    assert_eq!(stacks, [(snapshot.at(THREAD), 200_500)]);
}

#[test]
fn objects_that_nobody_in_particular_holds_are_suspected_together() {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"OBJECT", Role::Instance);
    let (row, file) = (builder.text(b"Row"), builder.text(b"app/rows.rb"));
    for number in 0..100 {
        let class = builder.text(format!("Row{}", number % 50).as_bytes());
        let class = Some(if number < 50 { row } else { class });
        builder.object(Object {
            bytes: 10,
            class,
            site: Some((file, 3)),
            ..Object::new(0x1000 + number * 40, kind)
        });
        builder.root(0x1000 + number * 40, RootName::new(RootKind::MachineStack));
    }
    let snapshot = builder.finish();
    let analysis = Analysis::of(&snapshot);
    let found = suspects(&analysis, &garbage(&analysis));
    let found: Vec<_> = found.iter().map(|one| (one.what, one.retained)).collect();
    let site = snapshot.site(0).expect("a site");
    assert_eq!(
        found,
        [(Suspected::Type(row), 500), (Suspected::Site(site), 500)]
    );
}

/// A linked list whose nodes hold a number each: its first node holds all of it, and the numbers are no group of their own.
#[test]
fn the_first_of_a_long_chain_is_suspected() {
    const LENGTH: u64 = 10_000;
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"OBJECT", Role::Instance);
    let [list, node, number] = ["List", "Node", "Number"].map(|name| builder.text(name.as_bytes()));
    let mut add = |at, class, bytes, targets: &[u64]| {
        builder.object(Object {
            bytes,
            class: Some(class),
            ..Object::new(at, kind)
        });
        for target in targets {
            builder.edge(*target, EdgeName::Internal);
        }
    };
    let [nodes, numbers] = [0x10_0000, 0x80_0000];
    add(0x1000, list, 10, &[nodes]);
    for at in 0..LENGTH {
        let targets = [numbers + at * 16, nodes + (at + 1) * 16];
        add(
            nodes + at * 16,
            node,
            10,
            &targets[..1 + usize::from(at + 1 < LENGTH)],
        );
        add(numbers + at * 16, number, 10, &[]);
    }
    builder.root(0x1000, RootName::new(RootKind::Global));
    let snapshot = builder.finish();
    let analysis = Analysis::of(&snapshot);
    let found = suspects(&analysis, &garbage(&analysis));
    let found: Vec<_> = found.iter().map(|one| (one.what, one.retained)).collect();
    let first = snapshot.at(nodes).expect("an object");
    assert_eq!(found, [(Suspected::Object(first), 20 * LENGTH)]);
}

/// A ring of three, one that refers to itself, and what hangs on them; objects beside that are in no cycle.
#[test]
fn garbage_is_told_by_type_with_its_cycles() {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"object", Role::Instance);
    let [node, leaf] = ["Node", "Leaf"].map(|text| builder.text(text.as_bytes()));
    let edges: [(u64, &[u64]); 7] = [
        (0x10, &[0x20, 0x70]),
        (0x20, &[0x30]),
        (0x30, &[0x10, 0x50]),
        (0x40, &[0x40, 0x50, 0x10]),
        (0x50, &[]),
        (0x60, &[0x50]),
        // What lives is no garbage, whatever refers to it, and leads into it.
        (0x70, &[]),
    ];
    for (at, targets) in edges {
        let is_leaf = matches!(at, 0x50 | 0x60);
        builder.object(Object {
            class: Some(if is_leaf { leaf } else { node }),
            bytes: at,
            flags: Flags {
                finalizer: at == 0x30,
                ..Flags::default()
            },
            ..Object::new(at, kind)
        });
        for target in targets {
            builder.edge(*target, EdgeName::Internal);
        }
    }
    builder.root(0x70, RootName::new(RootKind::Vm));
    let snapshot = builder.finish();
    let analysis = Analysis::of(&snapshot);
    let found = garbage(&analysis);
    assert_eq!(found.cycles, 2);
    let of = |name, (objects, bytes), in_cycles, finalizers, example: u64| garbage::Type {
        name,
        objects,
        bytes,
        in_cycles,
        finalizers,
        example: snapshot.at(example).expect("an object"),
    };
    let all = [
        of(leaf, (2, 0xb0), 0, 0, 0x50),
        of(node, (4, 0xa0), 4, 1, 0x10),
    ];
    assert_eq!(found.types, all);
    // The shortest way from the first node back to it.
    let around = found
        .circle
        .iter()
        .map(|step| snapshot.address(step.object));
    assert_eq!(around.collect::<Vec<_>>(), [0x20, 0x30, 0x10]);
    let suspected = suspects(&analysis, &found);
    let is_garbage = |one: &Suspect| one.what == Suspected::Garbage;
    assert!(!suspected.iter().any(is_garbage), "a collector may free it");
}

/// Two objects that refer to each other by names, in a VM that frees no garbage; what lives is nine times as much and held by one.
#[test]
fn garbage_that_nothing_frees_is_a_suspect_with_its_circle() {
    let snapshot = |collector, garbage| {
        let mut builder = Builder::new(About {
            collector,
            ..About::default()
        });
        let kind = builder.kind(b"object", Role::Instance);
        let names = ["Cart", "Order", "@order", "@cart"];
        let [cart, order, to_order, to_cart] = names.map(|text| builder.text(text.as_bytes()));
        for (at, class, bytes, edge) in [
            (0x10, Some(cart), garbage, Some((0x20, to_order))),
            (0x20, Some(order), 1, Some((0x10, to_cart))),
            (0x30, None, 900, None),
        ] {
            builder.object(Object {
                class,
                bytes,
                ..Object::new(at, kind)
            });
            if let Some((target, name)) = edge {
                builder.edge(target, EdgeName::Member(Some(name)));
            }
        }
        builder.root(0x30, RootName::new(RootKind::Global));
        builder.finish()
    };
    for (collector, garbage_bytes, is_suspected) in [
        (Collector::None, 99, true),
        (Collector::Off, 99, true),
        (Collector::On, 99, false),
        (Collector::Unknown, 99, false),
        (Collector::None, 97, false),
    ] {
        let snapshot = snapshot(collector, garbage_bytes);
        let analysis = Analysis::of(&snapshot);
        let found = garbage(&analysis);
        let suspects = suspects(&analysis, &found);
        let garbage = suspects.iter().find(|one| one.what == Suspected::Garbage);
        assert_eq!(
            garbage.is_some(),
            is_suspected,
            "{collector:?} {garbage_bytes}"
        );
        let Some(garbage) = garbage else {
            continue;
        };
        let mass = garbage.mass.expect("a type");
        assert_eq!((garbage.retained, mass.objects), (100, 1));
        assert_eq!(snapshot.text(mass.name), b"Cart");
        assert_eq!(snapshot.address(mass.example), 0x10);
    }
}

/// Ten rows that nobody holds, and a hash that holds less than they do: the hash is named first, and of the rows the
/// largest is shown. The module that the hash is in, and its table, are no suspects.
#[test]
fn a_single_holder_comes_before_a_group_and_the_largest_is_its_example() {
    let mut builder = Builder::new(About::default());
    let instance = builder.kind(b"OBJECT", Role::Instance);
    let map = builder.kind(b"HASH", Role::Map);
    let module = builder.kind(b"MODULE", Role::Module);
    let row = builder.text(b"Row");
    for number in 0..10 {
        builder.object(Object {
            bytes: if number == 7 { 10 } else { 8 },
            class: Some(row),
            ..Object::new(0x1000 + number * 16, instance)
        });
        builder.root(0x1000 + number * 16, RootName::new(RootKind::MachineStack));
    }
    for (at, kind, bytes, target) in [
        (0x10, module, 1, Some(0x20)),
        (0x20, module, 1, Some(0x30)),
        (0x30, map, 60, None),
    ] {
        builder.object(Object {
            bytes,
            ..Object::new(at, kind)
        });
        if let Some(target) = target {
            builder.edge(target, EdgeName::Internal);
        }
    }
    builder.root(0x10, RootName::new(RootKind::Vm));
    let snapshot = builder.finish();
    let analysis = Analysis::of(&snapshot);
    let found = suspects(&analysis, &garbage(&analysis));
    let number = |at| snapshot.at(at).expect("an object");
    let what: Vec<_> = found.iter().map(|one| (one.what, one.retained)).collect();
    assert_eq!(
        what,
        [
            (Suspected::Object(number(0x30)), 60),
            (Suspected::Type(row), 82),
        ]
    );
    let example = found[1].mass.map(|mass| mass.example);
    assert_eq!(example, snapshot.at(0x1070));
}

/// A list of a million that ends where it begins: the search has no recursion.
#[test]
fn a_long_cycle_is_one() {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"object", Role::Instance);
    let count = 1_000_000;
    for number in 0..count {
        builder.object(Object::new(16 + number * 16, kind));
        builder.edge(16 + (number + 1) % count * 16, EdgeName::Internal);
    }
    let snapshot = builder.finish();
    let found = garbage(&Analysis::of(&snapshot));
    assert_eq!((found.cycles, found.types[0].in_cycles), (1, count));
}
