//! The books, against a map from place and type to births. What addresses mean is made up by a `World`.

use super::*;
use crate::births::texts::Class;
use std::borrow::ToOwned;
use std::boxed::Box;
use std::collections::{BTreeMap, HashMap};
use std::string::String;
use std::vec::Vec;
use wire::ledger::{ANONYMOUS, INTERNAL};

mod changes;

/// What stands at addresses: paths and methods of code, and names of classes. A class without a name is anonymous.
#[derive(Default)]
struct World {
    code: HashMap<u64, (&'static str, &'static str)>,
    classes: HashMap<u64, &'static str>,
}

impl Texts for World {
    fn line(&self, _code: u64, pc: u64) -> u32 {
        pc as u32
    }

    fn path(&mut self, code: u64) -> &[u8] {
        self.code
            .get(&code)
            .map_or(b"", |(path, _)| path.as_bytes())
    }

    fn method(&mut self, code: u64) -> &[u8] {
        self.code
            .get(&code)
            .map_or(b"", |(_, name)| name.as_bytes())
    }

    fn class(&mut self, class: u64) -> Class<'_> {
        match self.classes.get(&class) {
            Some(name) => Class::Named {
                name: name.as_bytes(),
                internal: class < 0x1000,
            },
            None => Class::Anonymous { address: class },
        }
    }

    fn is_own(&mut self, code: u64) -> bool {
        self.path(code).starts_with(b"<internal:")
    }
}

const A: u64 = 0x7f00_0000_1000;
const B: u64 = 0x7f00_0000_2000;
const STRING: u64 = 0x7f00_0000_8000;
const ARRAY: u64 = 0x7f00_0000_9000;

/// Open books with their ledger and their world.
struct Office {
    books: Box<Books>,
    ledger: Box<Ledger>,
    world: World,
}

impl Office {
    fn new() -> Self {
        let mut office = Office {
            books: Box::new(Books::new()),
            ledger: Box::new(crate::shared::EMPTY),
            world: World::default(),
        };
        office.world.code.insert(A, ("/a.rb", "first"));
        office.world.code.insert(B, ("/b.rb", "second"));
        office.world.classes.insert(STRING, "String");
        office.world.classes.insert(ARRAY, "Array");
        office.world.classes.insert(0x405, "imemo");
        office.books.open(&mut office.ledger).expect("memory");
        office
    }

    /// A birth at a line of code, as the hook books it.
    fn born(&mut self, code: u64, line: u64, class: u64) -> Booked {
        let key = Key {
            code,
            pc: line,
            class,
        };
        self.books.count(key).unwrap_or_else(|| {
            let mut desk = Desk {
                ledger: &mut self.ledger,
                names: &mut self.world,
            };
            let booked = self.books.count_new(&mut desk, key, &[(code, line)], false);
            booked.expect("memory")
        })
    }

    /// A birth under a call path.
    fn born_under(&mut self, frames: &[(u64, u64)], class: u64) -> u32 {
        let hash = frames
            .iter()
            .fold(7, |hash, (code, pc)| mix(hash, code ^ pc));
        let key = Key {
            code: hash,
            pc: 1,
            class,
        };
        if let Some(booked) = self.books.count(key) {
            return booked.site;
        }
        let mut desk = Desk {
            ledger: &mut self.ledger,
            names: &mut self.world,
        };
        let booked = self.books.count_new(&mut desk, key, frames, true);
        booked.expect("memory").site
    }

    fn site(&self, number: u32) -> (String, u32, String) {
        let site = site_at(&self.ledger.sites, number);
        let frame = frame_at(&self.ledger.frames, site.place);
        let text = |at| String::from_utf8_lossy(text_at(&self.ledger.text, at)).into_owned();
        let kind = kind_at(&self.ledger.kinds, site.kind);
        let name = if kind.flags & ANONYMOUS != 0 {
            std::format!("anonymous {:#x}", kind.address)
        } else {
            text(kind.name)
        };
        (text(frame.path), frame.line, name)
    }

    /// Births of all rows as the command adds them up: what sites have and what entries have.
    fn rows(&self) -> BTreeMap<(String, u32, String), u64> {
        let mut rows = BTreeMap::new();
        for number in 1..self.ledger.sites.length as u32 {
            let site = site_at(&self.ledger.sites, number);
            if site.kind != 0 {
                let row: &mut u64 = rows.entry(self.site(number)).or_default();
                *row = row.wrapping_add(site.born);
            }
        }
        self.books.each_entry(|site, born| {
            if site != OUTWARD {
                let row = rows.entry(self.site(site)).or_default();
                *row = row.wrapping_add(born);
            }
        });
        rows.retain(|_, born| *born != 0);
        rows
    }

