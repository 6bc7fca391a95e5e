//! What becomes of rows when addresses are used again, classes get names, and objects are moved.

use super::*;
use crate::births::texts::DROPPED_CLASSES;
use crate::memory::bound;
use proptest::prelude::*;

/// When code is born at an address, births there are no longer booked at the line of the code before.
#[test]
fn code_at_a_used_address_is_new() {
    let mut office = Office::new();
    office.born(A, 3, STRING);
    assert!(office.books.knows(A));
    office.books.reborn(&mut office.ledger, A);
    assert!(!office.books.knows(A));
    office.world.code.insert(A, ("/c.rb", "third"));
    office.born(A, 3, STRING);
    assert_eq!(office.row("/a.rb", 3, "String"), 1);
    assert_eq!(office.row("/c.rb", 3, "String"), 1);
}

/// When a class is born at an address, births of the class before keep their name.
#[test]
fn a_class_at_a_used_address_is_new() {
    let mut office = Office::new();
    office.born(A, 3, STRING);
    office.books.reborn(&mut office.ledger, STRING);
    office.world.classes.insert(STRING, "Symbol");
    office.born(A, 3, STRING);
    assert_eq!(office.row("/a.rb", 3, "String"), 1);
    assert_eq!(office.row("/a.rb", 3, "Symbol"), 1);
}

/// A birth at an address on which nothing rests changes nothing.
#[test]
fn a_birth_elsewhere_changes_nothing() {
    let mut office = Office::new();
    office.born(A, 3, STRING);
    let before = office.rows();
    office.books.reborn(&mut office.ledger, 0x7f00_dead_0000);
    assert_eq!(office.rows(), before);
    let key = Key {
        code: A,
        pc: 3,
        class: STRING,
    };
    assert!(office.books.count(key).is_some());
}

/// An entry that rests on several frames goes with any of them, and is counted once.
#[test]
fn a_path_goes_with_any_of_its_frames() {
    let mut office = Office::new();
    let site = office.born_under(&[(A, 3), (B, 4)], STRING);
    office.books.reborn(&mut office.ledger, B);
    office.books.reborn(&mut office.ledger, A);
    assert_eq!(site_at(&office.ledger.sites, site).born, 1);
    let mut entries = 0;
    office.books.each_entry(|_, _| entries += 1);
    assert_eq!(entries, 0);
}

/// Code that is evaluated again and again does not make the books longer.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn evaluated_code_does_not_fill_the_books() {
    let mut office = Office::new();
    let round = |office: &mut Office| {
        for line in 0..20 {
            office.born(A, line, STRING);
        }
        office.books.reborn(&mut office.ledger, A);
    };
    for _ in 0..50 {
        round(&mut office);
    }
    let mapped = office.books.mapped(&office.ledger);
    for _ in 0..500 {
        round(&mut office);
    }
    assert_eq!(office.books.mapped(&office.ledger), mapped);
    assert_eq!(office.row("/a.rb", 7, "String"), 550);
}

/// Entries that come and go under a class that stays do not make the list of that class longer without end.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn stale_links_are_swept() {
    let mut office = Office::new();
    for round in 0..20_000 {
        office.born(A, 3, STRING);
        office.books.reborn(&mut office.ledger, A);
        if round == 1000 {
            assert!(
                office.books.links.len() < 600,
                "{}",
                office.books.links.len()
            );
        }
    }
    assert!(
        office.books.links.len() < 600,
        "{}",
        office.books.links.len()
    );
    assert_eq!(office.row("/a.rb", 3, "String"), 20_000);
}

/// A hidden object that is shown later moves from one row to the other.
#[test]
fn a_birth_is_booked_anew() {
    let mut office = Office::new();
    let old = office.born(A, 3, 0x405).site;
    office.born(A, 3, 0x405);
    let other = office.born(A, 4, STRING).site;
    let string = site_at(&office.ledger.sites, other).kind;
    let new = office
        .books
        .rebook(&mut office.ledger, old, string)
        .expect("memory");
    assert_eq!(office.site(new), ("/a.rb".into(), 3, "String".into()));
    assert_eq!(office.row("/a.rb", 3, "imemo"), 1);
    assert_eq!(office.row("/a.rb", 3, "String"), 1);
}

/// Anonymous classes are rows of their own, named by their address.
#[test]
fn anonymous_classes_are_apart() {
    let mut office = Office::new();
    office.born(A, 3, 0x7f00_0000_a000);
    office.born(A, 3, 0x7f00_0000_b000);
    assert_eq!(office.row("/a.rb", 3, "anonymous 0x7f000000a000"), 1);
    assert_eq!(office.row("/a.rb", 3, "anonymous 0x7f000000b000"), 1);
}

