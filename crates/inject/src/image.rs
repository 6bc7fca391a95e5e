//! Lays out the agent's program file as memory: a loader for this one kind of file.
//!
//! The file is a static position-independent program (ELF gABI chapter 5; x86-64 psABI §4.4) whose only relocations are
//! `R_X86_64_RELATIVE`. It is laid out in our own memory, and written to the guest as finished bytes.

use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Rela};
use object::{Endianness, Object, ObjectSymbol};
use process::error::{Error, Result};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

/// Offset of the image in the agent's mapping: after the header page.
pub const OFFSET: u64 = wire::PAGE as u64;

/// A part of the image with its own protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offsets from the mapping's start, whole pages.
    pub range: Range<u64>,
    /// How the guest may use it: bits of `PROT_*`, as mmap(2) takes them.
    pub protection: i32,
}

/// The agent's image, which can be relocated to any address.
#[derive(Debug)]
pub struct Image {
    bytes: Vec<u8>,
    relative: Vec<(u64, u64)>,
    parts: Vec<Part>,
    /// Offsets of the symbols from the mapping's start.
    control_page: u64,
    config: u64,
    ledger: u64,
    script: u64,
    snapshot: u64,
    enter: u64,
    calls: u64,
    open_calls: u64,
    routines: [u64; wire::ROUTINES],
    works: u64,
    build: u64,
}

/// The agent's file, which is embedded in our own program, and its image once that is needed: what is only seen by ptrace needs none.
#[derive(Debug)]
pub struct Embedded {
    file: &'static [u8],
    image: OnceCell<Image>,
}

impl Embedded {
    /// Keeps the file.
    #[must_use]
    pub fn new(file: &'static [u8]) -> Self {
        Embedded {
            file,
            image: OnceCell::new(),
        }
    }

    /// Returns the image, which is made at the first call.
    ///
    /// # Errors
    /// See [`Image::parse`].
    pub fn image(&self) -> Result<&Image> {
        if let Some(image) = self.image.get() {
            return Ok(image);
        }
        let image = Image::parse(self.file)?;
        Ok(self.image.get_or_init(|| image))
    }
}

impl Image {
    /// Reads the agent's file, which is embedded in our own program.
    ///
    /// # Errors
    /// [`Error::Image`] if it is no such file: damaged, with another kind of relocation, or without one of the expected
    /// symbols.
    pub fn parse(file: &[u8]) -> Result<Self> {
        let damaged = |_| Error::Image("not an ELF file");
        let parsed: ElfFile64 = ElfFile64::parse(file).map_err(damaged)?;
        let endian = Endianness::Little;
        let headers = parsed
            .elf_header()
            .program_headers(endian, file)
            .map_err(damaged)?;
        let loads = || headers.iter().filter(|h| h.p_type(endian) == elf::PT_LOAD);
        let end = loads()
            .map(|header| header.p_vaddr(endian) + header.p_memsz(endian))
            .max()
            .ok_or(Error::Image("it has nothing to load"))?;
        let mut bytes = vec![0; page_up(end) as usize];
        let mut parts = Vec::new();
        for header in loads() {
            let start = header.p_vaddr(endian);
            let content = header
                .data(endian, file)
                .map_err(|()| Error::Image("a segment is cut off"))?;
            bytes[start as usize..start as usize + content.len()].copy_from_slice(content);
            let flags = header.p_flags(endian);
            let bit = |flag: elf::ProgramFlags, protection| {
                if flags.0 & flag.0 != 0 { protection } else { 0 }
            };
            parts.push(Part {
                range: OFFSET + page_down(start)..OFFSET + page_up(start + header.p_memsz(endian)),
                protection: bit(elf::PF_R, libc::PROT_READ)
                    | bit(elf::PF_W, libc::PROT_WRITE)
                    | bit(elf::PF_X, libc::PROT_EXEC),
            });
        }
        let named = parsed.symbols();
        let named = named.filter_map(|symbol| Some((symbol.name_bytes().ok()?, symbol.address())));
        let addresses: HashMap<&[u8], u64> = named.collect();
        let symbol = |name: &'static str| {
            let found = addresses.get(name.as_bytes());
            found
                .map(|address| OFFSET + address)
                .ok_or(Error::Image("a symbol is missing"))
        };
        Ok(Image {
            relative: relocations(&parsed, file)?,
            bytes,
            parts,
            control_page: symbol("CONTROL_PAGE")?,
            config: symbol("CONFIG")?,
            ledger: symbol("LEDGER")?,
            script: symbol("SCRIPT")?,
            snapshot: symbol("SNAPSHOT")?,
            enter: symbol("enter")?,
            calls: symbol("CALLS")?,
            open_calls: symbol("open_calls")?,
            routines: [
                symbol("trampoline_call_through")?,
                symbol("trampoline_probe")?,
                symbol("trampoline_find_fde")?,
                symbol("trampoline_find_object")?,
                symbol("trampoline_iterate_objects")?,
            ],
            works: symbol("trampoline_works")?,
            build: wire::calls::fingerprint(file),
        })
    }

    /// Bytes of the whole mapping, header page included.
    pub fn size(&self) -> u64 {
        OFFSET + self.bytes.len() as u64
    }

    /// The parts of the mapping behind the header page, each with its protection.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Offset of the control page's page in the mapping.
    pub fn control_page(&self) -> u64 {
        self.control_page
    }

    /// Returns the image for a new mapping that starts at `base`, without the zeros at its end: new memory is zero
    /// already, and takes memory only where it is used.
    pub fn relocated(&self, base: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for (at, addend) in &self.relative {
            let value = base + OFFSET + addend;
            bytes[*at as usize..*at as usize + 8].copy_from_slice(&value.to_le_bytes());
        }
        let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        bytes.truncate(bytes.len() - zeros);
        bytes
    }

    /// Returns the header for a mapping that starts at `base`; `whole` says whether all of the image has been written.
    pub fn header(&self, base: u64, whole: bool) -> wire::Header {
        wire::Header {
            magic: wire::MAGIC,
            version: wire::VERSION,
            whole: u32::from(whole),
            build: self.build,
            size: self.size(),
            control_page: base + self.control_page,
            config: base + self.config,
            ledger: base + self.ledger,
            script: base + self.script,
            snapshot: base + self.snapshot,
            enter: base + self.enter,
            calls: base + self.calls,
            open_calls: base + self.open_calls,
            routines: self.routines.map(|routine| base + routine),
            works: base + self.works,
        }
    }

    /// Whether a header belongs to exactly this build of the agent.
    pub fn is_mine(&self, header: &wire::Header) -> bool {
        header.magic == wire::MAGIC
            && header.version == wire::VERSION
            && header.build == self.build
            && header.size == self.size()
    }
}

fn relocations(parsed: &ElfFile64, file: &[u8]) -> Result<Vec<(u64, u64)>> {
    let endian = Endianness::Little;
    let sections = parsed.elf_section_table();
    let mut found = Vec::new();
    for section in sections.iter() {
        use object::read::elf::SectionHeader;
        let Ok(Some((relas, _))) = section.rela(endian, file) else {
            continue;
        };
        for rela in relas {
            if rela.r_type(endian, false) != elf::R_X86_64_RELATIVE {
                return Err(Error::Image("it has a relocation that names a symbol"));
            }
            found.push((rela.r_offset(endian), rela.r_addend(endian) as u64));
        }
    }
    Ok(found)
}

fn page_down(address: u64) -> u64 {
    address & !(wire::PAGE as u64 - 1)
}

fn page_up(address: u64) -> u64 {
    address.next_multiple_of(wire::PAGE as u64)
}
