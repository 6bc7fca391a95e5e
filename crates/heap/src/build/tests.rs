//! What a builder is given is in the snapshot, or counted.

use super::*;
use crate::names::RootKind;

fn small(builder: &mut Builder, address: u64) -> Object {
    let kind = builder.kind(b"OBJECT", Role::Instance);
    Object::new(address, kind)
}

/// Both are numbered in one search.
#[test]
fn edges_and_roots_have_numbers_of_32_bits_together() {
    let all = Budget {
        objects: u64::MAX,
        edges: u64::MAX,
        roots: u64::MAX,
        text: u64::MAX,
        bytes: u64::MAX,
    };
    let budget = Builder::within(About::default(), all).budget();
    assert_eq!(budget, Budget::default());
    assert!(budget.edges + budget.roots <= u64::from(u32::MAX) - 16);
}

#[test]
fn order_of_addresses_and_edges_of_each() {
    let mut builder = Builder::new(About::default());
    let (list, text) = (
        builder.kind(b"ARRAY", Role::List),
        builder.kind(b"STRING", Role::Text),
    );
    let (file, class) = (builder.text(b"app/a.rb"), builder.text(b"Array"));
    builder.object(Object {
        fingerprint: Some(77),
        bytes: 1 << 40,
        ..Object::new(0x3_0000, text)
    });
    builder.object(Object {
        class: Some(class),
        site: Some((file, 31)),
        birth: 9,
        length: Some(2),
        capacity: Some(16),
        flags: Flags {
            frozen: true,
            ..Flags::default()
        },
        ..Object::new(0x1_0008, list)
    });
    builder.edge(0x3_0000, EdgeName::Index(0));
    builder.edge(0x2_0000, EdgeName::Index(1));
    builder.edge(0x1_0008, EdgeName::Index(2));
    builder.object(Object::new(0x2_0000, text));
    let cache = builder.text(b"$cache");
    builder.root(0x1_0008, RootName::named(RootKind::Global, cache));
    let snapshot = builder.finish();

    let addresses: Vec<u64> = (0..3).map(|one| snapshot.address(one)).collect();
    assert_eq!(addresses, [0x1_0008, 0x2_0000, 0x3_0000]);
    let edges: Vec<_> = snapshot.edges(0).map(|edge| edge.target).collect();
    assert_eq!(edges, [2, 1, 0]);
    assert_eq!((snapshot.edges(1).len(), snapshot.edges(2).len()), (0, 0));
    assert_eq!(snapshot.site(0), Some(Site { file, line: 31 }));
    assert_eq!((snapshot.birth(0), snapshot.birth(1)), (9, 0));
    assert_eq!(
        (snapshot.length(0), snapshot.capacity(0)),
        (Some(2), Some(16))
    );
    assert_eq!(
        (snapshot.bytes(2), snapshot.fingerprint(2)),
        (1 << 40, Some(77))
    );
    assert_eq!((snapshot.class(0), snapshot.class(1)), (Some(class), None));
    assert!(snapshot.flags(0).frozen && !snapshot.flags(1).frozen);
    assert_eq!(
        (snapshot.role(0), snapshot.at(0x2_0000)),
        (Role::List, Some(1))
    );
    assert_eq!(snapshot.roots()[0].target, 0);
    assert!(snapshot.losses().is_empty());
}

#[test]
fn what_is_not_kept_is_counted() {
    let mut builder = Builder::within(
        About::default(),
        Budget {
            objects: 3,
            edges: 3,
            roots: 1,
            text: 10,
            ..Budget::default()
        },
    );
    builder.edge(1, EdgeName::Internal);
    for address in [0x10, 0x20, 0x10, 0x30] {
        let object = small(&mut builder, address);
        builder.object(object);
        builder.edge(0x20, EdgeName::Internal);
    }
    builder.root(0x99, RootName::new(RootKind::Vm));
    builder.root(0x10, RootName::new(RootKind::Vm));
    let long = builder.text(b"longer than there is room for");
    let again = builder.text(b"another that is too long");
    let snapshot = builder.finish();
    assert_eq!((long, snapshot.text(long)), (again, "…".as_bytes()));
    let expected = Losses {
        objects: 1,
        // Before any object, of the one beyond the budget, and of the second at 0x10.
        edges: 3,
        roots: 1,
        texts: 2,
        dangling_edges: 0,
        dangling_roots: 1,
        repeated_objects: 1,
    };
    assert_eq!(snapshot.losses(), expected);
    assert_eq!((snapshot.len(), snapshot.edge_count()), (2, 2));
}

/// One budget of bytes: what objects take, references have not.
#[test]
fn all_together_take_no_more_than_there_is() {
    let bytes = 100_000;
    let budget = Budget::default().affording(bytes);
    for edges_each in [0, 2, 1000] {
        let mut builder = Builder::within(About::default(), budget);
        for number in 0..10_000 {
            let object = small(&mut builder, 0x1000 + number * 8);
            builder.object(Object {
                length: Some(number << 40),
                ..object
            });
            (0..edges_each).for_each(|_| builder.edge(0x1000, EdgeName::Internal));
            builder.root(0x1000, RootName::new(RootKind::Vm));
            builder.text(format!("text {number}").as_bytes());
        }
        let snapshot = builder.finish();
        let losses = snapshot.losses();
        assert!(losses.objects > 0 && losses.roots > 0 && losses.texts > 0);
        let parts = [
            (snapshot.len() as u64, Budget::OBJECT),
            (snapshot.columns.wide() as u64, Budget::WIDE),
            (snapshot.edge_count() as u64, Budget::EDGE),
            (snapshot.roots().len() as u64, Budget::ROOT),
            (snapshot.texts.len() as u64, Budget::TEXT),
            (snapshot.texts.bytes.len() as u64, 2),
        ];
        let taken: u64 = parts.into_iter().map(|(count, each)| count * each).sum();
        // One text is kept for those without room, and the last object may have wide numbers.
        let beyond = Budget::TEXT + 6 + Budget::WIDE;
        assert!(
            (bytes / 10 * 9..=bytes + beyond).contains(&taken),
            "{taken}"
        );
    }
}

/// All that were born since births were watched have the same time, which takes 16 bits each.
#[test]
fn births_take_little_room() {
    let budget = Budget::default().affording(Budget::OBJECT * 1000 + 1000);
    let mut builder = Builder::within(About::default(), budget);
    for number in 0..1000 {
        let object = small(&mut builder, 0x1000 + number * 8);
        builder.object(Object {
            birth: 1_700_000_000_000_000_000 + number,
            ..object
        });
    }
    let snapshot = builder.finish();
    assert_eq!((snapshot.len(), snapshot.columns.wide()), (1000, 0));
    assert_eq!(snapshot.birth(999), 1_700_000_000_000_000_999);
}

#[test]
fn contents_are_kept_only_where_they_were_asked_for() {
    for contents in [false, true] {
        let mut builder = Builder::new(About {
            contents,
            ..About::default()
        });
        let secret = builder.text(b"secret");
        let object = small(&mut builder, 0x10);
        builder.object(Object {
            contents: Some(secret),
            ..object
        });
        assert_eq!(builder.finish().contents(0), contents.then_some(secret));
    }
}