/// A class that is given a name later takes its births along.
#[test]
fn a_class_gets_its_name() {
    let mut office = Office::new();
    let class = 0x7f00_0000_a000;
    office.born(A, 3, class);
    office.world.classes.insert(class, "Late");
    let mut desk = Desk {
        ledger: &mut office.ledger,
        names: &mut office.world,
    };
    office.books.rename(&mut desk, class).expect("memory");
    office.born(A, 3, class);
    assert_eq!(office.row("/a.rb", 3, "Late"), 2);
    assert_eq!(office.rows().len(), 1);
}

/// A class that stays without a name, or that nobody knows, is not renamed.
#[test]
fn a_class_without_a_name_stays() {
    let mut office = Office::new();
    let class = 0x7f00_0000_a000;
    office.born(A, 3, class);
    let before = office.rows();
    let mut desk = Desk {
        ledger: &mut office.ledger,
        names: &mut office.world,
    };
    office.books.rename(&mut desk, class).expect("memory");
    office
        .books
        .rename(&mut desk, 0x7f00_0000_b000)
        .expect("memory");
    assert_eq!(office.rows(), before);
}

/// Rows of anonymous classes that are gone become one row, however many there were.
#[test]
fn gone_classes_are_one_row() {
    let mut office = Office::new();
    for _ in 0..300 {
        let class = 0x7f00_0000_a000;
        office.born(A, 3, class);
        office.books.reborn(&mut office.ledger, class);
        office.books.reuse_freed(&mut office.ledger);
    }
    let gone = String::from_utf8_lossy(DROPPED_CLASSES).into_owned();
    assert_eq!(office.row("/a.rb", 3, &gone), 300);
    assert_eq!(office.rows().len(), 1);
    assert!(
        office.ledger.sites.length < 10,
        "{}",
        office.ledger.sites.length
    );
}

/// All rows of a class that is gone become rows of the gone, at each of its lines.
#[test]
fn every_row_of_a_gone_class_is_joined() {
    let mut office = Office::new();
    let class = 0x7f00_0000_a000;
    for line in [3, 4, 5] {
        office.born(A, line, class);
        office.born(A, line, class);
    }
    office.books.reborn(&mut office.ledger, class);
    let gone = String::from_utf8_lossy(DROPPED_CLASSES).into_owned();
    assert_eq!(office.rows().len(), 3);
    for line in [3, 4, 5] {
        assert_eq!(office.row("/a.rb", line, &gone), 2, "{line}");
    }
}

/// A site that was freed is not used again before the next census, which may still read it.
#[test]
fn a_freed_site_waits_for_a_census() {
    let mut office = Office::new();
    let class = 0x7f00_0000_a000;
    let freed = office.born(A, 3, class).site;
    office.books.reborn(&mut office.ledger, class);
    let next = office.born(A, 9, STRING).site;
    assert_ne!(next, freed);
    office.books.reuse_freed(&mut office.ledger);
    assert_eq!(office.born(A, 10, STRING).site, freed);
}

/// A census finds out anew which kinds are threads: their objects may have ended.
#[test]
fn threads_are_forgotten_at_a_census() {
    let mut office = Office::new();
    let site = office.born(A, 3, STRING).site;
    let kind = site_at(&office.ledger.sites, site).kind;
    let threads = |office: &Office| kind_at(&office.ledger.kinds, kind).threads;
    office.books.note_threads(&mut office.ledger, kind);
    assert_eq!(threads(&office), 1);
    office.books.forget_threads(&mut office.ledger);
    assert_eq!(threads(&office), 0);
}

/// An anonymous class that compaction moves is the same row under its new address.
#[test]
fn a_moved_class_is_followed() {
    let mut office = Office::new();
    let (from, to) = (0x7f00_0000_a000, 0x7f00_0000_c000);
    office.born(A, 3, from);
    office
        .books
        .class_moved(&mut office.ledger, from, to)
        .expect("it is known");
    office.books.flush(&mut office.ledger);
    office.born(A, 3, to);
    assert_eq!(office.row("/a.rb", 3, "anonymous 0x7f000000c000"), 2);
    assert_eq!(
        office
            .books
            .class_moved(&mut office.ledger, 0x1234_0000, to),
        None
    );
}

/// After a flush no address means anything, all counts stay, and births go on in the same rows.
#[test]
fn a_flush_keeps_the_counts() {
    let mut office = Office::new();
    for line in 0..50 {
        office.born(A, line, STRING);
        office.born(B, line, ARRAY);
    }
    let before = office.rows();
    office.books.flush(&mut office.ledger);
    assert_eq!(office.rows(), before);
    assert!(!office.books.knows(A) && !office.books.knows(STRING));
    assert!(
        office
            .books
            .count(Key {
                code: A,
                pc: 1,
                class: STRING
            })
            .is_none()
    );
    office.born(A, 1, STRING);
    assert_eq!(office.row("/a.rb", 1, "String"), 2);
    assert_eq!(office.rows().len(), before.len());
}

