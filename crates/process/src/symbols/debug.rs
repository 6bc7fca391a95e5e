//! Finds symbols that were stripped from a file and are kept elsewhere. Used by `symbols`.
//!
//! - Separate debug files: by build ID, `/usr/lib/debug/.build-id/xx/yyyy.debug`, and by
//!   `.gnu_debuglink` (a file name, padding to 4, the CRC-32 of the file), looked for as gdb does: "Debugging
//!   Information in Separate Files" in its manual. The guest's root comes first, then ours: a
//!   container seldom has its own debug packages.
//! - `.gnu_debugdata`, "MiniDebugInfo" in the same manual: an ELF file packed with xz inside a section. xz
//!   names its window size itself, so the unpacker is held to a limit.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lzma_rust2::XzReader;

use crate::elf::table::Table;
use crate::elf::{Bytes, Headers, string};
use crate::modules::{GuestFiles, open_regular};

/// Where distributions put separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// The most that `.gnu_debugdata` may unpack to, and the most memory for the unpacker. Real ones, of
/// the largest programs, unpack to some 10 MB.
const LARGEST_UNPACKED: u64 = 256 << 20;
const UNPACKER_KIB: u32 = 128 << 10;

/// The largest debug file whose checksum is computed, and for how long at most. Distributions name debug files by build
/// ID, so that this is seldom needed.
const LARGEST_SUMMED: u64 = 4 << 30;
const LONGEST_SUM: Duration = Duration::from_secs(2);

/// The name and the checksum of the separate debug file, as `.gnu_debuglink` has them.
#[derive(Debug)]
pub(super) struct Link {
    name: String,
    crc: u32,
}

/// Reads `.gnu_debuglink`; `None` without the section, or if what it holds is no plain file name.
pub(super) fn link(bytes: &(impl Bytes + ?Sized), headers: &Headers) -> Option<Link> {
    let sections = headers.sections(bytes);
    let section = headers.section_named(bytes, &sections, ".gnu_debuglink")?;
    let name = std::str::from_utf8(string(&section, 0)?).ok()?;
    let crc = section
        .get((name.len() + 1).next_multiple_of(4)..)?
        .first_chunk()?;
    // A name only: a path could lead anywhere.
    let is_name = !name.is_empty() && !name.contains('/') && name != "..";
    is_name.then(|| Link {
        name: name.to_owned(),
        crc: u32::from_le_bytes(*crc),
    })
}

/// Finds the separate debug file of an object in `folder` of the guest.
pub(super) fn separate(
    files: &GuestFiles,
    folder: &Path,
    build_id: Option<&[u8]>,
    link: Option<&Link>,
) -> Option<File> {
    let by_id = build_id.and_then(build_id_path).into_iter();
    let by_link = link.into_iter().flat_map(|link| {
        let global = Path::new(DEBUG_ROOT).join(folder.strip_prefix("/").unwrap_or(folder));
        [folder.to_owned(), folder.join(".debug"), global].map(|folder| folder.join(&link.name))
    });
    by_id.chain(by_link).find_map(|path| {
        let opened = [files.open(&path), open_regular(&path)];
        opened
            .into_iter()
            .flatten()
            .find(|file| belongs(file, build_id, link))
    })
}

/// Returns where the debug file with this build ID is: `/usr/lib/debug/.build-id/xx/yyyy.debug`. `None` for an ID of
/// less than two bytes.
fn build_id_path(id: &[u8]) -> Option<PathBuf> {
    let hexadecimal = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let name = format!(
        "{DEBUG_ROOT}/.build-id/{first:02x}/{}.debug",
        hexadecimal(rest)
    );
    Some(PathBuf::from(name))
}

