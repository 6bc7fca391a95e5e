//! Damaged and hostile ELF objects: nothing may panic, run on or take memory without bound.
//!
//! A small real library is built once, then bytes of it are changed: in the file, in the image a
//! loader would make of it, and in a loader's list. `PROPTEST_CASES=100000` looks harder.

use std::ops::Range;
use std::sync::LazyLock;

use crate::guests::{TempDir, compile};
use object::elf::{SHT_DYNSYM, SHT_SYMTAB};
use process::elf::dynamic::{Dynamic, FileImage, Image, MemoryImage};
use process::elf::table::Table;
use process::elf::{Bytes, Headers, build_id_in};
use process::linkmap;
use process::maps::Maps;
use proptest::prelude::*;
use proptest::sample::Index;

const BIAS: u64 = 0x7f12_3456_7000;
const NAMES: [&str; 4] = ["first", "second", "third", "absent"];

static LIBRARIES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = TempDir::new();
    let source = "int first(void) { return 1; } int second(void) { return 2; } int third = 3;
        static int hidden(void) { return 4; } int (*pointer)(void) = hidden; __thread int local;";
    let build = |style: &str| {
        let file = folder.path().join("library.so");
        compile(
            source,
            &["-shared", "-fPIC", "-nostdlib", "-Wl,--build-id", style],
            &file,
        );
        std::fs::read(file).unwrap()
    };
    vec![
        build("-Wl,--hash-style=gnu"),
        build("-Wl,--hash-style=sysv"),
    ]
});

/// A library laid out as the loader would, at `BIAS`.
struct Loaded(Vec<u8>);

impl Loaded {
    fn new(file: &[u8], headers: &Headers) -> Loaded {
        let mut image = vec![0; headers.extent().end.next_multiple_of(4096) as usize];
        for load in headers.loads() {
            let (from, to, size) = (
                load.offset as usize,
                load.address as usize,
                load.file_size as usize,
            );
            image[to..to + size].copy_from_slice(&file[from..from + size]);
        }
        Loaded(image)
    }
}

impl vm::Memory for Loaded {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), vm::Fault> {
        let there = self.0.as_slice().read_at(at.wrapping_sub(BIAS), into);
        there.then_some(()).ok_or(vm::Fault { at })
    }
}

/// Asks everything that can be asked, and returns how many of the names were found.
fn ask(dynamic: &Dynamic) -> usize {
    for (index, entry) in dynamic.table().entries() {
        let _ = (dynamic.is_default(index), dynamic.table().name(entry.name));
    }
    ask_table(dynamic.table());
    NAMES
        .iter()
        .filter(|name| dynamic.find(name.as_bytes()).is_some())
        .count()
}

fn ask_table(table: &Table) -> usize {
    NAMES
        .iter()
        .filter(|name| table.find(name.as_bytes()).is_some())
        .count()
}

fn ask_file(file: &[u8]) -> Option<usize> {
    let headers = Headers::read(file).ok()?;
    let sections = headers.sections(file);
    for name in [".gnu_debuglink", ".symtab", ".shstrtab", ""] {
        let _ = headers.section_named(file, &sections, name);
    }
    let _ = headers.build_id(file);
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        Table::of_section(file, &sections, kind).map(|table| ask_table(&table));
    }
    let image = FileImage {
        bytes: file,
        headers: &headers,
    };
    Dynamic::read(&image, &headers)
        .ok()?
        .map(|dynamic| ask(&dynamic))
}

fn ask_memory(loaded: &Loaded, headers: &Headers, extent: Range<u64>) -> Option<usize> {
    let image = MemoryImage {
        memory: loaded,
        bias: BIAS,
        extent,
    };
    Dynamic::read(&image, headers)
        .ok()?
        .map(|dynamic| ask(&dynamic))
}

#[test]
fn the_sound_library_answers() {
    for file in LIBRARIES.iter() {
        let headers = Headers::read(file.as_slice()).unwrap();
        assert_eq!(ask_file(file), Some(3));
        assert_eq!(
            ask_memory(&Loaded::new(file, &headers), &headers, headers.extent()),
            Some(3)
        );
        assert!(headers.build_id(file.as_slice()).is_some());
        let full = Table::full(file.as_slice(), &headers).unwrap();
        assert!(full.find(b"hidden").is_some() && full.find(b"local").is_none());
    }
}