    fn row(&self, path: &str, line: u32, name: &str) -> u64 {
        let rows = self.rows();
        rows.get(&(path.into(), line, name.into()))
            .copied()
            .unwrap_or(0)
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.books.free(&mut self.ledger);
    }
}

/// Books that were just opened have no row.
#[test]
fn open_books_are_empty() {
    let office = Office::new();
    assert_eq!(office.rows(), BTreeMap::new());
    assert_eq!(office.ledger.entry_count, 1);
}

/// Births at one line of one type are one row.
#[test]
fn births_at_a_line_are_one_row() {
    let mut office = Office::new();
    for _ in 0..10 {
        office.born(A, 3, STRING);
    }
    assert_eq!(office.row("/a.rb", 3, "String"), 10);
    assert_eq!(office.rows().len(), 1);
}

/// Line, code and type each make another row.
#[test]
fn each_part_of_a_key_makes_a_row() {
    let mut office = Office::new();
    for (code, line, class) in [
        (A, 3, STRING),
        (A, 4, STRING),
        (B, 3, STRING),
        (A, 3, ARRAY),
    ] {
        office.born(code, line, class);
    }
    assert_eq!(office.rows().len(), 4);
    assert!(office.rows().values().all(|born| *born == 1));
}

/// Code that is compiled again at another address books into the same row, because its text is the same.
#[test]
fn the_same_text_is_the_same_site() {
    let mut office = Office::new();
    office
        .world
        .code
        .insert(0x7f00_0000_3000, ("/a.rb", "first"));
    let one = office.born(A, 3, STRING).site;
    let two = office.born(0x7f00_0000_3000, 3, STRING).site;
    assert_eq!(one, two);
    assert_eq!(office.row("/a.rb", 3, "String"), 2);
}

/// Births in the VM's own code are booked at no site.
#[test]
fn internal_code_is_booked_outward() {
    let mut office = Office::new();
    office.world.code.insert(B, ("<internal:kernel>", "loop"));
    let booked = office.born(B, 3, STRING);
    assert_eq!(booked.site, OUTWARD);
    assert_eq!(office.born(B, 3, STRING).site, OUTWARD);
    assert_eq!(office.rows(), BTreeMap::new());
}

/// A birth while no code runs has a row without a path.
#[test]
fn births_without_code_have_a_row() {
    let mut office = Office::new();
    let key = Key {
        code: 0,
        pc: 0,
        class: STRING,
    };
    let mut desk = Desk {
        ledger: &mut office.ledger,
        names: &mut office.world,
    };
    office
        .books
        .count_new(&mut desk, key, &[], false)
        .expect("memory");
    assert_eq!(office.row("", 0, "String"), 1);
}

/// A type of the VM's own is marked as internal, one of the program is not.
#[test]
fn types_of_the_vm_are_internal() {
    let mut office = Office::new();
    let own = office.born(A, 1, 0x405).site;
    let other = office.born(A, 1, STRING).site;
    let flags = |site| {
        let kind = site_at(&office.ledger.sites, site).kind;
        kind_at(&office.ledger.kinds, kind).flags
    };
    assert_eq!((flags(own), flags(other)), (INTERNAL, 0));
}

/// The first births of an entry are measured, and then one of so many.
#[test]
fn births_are_measured_at_first_and_then_rarely() {
    let mut office = Office::new();
    let measured: Vec<u64> = (1..=200)
        .filter(|_| office.born(A, 3, STRING).measure)
        .collect();
    let (first, rest) = measured.split_at(MEASURE_FIRST as usize);
    assert!(first.iter().copied().eq(1..=MEASURE_FIRST), "{measured:?}");
    let groups = rest.iter().map(|number| number / MEASURE_EVERY);
    assert!(groups.eq(1..200 / MEASURE_EVERY), "{measured:?}");
}

/// Sizes add up at the site, and their number does not run over.
#[test]
fn sizes_add_up() {
    let mut office = Office::new();
    let site = office.born(A, 3, STRING).site;
    office.books.measured(&mut office.ledger, site, 40);
    office.books.measured(&mut office.ledger, site, u64::MAX);
    let of = site_at(&office.ledger.sites, site);
    assert_eq!((of.measured, of.measured_bytes), (2, u64::MAX));
}

