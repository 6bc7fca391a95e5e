//! Files that no writer writes, and whose checksums are right.

use super::block::{self, Output};
use super::{Error, Section};
use crate::edge_names::EdgeNames;
use crate::{About, Builder, EdgeName, Object, Role, Snapshot};
use varint::put;

/// A snapshot of one object that refers to itself.
fn small() -> Snapshot {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"OBJECT", Role::Instance);
    builder.object(Object::new(0x10, kind));
    builder.edge(0x10, EdgeName::Internal);
    builder.finish()
}

/// What is wrong with a file that has the header of [`small`] and then blocks of one item each.
fn wrong(blocks: &[(Section, &[u8])]) -> &'static str {
    let mut out = Output::new();
    out.item(Section::Header, |raw| small().header(raw));
    for (section, bytes) in blocks {
        out.item(*section, |raw| raw.extend_from_slice(bytes));
    }
    let made = out.finish();
    let mut file = Vec::new();
    block::begin(&mut file).expect("memory");
    file.extend_from_slice(&made.bytes);
    block::end(&mut file, made.count).expect("memory");
    match Snapshot::read(&mut &*file, 1 << 20) {
        Err(Error::Damaged { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// What is found of a file whose header says so many edges and roots.
fn of_counts(edges: u64, roots: u64) -> Result<Snapshot, Error> {
    let mut out = Output::new();
    out.item(Section::Header, |raw| {
        small().header(raw);
        // One of each byte: an edge, and no root.
        assert!(raw.ends_with(&[1, 0]));
        raw.truncate(raw.len() - 2);
        put(raw, edges);
        put(raw, roots);
    });
    let made = out.finish();
    let mut file = Vec::new();
    block::begin(&mut file).expect("memory");
    file.extend_from_slice(&made.bytes);
    Snapshot::read(&mut &*file, 1 << 20)
}

/// Edges and roots are numbered in one search, by 32 bits.
#[test]
fn edges_and_roots_are_no_more_than_their_numbers_together() {
    let many = of_counts(1 << 31, 1 << 31);
    assert!(matches!(many, Err(Error::Damaged { .. })), "{many:?}");
    let fewer = of_counts(1 << 31, 1 << 30);
    assert!(matches!(fewer, Err(Error::TooLarge { .. })), "{fewer:?}");
}

/// What a reader takes is what it has held against its budget.
#[test]
fn names_of_edges_take_no_more_than_was_asked_for() {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"dict", Role::Map);
    builder.object(Object::new(0x10, kind));
    let count = 150_000;
    for number in 0..count {
        let text = builder.text(number.to_string().as_bytes());
        builder.edge(0x10, EdgeName::Value(Some(text)));
    }
    let snapshot = builder.finish();
    let mut file = Vec::new();
    snapshot.write(&mut file).expect("memory");
    let Err(Error::TooLarge { needs, .. }) = Snapshot::read(&mut &*file, 1) else {
        panic!("it may have one byte");
    };
    assert!(needs >= 12 * count, "{needs}");
    let read = Snapshot::read(&mut &*file, 1 << 30).expect("as it was written");
    let EdgeNames::Plain(names) = &read.names else {
        panic!("most are rare");
    };
    assert_eq!(
        (names.len(), names.capacity()),
        (count as usize, names.len())
    );
    assert!(read.edges(0).eq(snapshot.edges(0)));
}

#[test]
fn numbers_are_held_against_what_they_name() {
    let number = "a number in it cannot be true";
    let mut huge = Vec::new();
    put(&mut huge, u64::MAX);
    let text: (Section, &[u8]) = (Section::Texts, b"\x06OBJECT");
    for blocks in [
        // Targets of edges whose names have not come (found by the fuzz target).
        &[(Section::EdgeTargets, &b"\0"[..])][..],
        &[text, (Section::Kinds, b"\x01\0")],
        &[text, (Section::Kinds, b"\0\xff")],
        &[text, (Section::ObjectKinds, b"\x01")],
        &[text, (Section::Flags, b"\xff")],
        &[text, (Section::Classes, b"\x02")],
        &[text, (Section::Labels, &huge)],
        &[text, (Section::EdgeCounts, b"\x02")],
        &[text, (Section::EdgeNames, b"\x1f")],
        &[text, (Section::EdgeNames, b"\x20")],
        &[text, (Section::EdgeNames, b"\x01\x02")],
        &[
            text,
            (Section::EdgeNames, b"\0"),
            (Section::EdgeTargets, b"\x02"),
        ],
        &[
            text,
            (Section::EdgeNames, b"\0"),
            (Section::EdgeTargets, b"\x01"),
        ],
        &[(Section::Texts, b"\x05OBJ")],
        &[text, text],
    ] {
        assert_eq!(wrong(blocks), number, "{blocks:?}");
    }
    let missing = "a section before it has fewer items than the header says";
    assert_eq!(wrong(&[text]), missing);
    assert_eq!(wrong(&[]), missing);
    let order = [(Section::Flags, &b"\0"[..]), text];
    assert_eq!(wrong(&order), "its section is in the wrong place");
    assert_eq!(
        wrong(&[(Section::Flags, b"\0\0")]),
        "it has more bytes than its items"
    );
}
