//! What an account says by name: lines, types, and the JSON of both.

use super::*;
use crate::memory::store;
use proptest::prelude::*;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;
use wire::{Frame, Site};

/// A ledger with sites that a test makes, and the summary of them.
struct Office {
    ledger: Box<Ledger>,
    summary: Box<Summary>,
}

impl Office {
    fn new() -> Self {
        let mut ledger = Box::new(crate::shared::EMPTY);
        store::append(&mut ledger.sites, Site::default()).expect("memory");
        store::append(&mut ledger.kinds, Kind::default()).expect("memory");
        store::append(&mut ledger.frames, Frame::default()).expect("memory");
        let mut office = Office {
            ledger,
            summary: Box::new(Summary::new()),
        };
        office.text(b"");
        office
    }

    fn text(&mut self, bytes: &[u8]) -> u32 {
        let segments = &mut self.ledger.text;
        let number = store::reserve::<u8>(segments, bytes.len() as u64 + 4).expect("memory");
        let at = store::record::<u8>(segments, number);
        // SAFETY: `reserve` has mapped room for the length and the text.
        unsafe {
            at.cast::<u32>().write_unaligned(bytes.len() as u32);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(4), bytes.len());
        }
        number as u32
    }

    fn frame(&mut self, path: u32, line: u32) -> u32 {
        let frame = Frame {
            path,
            line,
            ..Frame::default()
        };
        store::append(&mut self.ledger.frames, frame).expect("memory")
    }

    fn kind(&mut self, name: &[u8], flags: u32, address: u64) -> u32 {
        let kind = Kind {
            name: self.text(name),
            flags,
            address,
            ..Kind::default()
        };
        store::append(&mut self.ledger.kinds, kind).expect("memory")
    }

    fn site(&mut self, place: u32, kind: u32) -> u32 {
        let site = Site {
            place,
            kind,
            ..Site::default()
        };
        store::append(&mut self.ledger.sites, site).expect("memory")
    }

    fn gather(&mut self, rows: &[(u32, u32)]) {
        let rows = rows.iter().map(|(site, born)| AccountRow {
            site: *site,
            born: *born,
        });
        self.summary.gather(&self.ledger, rows).expect("memory");
        self.summary.sort();
    }

    fn json(&mut self) -> String {
        let json = self.summary.json(&self.ledger).expect("memory");
        String::from_utf8(json.to_vec()).expect("UTF-8")
    }

    /// One line `/a.rb:7` and a type of this name.
    fn one(&mut self, name: &[u8]) -> u32 {
        let path = self.text(b"/a.rb");
        let (frame, kind) = (self.frame(path, 7), self.kind(name, 0, 0));
        self.site(frame, kind)
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.summary.free();
        store::free::<Site>(&mut self.ledger.sites);
        store::free::<Kind>(&mut self.ledger.kinds);
        store::free::<Frame>(&mut self.ledger.frames);
        store::free::<u8>(&mut self.ledger.text);
    }
}

const NOTHING: &str = r#"{"created":0,"types":{},"lines":[]}"#;

/// An account without rows is an empty object of the same shape.
#[test]
fn nothing_is_an_empty_answer() {
    let mut office = Office::new();
    office.gather(&[]);
    assert_eq!(office.json(), NOTHING);
}

/// One row is one type and one line.
#[test]
fn one_row_is_one_line() {
    let mut office = Office::new();
    let site = office.one(b"String");
    office.gather(&[(site, 3)]);
    assert_eq!(
        office.json(),
        r#"{"created":3,"types":{"String":3},"lines":[{"file":"/a.rb","line":7,"type":"String","count":3}]}"#
    );
}

/// Two methods on one line are two sites and one line.
#[test]
fn sites_of_one_line_are_added_up() {
    let mut office = Office::new();
    let path = office.text(b"/a.rb");
    let kind = office.kind(b"String", 0, 0);
    let frames = [office.frame(path, 7), office.frame(path, 7)];
    let sites = frames.map(|frame| office.site(frame, kind));
    office.gather(&[(sites[0], 3), (sites[1], 4)]);
    assert_eq!(office.summary.lines.len(), 1);
    assert_eq!(office.summary.lines.all()[0].born, 7);
}

/// Another line, another path and another type are lines of their own; a type at two lines is one type.
#[test]
fn lines_and_types_are_told_apart() {
    let mut office = Office::new();
    let (a, b) = (office.text(b"/a.rb"), office.text(b"/b.rb"));
    let (string, array) = (office.kind(b"String", 0, 0), office.kind(b"Array", 0, 0));
    let frames = [office.frame(a, 1), office.frame(a, 2), office.frame(b, 1)];
    let sites = [
        office.site(frames[0], string),
        office.site(frames[1], string),
        office.site(frames[2], string),
        office.site(frames[0], array),
    ];
    office.gather(&sites.map(|site| (site, 1)));
    assert_eq!(office.summary.lines.len(), 4);
    let names: Vec<u64> = office
        .summary
        .names
        .all()
        .iter()
        .map(|name| name.born)
        .collect();
    assert_eq!(names, [3, 1]);
}

