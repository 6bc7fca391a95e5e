//! Call frame information in `.debug_frame`, plain, compressed and damaged; and the functions that Go has for each size.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use frames::ranking::{Ranking, Wanted};
use frames::scan::Decode;
use frames::{How, Scan};
use object::{Object, ObjectSection};

const SOURCE: &str = r#"
#include <string.h>
void use(char *);
__attribute__((noinline)) void small(void) { char b[64]; memset(b, 1, sizeof b); use(b); }
__attribute__((noinline)) void large(void) { char b[60000]; memset(b, 1, sizeof b); use(b); small(); }
__asm__(
  ".pushsection .text\n"
  ".globl \"runtime.call1073741824.abi0\"\n .type \"runtime.call1073741824.abi0\", @function\n"
  "\"runtime.call1073741824.abi0\":\n sub $1073741832, %rsp\n add $1073741832, %rsp\n ret\n"
  ".size \"runtime.call1073741824.abi0\", .-\"runtime.call1073741824.abi0\"\n"
  ".globl debugCall65536\n .type debugCall65536, @function\n"
  "debugCall65536:\n sub $65544, %rsp\n add $65544, %rsp\n ret\n"
  ".size debugCall65536, .-debugCall65536\n"
  ".popsection\n");
"#;

/// Compiles the source without `.eh_frame`, so that `.debug_frame` alone describes it.
fn library(name: &str, packing: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("packed-{name}.c"));
    fs::write(&source, SOURCE).expect("written");
    let out = folder.join(format!("packed-{name}.so"));
    let status = Command::new("gcc")
        .args(["-O2", "-g", "-w", "-fPIC", "-shared", "-nostartfiles"])
        .args(["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"])
        .arg(packing)
        .arg(&source)
        .arg("-o")
        .arg(&out)
        .status();
    assert!(status.expect("gcc runs").success());
    out
}

fn scan(path: &Path) -> Scan {
    Scan::path(path, Decode::AsNeeded).expect("read")
}

/// The size of a function's frame, and how it was found.
fn frame(scan: &Scan, name: &str) -> (u64, How) {
    let is_it = |frame: &&frames::Frame| scan.name(frame).as_deref() == Some(name);
    let frame = scan.frames().iter().find(is_it).expect("is there");
    (frame.bytes, frame.how)
}

#[test]
fn compressed_information_is_read_as_plain_is() {
    let plain = scan(&library("none", "-gz=none"));
    let expected = frame(&plain, "large");
    assert!(
        expected.0 > 60_000 && expected.1 == How::Cfi,
        "{expected:?}"
    );
    let packed = library("zlib", "-gz=zlib");
    let bytes = fs::read(&packed).expect("read");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let section = file.section_by_name(".debug_frame").expect("a section");
    assert!(
        section.compressed_file_range().expect("read").format
            != object::read::CompressionFormat::None
    );
    let packed = scan(&packed);
    assert_eq!(packed.damaged(), 0);
    assert_eq!(frame(&packed, "large"), expected);
    assert_eq!(frame(&packed, "small"), frame(&plain, "small"));
}

#[test]
fn what_cannot_be_unpacked_is_told_and_the_code_is_decoded() {
    let packed = library("damaged", "-gz=zlib");
    let mut bytes = fs::read(&packed).expect("read");
    let (at, size) = {
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let section = file.section_by_name(".debug_frame").expect("a section");
        section.file_range().expect("in the file")
    };
    // Behind the header of 24 bytes.
    for byte in &mut bytes[at as usize + 24..(at + size) as usize] {
        *byte = !*byte;
    }
    fs::write(&packed, &bytes).expect("written");
    let damaged = scan(&packed);
    assert_eq!(damaged.damaged(), 1);
    assert_eq!(frame(&damaged, "large").1, How::Code);
    // A size that no memory holds.
    bytes[at as usize + 8..at as usize + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(&packed, &bytes).expect("written");
    assert_eq!(scan(&packed).damaged(), 1);
}

#[test]
fn functions_of_go_for_each_size_are_no_rows() {
    let scan = scan(&library("go", "-gz=none"));
    let wanted = Wanted {
        rows: 5,
        differing: false,
        max: Some(1 << 20),
    };
    let ranking = Ranking::new(vec![scan], Vec::new(), wanted);
    let names: Vec<_> = ranking
        .rows
        .iter()
        .map(|(number, frame)| ranking.scans[*number].name(frame))
        .collect();
    assert_eq!(names.first(), Some(&Some("large".to_owned())), "{names:?}");
    let (count, largest) = ranking.dispatchers.expect("two of them");
    assert_eq!(count, 2);
    assert!(largest > 1 << 30);
    assert_eq!(ranking.larger, 0);
}
