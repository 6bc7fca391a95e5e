//! Reads ELF from untrusted places: files of the guest, and the guest's memory. Used by `modules`, `symbols::debug` and
//! others here, and by the crates `frames`, `hooks`, `lancet` and `languages`.
//!
//! Layouts: System V gABI, chapters 4 (ELF header, sections, symbol table, notes) and 5 (program
//! header, dynamic section); structures from the `object` crate. Only 64-bit little-endian x86-64.
//!
//! Nothing here trusts a number it has read. A file is read with `pread` into buffers of our own and never mapped: if
//! it is truncated meanwhile, a mapping would kill lancet with SIGBUS. Every size is compared with the data that exist
//! before memory is allocated for it.

pub mod dynamic;
pub mod imports;
mod machine;
pub mod table;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use object::LittleEndian as LE;
use object::elf;
use object::pod;

pub use machine::{Architecture, architecture, architecture_of, require_x86_64};

/// No table of symbols or strings is read if it claims to be larger than this: a sparse file costs its
/// owner nothing, and would cost us as much memory as it claims to have.
pub const LARGEST_TABLE: u64 = 256 << 20;

/// Program headers beyond this count are not a program's. Real ones have about ten.
const MOST_SEGMENTS: u16 = 512;

/// A build ID longer than this is not one (SHA-1 has 20 bytes, the longest in use has 64).
const LONGEST_BUILD_ID: usize = 64;

/// Why an ELF object cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// A file cannot be opened or read.
    #[error("{path}: {source}")]
    File {
        /// The file, as we tried to open it.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The bytes are not those of a sound ELF object.
    #[error("{file}: {reason}")]
    Malformed {
        /// The file, or the module in memory.
        file: PathBuf,
        /// Which rule of the format the bytes break.
        reason: &'static str,
    },
    /// The program is made for another kind of machine.
    #[error("{file} is a program for {found}; only 64-bit x86-64 programs can be opened")]
    Architecture {
        /// The file of the program.
        file: PathBuf,
        /// What it is made for.
        found: Architecture,
    },
    /// The process has no program: it is a kernel thread, or has ended.
    #[error("process {pid} runs no program (it is a kernel thread, or has just ended)")]
    NoProgram {
        /// Its id in the PID namespace of lancet.
        pid: i32,
    },
    /// The guest's memory cannot be read where something must be.
    #[error("{what} at {at:#x} cannot be read from the guest's memory")]
    Memory {
        /// What should be there.
        what: &'static str,
        /// The guest's address that was read.
        at: u64,
    },
}

impl ElfError {
    /// Whether the file could not be opened because lancet had no descriptor left.
    pub fn is_shortage(&self) -> bool {
        matches!(self, ElfError::File { source, .. } if crate::descriptors::is_shortage(source))
    }
}

/// Bytes that can be read at any offset: a file, or a piece of memory.
pub trait Bytes {
    /// Returns how many bytes there are.
    fn size(&self) -> u64;
    /// Fills `into` with the bytes from `at` on; false if not all of them could be read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> bool;
}

impl Bytes for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_at(&self, at: u64, into: &mut [u8]) -> bool {
        let found = usize::try_from(at)
            .ok()
            .and_then(|at| self.get(at..)?.get(..into.len()));
        found.map(|found| into.copy_from_slice(found)).is_some()
    }
}

impl Bytes for File {
    fn size(&self) -> u64 {
        self.metadata().map_or(0, |metadata| metadata.len())
    }
    fn read_at(&self, at: u64, into: &mut [u8]) -> bool {
        self.read_exact_at(into, at).is_ok()
    }
}

/// Reads `size` bytes at `at`, after making sure that they exist and are not too many.
pub fn read_table(bytes: &(impl Bytes + ?Sized), at: u64, size: u64) -> Option<Vec<u8>> {
    let end = at.checked_add(size)?;
    if size > LARGEST_TABLE || end > bytes.size() {
        return None;
    }
    let mut table = vec![0; usize::try_from(size).ok()?];
    bytes.read_at(at, &mut table).then_some(table)
}

/// One entry of the program header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Type of the segment (`p_type`).
    pub kind: elf::ProgramType,
    /// Whether it is to be mapped executable.
    pub executable: bool,
    /// Whether it is to be mapped writable.
    pub writable: bool,
    /// Offset of its bytes in the file.
    pub offset: u64,
    /// Its address in memory, before the load bias.
    pub address: u64,
    /// Number of its bytes that come from the file.
    pub file_size: u64,
    /// Number of bytes that it takes in memory.
    pub memory_size: u64,
    /// Alignment in memory and in the file, in bytes (`p_align`); 0 or 1 = none.
    pub align: u64,
}

