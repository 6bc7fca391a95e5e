//! Object files (`.o`, `.ko`) and archives of them (`.a`), made readable as if they had been linked. Used by
//! `lancet::commands::stack::files`.
//!
//! An object file has sections without addresses, and relocations where addresses belong: its call frame information does
//! not say where a function is, and all of its symbols begin at 0. [`inputs`] gives each section that is loaded an address,
//! applies the relocations between them, and writes the result into an anonymous file with a program header. All else of
//! this crate, and the readers of symbols and DWARF, then read it as they read a library. A symbol that the object does not
//! define has the address 0.
//!
//! ```text
//!   ELF header │ 2 program headers │ sections of code │ other loaded sections │ all others │ section header
//!              an address is the offset in the file
//! ```
//!
//! Layouts: gABI, "Section Header", "Symbol Table", "Relocation"; psABI x86-64, table "Relocation Types".

mod archive;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};
use process::elf::ElfError;

use crate::{Error, Result};
use archive::{members, unread};

/// The largest file that is read.
const LARGEST: u64 = 1 << 30;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const RELOCATION: usize = 24;

/// Numbers of sections from here on mean something else (`SHN_LORESERVE`).
const RESERVED: u16 = 0xff00;
const ABSOLUTE: u16 = 0xfff1;

const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 4;
const NO_BITS: u32 = 8;

const LOADED: u64 = 2;
const CODE: u64 = 4;
const COMPRESSED: u64 = 0x800;

/// What is to be scanned for a file that was named.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The file itself, or the members of an archive that hold code.
    pub files: Vec<(PathBuf, File)>,
    /// The members of an archive that hold code which cannot be read, and why.
    pub refused: Vec<(PathBuf, &'static str)>,
}

/// Returns the files that are to be scanned for one that was named: of an archive, its members that hold code.
///
/// # Errors
///
/// Returns an error if an object file or an archive is damaged, or holds no code that can be read.
pub fn inputs(path: &Path, mut file: File) -> Result<Inputs> {
    let malformed = |reason| ElfError::Malformed {
        file: path.to_owned(),
        reason,
    };
    let unreadable = |source| ElfError::File {
        path: path.to_owned(),
        source,
    };
    let mut inputs = Inputs::default();
    let mut start = [0; 20];
    let kind = file.read_exact(&mut start).map(|()| kind(&start));
    file.rewind().map_err(unreadable)?;
    let kind = match kind {
        Ok(Kind::Other) | Err(_) => {
            inputs.files.push((path.to_owned(), file));
            return Ok(inputs);
        }
        Ok(kind) => kind,
    };
    let mut bytes = Vec::new();
    let read = (&file).take(LARGEST + 1).read_to_end(&mut bytes);
    if read.map_err(unreadable)? as u64 > LARGEST {
        return Err(malformed("too large for an object file or an archive").into());
    }
    let objects: Vec<(PathBuf, &[u8])> = match kind {
        Kind::Thin => return Err(malformed("a thin archive; name its members").into()),
        Kind::Archive => {
            let members =
                members(&bytes).ok_or_else(|| malformed("the archive is cut short or damaged"))?;
            let named = members.into_iter().map(|(name, bytes)| {
                let name = format!("{}({name})", path.display());
                (PathBuf::from(name), bytes)
            });
            named.collect()
        }
        Kind::Object | Kind::Other => vec![(path.to_owned(), bytes.as_slice())],
    };
    for (name, bytes) in objects {
        match link(&name, bytes)? {
            Linked::Whole(linked) => {
                let file = anonymous(&linked).map_err(unreadable)?;
                inputs.files.push((name, file));
            }
            Linked::Unread(why) => inputs.refused.push((name, why)),
            Linked::Data => {}
        }
    }
    match inputs.refused.first() {
        _ if !inputs.files.is_empty() => Ok(inputs),
        Some((name, reason)) => Err(Error::Elf(ElfError::Malformed {
            file: name.clone(),
            reason,
        })),
        None => Err(Error::NoCode(path.to_owned())),
    }
}

