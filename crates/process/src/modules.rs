//! Finds the ELF objects a guest has loaded: its program, its libraries, the loader itself. Used by `functions`,
//! `linkmap` and others here, and by the crates `enter`, `frames`, `rss` and `lancet`.
//!
//! They are found in the maps and not in the loader's list, because the maps always exist: in a static program, in one whose loader
//! has not begun, in one loaded by something else than glibc. (`linkmap` reads the loader's list, which alone shows what comes and
//! goes between two readings.)
//!
//! An object is recognised by a private mapping of the start of a file which holds an ELF header,
//! while everything that the header wants to be mapped is mapped around it:
//!
//! ```text
//!   file  |header .dynsym …|.text       |.rodata |.data|
//!   maps  |r--p offset 0   |r-xp 33000  |r--p    |rw-p | anonymous: .bss
//!         ^ bias + page of the first PT_LOAD's p_vaddr
//! ```
//!
//! The second demand leaves out files that are only read through a mapping, and keeps objects whose
//! text was moved to huge anonymous pages. The same file can be loaded twice (`dlmopen`) and is two modules.
//! The kernel's vdso has no file and is left out; [`kernels_own`] has it.

mod files;
mod unwound;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::elf;

use crate::auxiliary;
use crate::elf::{Bytes, ElfError, Headers, build_id_in};
use crate::maps::{Device, Mapping, Maps, PAGE};
pub use files::{GuestFiles, Origin, open_regular};
pub(crate) use files::{open_place, place};

/// One loaded ELF object.
#[derive(Debug, Clone)]
pub struct Module {
    /// The file as the guest sees it, below its own root.
    pub path: PathBuf,
    /// The path as the maps show it: below our root, or that of the guest's mount namespace.
    pub shown_path: Arc<Path>,
    /// The device the file lies on, as the maps say.
    pub device: Device,
    /// The inode of the file, as the maps say.
    pub inode: u64,
    /// Whether the file was deleted or replaced after it was loaded.
    pub deleted: bool,
    /// Load bias: what is added to an address in the file to get the one in memory.
    pub bias: u64,
    /// Whether it is the program itself, in contrast to a library. Where the loader was started as the program (`ld.so
    /// ./program`), this is the loader, as it is for the kernel.
    pub main: bool,
    /// Its mappings, by rising address, cut to what belongs to it.
    pub mappings: Vec<Mapping>,
    /// What its ELF headers say, as they lie in the guest's memory.
    pub headers: Headers,
}

impl Module {
    /// Returns the range from its first to one past its last address, holes between its segments included.
    pub fn range(&self) -> Range<u64> {
        let extent = self.headers.extent();
        page_floor(extent.start).wrapping_add(self.bias)
            ..page_ceiling(extent.end).wrapping_add(self.bias)
    }

    /// Returns whether `address` lies in one of its mappings.
    pub fn contains(&self, address: u64) -> bool {
        self.mappings
            .iter()
            .any(|mapping| mapping.contains(address))
    }

    /// Returns the address ranges of its code.
    pub fn code(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let code = self
            .mappings
            .iter()
            .filter(|mapping| mapping.permissions.execute);
        code.map(|mapping| mapping.start..mapping.end)
    }

    /// Returns the address ranges of its variables.
    pub fn data(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let data = self
            .mappings
            .iter()
            .filter(|mapping| mapping.permissions.write);
        data.map(|mapping| mapping.start..mapping.end)
    }

    /// Returns the name of the file without its folder.
    pub fn name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("?")
    }

    /// Reads the build ID that lies in the guest's memory.
    pub fn build_id(&self, memory: &dyn vm::Memory) -> Option<Vec<u8>> {
        let notes = self
            .headers
            .segments
            .iter()
            .filter(|segment| segment.kind == elf::PT_NOTE);
        notes.into_iter().find_map(|note| {
            let mut bytes = vec![0; usize::try_from(note.memory_size.min(PAGE)).ok()?];
            memory
                .read(note.address.wrapping_add(self.bias), &mut bytes)
                .ok()?;
            build_id_in(&bytes, note.align)
        })
    }
}

/// A piece of the guest's memory, read as if it were a file.
struct Window<'a> {
    memory: &'a dyn vm::Memory,
    range: Range<u64>,
}

impl Bytes for Window<'_> {
    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }
    fn read_at(&self, at: u64, into: &mut [u8]) -> bool {
        let end = at.checked_add(into.len() as u64);
        end.is_some_and(|end| end <= self.size())
            && self.memory.read(self.range.start + at, into).is_ok()
    }
}

/// Returns the modules of a guest, by rising address.
pub fn modules(
    files: &GuestFiles,
    maps: &Maps,
    memory: &dyn vm::Memory,
) -> Result<Vec<Module>, ElfError> {
    let mut search = Search {
        files,
        maps,
        program_header: auxiliary::value(files.pid(), memory, auxiliary::PROGRAM_HEADER)?,
        known: HashSet::new(),
        covered: HashSet::new(),
        found: Vec::new(),
        room: 4 * maps.iter().len(),
    };
    let private: Vec<&Mapping> = maps
        .iter()
        .filter(|mapping| mapping.is_file() && !mapping.permissions.shared)
        .collect();
    for mapping in private.iter().filter(|mapping| mapping.offset == 0) {
        if let Some((headers, bias)) = start_in_memory(memory, mapping) {
            search.add(mapping, headers, bias);
        }
    }
    for mapping in private.iter().filter(|mapping| mapping.permissions.execute) {
        if !search.covered.contains(&mapping.start)
            && let Some((headers, bias)) = start_in_file(files, mapping)
        {
            search.add(mapping, headers, bias);
        }
    }
    let mut found = search.found;
    found.sort_by_key(|module| module.mappings[0].start);
    Ok(found)
}

