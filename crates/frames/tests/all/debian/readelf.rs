//! binutils as second opinion: `readelf --debug-dump=frames-interp` prints every row of every entry, by a reader of
//! its own, and objdump every instruction.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use frames::scan::{Decode, How, Scan};

const LIBRARIES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1",
    "/usr/lib/x86_64-linux-gnu/libmariadb.so.3",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/x86_64-linux-gnu/libz.so.1",
    "/lib/x86_64-linux-gnu/libm.so.6",
];

/// Per function, by its start: the largest offset from rsp, and whether the CFA is told by rsp throughout.
fn by_readelf(path: &str) -> BTreeMap<u64, (u64, bool)> {
    let output = Command::new("readelf")
        .args(["--debug-dump=frames-interp", path])
        .output()
        .expect("readelf");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found = BTreeMap::new();
    let mut entry: Option<(u64, u64, bool)> = None;
    for line in text.lines() {
        let pc = line
            .split_once("pc=")
            .and_then(|(_, pc)| u64::from_str_radix(pc.split("..").next()?, 16).ok());
        if let Some(pc) = pc {
            found.extend(
                entry
                    .take()
                    .map(|(start, deepest, plain)| (start, (deepest, plain))),
            );
            entry = Some((pc, 0, true));
        } else if line.contains(" CIE ") {
            found.extend(
                entry
                    .take()
                    .map(|(start, deepest, plain)| (start, (deepest, plain))),
            );
        } else if let Some((_, deepest, plain)) = &mut entry {
            let mut fields = line.split_whitespace();
            let is_row = fields
                .next()
                .is_some_and(|at| at.len() == 16 && u64::from_str_radix(at, 16).is_ok());
            let Some(cfa) = fields.next().filter(|_| is_row) else {
                continue;
            };
            match cfa
                .strip_prefix("rsp+")
                .and_then(|offset| offset.parse::<u64>().ok())
            {
                Some(offset) => *deepest = (*deepest).max(offset),
                None => *plain = false,
            }
        }
    }
    found.extend(entry.map(|(start, deepest, plain)| (start, (deepest, plain))));
    found
}

#[test]
fn readelf_agrees() {
    let mut held = 0;
    for path in LIBRARIES.iter().filter(|path| Path::new(path).exists()) {
        let theirs = by_readelf(path);
        let scan = Scan::path(Path::new(path), Decode::AsNeeded).expect("a library");
        for frame in scan.frames().iter().filter(|frame| frame.how == How::Cfi) {
            let all =
                std::iter::once(frame.range.start).chain(frame.parts.iter().map(|part| part.start));
            let entries: Vec<_> = all.filter_map(|start| theirs.get(&start)).collect();
            if entries.is_empty() || !entries.iter().all(|(_, plain)| *plain) {
                continue;
            }
            // No row but the CIE's, which readelf does not repeat.
            let deepest = entries.iter().map(|(deepest, _)| (*deepest).max(8)).max();
            assert_eq!(
                deepest,
                Some(frame.bytes),
                "{path} at {:#x}",
                frame.range.start
            );
            held += 1;
        }
    }
    println!("{held} functions");
    assert!(held > 5000, "{held}");
}

/// The code of a function alone, without its call frame information, tells the same.
#[test]
fn code_and_call_frame_information_agree() {
    let (mut held, mut differ) = (0, Vec::new());
    for path in LIBRARIES.iter().filter(|path| Path::new(path).exists()) {
        let scan = Scan::path(Path::new(path), Decode::Everything).expect("a library");
        for frame in scan
            .frames()
            .iter()
            .filter(|frame| frame.how == How::Cfi && frame.bytes > 8)
        {
            held += 1;
            if frame.otherwise.is_some_and(|other| other != frame.bytes) {
                differ.push(format!(
                    "{path} {:#x}: {} and {:?}",
                    frame.range.start, frame.bytes, frame.otherwise
                ));
            }
        }
    }
    println!("{held} functions, {} differ: {differ:#?}", differ.len());
    assert!(held > 5000, "{held}");
    assert!(differ.len() * 200 <= held, "{differ:#?}");
}
