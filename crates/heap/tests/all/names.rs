//! Families of names in heaps that are made here.

use heap::answers::Answers;
use heap::answers::suspects::{Suspect, Suspected};
use heap::{About, Analysis, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};

/// A module at 16 with `names` methods of 1,000 bytes, each of which holds code of 1,000. A second module holds the code of the first
/// `shared` too, and has entries of its own for the first `copies` methods; `large` = one method holds an array of so many bytes; and a Hash of `other` bytes hangs on a global.
struct Made {
    names: u64,
    shared: u64,
    large: u64,
    other: u64,
    copies: u64,
}

const CODE: u64 = 1 << 20;
const COPY: u64 = 1 << 21;
const ARRAY: u64 = 8;

fn snapshot(made: &Made) -> Snapshot {
    let mut builder = Builder::new(About::default());
    let module = builder.kind(b"MODULE", Role::Class);
    let method = builder.kind(b"IMEMO:ment", Role::Function);
    let code = builder.kind(b"IMEMO:iseq", Role::Code);
    let (list, map) = (
        builder.kind(b"ARRAY", Role::List),
        builder.kind(b"HASH", Role::Map),
    );
    let of = |address, kind, bytes| Object {
        bytes,
        ..Object::new(address, kind)
    };
    let at = |number: u64| 1024 + number * 16;
    builder.object(of(16, module, 100));
    for number in 0..made.names {
        let name = builder.text(format!("_view_{number}_{:x}", number * 7919).as_bytes());
        builder.edge(at(number), EdgeName::Method(Some(name)));
    }
    builder.object(of(32, module, 100));
    for number in 0..made.shared {
        builder.edge(CODE + at(number), EdgeName::Internal);
    }
    for number in 0..made.copies {
        builder.edge(COPY + at(number), EdgeName::Internal);
    }
    for number in 0..made.copies {
        builder.object(of(COPY + at(number), method, 1000));
        builder.edge(CODE + at(number), EdgeName::Code);
    }
    for number in 0..made.names {
        builder.object(of(at(number), method, 1000));
        builder.edge(CODE + at(number), EdgeName::Code);
        if number == 7 {
            builder.edge(ARRAY, EdgeName::Internal);
        }
        builder.object(of(CODE + at(number), code, 1000));
    }
    builder.object(of(ARRAY, list, made.large));
    builder.object(of(48, map, made.other));
    let constant = RootName::new(RootKind::Constant);
    for target in [16, 32, 48] {
        builder.root(target, constant);
    }
    builder.finish()
}

fn suspects(made: &Made) -> (Snapshot, Vec<Suspect>) {
    let snapshot = snapshot(made);
    let analysis = Analysis::of(&snapshot);
    let suspects = Answers::of(&analysis, |_| String::new()).suspects;
    (snapshot, suspects)
}

/// What they are, at which address, and what they retain.
fn told(made: &Made) -> Vec<(bool, u64, u64)> {
    let (snapshot, suspects) = suspects(made);
    let told = suspects.iter().filter_map(|one| match one.what {
        Suspected::Names(holder) => Some((true, snapshot.address(holder), one.retained)),
        Suspected::Object(object) => Some((false, snapshot.address(object), one.retained)),
        _ => None,
    });
    told.collect()
}

const PLAIN: Made = Made {
    names: 600,
    shared: 0,
    large: 0,
    other: 0,
    copies: 0,
};

/// What they retain is what would be free without them: code that another module holds, too, is not.
#[test]
fn names_retain_what_would_be_free_without_them() {
    assert_eq!(told(&PLAIN), [(true, 16, 1_200_000)]);
    let made = Made {
        shared: 100,
        ..PLAIN
    };
    assert_eq!(told(&made), [(true, 16, 1_100_000)]);
    let made = Made {
        names: 499,
        ..PLAIN
    };
    assert_eq!(told(&made), []);
}

/// A suspect of another kind does not hide them, and the order is that of bytes.
#[test]
fn names_stand_among_the_other_suspects_by_bytes() {
    for other in [600_000, 5_000_000] {
        let made = Made { other, ..PLAIN };
        let mut expected = [(true, 16, 1_200_000), (false, 48, other)];
        expected.sort_by_key(|one| std::cmp::Reverse(one.2));
        assert_eq!(told(&made), expected);
    }
}

/// What one name holds is that object's, and not the names'.
#[test]
fn what_one_name_holds_is_not_of_all_names() {
    let large = 20_000_000;
    let made = Made { large, ..PLAIN };
    assert_eq!(told(&made), [(false, ARRAY, large)]);
}

