//! `lancet heap FILE`: bytes as a file, and as blocks whose checksums are right. What is read can be written, and reads the
//! same again.
#![no_main]

use heap::{Snapshot, VERSION};
use libfuzzer_sys::fuzz_target;

/// What a snapshot may take of memory: less than the fuzzer allows in one piece.
const MEMORY: u64 = 64 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    let file = match first % 2 {
        0 => rest.to_vec(),
        _ => file_of(rest),
    };
    let Ok(snapshot) = Snapshot::read(&mut &*file, MEMORY) else {
        return;
    };
    let mut written = Vec::new();
    snapshot.write(&mut written).expect("memory");
    let again = Snapshot::read(&mut &*written, u64::MAX).expect("our own file");
    assert!(again == snapshot);
});

/// A file of chunks: section, items, length, bytes. Each becomes a block whose checksums are right; crates/heap/src/file/mod.rs
/// has the layout.
fn file_of(mut bytes: &[u8]) -> Vec<u8> {
    let mut file = b"\x89lnheap\n".to_vec();
    file.extend(VERSION.to_le_bytes());
    while let [section, items, length, rest @ ..] = bytes {
        let (chunk, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        // The upper bit of the section packs the block.
        let is_packed = section & 0x80 != 0;
        let here = match is_packed {
            true => lz4_flex::block::compress(chunk),
            false => chunk.to_vec(),
        };
        let mut head = Vec::new();
        head.extend(crc32fast::hash(&here).to_le_bytes());
        head.extend((here.len() as u32).to_le_bytes());
        head.extend((chunk.len() as u32).to_le_bytes());
        head.extend(u32::from(*items).to_le_bytes());
        head.extend(u16::from(section & 0x7f).to_le_bytes());
        head.extend(u16::from(is_packed).to_le_bytes());
        file.extend(crc32fast::hash(&head).to_le_bytes());
        file.extend(head);
        file.extend(here);
    }
    file
}