/// An entry that was dropped and made anew does not measure its first births again, and its count goes on.
#[test]
fn a_new_entry_of_an_old_site_goes_on() {
    let mut office = Office::new();
    for _ in 0..MEASURE_FIRST {
        let booked = office.born(A, 3, STRING);
        assert!(booked.measure);
        office.books.measured(&mut office.ledger, booked.site, 40);
    }
    office.books.flush(&mut office.ledger);
    assert!(!office.born(A, 3, STRING).measure);
    assert_eq!(office.row("/a.rb", 3, "String"), MEASURE_FIRST + 1);
}

/// Call paths are told apart by every frame and its order.
#[test]
fn paths_are_told_apart() {
    let mut office = Office::new();
    let paths: [&[(u64, u64)]; 5] = [
        &[(A, 1)],
        &[(A, 1), (B, 2)],
        &[(B, 2), (A, 1)],
        &[(A, 1), (B, 3)],
        &[(A, 1), (B, 2), CUT_HERE],
    ];
    let sites: Vec<u32> = paths.map(|path| office.born_under(path, STRING)).into();
    let apart: std::collections::HashSet<_> = sites.iter().collect();
    assert_eq!(apart.len(), paths.len());
    assert_eq!(office.born_under(paths[1], STRING), sites[1]);
}

/// The frames of a path are found again in their order, the innermost first, and a cut one says so.
#[test]
fn a_path_is_read_back() {
    let mut office = Office::new();
    let site = office.born_under(&[(B, 9), (A, 1), CUT_HERE], STRING);
    let place = site_at(&office.ledger.sites, site).place;
    let words = records::stack_words(&office.ledger.stacks, place);
    let frames: Vec<(String, u32)> = words
        .iter()
        .map(|number| {
            let frame = frame_at(&office.ledger.frames, *number);
            let method = text_at(&office.ledger.text, frame.method);
            (String::from_utf8_lossy(method).into_owned(), frame.line)
        })
        .collect();
    let cut = (wire::ledger::CUT.to_owned(), 0);
    assert_eq!(frames, [("second".into(), 9), ("first".into(), 1), cut]);
}

/// A path longer than the books can hold is kept up to the limit.
#[test]
fn a_long_path_is_bounded() {
    let mut office = Office::new();
    let frames: Vec<(u64, u64)> = (0..DEEPEST as u64 + 50).map(|line| (A, line)).collect();
    let site = office.born_under(&frames, STRING);
    let place = site_at(&office.ledger.sites, site).place;
    let words = records::stack_words(&office.ledger.stacks, place);
    assert_eq!(words.len(), DEEPEST);
}

/// Equal texts are kept once, and texts that begin alike are apart.
#[test]
fn texts_are_kept_once() {
    let mut office = Office::new();
    let mut text = |bytes: &[u8]| {
        office
            .books
            .text(&mut office.ledger, bytes)
            .expect("memory")
    };
    let (one, two, three) = (text(b"abc"), text(b"abcd"), text(b""));
    assert_eq!((text(b"abc"), text(b"abcd"), text(b"")), (one, two, three));
    assert_eq!(text_at(&office.ledger.text, one), b"abc");
    assert_eq!(text_at(&office.ledger.text, two), b"abcd");
    assert_eq!(text_at(&office.ledger.text, three), b"");
}

/// The command finds the entries where the ledger says.
#[test]
fn entries_are_published() {
    let mut office = Office::new();
    for line in 0..2000 {
        office.born(A, line, STRING);
        assert_eq!(office.ledger.entries, office.books.entries.address());
        assert_eq!(office.ledger.entry_count, line + 2);
    }
}

/// One of each 32 births is measured, and of objects that are large and small in turn, or large once in four, about as many of each as
/// there are: `body[-60..]` makes a String for the whole text and one for its end.
#[test]
fn what_is_measured_keeps_no_step_with_the_program() {
    let last = 32_000;
    let measured: Vec<u64> = (33..=last).filter(|number| is_measured(*number)).collect();
    let groups = measured.iter().map(|number| number / MEASURE_EVERY);
    assert!(groups.eq(1..last / MEASURE_EVERY), "one of each group");
    for period in [2, 3, 4, 8, 16] {
        let large = measured.iter().filter(|number| **number % period == 0);
        let share = large.count() as f64 / measured.len() as f64;
        let wanted = 1.0 / period as f64;
        assert!((share / wanted - 1.0).abs() < 0.1, "{period}: {share}");
    }
}