/// Freed books map nothing and can be opened again.
#[test]
fn freed_books_map_nothing() {
    let mut office = Office::new();
    office.born(A, 3, STRING);
    assert!(office.books.mapped(&office.ledger) > 0);
    office.books.free(&mut office.ledger);
    assert_eq!(office.books.mapped(&office.ledger), 0);
    assert_eq!((office.ledger.entries, office.ledger.entry_count), (0, 0));
    office.books.open(&mut office.ledger).expect("memory");
    assert_eq!(office.rows(), BTreeMap::new());
}

/// However little memory there is, a birth is counted at its line or not at all, and what was counted under the address of code is dropped
/// with it.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn without_memory_a_birth_is_counted_whole_or_not_at_all() {
    const LINES: u64 = 5000;
    for kib in (0..2000).step_by(40) {
        let mut office = Office::new();
        bound::allow(kib << 10);
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut counted = |office: &mut Office, line: u64| {
            let key = Key {
                code: A,
                pc: line,
                class: STRING,
            };
            let booked = office.books.count(key).or_else(|| {
                let mut desk = Desk {
                    ledger: &mut office.ledger,
                    names: &mut office.world,
                };
                let frames = [(A, line)];
                office.books.count_new(&mut desk, key, &frames, false)
            });
            if booked.is_some() {
                *model.entry(line as u32).or_default() += 1;
            }
        };
        for line in (0..LINES).chain(0..LINES) {
            counted(&mut office, line);
        }
        office.books.reborn(&mut office.ledger, A);
        for pc in 0..LINES {
            let key = Key {
                code: A,
                pc,
                class: STRING,
            };
            assert!(office.books.count(key).is_none(), "{kib} KiB, line {pc}");
        }
        let rows = office.rows().into_iter().filter(|(_, born)| *born != 0);
        let rows: BTreeMap<u32, u64> = rows.map(|((_, line, _), born)| (line, born)).collect();
        assert_eq!(rows, model, "{kib} KiB");
        office.books.free(&mut office.ledger);
        bound::allow(u64::MAX);
    }
}

#[derive(Clone, Debug)]
enum Event {
    Born(u8, u8, u8),
    Code(u8, u8),
    Class(u8, u8),
    Flush,
    Census,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => (0u8..4, 0u8..4, 0u8..4).prop_map(|(code, line, class)| Event::Born(code, line, class)),
        3 => (0u8..4, 0u8..3).prop_map(|(code, text)| Event::Code(code, text)),
        3 => (0u8..4, 0u8..3).prop_map(|(class, name)| Event::Class(class, name)),
        1 => Just(Event::Flush),
        1 => Just(Event::Census),
    ]
}

proptest! {
    /// Whatever code and classes come and go at the same addresses, each birth is counted at what ran and was born at that moment.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn births_are_counted_where_they_were(events in prop::collection::vec(event(), 1..300)) {
        const PATHS: [&str; 3] = ["/x.rb", "/y.rb", "/z.rb"];
        const NAMES: [&str; 3] = ["One", "Two", "Three"];
        let mut office = Office::new();
        let mut model: BTreeMap<(String, u32, String), u64> = BTreeMap::new();
        let code_at = |number: u8| 0x7f00_0010_0000 + u64::from(number) * 0x100;
        let class_at = |number: u8| 0x7f00_0020_0000 + u64::from(number) * 0x100;
        for number in 0..4 {
            office.world.code.insert(code_at(number), (PATHS[0], "m"));
            office.world.classes.insert(class_at(number), NAMES[0]);
        }
        for event in events {
            match event {
                Event::Born(code, line, class) => {
                    let (code, class) = (code_at(code), class_at(class));
                    office.born(code, line.into(), class);
                    let path = office.world.code[&code].0.to_owned();
                    let name = office.world.classes[&class].to_owned();
                    *model.entry((path, line.into(), name)).or_default() += 1;
                }
                Event::Code(code, text) => {
                    let code = code_at(code);
                    office.books.reborn(&mut office.ledger, code);
                    office.world.code.insert(code, (PATHS[usize::from(text)], "m"));
                }
                Event::Class(class, name) => {
                    let class = class_at(class);
                    office.books.reborn(&mut office.ledger, class);
                    office.world.classes.insert(class, NAMES[usize::from(name)]);
                }
                Event::Flush => office.books.flush(&mut office.ledger),
                Event::Census => office.books.reuse_freed(&mut office.ledger),
            }
        }
        prop_assert_eq!(office.rows(), model);
    }
}