/// Returns the kernel's vdso: an ELF object that it maps into every process (`arch/x86/entry/vdso/vma.c`).
pub fn kernels_own(maps: &Maps, memory: &dyn vm::Memory) -> Option<Module> {
    let mapping = maps.iter().find(|mapping| mapping.is_named("[vdso]"))?;
    let (headers, bias) = start_in_memory(memory, mapping)?;
    let shown_path = mapping.path.clone()?;
    Some(Module {
        path: shown_path.to_path_buf(),
        shown_path,
        device: mapping.device,
        inode: mapping.inode,
        deleted: false,
        bias,
        main: false,
        mappings: vec![mapping.clone()],
        headers,
    })
}

/// The state of the search. It uses sets, because a guest may have thousands of mappings.
struct Search<'a> {
    files: &'a GuestFiles,
    maps: &'a Maps,
    program_header: Option<u64>,
    known: HashSet<(u64, Device, u64)>,
    covered: HashSet<u64>,
    found: Vec<Module>,
    /// How many mappings objects may still have. A mapping is part of one object, or of two if segments share a page, so a limit is
    /// known; headers in a guest's files may claim the whole address space for each of a thousand objects.
    room: usize,
}

impl Search<'_> {
    /// Adds the object that begins in `mapping`, if it is really loaded and not known yet.
    fn add(&mut self, mapping: &Mapping, headers: Headers, bias: u64) {
        let mappings = mapped(self.maps, &headers, bias, self.room);
        let file = (bias, mapping.device, mapping.inode);
        if mappings.is_empty() || !self.known.insert(file) {
            return;
        }
        self.room = self.room.saturating_sub(mappings.len());
        self.covered
            .extend(mappings.iter().map(|mapping| mapping.start));
        let holds = |at| mappings.iter().any(|mapping| mapping.contains(at));
        let shown_path = mapping.path.clone().unwrap_or_else(|| Path::new("").into());
        self.found.push(Module {
            path: self.files.path_in_guest(&shown_path),
            shown_path,
            device: mapping.device,
            inode: mapping.inode,
            deleted: mapping.deleted,
            bias,
            main: self.program_header.is_some_and(holds),
            mappings,
            headers,
        });
    }
}

/// Returns the headers and the bias of the object whose file begins in this mapping.
fn start_in_memory(memory: &dyn vm::Memory, mapping: &Mapping) -> Option<(Headers, u64)> {
    let headers = Headers::read(&Window {
        memory,
        range: mapping.start..mapping.end,
    })
    .ok()?;
    let first = headers.loads().find(|load| page_floor(load.offset) == 0)?;
    let bias = mapping.start.wrapping_sub(page_floor(first.address));
    Some((headers, bias))
}

/// The same for code whose file's beginning is not mapped, as linker scripts can cause: here the headers are read from the file.
fn start_in_file(files: &GuestFiles, mapping: &Mapping) -> Option<(Headers, u64)> {
    let headers = Headers::read(&files.open_mapping(mapping)?).ok()?;
    let load = headers.loads().find(|load| {
        let pages = page_floor(load.offset)..load.offset.saturating_add(load.file_size);
        load.executable && pages.contains(&mapping.offset)
    })?;
    let address = page_floor(load.address).wrapping_add(mapping.offset - page_floor(load.offset));
    let bias = mapping.start.wrapping_sub(address);
    Some((headers, bias))
}

/// Returns the mappings that an object with these headers has at this bias; empty if it is not loaded there, or has more than `most`.
fn mapped(maps: &Maps, headers: &Headers, bias: u64, most: usize) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for load in headers.loads().filter(|load| load.memory_size > 0) {
        let start = page_floor(load.address).wrapping_add(bias);
        let end = page_ceiling(load.range().end).wrapping_add(bias);
        let there = maps.within(start..end);
        let code_is_code = !load.executable || there.iter().any(|map| map.permissions.execute);
        if there.first().is_none_or(|first| first.start > start)
            || !code_is_code
            || mappings.len() + there.len() > most
        {
            return Vec::new();
        }
        mappings.extend(there.iter().map(|mapping| {
            let mut part = mapping.clone();
            part.start = mapping.start.max(start);
            part.end = mapping.end.min(end);
            part.offset = if mapping.inode == 0 {
                0
            } else {
                mapping.offset + (part.start - mapping.start)
            };
            part
        }));
    }
    // If two segments share a page, the mapping that belongs to the other segment is removed again.
    mappings.sort_by_key(|mapping| (mapping.start, Reverse(mapping.end)));
    mappings.dedup_by(|second, first| second.start < first.end);
    mappings
}

fn page_floor(address: u64) -> u64 {
    address / PAGE * PAGE
}

fn page_ceiling(address: u64) -> u64 {
    address
        .checked_next_multiple_of(PAGE)
        .unwrap_or(u64::MAX / PAGE * PAGE)
}