/// What an object file is after linking.
enum Linked {
    Whole(Vec<u8>),
    /// It holds no code.
    Data,
    /// It holds code that is not read, for this reason.
    Unread(&'static str),
}

fn link(name: &Path, bytes: &[u8]) -> Result<Linked> {
    if let Some(why) = unread(bytes) {
        return Ok(Linked::Unread(why));
    }
    let damaged = || ElfError::Malformed {
        file: name.to_owned(),
        reason: "the object file is cut short or damaged",
    };
    Ok(linked(bytes).ok_or_else(damaged)?)
}

enum Kind {
    Object,
    Archive,
    Thin,
    Other,
}

fn kind(start: &[u8; 20]) -> Kind {
    if start.starts_with(b"!<arch>\n") {
        return Kind::Archive;
    }
    if start.starts_with(b"!<thin>\n") {
        return Kind::Thin;
    }
    if is_object(start) {
        return Kind::Object;
    }
    Kind::Other
}

/// Returns whether this is the beginning of an object file for x86-64: ELF of 64 bits, lowest byte first, `ET_REL` and
/// `EM_X86_64`.
fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01")
        && bytes.get(16..20).is_some_and(|kind| kind == [1, 0, 62, 0])
}

fn anonymous(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create(c"lancet-object", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// A section of an object file.
#[derive(Debug, Clone, Copy)]
struct Section {
    /// Where its name is in the section of names.
    name: u32,
    kind: u32,
    flags: u64,
    offset: usize,
    size: usize,
    link: u32,
    info: u32,
    align: usize,
    /// Where its bytes are in the file that is made.
    to: usize,
    /// The address that it gets; 0 if it is not loaded.
    address: u64,
}

/// Returns the object file as it would be after linking; `None` if it is damaged.
fn linked(bytes: &[u8]) -> Option<Linked> {
    // gABI: a number of sections that does not fit the ELF header is in the first section.
    if half(bytes, 60)? == 0 && word(bytes, 40)? != 0 {
        return Some(Linked::Unread("it has more than 65,279 sections"));
    }
    let mut sections = sections(bytes)?;
    let is_code = |section: &Section| {
        section.flags & (LOADED | CODE) == LOADED | CODE
            && section.kind != NO_BITS
            && section.size > 0
    };
    if !sections.iter().any(is_code) {
        return Some(match has_lto(bytes, &sections) {
            true => Linked::Unread("compiled for link-time optimization (-flto), without code"),
            false => Linked::Data,
        });
    }
    let mut out = vec![0; HEADER + 2 * PROGRAM_HEADER];
    out.get_mut(..HEADER)?.copy_from_slice(bytes.get(..HEADER)?);
    let is_data = |section: &Section| section.flags & LOADED != 0 && !is_code(section);
    let code = place(bytes, &mut sections, &mut out, is_code)?;
    let data = place(bytes, &mut sections, &mut out, is_data)?;
    place(bytes, &mut sections, &mut out, |section| {
        section.flags & LOADED == 0
    })?;
    let of_kind = |kind| sections.iter().filter(move |section| section.kind == kind);
    for table in of_kind(RELOCATIONS) {
        relocate(&sections, table, &mut out)?;
    }
    for table in of_kind(SYMBOLS) {
        settle_symbols(&sections, table, &mut out)?;
    }
    let table = out.len().next_multiple_of(8);
    out.resize(table, 0);
    let old = usize::try_from(word(bytes, 40)?).ok()?;
    out.extend_from_slice(bytes.get(old..old.checked_add(sections.len() * SECTION)?)?);
    for (section, at) in sections.iter().zip((table..).step_by(SECTION)) {
        // A compressed section of DWARF could not be relocated: it is taken away.
        if section.flags & COMPRESSED != 0 {
            put(&mut out, at + 4, &NO_BITS.to_le_bytes())?;
        }
        put(&mut out, at + 16, &section.address.to_le_bytes())?;
        put(&mut out, at + 24, &(section.to as u64).to_le_bytes())?;
    }
    finish(&mut out, table, [(code, 5), (data, 4)])?;
    Some(Linked::Whole(out))
}

/// Returns whether a section holds what gcc's link-time optimization compiles from.
fn has_lto(bytes: &[u8], sections: &[Section]) -> bool {
    let names = half(bytes, 62).and_then(|number| sections.get(usize::from(number)));
    let Some(names) = names.and_then(|names| bytes.get(names.offset..)) else {
        return false;
    };
    let is_one = |section: &Section| {
        let name = names.get(section.name as usize..);
        name.is_some_and(|name| name.starts_with(b".gnu.lto_"))
    };
    sections.iter().any(is_one)
}

/// Writes the ELF header of a library, and the program header: ranges of the file, each with its rights (`p_flags`).
fn finish(out: &mut [u8], table: usize, loads: [(std::ops::Range<usize>, u32); 2]) -> Option<()> {
    const LIBRARY: u16 = 3;
    put(out, 16, &LIBRARY.to_le_bytes())?;
    put(out, 32, &(HEADER as u64).to_le_bytes())?;
    put(out, 40, &(table as u64).to_le_bytes())?;
    put(out, 54, &(PROGRAM_HEADER as u16).to_le_bytes())?;
    put(out, 56, &(loads.len() as u16).to_le_bytes())?;
    for ((range, rights), at) in loads.into_iter().zip((HEADER..).step_by(PROGRAM_HEADER)) {
        const LOAD: u32 = 1;
        put(out, at, &LOAD.to_le_bytes())?;
        put(out, at + 4, &rights.to_le_bytes())?;
        let (start, size) = (range.start as u64, range.len() as u64);
        // Offset in the file, virtual and physical address; bytes in the file and in memory; alignment.
        for (field, value) in [start, start, start, size, size, 1].iter().enumerate() {
            put(out, at + 8 + field * 8, &value.to_le_bytes())?;
        }
    }
    Some(())
}

/// Reads the section header.
fn sections(bytes: &[u8]) -> Option<Vec<Section>> {
    let table = usize::try_from(word(bytes, 40)?).ok()?;
    let count = half(bytes, 60)?;
    if half(bytes, 58)? as usize != SECTION || count >= RESERVED {
        return None;
    }
    let section = |number: usize| {
        let at = table.checked_add(number * SECTION)?;
        let size = |at| usize::try_from(word(bytes, at)?).ok();
        Some(Section {
            name: small(bytes, at)?,
            kind: small(bytes, at + 4)?,
            flags: word(bytes, at + 8)?,
            offset: size(at + 24)?,
            size: size(at + 32)?,
            link: small(bytes, at + 40)?,
            info: small(bytes, at + 44)?,
            align: size(at + 48)?.clamp(1, 4096),
            to: 0,
            address: 0,
        })
    };
    (0..usize::from(count)).map(section).collect()
}

/// Copies the sections that are chosen to the end of the file, and gives those that are loaded their addresses. Returns the
/// range that they take.
fn place(
    bytes: &[u8],
    sections: &mut [Section],
    out: &mut Vec<u8>,
    chosen: impl Fn(&Section) -> bool,
) -> Option<std::ops::Range<usize>> {
    // Sections do not overlap, so that all of them, with what their alignments take, are not much more than the file.
    let most = 2 * bytes.len() + (sections.len() + 1) * 4096;
    out.resize(out.len().next_multiple_of(16), 0);
    let start = out.len();
    for section in sections.iter_mut().filter(|section| chosen(section)) {
        out.resize(out.len().checked_next_multiple_of(section.align)?, 0);
        section.to = out.len();
        if section.flags & LOADED != 0 {
            section.address = out.len() as u64;
        }
        if section.kind != NO_BITS {
            let end = section.offset.checked_add(section.size)?;
            out.extend_from_slice(bytes.get(section.offset..end)?);
            if out.len() > most {
                return None;
            }
        }
    }
    Some(start..out.len())
}

/// Applies the relocations of a section, when symbols still count from their sections.
fn relocate(sections: &[Section], table: &Section, out: &mut [u8]) -> Option<()> {
    let target = *sections.get(table.info as usize)?;
    let symbols = *sections.get(table.link as usize)?;
    if target.kind == NO_BITS || target.flags & COMPRESSED != 0 {
        return Some(());
    }
    for entry in (table.to..table.to + table.size / RELOCATION * RELOCATION).step_by(RELOCATION) {
        let (offset, info) = (word(out, entry)?, word(out, entry + 8)?);
        let addend = word(out, entry + 16)?;
        let (symbol, kind) = ((info >> 32) as usize, info as u32);
        if symbol >= symbols.size / SYMBOL {
            return None;
        }
        let symbol = symbols.to + symbol * SYMBOL;
        // What is defined elsewhere is at 0, where no code is: a call that is left as it is would be one of the next
        // instruction, by which code asks for its own address.
        let base = base_of(sections, half(out, symbol + 6)?).unwrap_or(0);
        let value = word(out, symbol + 8)?.wrapping_add(base);
        let value = value.wrapping_add(addend);
        let place = target.address.wrapping_add(offset);
        let offset = usize::try_from(offset).ok()?;
        let (value, width) = match kind {
            // R_X86_64_64; _PC32 and _PLT32; _32 and _32S; _PC64.
            1 => (value, 8),
            2 | 4 => (value.wrapping_sub(place), 4),
            10 | 11 => (value, 4),
            24 => (value.wrapping_sub(place), 8),
            _ => continue,
        };
        if offset.checked_add(width)? > target.size {
            return None;
        }
        put(out, target.to + offset, &value.to_le_bytes()[..width])?;
    }
    Some(())
}

/// Returns what is added to the value of a symbol of this section; `None` for one that is defined elsewhere.
fn base_of(sections: &[Section], number: u16) -> Option<u64> {
    match number {
        0 => None,
        ABSOLUTE => Some(0),
        RESERVED.. => None,
        number => sections
            .get(usize::from(number))
            .map(|section| section.address),
    }
}

/// Gives the symbols of a section their addresses.
fn settle_symbols(sections: &[Section], table: &Section, out: &mut [u8]) -> Option<()> {
    for symbol in (table.to..table.to + table.size / SYMBOL * SYMBOL).step_by(SYMBOL) {
        if let Some(base) = base_of(sections, half(out, symbol + 6)?) {
            let value = word(out, symbol + 8)?.wrapping_add(base);
            put(out, symbol + 8, &value.to_le_bytes())?;
        }
    }
    Some(())
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    out.get_mut(at..at.checked_add(bytes.len())?)?
        .copy_from_slice(bytes);
    Some(())
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header of an object file with `count` sections at 64.
    fn object(count: u16, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
        bytes[40..48].copy_from_slice(&(HEADER as u64).to_le_bytes());
        bytes[58..60].copy_from_slice(&(SECTION as u16).to_le_bytes());
        bytes[60..62].copy_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(rest);
        bytes
    }

    proptest! {
        #[test]
        fn whatever_it_holds_an_object_ends_no_reader(
            count in 0u16..6,
            words in proptest::collection::vec(prop_oneof![0u32..80, any::<u32>()], 0..120),
        ) {
            let rest: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let bytes = object(count, &rest);
            if let Some(Linked::Whole(linked)) = linked(&bytes) {
                prop_assert!(linked.len() <= bytes.len() * 3 + 9 * 4096);
            }
            let _ = members(&[b"!<arch>\n".as_slice(), &rest].concat());
        }
    }
}
