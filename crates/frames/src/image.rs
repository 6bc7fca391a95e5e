//! A file's loaded segments, read at the addresses they were linked for.
//!
//! Everything is read into buffers of our own and never mapped (see `process::elf`). The program header is used, which
//! stripping leaves alone; sections are read only for data that cannot be found otherwise.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::read::{CompressedData, CompressionFormat};
use object::{LittleEndian as LE, elf, pod};
use process::elf::{ElfError, Headers, Section, read_table};
use process::modules::open_regular;

use crate::{Error, Result};

/// A segment that is loaded into memory.
#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: Vec<u8>,
    executable: bool,
}

/// An ELF file, opened, with its loaded segments.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    file: File,
    headers: Headers,
    sections: Vec<Section>,
    pieces: Vec<Piece>,
    code: Vec<Range<u64>>,
}

/// A range of bytes with the address of the first.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The virtual address of its first byte, as in the file.
    pub address: u64,
    /// Its bytes in the file.
    pub bytes: &'a [u8],
}

impl Piece {
    fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// Returns where the code is, by rising address: as far as it is loaded, and without overlaps.
fn code(pieces: &[Piece], sections: &[Section]) -> Vec<Range<u64>> {
    let loaded = pieces
        .iter()
        .filter(|piece| piece.executable)
        .map(Piece::range);
    let loaded: Vec<Range<u64>> = loaded.collect();
    let of_sections = sections
        .iter()
        .filter(|section| section.executable && section.address != 0)
        .map(|section| section.address..section.address.saturating_add(section.size));
    let mut code: Vec<Range<u64>> = of_sections
        .flat_map(|section| {
            let within =
                |piece: &Range<u64>| section.start.max(piece.start)..section.end.min(piece.end);
            loaded.iter().map(within).collect::<Vec<_>>()
        })
        .filter(|range| !range.is_empty())
        .collect();
    if code.is_empty() {
        code = loaded;
    }
    code.sort_by_key(|range| range.start);
    let mut end = 0;
    code.retain_mut(|range| {
        range.start = range.start.max(end);
        end = end.max(range.end);
        !range.is_empty()
    });
    code
}

/// The largest section that is unpacked. A small file can claim any size.
const LARGEST: u64 = 1 << 30;

/// Unpacks a compressed section: a header with the way of compression and the size (gABI, "Section Compression"), then zlib's or
/// Zstandard's bytes.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (header, data) = pod::from_bytes::<elf::CompressionHeader64<LE>>(bytes).ok()?;
    let format = match header.ch_type.get(LE) {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    let uncompressed_size = header.ch_size.get(LE);
    if uncompressed_size > LARGEST {
        return None;
    }
    let packed = CompressedData {
        format,
        data,
        uncompressed_size,
    };
    packed.decompress().ok().map(std::borrow::Cow::into_owned)
}

impl Image {
    /// Reads the file at `path`.
    pub fn open(path: &Path) -> Result<Image> {
        let file = open_regular(path).map_err(|source| ElfError::File {
            path: path.to_owned(),
            source,
        })?;
        Image::read(path, file)
    }

    /// Reads a file that is open; `path` is for messages.
    pub fn read(path: &Path, file: File) -> Result<Image> {
        let malformed = |reason| ElfError::Malformed {
            file: path.to_owned(),
            reason,
        };
        let headers = Headers::read(&file).map_err(malformed)?;
        let mut pieces = Vec::new();
        for load in headers.loads().filter(|load| load.file_size > 0) {
            let Some(bytes) = read_table(&file, load.offset, load.file_size) else {
                return Err(malformed(
                    "a segment reaches past the end of the file; it is cut short",
                )
                .into());
            };
            pieces.push(Piece {
                start: load.address,
                bytes,
                executable: load.executable,
            });
        }
        if !pieces.iter().any(|piece| piece.executable) {
            return Err(Error::NoCode(path.to_owned()));
        }
        let sections = headers.sections(&file);
        let code = code(&pieces, &sections);
        Ok(Image {
            code,
            path: path.to_owned(),
            file,
            headers,
            sections,
            pieces,
        })
    }

    /// Returns the path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns what its headers say.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns its code: the sections of code, or in a file without sections the executable segments, in which there
    /// may be data too (`ld -z noseparate-code`).
    pub fn code(&self) -> impl Iterator<Item = At<'_>> {
        self.code.iter().filter_map(|range| {
            let bytes = self.code_of(range)?;
            Some(At {
                address: range.start,
                bytes,
            })
        })
    }

    /// Returns the bytes of `range` if all of it is code.
    pub fn code_of(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.bytes(range, true)
    }

    /// Returns the bytes from `address` to the end of its segment; `None` where nothing is loaded from the file.
    pub fn rest(&self, address: u64) -> Option<&[u8]> {
        self.pieces.iter().find_map(|piece| {
            let at = usize::try_from(address.checked_sub(piece.start)?).ok()?;
            piece.bytes.get(at..).filter(|rest| !rest.is_empty())
        })
    }

    /// Returns whether `address` is in an executable segment.
    pub fn is_code(&self, address: u64) -> bool {
        self.code()
            .any(|code| address.wrapping_sub(code.address) < code.bytes.len() as u64)
    }

    fn bytes(&self, range: &Range<u64>, executable: bool) -> Option<&[u8]> {
        self.pieces
            .iter()
            .filter(|piece| piece.executable == executable)
            .find_map(|piece| {
                let start = usize::try_from(range.start.checked_sub(piece.start)?).ok()?;
                let end = usize::try_from(range.end.checked_sub(piece.start)?).ok()?;
                piece.bytes.get(start..end)
            })
    }

    /// Returns the bytes and the address of a section, unpacked where it is compressed: Go's linker and `-gz` do that. `None`
    /// if there is no such section, or if it cannot be unpacked.
    pub fn section(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        let section = self
            .headers
            .find_section(&self.file, &self.sections, name)?;
        let bytes = read_table(&self.file, section.offset, section.size)?;
        let bytes = match section.compressed {
            true => unpacked(&bytes)?,
            false => bytes,
        };
        Some((section.address, bytes))
    }

    /// Returns whether there is a section of that name, be it readable or not.
    pub fn has_section(&self, name: &str) -> bool {
        let found = self.headers.find_section(&self.file, &self.sections, name);
        found.is_some()
    }

    /// Returns where sections begin and end: between two of them in one segment there may be a few bytes without
    /// meaning. Empty for a file without sections.
    pub fn edges(&self) -> Vec<u64> {
        let mut edges: Vec<u64> = self
            .sections
            .iter()
            .filter(|section| section.address != 0)
            .flat_map(|section| {
                [
                    section.address,
                    section.address.saturating_add(section.size),
                ]
            })
            .collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// Returns `.eh_frame` with its address: by its section, and in a file without sections through `.eh_frame_hdr`, as
    /// the unwinder finds it (LSB Core, "Exception Frames").
    pub fn eh_frame(&self) -> Option<(u64, Vec<u8>)> {
        self.section(".eh_frame").or_else(|| {
            let header = self.headers.segment(elf::PT_GNU_EH_FRAME)?;
            let bytes = self.rest(header.address)?;
            // version 1; the pointer to .eh_frame as signed 32 bits relative to itself, as every linker writes it
            if bytes.get(..2)? != [1, 0x1b] {
                return None;
            }
            let distance = i32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
            let start = (header.address + 4).wrapping_add_signed(i64::from(distance));
            Some((start, self.rest(start)?.to_vec()))
        })
    }
}