impl Segment {
    /// Returns the addresses that it takes, before the load bias.
    pub fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.memory_size)
    }
}

/// One entry of the section header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Where its name starts in the section name table.
    name: u32,
    /// Type of the section (`sh_type`).
    pub kind: elf::SectionType,
    /// Its address in memory, before the load bias; 0 if it is not loaded.
    pub address: u64,
    /// Offset of its bytes in the file.
    pub offset: u64,
    /// Number of its bytes.
    pub size: u64,
    /// Number of the section that it refers to, as a symbol table does to its strings.
    pub link: u32,
    /// Whether it holds code (`SHF_EXECINSTR`).
    pub executable: bool,
    /// Whether its bytes are compressed (`SHF_COMPRESSED`), behind a header of their own.
    pub compressed: bool,
}

/// What the headers of an ELF object say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// Whether it can be loaded at any address (`ET_DYN`): a library, or a position-independent program.
    pub relocatable: bool,
    /// The address of the first instruction, before the load bias.
    pub entry: u64,
    /// The entries of the program header, in the file's order.
    pub segments: Vec<Segment>,
    section_table: u64,
    section_count: u16,
    section_names: u16,
}

impl Headers {
    /// Reads the ELF header and the program header.
    pub fn read(bytes: &(impl Bytes + ?Sized)) -> Result<Headers, &'static str> {
        let mut header = [0; size_of::<elf::FileHeader64<LE>>()];
        if !bytes.read_at(0, &mut header) {
            return Err("too short for an ELF header");
        }
        let (start, _) = header
            .split_first_chunk::<20>()
            .ok_or("too short for an ELF header")?;
        if architecture_of(start) != Some(Architecture::X86_64) {
            return Err("not an x86-64 ELF file");
        }
        let (header, _) = pod::from_bytes::<elf::FileHeader64<LE>>(&header)
            .map_err(|()| "too short for an ELF header")?;
        let kind = header.e_type.get(LE);
        if kind != elf::ET_DYN && kind != elf::ET_EXEC {
            return Err("neither a program nor a shared library");
        }
        let count = header.e_phnum.get(LE);
        let entry = size_of::<elf::ProgramHeader64<LE>>();
        if count > MOST_SEGMENTS || usize::from(header.e_phentsize.get(LE)) != entry && count > 0 {
            return Err("the program header has an impossible size");
        }
        let mut table = vec![0; usize::from(count) * entry];
        if !bytes.read_at(header.e_phoff.get(LE), &mut table) {
            return Err("the program header lies outside of the file");
        }
        let (table, _) =
            pod::slice_from_bytes::<elf::ProgramHeader64<LE>>(&table, usize::from(count))
                .map_err(|()| "the program header has an impossible size")?;
        let sections_fit =
            usize::from(header.e_shentsize.get(LE)) == size_of::<elf::SectionHeader64<LE>>();
        Ok(Headers {
            relocatable: kind == elf::ET_DYN,
            entry: header.e_entry.get(LE),
            segments: table.iter().map(segment).collect(),
            section_table: header.e_shoff.get(LE),
            section_count: if sections_fit {
                header.e_shnum.get(LE)
            } else {
                0
            },
            section_names: header.e_shstrndx.get(LE).0,
        })
    }

    /// Returns the segments that are mapped.
    pub fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments
            .iter()
            .filter(|segment| segment.kind == elf::PT_LOAD)
    }

    /// Returns the first segment of a type.
    pub fn segment(&self, kind: elf::ProgramType) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    /// Returns the range from the lowest to one past the highest address of all mapped segments, before the load bias.
    pub fn extent(&self) -> Range<u64> {
        let start = self.loads().map(|load| load.address).min().unwrap_or(0);
        let end = self.loads().map(|load| load.range().end).max().unwrap_or(0);
        start..end.max(start)
    }

    /// Returns the offset in the file of the `size` bytes for `address`.
    pub fn file_offset(&self, address: u64, size: u64) -> Option<u64> {
        self.loads().find_map(|load| {
            let within = address.checked_sub(load.address)?;
            (within.checked_add(size)? <= load.file_size).then_some(())?;
            load.offset.checked_add(within)
        })
    }

    /// Reads the section header. An object without one, or with a damaged one, has no sections.
    ///
    /// Files with more than 65,279 sections (gABI: `e_shnum` 0, count in section 0) are relocatable objects and never
    /// loaded; they are taken to have none.
    pub fn sections(&self, bytes: &(impl Bytes + ?Sized)) -> Vec<Section> {
        let entry = size_of::<elf::SectionHeader64<LE>>() as u64;
        let count = u64::from(self.section_count);
        let Some(table) = read_table(bytes, self.section_table, count * entry) else {
            return Vec::new();
        };
        let table = pod::slice_from_all_bytes::<elf::SectionHeader64<LE>>(&table).unwrap_or(&[]);
        table.iter().map(section).collect()
    }

    /// Reads the bytes of the section called `name`, out of `sections` of the same file.
    pub fn section_named(
        &self,
        bytes: &(impl Bytes + ?Sized),
        sections: &[Section],
        name: &str,
    ) -> Option<Vec<u8>> {
        let section = self.find_section(bytes, sections, name)?;
        read_table(bytes, section.offset, section.size)
    }

    /// Returns the section called `name`, if it has bytes in the file.
    pub fn find_section<'a>(
        &self,
        bytes: &(impl Bytes + ?Sized),
        sections: &'a [Section],
        name: &str,
    ) -> Option<&'a Section> {
        let names = sections.get(usize::from(self.section_names))?;
        let names = read_table(bytes, names.offset, names.size)?;
        sections.iter().find(|section| {
            section.kind != elf::SHT_NOBITS
                && string(&names, section.name).is_some_and(|found| found == name.as_bytes())
        })
    }

    /// Returns the build ID of a file.
    ///
    /// By section first: the program header of a separate debug file may still be that of the program it was split
    /// from, with offsets that mean nothing here.
    pub fn build_id(&self, bytes: &(impl Bytes + ?Sized)) -> Option<Vec<u8>> {
        let sections = self.sections(bytes);
        let notes = sections
            .iter()
            .filter(|section| section.kind == elf::SHT_NOTE);
        let segments = self
            .segments
            .iter()
            .filter(|segment| segment.kind == elf::PT_NOTE);
        notes
            .map(|note| (note.offset, note.size, 4))
            .chain(segments.map(|note| (note.offset, note.file_size, note.align)))
            .find_map(|(offset, size, align)| {
                build_id_in(&read_table(bytes, offset, size.min(0x1_0000))?, align)
            })
    }
}