/// Places that matter are hit more often than a blind choice would hit them: the first page and a half
/// holds headers, notes, hash table, symbols; the end holds the section header.
fn place() -> impl Strategy<Value = (Index, u8, u8)> {
    (
        any::<Index>(),
        0u8..4,
        prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(0x80), Just(1)],
    )
}

fn damage(bytes: &mut [u8], places: &[(Index, u8, u8)], dynamic: &Range<usize>) {
    for (index, region, byte) in places {
        let range = match region {
            0 => 0..0x400,
            1 => dynamic.clone(),
            2 => bytes.len() - 0x600..bytes.len(),
            _ => 0..bytes.len(),
        };
        bytes[range.start + index.index(range.len())] = *byte;
    }
}

proptest! {
    #[test]
    fn a_damaged_file_is_no_harm(
        which in 0usize..2,
        places in prop::collection::vec(place(), 1..10),
        length in any::<Index>(),
    ) {
        let mut file = LIBRARIES[which].clone();
        let headers = Headers::read(file.as_slice()).unwrap();
        let dynamic = headers.segment(object::elf::PT_DYNAMIC).unwrap();
        let start = dynamic.offset as usize;
        damage(&mut file, &places, &(start..start + dynamic.file_size as usize));
        ask_file(&file);
        file.truncate(length.index(file.len()));
        ask_file(&file);
    }

    #[test]
    fn a_damaged_image_in_memory_is_no_harm(
        which in 0usize..2,
        places in prop::collection::vec(place(), 1..10),
    ) {
        let file = &LIBRARIES[which];
        let headers = Headers::read(file.as_slice()).unwrap();
        let mut loaded = Loaded::new(file, &headers);
        let dynamic = headers.segment(object::elf::PT_DYNAMIC).unwrap().range();
        damage(&mut loaded.0, &places, &(dynamic.start as usize..dynamic.end as usize));
        ask_memory(&loaded, &headers, headers.extent());
        ask_memory(&loaded, &headers, 0..u64::MAX);
    }

    #[test]
    fn random_notes_and_maps_are_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        text in "[0-9a-f rwxps:/-]{0,80}",
    ) {
        build_id_in(&bytes, 4);
        build_id_in(&bytes, 8);
        Maps::parse(&bytes);
        let maps = Maps::parse(format!("{text}\n400000-401000 r-xp 0 0:0 0 {text}\n{text}").as_bytes());
        maps.gaps(0..u64::MAX, 1);
        maps.gaps(u64::MAX - 1..u64::MAX, u64::MAX);
    }

    /// A list whose pointers lead anywhere in one page comes to an end.
    #[test]
    fn a_wild_loaders_list_ends(
        words in prop::collection::vec(prop_oneof![0u64..512, Just(2 | 2 << 32)], 512),
    ) {
        let pointers = words.iter().map(|word| if *word < 512 { BIAS + word * 8 } else { *word });
        let page = Loaded(pointers.flat_map(u64::to_le_bytes).collect());
        for at in [3, 200] {
            if let Ok(list) = linkmap::read(&page, BIAS + at * 8) {
                prop_assert!(list.entries.len() <= 1 << 14);
            }
        }
    }
}

/// Numbers that would take all memory if they were believed.
#[test]
fn huge_counts_are_not_believed() {
    for file in LIBRARIES.iter() {
        let headers = Headers::read(file.as_slice()).unwrap();
        let image = FileImage {
            bytes: file.as_slice(),
            headers: &headers,
        };
        assert_eq!(image.read(0, u64::MAX), None);
        assert_eq!(image.read(u64::MAX, 1), None);
        let loaded = Loaded::new(file, &headers);
        let wide = MemoryImage {
            memory: &loaded,
            bias: BIAS,
            extent: 0..u64::MAX,
        };
        assert_eq!(wide.read(0, 1 << 40), None);
        assert_eq!(wide.read(1 << 50, 8), None);
    }
}