/// The line with the most births stands first; of equal ones that of the earlier site.
#[test]
fn lines_are_sorted() {
    let mut office = Office::new();
    let path = office.text(b"/a.rb");
    let kind = office.kind(b"String", 0, 0);
    let sites: Vec<u32> = (1..=4)
        .map(|line| {
            let frame = office.frame(path, line);
            office.site(frame, kind)
        })
        .collect();
    office.gather(&[(sites[0], 5), (sites[1], 9), (sites[3], 5), (sites[2], 5)]);
    let lines: Vec<u32> = office
        .summary
        .lines
        .all()
        .iter()
        .map(|line| line.line)
        .collect();
    assert_eq!(lines, [2, 1, 3, 4]);
}

/// Types of the VM's own are not shown and not counted.
#[test]
fn internal_types_are_left_out() {
    let mut office = Office::new();
    let path = office.text(b"/a.rb");
    let (frame, kind) = (office.frame(path, 1), office.kind(b"imemo", INTERNAL, 0));
    let site = office.site(frame, kind);
    office.gather(&[(site, 3)]);
    assert_eq!(office.json(), NOTHING);
}

/// The library's own folder is left out by its prefix, and only that.
#[test]
fn the_librarys_own_lines_are_left_out() {
    let mut office = Office::new();
    let kind = office.kind(b"String", 0, 0);
    let sites = [&b"/gem/lancet.rb"[..], b"/gemstone.rb", b"/app.rb"].map(|path| {
        let path = office.text(path);
        let frame = office.frame(path, 1);
        office.site(frame, kind)
    });
    office.summary.leave_out(b"/gem/").expect("memory");
    office.gather(&sites.map(|site| (site, 1)));
    assert_eq!(office.summary.created, 2);
    office.summary.leave_out(b"").expect("memory");
    office.gather(&sites.map(|site| (site, 1)));
    assert_eq!(office.summary.created, 3);
}

/// Rows that name no site, a freed site, or no birth are passed over; numbers come from memory that a guest could have spoiled.
#[test]
fn rows_without_meaning_are_passed_over() {
    let mut office = Office::new();
    let site = office.one(b"String");
    let freed = office.site(0, 0);
    office.gather(&[
        (0, 9),
        (site, 0),
        (freed, 9),
        (site + 100, 9),
        (u32::MAX, 9),
        (site, 1),
    ]);
    assert_eq!(office.summary.created, 1);
    assert_eq!(office.summary.lines.len(), 1);
}

