//! The index: what is read of a file for what is asked, and what is lost where it is damaged, which is nothing.

use crate::made::{APART, BEGAN, How};
use recording::{Error, EventKind, Merge, Recording, Scan, Source, Wanted};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of a file with some blocks of its index.
const CALLS: u64 = 300_000;
const HOW: How = How {
    text: false,
    flush: 1000,
};
/// The numbers of the lines, and 1.
const LINES: usize = 12;

/// A file of which every byte is counted that is read.
struct Counted<'a> {
    bytes: &'a [u8],
    read: AtomicU64,
}

impl Source for &Counted<'_> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let from = self.bytes.get(at as usize..).unwrap_or_default();
        let length = into.len().min(from.len());
        into[..length].copy_from_slice(&from[..length]);
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

fn file() -> Vec<u8> {
    let name = format!(
        "lancet-index-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let path = std::env::temp_dir().join(name);
    crate::made::write(&path, CALLS, HOW).expect("a file");
    let bytes = std::fs::read(&path).expect("the file");
    std::fs::remove_file(&path).expect("it was there");
    bytes
}

/// The numbers of the calls that are wanted, how many bytes were read for them, and why there are no more.
fn calls(bytes: &[u8], wanted: Wanted) -> (Vec<u64>, u64, Option<Error>) {
    let counted = Counted {
        bytes,
        read: AtomicU64::new(0),
    };
    let mut recording = Recording::open(&counted).expect("a recording");
    let (mut merge, mut calls) = (Merge::new(wanted), Vec::new());
    let flaw = loop {
        match merge.next(&recording) {
            Ok(Some(event)) => {
                if let EventKind::Call(call) = event.kind {
                    calls.push(call.registers.gp[0]);
                }
            }
            Ok(None) => break recording.flaw(),
            Err(error) => break Some(error),
        }
    };
    (calls, counted.read.into_inner(), flaw)
}

fn only(count: usize, which: usize) -> Vec<bool> {
    (0..count).map(|number| number == which).collect()
}

#[test]
fn only_what_may_hold_what_is_asked_is_read() {
    let bytes = file();
    let most = bytes.len() as u64 / 6;
    let rare = crate::made::rare(CALLS);
    let of_edge = Wanted {
        edges: only(2, 1),
        ..Wanted::ALL
    };
    let of_line = Wanted {
        lines: Some(only(LINES, LINES - 1)),
        ..Wanted::ALL
    };
    for (what, wanted) in [("function", of_edge), ("line", of_line)] {
        let (calls, read, flaw) = calls(&bytes, wanted);
        assert_eq!((calls, flaw.is_none()), (vec![rare], true), "{what}");
        assert!(read < most, "{what}: {read} of {} bytes", bytes.len());
    }
    let of_time = Wanted {
        since: BEGAN + 200_000 * APART,
        until: BEGAN + 200_100 * APART,
        ..Wanted::ALL
    };
    let (calls, read, _) = calls(&bytes, of_time);
    assert_eq!(calls, (200_000..200_100).collect::<Vec<u64>>());
    assert!(read < most, "time: {read} of {} bytes", bytes.len());
}

/// Where the segments of the index begin in a file, by the heads of all segments.
fn indexes(bytes: &[u8]) -> Vec<usize> {
    let mut at = 12;
    let mut found = Vec::new();
    while at + 64 <= bytes.len() {
        let head = bytes[at..at + 64].try_into().expect("64 bytes");
        let segment = recording::Segment::decode(&head, at as u64).expect("a head");
        if segment.kind == recording::Kind::Index {
            found.push(at);
        }
        at = segment.end() as usize;
    }
    found
}

#[test]
fn a_damaged_index_loses_nothing() {
    let whole = file();
    let indexes = indexes(&whole);
    assert!(indexes.len() >= 2, "{indexes:?}");
    let all = |bytes: &[u8]| {
        let (calls, _, flaw) = calls(bytes, Wanted::ALL);
        assert!(calls.iter().copied().eq(0..CALLS), "{} calls", calls.len());
        flaw
    };
    assert!(all(&whole).is_none());
    // What it lists: the heads of the segments tell instead.
    let mut listed = whole.clone();
    listed[indexes[0] + 64 + 5000] ^= 1;
    assert!(all(&listed).is_none());
    // Where it is: the whole file is gone through.
    let mut trailer = whole.clone();
    let end = trailer.len();
    trailer[end - 24] ^= 1;
    assert!(matches!(all(&trailer), Some(Error::Cut(_))));
    // Without its end, as a killed recorder leaves it.
    assert!(matches!(all(&whole[..end - 24]), Some(Error::Cut(_))));
    assert!(matches!(
        all(&whole[..*indexes.last().unwrap()]),
        Some(Error::Cut(_))
    ));
    // Of the head of an index nothing can be told, and what stands behind it is not found.
    let mut head = whole;
    head[indexes[0] + 30] ^= 1;
    let (some, _, flaw) = calls(&head, Wanted::ALL);
    assert!(
        !some.is_empty() && matches!(flaw, Some(Error::Damaged(at)) if at == indexes[0] as u64)
    );
}

/// Segments come in the order of the file, each once, whatever the index says of their number.
#[test]
fn segments_are_gone_through_in_the_order_of_the_file() {
    let bytes = file();
    let recording = Recording::open(bytes).expect("a recording");
    let (mut scan, mut behind, mut events) = (Scan::new(Wanted::ALL), 0, 0);
    while let Some(segment) = scan.next(&recording).expect("no damage") {
        assert!(segment.offset >= behind);
        behind = segment.end();
        events += u64::from(segment.events);
    }
    assert_eq!(events, 2 * CALLS);
}
