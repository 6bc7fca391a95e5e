//! Snapshots as files: what was written is read, and nothing else is.

use crate::large::made::generate::{Heap, heap};
use heap::{About, Builder, EdgeName, Error, OLDEST, Object, Role, Snapshot, VERSION};
use proptest::prelude::*;

const ENOUGH: u64 = 1 << 30;

fn written(snapshot: &Snapshot) -> Vec<u8> {
    let mut file = Vec::new();
    snapshot.write(&mut file).expect("memory");
    file
}

fn read(file: &[u8]) -> Result<Snapshot, Error> {
    Snapshot::read(&mut &*file, ENOUGH)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read(given in heap(200)) {
        let snapshot = given.build();
        let file = written(&snapshot);
        prop_assert_eq!(read(&file).expect("our own file"), snapshot);
    }
}

#[test]
fn a_file_of_several_blocks_a_section_is_read() {
    let snapshot = Heap::large(300_000, 7).build();
    let file = written(&snapshot);
    let again = read(&file).expect("our own file");
    assert!(again == snapshot);
    let (objects, bytes) = (snapshot.len() as f64, file.len() as f64);
    assert!(snapshot.edge_count() as f64 > 1.9 * objects);
    let (packed, raw) = (bytes / objects, raw_length(&file) as f64 / objects);
    println!("{packed:.1} bytes an object, {raw:.1} unpacked");
    assert!(raw <= 30.0, "{raw} bytes an object");
}

/// The unpacked lengths of all blocks: 12 bytes behind the beginning of each head of 24.
fn raw_length(file: &[u8]) -> u64 {
    let half = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes"));
    let (mut at, mut sum) = (12, 0);
    while at < file.len() {
        sum += 24 + u64::from(half(at + 12));
        at += 24 + half(at + 8) as usize;
    }
    assert_eq!(at, file.len());
    sum
}

#[test]
fn a_file_that_is_cut_anywhere_or_changed_anywhere_is_refused() {
    let file = written(&Heap::large(40, 3).build());
    for length in 0..file.len() {
        match read(&file[..length]) {
            Err(Error::Foreign) if length < 8 => {}
            Err(Error::Cut(at)) if length >= 8 => assert_eq!(at, length as u64),
            other => panic!("{length} bytes: {other:?}"),
        }
    }
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x10;
        let error = read(&changed).expect_err("a changed byte");
        let said = error.to_string();
        match at {
            0..8 => assert!(matches!(error, Error::Foreign), "{said}"),
            8..12 => assert!(matches!(error, Error::Version(_)), "{said}"),
            _ => assert!(matches!(error, Error::Damaged { .. }), "{at}: {said}"),
        }
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
fn each_error_says_what_it_is() {
    let file = written(&Heap::large(1000, 3).build());
    let said = |file: &[u8]| read(file).expect_err("no snapshot").to_string();
    assert_eq!(
        said(b"\x89PNG\r\n\x1a\nand more"),
        "it is no heap snapshot of lancet's"
    );
    let mut other = file.clone();
    for version in [OLDEST - 1, VERSION + 1] {
        other[8] = version as u8;
        assert_eq!(
            said(&other),
            format!(
                "it is a heap snapshot of version {version}, and this lancet reads versions {OLDEST} to {VERSION}: read it with the \
                 lancet that has written it"
            )
        );
    }
    let error = Snapshot::read(&mut &*file, 10_000).expect_err("too little memory");
    assert!(matches!(error, Error::TooLarge { may: 10_000, needs } if needs > 15_000));
    let folder = Snapshot::open(std::path::Path::new("/"), ENOUGH).expect_err("a folder");
    assert_eq!(folder.to_string(), "it is no regular file");
}

/// Version 8 has one more flag of objects, and is otherwise version 7.
#[test]
fn a_snapshot_of_version_7_is_read() {
    let mut file = written(&Heap::large(1000, 3).build());
    assert_eq!(file[8], 8);
    file[8] = 7;
    assert_eq!(read(&file).expect("a snapshot").len(), 1000);
}

#[test]
fn what_no_object_has_needs_no_memory() {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"OBJECT", Role::Instance);
    for number in 0..1000 {
        builder.object(Object {
            bytes: 40,
            ..Object::new(0x1000 + number * 40, kind)
        });
        builder.edge(0x1000, EdgeName::Index(number as u32));
    }
    let snapshot = builder.finish();
    let file = written(&snapshot);
    // Address, kind, flags, end of its references, bytes; a reference with its name, as it is read and as it stays, and its part of the
    // rare ones; of addresses and ends the upper bits; the name of the kind.
    let needs = 1000 * (2 + 2 + 1 + 2 + 4 + 12) + 2 * 4 * 16 + 32;
    assert_eq!(
        Snapshot::read(&mut &*file, needs).expect("enough"),
        snapshot
    );
    let error = Snapshot::read(&mut &*file, needs - 100).expect_err("too little");
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn an_empty_snapshot_is_one() {
    let snapshot = Builder::new(About::default()).finish();
    assert_eq!(read(&written(&snapshot)).expect("our own file"), snapshot);
}