/// Births while no code ran have no file.
#[test]
fn births_without_code_have_no_file() {
    let mut office = Office::new();
    let kind = office.kind(b"String", 0, 0);
    let site = office.site(0, kind);
    office.gather(&[(site, 2)]);
    assert!(
        office
            .json()
            .contains(r#"{"file":null,"line":0,"type":"String","count":2}"#)
    );
}

/// A class without a name is shown as `inspect` shows it, and two of them are two types.
#[test]
fn a_class_without_a_name_is_its_address() {
    let mut office = Office::new();
    let path = office.text(b"/a.rb");
    let frame = office.frame(path, 1);
    let sites = [0x7f00_0000_1234, 0xdead_beef].map(|address| {
        let kind = office.kind(b"", ANONYMOUS, address);
        office.site(frame, kind)
    });
    office.gather(&sites.map(|site| (site, 1)));
    let json = office.json();
    assert!(json.contains("\"#<Class:0x00007f0000001234>\":1"), "{json}");
    assert!(json.contains("#<Class:0x00000000deadbeef>"));
    let name = office.summary.name_of(&office.ledger, 1).expect("a type");
    assert_eq!(name, b"#<Class:0x00000000deadbeef>");
}

/// A type that does not exist has no name.
#[test]
fn a_type_that_is_not_there_has_no_name() {
    let mut office = Office::new();
    let site = office.one(b"String");
    office.gather(&[(site, 1)]);
    assert_eq!(
        office.summary.name_of(&office.ledger, 0),
        Some(&b"String"[..])
    );
    assert_eq!(office.summary.name_of(&office.ledger, 1), None);
}

/// What JSON must not hold as it is comes as an escape.
#[test]
fn names_are_escaped() {
    let mut office = Office::new();
    let site = office.one(b"a\"b\\c\nd\x1f\x7f");
    office.gather(&[(site, 1)]);
    assert!(
        office
            .json()
            .contains("\"a\\\"b\\\\c\\u000ad\\u001f\u{7f}\""),
        "{}",
        office.json()
    );
}

/// Bytes that are no UTF-8 are replaced, and those that are stay.
#[test]
fn what_is_no_utf8_is_replaced() {
    let mut office = Office::new();
    let site = office.one(b"\xc3\xa4\xff\xe2\x82x");
    office.gather(&[(site, 1)]);
    assert!(
        office.json().contains("\"ä\u{fffd}\u{fffd}x\""),
        "{}",
        office.json()
    );
}

/// Numbers are written whole, the greatest too.
#[test]
fn numbers_are_written_whole() {
    let mut office = Office::new();
    let mut text = |number| {
        office.summary.created = number;
        office.json()
    };
    for number in [0, 9, 10, 1_000_000, u64::MAX] {
        let head = std::format!("{{\"created\":{number},");
        assert!(text(number).starts_with(&head));
    }
}

/// A second account does not see rows of the first.
#[test]
fn each_account_begins_anew() {
    let mut office = Office::new();
    let (one, two) = (office.one(b"String"), office.one(b"Array"));
    office.gather(&[(one, 5)]);
    office.gather(&[(two, 1)]);
    assert!(!office.json().contains("String"));
    assert_eq!(office.summary.created, 1);
}

/// The stamps by which an account knows its own places may run over; the next account is right all the same.
#[test]
fn stamps_may_run_over() {
    let mut office = Office::new();
    let site = office.one(b"String");
    office.gather(&[(site, 1)]);
    office.summary.by_place.stamp = u32::MAX;
    office.summary.by_name.stamp = u32::MAX;
    for _ in 0..3 {
        office.gather(&[(site, 2), (site, 3)]);
        assert_eq!(office.summary.lines.len(), 1);
        assert_eq!(office.summary.created, 5);
    }
}

/// Head and rows are copied as they are, each word the lowest byte first.
#[test]
fn rows_are_copied_as_they_are() {
    let mut office = Office::new();
    let rows = [
        AccountRow { site: 1, born: 2 },
        AccountRow { site: 3, born: 4 },
    ];
    office.summary.copy([7, 9], &rows).expect("memory");
    let mut expected = Vec::new();
    expected.extend(7u64.to_le_bytes());
    expected.extend(9u64.to_le_bytes());
    expected.extend([1u32, 2, 3, 4].into_iter().flat_map(u32::to_le_bytes));
    assert_eq!(office.summary.copied(), expected);
}

/// Sites and births are given to the VM as its small Integers.
#[test]
fn numbers_are_small_integers() {
    let mut office = Office::new();
    let site = office.one(b"String");
    office.gather(&[(site, 21)]);
    assert_eq!(
        office.summary.numbers(),
        Some(&[u64::from(site) * 2 + 1, 43][..])
    );
}

/// The library is told a line once; a class without a name is told each time, because it may get one.
#[test]
fn a_line_is_unknown_once() {
    let mut office = Office::new();
    let named = office.one(b"String");
    let path = office.text(b"/b.rb");
    let (frame, kind) = (office.frame(path, 1), office.kind(b"", ANONYMOUS, 0x1000));
    let anonymous = office.site(frame, kind);
    office.gather(&[(named, 5), (anonymous, 4)]);
    let told =
        |office: &mut Office| [0, 1, 2].map(|at| office.summary.unknown(at).map(|line| line.site));
    assert_eq!(told(&mut office), [Some(named), Some(anonymous), None]);
    assert_eq!(told(&mut office), [None, Some(anonymous), None]);
}

proptest! {
    /// Lines, types and the sum are those of a map, however the births are divided among sites.
    #[test]
    fn a_summary_is_a_map(rows in prop::collection::vec((0u32..4, 0u32..4, 0u32..3, 1u32..100), 0..200)) {
        let mut office = Office::new();
        let paths: Vec<u32> = (0..4).map(|number| office.text(std::format!("/{number}.rb").as_bytes())).collect();
        let kinds: Vec<u32> = (0..3).map(|number| office.kind(std::format!("T{number}").as_bytes(), 0, 0)).collect();
        let mut model: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
        let mut given = Vec::new();
        for (path, line, kind, born) in rows {
            let frame = office.frame(paths[path as usize], line);
            given.push((office.site(frame, kinds[kind as usize]), born));
            *model.entry((path, line, kind)).or_default() += u64::from(born);
        }
        office.gather(&given);
        prop_assert_eq!(office.summary.created, model.values().sum::<u64>());
        prop_assert_eq!(office.summary.lines.len() as usize, model.len());
        let mut last = u64::MAX;
        for line in office.summary.lines.all() {
            let path = paths.iter().position(|path| *path == line.path).expect("a path") as u32;
            let name = office.summary.names.all()[line.name as usize].kind.name;
            let kind = kinds.iter().position(|kind| kind_at(&office.ledger.kinds, *kind).name == name);
            let key = (path, line.line, kind.expect("a kind") as u32);
            prop_assert_eq!(model.get(&key), Some(&line.born));
            prop_assert!(line.born <= last);
            last = line.born;
        }
    }
}
