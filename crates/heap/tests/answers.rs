//! Holders that were planted are found, by their name and with what they hold.

use heap::answers::paths::{Paths, Via};
use heap::answers::suspects::{Suspected, suspects};
use heap::answers::{duplicates, groups, sparse, threads};
use heap::{About, Analysis, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};

const VM: u64 = 0x1_0000;
const OBJECT_CLASS: u64 = 0x1_1000;
const ORDER_CLASS: u64 = 0x1_2000;
const THREAD: u64 = 0x1_3000;
const CACHE: u64 = 0x2_0000;
const CALLBACKS: u64 = 0x3_0000;
const PROC: u64 = 0x3_1000;
const ENV: u64 = 0x3_2000;
const CAUGHT: u64 = 0x3_3000;
const SESSION: u64 = 0x4_0000;
const LOOSE: u64 = 0x5_0000;
const ORDERS: u64 = 0x100_0000;
const TEXTS: u64 = 0x200_0000;
const LOGS: u64 = 0x300_0000;

/// A heap with three holders: a hash in `$cache` of 4,000 orders, an array that a block in a list of callbacks has caught,
/// with 3,000 strings, and an array in a thread's local of 2,000 logs; 100 orders more are held by two objects each.
fn planted() -> Snapshot {
    let mut builder = Builder::new(About::default());
    let kinds = [
        (&b"OBJECT"[..], Role::Instance),
        (b"CLASS", Role::Class),
        (b"HASH", Role::Map),
        (b"ARRAY", Role::List),
        (b"STRING", Role::Text),
        (b"THREAD", Role::Thread),
        (b"PROC", Role::Function),
        (b"IMEMO:env", Role::Internal),
    ]
    .map(|(name, role)| builder.kind(name, role));
    let [object, class, hash, array, string, thread, proc, env] = kinds;
    let mut text = |text: &str| builder.text(text.as_bytes());
    let names = [
        "Order",
        "Log",
        "Hash",
        "Array",
        "String",
        "Class",
        "$cache",
        "app/order.rb",
        "rows",
        "CALLBACKS",
        ":key",
        "Proc",
    ]
    .map(&mut text);
    let [
        order,
        log,
        hash_name,
        array_name,
        string_name,
        class_name,
        cache,
        file,
        rows,
        callbacks,
        key,
        proc_name,
    ] = names;

    builder.object(Object {
        bytes: 100,
        class: Some(class_name),
        label: Some(string_name),
        ..Object::new(OBJECT_CLASS, class)
    });
    builder.edge(ORDER_CLASS, EdgeName::Constant(Some(order)));
    builder.edge(CALLBACKS, EdgeName::Constant(Some(callbacks)));
    for at in [ORDER_CLASS, ORDER_CLASS + 8, ORDER_CLASS + 16] {
        builder.object(Object {
            bytes: 100,
            class: Some(class_name),
            label: Some(order),
            ..Object::new(at, class)
        });
        builder.edge(OBJECT_CLASS, EdgeName::Superclass);
    }
    builder.object(Object {
        bytes: 100,
        ..Object::new(THREAD, thread)
    });
    builder.edge(SESSION, EdgeName::ThreadLocal(Some(rows)));
    builder.object(Object {
        bytes: 1000,
        class: Some(hash_name),
        length: Some(4000),
        capacity: Some(4096),
        ..Object::new(CACHE, hash)
    });
    for number in 0..4000 {
        builder.edge(ORDERS + number * 40, EdgeName::Value(None));
    }
    builder.object(Object {
        bytes: 40,
        class: Some(array_name),
        length: Some(1),
        capacity: Some(64),
        ..Object::new(CALLBACKS, array)
    });
    builder.edge(PROC, EdgeName::Index(0));
    builder.object(Object {
        bytes: 40,
        class: Some(proc_name),
        ..Object::new(PROC, proc)
    });
    builder.edge(ENV, EdgeName::Closure);
    builder.object(Object {
        bytes: 40,
        ..Object::new(ENV, env)
    });
    builder.edge(CAUGHT, EdgeName::Local(Some(rows)));
    builder.object(Object {
        bytes: 400,
        class: Some(array_name),
        ..Object::new(CAUGHT, array)
    });
    for number in 0..3000 {
        builder.edge(TEXTS + number * 40, EdgeName::Index(number as u32));
    }
    builder.object(Object {
        bytes: 400,
        class: Some(array_name),
        ..Object::new(SESSION, array)
    });
    for number in 0..2000 {
        builder.edge(LOGS + number * 40, EdgeName::Index(number as u32));
    }
    for at in [LOOSE, LOOSE + 40] {
        builder.object(Object {
            bytes: 40,
            class: Some(array_name),
            ..Object::new(at, array)
        });
        for number in 4000..4100 {
            builder.edge(ORDERS + number * 40, EdgeName::Index(number as u32));
        }
    }
    for number in 0..4200 {
        builder.object(Object {
            bytes: 96,
            class: Some(order),
            site: Some((file, if number < 10 { 7 } else { 31 })),
            ..Object::new(ORDERS + number * 40, object)
        });
        builder.edge(ORDER_CLASS, EdgeName::ClassOf);
    }
    for number in 0..3000 {
        builder.object(Object {
            bytes: 80,
            class: Some(string_name),
            fingerprint: Some(number / 3),
            length: Some(3),
            ..Object::new(TEXTS + number * 40, string)
        });
    }
    for number in 0..2000 {
        builder.object(Object {
            bytes: 100,
            class: Some(log),
            ..Object::new(LOGS + number * 40, object)
        });
    }
    let vm = RootName::new(RootKind::Vm);
    builder.object(Object {
        bytes: 10,
        ..Object::new(VM, env)
    });
    builder.edge(OBJECT_CLASS, EdgeName::Internal);
    for at in [
        VM,
        THREAD,
        LOOSE,
        LOOSE + 40,
        CACHE,
        ORDER_CLASS + 8,
        ORDER_CLASS + 16,
    ] {
        builder.root(at, vm);
    }
    builder.root(CACHE, RootName::named(RootKind::Global, cache));
    builder.root(SESSION - 8, RootName::named(RootKind::Global, key));
    builder.finish()
}

#[test]
fn each_planted_holder_is_a_suspect_with_what_it_holds() {
    let snapshot = planted();
    assert_eq!(snapshot.losses().dangling_roots, 1);
    let analysis = Analysis::of(&snapshot);
    let found = suspects(&analysis);
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
    let ways = paths.merged(orders);
    let counts: Vec<_> = ways
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
    let found = suspects(&Analysis::of(&snapshot));
    let found: Vec<_> = found.iter().map(|one| (one.what, one.retained)).collect();
    let site = snapshot.site(0).expect("a site");
    assert_eq!(
        found,
        [(Suspected::Type(row), 500), (Suspected::Site(site), 500)]
    );
}