/// Returns whether a debug file was split from the object: the build IDs are equal, or, where there is none to compare,
/// the checksum of the whole file is right.
fn belongs(file: &File, build_id: Option<&[u8]>, link: Option<&Link>) -> bool {
    let Ok(headers) = Headers::read(file) else {
        return false;
    };
    match (build_id, headers.build_id(file)) {
        (Some(wanted), Some(found)) => wanted == found,
        _ => link.is_some_and(|link| checksum(file) == Some(link.crc)),
    }
}

/// Returns the CRC-32 of a file; `None` if it cannot be read, is larger than [`LARGEST_SUMMED`] or takes longer than
/// [`LONGEST_SUM`]: the file may be sparse, or on a slow or hostile file system.
fn checksum(file: &File) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 20];
    let (mut at, size) = (0, Bytes::size(file));
    let started = Instant::now();
    if size > LARGEST_SUMMED {
        return None;
    }
    while at < size {
        if started.elapsed() > LONGEST_SUM {
            return None;
        }
        let length = (size - at).min(piece.len() as u64) as usize;
        let piece = &mut piece[..length];
        file.read_at(at, piece).then_some(())?;
        hasher.update(piece);
        at += length as u64;
    }
    Some(hasher.finalize())
}

/// The full symbol table of a debug file.
pub(super) fn full_table(bytes: &(impl Bytes + ?Sized)) -> Option<Table> {
    let headers = Headers::read(bytes).ok()?;
    Table::full(bytes, &headers).filter(|table| !table.is_empty())
}

/// The symbol table inside `.gnu_debugdata`.
pub(super) fn embedded(bytes: &(impl Bytes + ?Sized), headers: &Headers) -> Option<Table> {
    let sections = headers.sections(bytes);
    full_table(&unpack(&headers.section_named(bytes, &sections, ".gnu_debugdata")?)?[..])
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let reader = XzReader::new_mem_limit(packed, false, UNPACKER_KIB);
    let size = reader
        .take(LARGEST_UNPACKED + 1)
        .read_to_end(&mut unpacked)
        .ok()?;
    (size as u64 <= LARGEST_UNPACKED).then_some(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `printf 'lancet %.0s' $(seq 40) | xz`
    const PACKED: &[u8] =
        b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3\
        \xe0\x01\x17\0\x0e\x5d\0\x36\x18\x4a\x20\xe1\x6f\x93\x9c\x5e\xfe\x63\xb8\0\0\0\0\0\
        \x2e\x96\x62\x9f\xdc\xb1\x23\x29\0\x01\x2a\x98\x02\0\0\0\xd7\x56\x1d\x2e\xb1\xc4\x67\xfb\
        \x02\0\0\0\0\x04\x59\x5a";

    #[test]
    fn xz_is_unpacked() {
        assert_eq!(unpack(PACKED).unwrap(), "lancet ".repeat(40).as_bytes());
        assert_eq!(unpack(&PACKED[..40]), None);
        assert_eq!(unpack(b""), None);
    }

    #[test]
    fn a_sparse_file_is_not_read_to_its_end() {
        let path = std::env::temp_dir().join(format!("lancet-sparse-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(3).unwrap();
        assert_eq!(checksum(&file), Some(crc32fast::hash(&[0; 3])));
        let started = Instant::now();
        file.set_len(1 << 42).unwrap();
        assert_eq!(checksum(&file), None);
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn a_build_id_has_its_path() {
        let path = build_id_path(&[0xab, 0x01, 0xff]).unwrap();
        assert_eq!(path, Path::new("/usr/lib/debug/.build-id/ab/01ff.debug"));
        assert_eq!(build_id_path(&[0xab]), None);
        assert_eq!(build_id_path(&[]), None);
    }

    proptest! {
        #[test]
        fn damaged_xz_is_refused_without_a_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            length in any::<prop::sample::Index>(),
        ) {
            let mut packed = PACKED.to_vec();
            for (at, byte) in changes {
                let at = at.index(packed.len());
                packed[at] = byte;
            }
            let _ = unpack(&packed);
            packed.truncate(length.index(packed.len()));
            let _ = unpack(&packed);
        }
    }
}