/// A class that includes the module has entries of its own for the same methods, which its methods' table does not name.
#[test]
fn other_entries_for_the_same_code_do_not_hold_it() {
    let copies = 200;
    let made = Made { copies, ..PLAIN };
    assert_eq!(told(&made), [(true, 16, 1_200_000 + copies * 1000)]);
}

/// Functions of the same code that a list holds are not the VM's copies of those that have names: they are held by the list.
#[test]
fn functions_of_one_factory_are_no_copies() {
    let mut builder = Builder::new(About::default());
    let module = builder.kind(b"module", Role::Module);
    let function = builder.kind(b"function", Role::Function);
    let code = builder.kind(b"code", Role::Code);
    let list = builder.kind(b"list", Role::List);
    let of = |address, kind, bytes| Object {
        bytes,
        ..Object::new(address, kind)
    };
    let at = |number: u64| 1024 + number * 16;
    builder.object(of(16, module, 100));
    for number in 0..600 {
        let name = builder.text(format!("handler_{number}").as_bytes());
        builder.edge(at(number), EdgeName::Global(Some(name)));
    }
    builder.object(of(32, list, 100));
    for number in 600..1200 {
        builder.edge(at(number), EdgeName::Index(number as u32 - 600));
    }
    for number in 0..1200 {
        builder.object(of(at(number), function, 1000));
        builder.edge(CODE, EdgeName::Code);
    }
    builder.object(of(CODE, code, 1000));
    let constant = RootName::new(RootKind::Constant);
    builder.root(16, constant);
    builder.root(32, constant);
    let snapshot = builder.finish();
    let analysis = Analysis::of(&snapshot);
    let suspects = Answers::of(&analysis, |_| String::new()).suspects;
    let names = suspects
        .iter()
        .find(|one| matches!(one.what, Suspected::Names(_)));
    assert_eq!(names.expect("a family").retained, 600_000);
}

/// Families that retain the same are told in the order of their holders and of what they lead to, each time.
#[test]
fn families_of_one_size_have_an_order() {
    let told = || {
        let mut builder = Builder::new(About::default());
        let module = builder.kind(b"MODULE", Role::Module);
        let method = builder.kind(b"IMEMO:ment", Role::Function);
        builder.object(Object::new(16, module));
        for number in 0..10_u64 * 500 {
            let family = "abcdefghijk".as_bytes()[number as usize / 500];
            let name = format!("_{}w_{number}", char::from(family));
            let name = builder.text(name.as_bytes());
            builder.edge(1024 + number * 16, EdgeName::Method(Some(name)));
        }
        for number in 0..10_u64 * 500 {
            let method = Object {
                bytes: 1000,
                ..Object::new(1024 + number * 16, method)
            };
            builder.object(method);
        }
        builder.root(16, RootName::new(RootKind::Constant));
        let snapshot = builder.finish();
        let analysis = Analysis::of(&snapshot);
        let suspects = Answers::of(&analysis, |_| String::new()).suspects;
        let mut first: Vec<u64> = suspects
            .iter()
            .filter(|one| matches!(one.what, Suspected::Names(_)))
            .filter_map(|one| one.mass.as_ref())
            .map(|mass| snapshot.address(mass.example))
            .collect();
        first.sort_unstable();
        first
    };
    let first: Vec<u64> = (0..8).map(|family| 1024 + family * 500 * 16).collect();
    for _ in 0..3 {
        assert_eq!(told(), first);
    }
}

/// Ractors that have ended hold the thread that they had, as the VM sees it.
#[test]
fn what_the_vm_has_around_threads_may_be_a_group() {
    let mut builder = Builder::new(About::default());
    let pool = builder.kind(b"CLASS", Role::Class);
    let ractor = builder.kind(b"DATA:ractor", Role::Internal);
    let thread = builder.kind(b"DATA:VM/thread", Role::Thread);
    let class = builder.text(b"Ractor");
    let of = |address, kind, class| Object {
        bytes: 1000,
        class,
        ..Object::new(address, kind)
    };
    let at = |number: u64| 1024 + number * 32;
    builder.object(of(16, pool, None));
    (0..100).for_each(|number| builder.edge(at(number), EdgeName::Constant(None)));
    for number in 0..100 {
        builder.object(of(at(number), ractor, Some(class)));
        builder.edge(at(number) + 16, EdgeName::Internal);
        builder.object(of(at(number) + 16, thread, None));
    }
    builder.root(16, RootName::new(RootKind::Constant));
    let snapshot = builder.finish();
    let analysis = Analysis::of(&snapshot);
    let suspects = Answers::of(&analysis, |_| String::new()).suspects;
    let first = suspects.first().expect("a suspect");
    let group = first.mass.expect("a group");
    assert_eq!(first.what, Suspected::Type(class));
    assert_eq!((group.objects, first.retained), (100, 200_000));
}
