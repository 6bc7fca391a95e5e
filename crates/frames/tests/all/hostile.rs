//! Files that lie: damaged anywhere, cut anywhere. An answer or an error, never a panic, never a long wait.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use frames::scan::{Decode, Scan};
use proptest::prelude::*;

/// A library with everything that is read: symbols, call frame information of both kinds, DWARF, imports.
fn sound() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let source = folder.join("hostile.c");
        let library = folder.join("hostile.so");
        let text = "int puts(const char *); int write(int, const void *, long);\n\
            struct row { char name[40]; struct row *next; };\n\
            int big(int x) { struct row rows[100]; char text[x]; rows[x].name[0] = puts(\"a text to find\"); \
            return write(1, rows, x) + write(1, text, x); }\n\
            int small(int x) { char text[100]; return write(x, text, 1) + big(x); }\n";
        std::fs::write(&source, text).expect("written");
        let built = Command::new("gcc")
            .args(["-shared", "-fPIC", "-O1", "-g", "-w"])
            .arg(&source)
            .arg("-o")
            .arg(&library)
            .status();
        assert!(built.expect("gcc").success());
        std::fs::read(&library).expect("a library")
    })
}

/// The same of a large file's largest frames.
fn ask_some(bytes: &[u8]) {
    ask_of(bytes, 20);
}

/// Everything that can be asked of a file.
fn ask(bytes: &[u8]) {
    ask_of(bytes, usize::MAX);
}

fn ask_of(bytes: &[u8], frames: usize) {
    let started = Instant::now();
    let mut file = tempfile();
    file.write_all(bytes).expect("written");
    for decode in [Decode::AsNeeded, Decode::Everything] {
        let Ok(scan) = Scan::file(
            Path::new("damaged"),
            file.try_clone().expect("a descriptor"),
            decode,
        ) else {
            return;
        };
        for frame in scan.frames().iter().take(frames) {
            let _ = (scan.name(frame), scan.hints(frame), scan.variable(frame));
        }
    }
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!(
        "lancet-frames-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path);
    let _ = std::fs::remove_file(&path);
    file.expect("a file")
}

#[test]
fn the_sound_one_is_read() {
    let mut file = tempfile();
    file.write_all(sound()).expect("written");
    let scan = Scan::file(Path::new("sound"), file, Decode::AsNeeded).expect("sound");
    let big = &scan.frames()[0];
    assert_eq!(scan.name(big).as_deref(), Some("big"));
    assert!(big.dynamic, "{big:?}");
    let variable = scan.variable(big).expect("DWARF says");
    assert_eq!((variable.name.as_str(), variable.bytes), ("rows", 4800));
    assert_eq!(variable.kind, "struct row [100]");
    let hints = scan.hints(big);
    assert_eq!(hints.calls, ["puts", "write"]);
    assert_eq!(hints.texts, ["a text to find"]);
}

#[test]
fn what_is_cut_short_is_said() {
    let dir = std::env::temp_dir().join(format!("lancet-cut-{}.so", std::process::id()));
    std::fs::write(&dir, &sound()[..sound().len() / 4]).expect("written");
    let error = Scan::path(&dir, Decode::AsNeeded)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    std::fs::remove_file(&dir).expect("removed");
    assert!(error.contains("cut short"), "{error}");
    for length in (0..sound().len()).step_by(97) {
        ask(&sound()[..length]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damage_anywhere(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut bytes = sound().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        ask(&bytes);
    }

    /// The headers and the call frame information, where a byte does most.
    #[test]
    fn damage_where_it_hurts(
        header in prop::collection::vec((0usize..0x400, any::<u8>()), 0..6),
        table in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut bytes = sound().to_vec();
        for (at, byte) in header {
            bytes[at] = byte;
        }
        let tables = [".eh_frame", ".debug_info", ".debug_abbrev", ".symtab", ".dynamic", ".rela.plt"];
        let places: Vec<usize> = tables.iter().flat_map(|name| section(name)).collect();
        for (at, byte) in table {
            bytes[places[at.index(places.len())]] = byte;
        }
        ask(&bytes);
    }

    /// Libraries as they are, hand-written assembly and all.
    #[test]
    fn damage_in_libraries_of_the_distribution(
        library in prop::sample::select(&["libz.so.1", "libcrypt.so.1", "libgcc_s.so.1"][..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..60),
        header in prop::collection::vec((0usize..0x400, any::<u8>()), 0..3),
    ) {
        let path = Path::new("/usr/lib/x86_64-linux-gnu").join(library);
        let path = if path.exists() { path } else { Path::new("/lib/x86_64-linux-gnu").join(library) };
        let Ok(mut bytes) = std::fs::read(&path) else {
            println!("SKIPPED: {library} is not installed");
            return Ok(());
        };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for (at, byte) in header {
            bytes[at] = byte;
        }
        ask_some(&bytes);
    }

    #[test]
    fn bytes_that_are_no_code(code in prop::collection::vec(any::<u8>(), 1..4000)) {
        let range = 0x1000..0x1000 + code.len() as u64;
        let depth = frames::decode::depth(&code, &range, None);
        prop_assert!(depth.is_some());
    }
}

/// The places in the file of one section's bytes.
fn section(name: &str) -> std::ops::Range<usize> {
    use object::{Object, ObjectSection};
    let file = object::File::parse(sound()).expect("ELF");
    let (at, size) = file
        .section_by_name(name)
        .and_then(|section| section.file_range())
        .expect("a section");
    at as usize..(at + size) as usize
}