fn segment(entry: &elf::ProgramHeader64<LE>) -> Segment {
    Segment {
        kind: entry.p_type.get(LE),
        executable: entry.p_flags.get(LE).contains(elf::PF_X),
        writable: entry.p_flags.get(LE).contains(elf::PF_W),
        offset: entry.p_offset.get(LE),
        address: entry.p_vaddr.get(LE),
        file_size: entry.p_filesz.get(LE),
        memory_size: entry.p_memsz.get(LE),
        align: entry.p_align.get(LE),
    }
}

fn section(entry: &elf::SectionHeader64<LE>) -> Section {
    Section {
        name: entry.sh_name.get(LE),
        kind: entry.sh_type.get(LE),
        address: entry.sh_addr.get(LE),
        offset: entry.sh_offset.get(LE),
        size: entry.sh_size.get(LE),
        link: entry.sh_link.get(LE),
        executable: entry.sh_flags.get(LE).contains(elf::SHF_EXECINSTR),
        compressed: entry.sh_flags.get(LE).contains(elf::SHF_COMPRESSED),
    }
}

/// Returns the string that starts at `at` in a string table, without its NUL.
pub fn string(table: &[u8], at: u32) -> Option<&[u8]> {
    let rest = table.get(at as usize..)?;
    Some(&rest[..memchr::memchr(0, rest)?])
}

/// Returns the build ID among the notes of one section or segment (gABI, "Note Section"; the owner is `GNU` and the
/// type `NT_GNU_BUILD_ID`). `align` is what the descriptors are padded to.
pub fn build_id_in(notes: &[u8], align: u64) -> Option<Vec<u8>> {
    let pad = |size: u32| (size as usize).checked_next_multiple_of(if align == 8 { 8 } else { 4 });
    let mut rest = notes;
    while let Ok((header, after)) = pod::from_bytes::<elf::NoteHeader64<LE>>(rest) {
        let name_size = header.n_namesz.get(LE);
        let id_size = header.n_descsz.get(LE);
        // The name is always padded to 4; with 8-byte alignment only "GNU\0" is in use, where the
        // header and the name end on a multiple of 8 anyway.
        let (name, after) =
            after.split_at_checked((name_size as usize).checked_next_multiple_of(4)?)?;
        if header.n_type.get(LE) == elf::NT_GNU_BUILD_ID && name == b"GNU\0" {
            let id = after.get(..id_size as usize)?;
            return (1..=LONGEST_BUILD_ID)
                .contains(&id.len())
                .then(|| id.to_vec());
        }
        rest = after.get(pad(id_size)?..)?;
    }
    None
}
