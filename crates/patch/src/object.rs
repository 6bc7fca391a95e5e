//! The user's file: what is accepted, its segments as memory, its relocations (ELF gABI chapter 5; x86-64 psABI §4.4).
//! Used by `imports`, `remedies::trim`, `remedies::ucontext` and others.
//!
//! The constructors of a file are not run, it gets no thread-local storage, and no libraries are loaded for it, so a file that
//! needs one of these is refused. A plain `cc -shared` adds constructors of its own (`frame_dummy`), so such files are linked
//! with `-nostartfiles`.
//!
//! The file is the user's, but it may be cut off or no ELF file at all: every offset is checked.

use crate::error::{Error, Result};
use inject::image::Part;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object as _, ObjectSymbol};
use process::modules::open_regular;
use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The largest file, and the most memory that one takes.
const LARGEST: u64 = 64 << 20;
const LE: Endianness = Endianness::Little;

/// What a slot of the file is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An address in the file's own memory.
    Own(u64),
    /// The address of the symbol with this number, plus so much.
    Symbol(usize, u64),
    /// What the function at this address in the file's own memory picks (IFUNC).
    Picked(u64),
}

/// A name in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub name: String,
    /// The address in the file's own memory; `None` = it is an import.
    pub address: Option<u64>,
    /// Whether it is an import that may be missing.
    pub weak: bool,
    /// Whether its address is that of a function that picks (IFUNC).
    pub picks: bool,
}

impl Symbol {
    fn import(name: &str) -> Self {
        Symbol {
            name: name.to_owned(),
            address: None,
            weak: false,
            picks: false,
        }
    }
}

/// The value for a word of a file that is part of lancet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// An address in its own memory.
    Own(u64),
    /// What a name stands for.
    Import(&'static str),
}

/// A file, ready to be placed at any address.
#[derive(Debug)]
pub(crate) struct Object {
    pub path: PathBuf,
    /// Its memory from its first page on, whole pages, not relocated.
    pub bytes: Vec<u8>,
    /// The ranges of that memory with their protections, by rising address; none overlaps another.
    pub parts: Vec<Part>,
    /// Each slot of eight bytes, by its address.
    pub slots: Vec<(u64, Value)>,
    /// The symbols that slots need, by their numbers in the file.
    pub symbols: HashMap<usize, Symbol>,
    /// A fingerprint of the file as it was read.
    pub fingerprint: u64,
    /// Where the table of its unwinding rules is (`.eh_frame_hdr`), if it has one.
    pub rules: Option<u64>,
}

impl Object {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not one that can be loaded so; the reason says what to do.
    pub fn open(path: &Path) -> Result<Self> {
        let refused = |reason: String| Error::File {
            file: path.to_owned(),
            reason,
        };
        let mut file = Vec::new();
        let opened = open_regular(path).and_then(|opened| {
            let limit = LARGEST + 1;
            opened.take(limit).read_to_end(&mut file)
        });
        opened.map_err(|error| refused(error.to_string()))?;
        if file.len() as u64 > LARGEST {
            return Err(refused(format!("it is larger than {} MiB", LARGEST >> 20)));
        }
        Self::parse(path, &file).map_err(|reason| refused(reason.into()))
    }

    /// Reads the bytes of a file.
    pub fn parse(path: &Path, file: &[u8]) -> std::result::Result<Self, &'static str> {
        const NO_LIBRARY: &str =
            "it is not a shared library for x86-64: cc -shared -fPIC makes one";
        let parsed: ElfFile64 = ElfFile64::parse(file).map_err(|_| NO_LIBRARY)?;
        let header = parsed.elf_header();
        if header.e_type(LE) != elf::ET_DYN || header.e_machine(LE) != elf::EM_X86_64 {
            return Err(NO_LIBRARY);
        }
        let (bytes, parts) = lay_out(&parsed, file)?;
        let dynamic = Dynamic::read(&parsed, file)?;
        dynamic.check()?;
        let slots = slots(&bytes, &dynamic)?;
        Ok(Object {
            path: path.to_owned(),
            symbols: symbols(&parsed),
            rules: rules(&parsed, file).filter(|at| *at < bytes.len() as u64),
            fingerprint: wire::calls::fingerprint(file),
            bytes,
            parts,
            slots,
        })
    }

    /// A file that lancet brings along: its memory, the words that are to be filled in, and where its functions begin.
    pub fn built_in(
        name: &str,
        bytes: Vec<u8>,
        parts: Vec<Part>,
        words: &[(u64, Word)],
        functions: &[(&str, u64)],
    ) -> Self {
        let (mut symbols, mut slots) = (HashMap::new(), Vec::new());
        for (at, word) in words {
            let value = match word {
                Word::Own(address) => Value::Own(*address),
                Word::Import(name) => {
                    let number = symbols.len() + 1;
                    symbols.insert(number, Symbol::import(name));
                    Value::Symbol(number, 0)
                }
            };
            slots.push((*at, value));
        }
        for (name, address) in functions {
            let shown = Symbol {
                address: Some(*address),
                ..Symbol::import(name)
            };
            symbols.insert(symbols.len() + 1, shown);
        }
        Object {
            path: PathBuf::from(name),
            fingerprint: wire::calls::fingerprint(&bytes),
            parts,
            bytes,
            slots,
            symbols,
            rules: None,
        }
    }

    /// The address of a function that the file shows to others.
    pub fn function(&self, name: &str) -> Option<u64> {
        let mut named = self.symbols.values().filter(|symbol| symbol.name == name);
        let address = named.find_map(|symbol| symbol.address.filter(|_| !symbol.picks))?;
        let code = self
            .parts
            .iter()
            .filter(|part| part.protection & libc::PROT_EXEC != 0);
        code.into_iter()
            .any(|part| part.range.contains(&address))
            .then_some(address)
    }

    /// Its size in memory, whole pages.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// The table of unwinding rules.
fn rules(parsed: &ElfFile64, file: &[u8]) -> Option<u64> {
    let headers = parsed.elf_header().program_headers(LE, file).ok()?;
    let mut headers = headers.iter();
    let header = headers.find(|header| header.p_type(LE) == elf::PT_GNU_EH_FRAME)?;
    Some(header.p_vaddr(LE))
}

fn page_down(address: u64) -> u64 {
    address & !(wire::PAGE as u64 - 1)
}

fn page_up(address: u64) -> u64 {
    address.next_multiple_of(wire::PAGE as u64)
}

/// The segments as memory, and the pages with their protections.
fn lay_out(
    parsed: &ElfFile64,
    file: &[u8],
) -> std::result::Result<(Vec<u8>, Vec<Part>), &'static str> {
    const CUT: &str = "its program header is damaged";
    let headers = parsed
        .elf_header()
        .program_headers(LE, file)
        .map_err(|_| CUT)?;
    let (mut bytes, mut parts) = (Vec::new(), Vec::new());
    let mut relro = 0..0;
    for header in headers {
        let start = header.p_vaddr(LE);
        let end = start.checked_add(header.p_memsz(LE)).ok_or(CUT)?;
        match header.p_type(LE) {
            elf::PT_TLS if start != end => {
                return Err(
                    "it has thread-local variables (PT_TLS), for which a running process has no room: use plain variables",
                );
            }
            // The loader protects whole pages only (glibc `elf/dl-reloc.c`, `_dl_protect_relro`).
            elf::PT_GNU_RELRO => relro = page_down(start)..page_down(end),
            elf::PT_LOAD if start != end => {
                if end > LARGEST {
                    return Err("it takes more memory than 64 MiB");
                }
                let content = header.data(LE, file).map_err(|()| "it is cut off")?;
                let range = page_down(start)..page_up(end);
                let last = parts.last().map_or(0, |part: &Part| part.range.end);
                if range.start < last || content.len() as u64 > end - start {
                    return Err(CUT);
                }
                if header.p_align(LE) > wire::PAGE as u64 && !is_page_size(header.p_align(LE)) {
                    return Err(CUT);
                }
                bytes.resize(range.end as usize, 0);
                bytes[start as usize..start as usize + content.len()].copy_from_slice(content);
                parts.push(Part {
                    range,
                    protection: protection(header.p_flags(LE))?,
                });
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        return Err("it has nothing to load");
    }
    Ok((bytes, with_read_only(parts, &relro)))
}

/// Sizes that linkers align segments to for pages of other machines; they ask for no more than a page here.
fn is_page_size(align: u64) -> bool {
    [0x1_0000, 0x20_0000].contains(&align)
}

fn protection(flags: elf::ProgramFlags) -> std::result::Result<i32, &'static str> {
    let bit = |flag: elf::ProgramFlags, protection| {
        if flags.0 & flag.0 != 0 { protection } else { 0 }
    };
    let all = bit(elf::PF_R, libc::PROT_READ)
        | bit(elf::PF_W, libc::PROT_WRITE)
        | bit(elf::PF_X, libc::PROT_EXEC);
    if all & libc::PROT_WRITE != 0 && all & libc::PROT_EXEC != 0 {
        return Err(
            "a part of it is both writable and executable: link it without -z execstack or -N",
        );
    }
    Ok(all)
}

/// Makes those pages read-only that are so once relocated.
fn with_read_only(parts: Vec<Part>, relro: &Range<u64>) -> Vec<Part> {
    let mut split = Vec::new();
    for part in parts {
        let read_only = relro.start.clamp(part.range.start, part.range.end)
            ..relro.end.clamp(part.range.start, part.range.end);
        if part.protection & libc::PROT_WRITE == 0 || read_only.is_empty() {
            split.push(part);
            continue;
        }
        let pieces = [
            (part.range.start..read_only.start, part.protection),
            (read_only.clone(), libc::PROT_READ),
            (read_only.end..part.range.end, part.protection),
        ];
        let pieces = pieces.into_iter().filter(|(range, _)| !range.is_empty());
        split.extend(pieces.map(|(range, protection)| Part { range, protection }));
    }
    split
}

/// The dynamic section, by tag.
struct Dynamic(HashMap<i64, u64>);

impl Dynamic {
    fn read(parsed: &ElfFile64, file: &[u8]) -> std::result::Result<Self, &'static str> {
        const NONE: &str = "it has no dynamic section";
        let headers = parsed.elf_header().program_headers(LE, file);
        let headers = headers.map_err(|_| NONE)?;
        let entries = headers
            .iter()
            .find_map(|header| header.dynamic(LE, file).ok().flatten())
            .ok_or(NONE)?;
        use object::read::elf::Dyn;
        let pairs = entries
            .iter()
            .map(|entry| (entry.d_tag(LE).0, entry.d_val(LE)));
        Ok(Dynamic(
            pairs
                .take_while(|(tag, _)| *tag != elf::DT_NULL.0)
                .collect(),
        ))
    }

    fn value(&self, tag: elf::DynamicTag) -> u64 {
        self.0.get(&tag.0).copied().unwrap_or(0)
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        let there = |tag: elf::DynamicTag| self.0.contains_key(&tag.0);
        if there(elf::DT_INIT)
            || self.value(elf::DT_INIT_ARRAYSZ) != 0
            || self.value(elf::DT_PREINIT_ARRAYSZ) != 0
        {
            return Err(
                "it has constructors, which nobody would run: link it with -nostartfiles, and have no static object that needs one",
            );
        }
        if there(elf::DT_FINI) || self.value(elf::DT_FINI_ARRAYSZ) != 0 {
            return Err("it has destructors, which nobody would run: link it with -nostartfiles");
        }
        if there(elf::DT_TEXTREL) || self.value(elf::DT_FLAGS) & 4 != 0 {
            return Err(
                "its code would have to be changed to be loaded (DT_TEXTREL): compile it with -fPIC",
            );
        }
        if self.value(elf::DT_RELSZ) != 0 {
            return Err("it has relocations without addends (DT_REL), which x86-64 does not use");
        }
        Ok(())
    }
}

/// Every slot that is to be filled.
fn slots(bytes: &[u8], dynamic: &Dynamic) -> std::result::Result<Vec<(u64, Value)>, &'static str> {
    const DAMAGED: &str = "its relocations are damaged";
    let word = |at: u64| {
        let at = usize::try_from(at).ok()?;
        let bytes = bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let mut slots = Vec::new();
    for (table, size) in [
        (elf::DT_RELA, elf::DT_RELASZ),
        (elf::DT_JMPREL, elf::DT_PLTRELSZ),
    ] {
        let (table, size) = (dynamic.value(table), dynamic.value(size));
        let end = table.checked_add(size).ok_or(DAMAGED)?;
        for at in (table..end).step_by(24) {
            let field = |offset: u64| word(at + offset).ok_or(DAMAGED);
            let (place, info, addend) = (field(0)?, field(8)?, field(16)?);
            let symbol = (info >> 32) as usize;
            let value = match info as u32 {
                kind if kind == elf::R_X86_64_NONE.0 => continue,
                kind if kind == elf::R_X86_64_RELATIVE.0 => Value::Own(addend),
                kind if kind == elf::R_X86_64_IRELATIVE.0 => Value::Picked(addend),
                kind if kind == elf::R_X86_64_64.0 => Value::Symbol(symbol, addend),
                kind if kind == elf::R_X86_64_GLOB_DAT.0 || kind == elf::R_X86_64_JUMP_SLOT.0 => {
                    Value::Symbol(symbol, 0)
                }
                kind if is_thread_local(kind) => {
                    return Err(
                        "it uses a thread-local variable (of its own or of a library), which cannot be resolved in a running process",
                    );
                }
                _ => {
                    return Err(
                        "it has a relocation of a kind that is not known: compile it with -fPIC",
                    );
                }
            };
            word(place).ok_or(DAMAGED)?;
            slots.push((place, value));
        }
    }
    packed(dynamic, word, &mut slots).ok_or(DAMAGED)?;
    Ok(slots)
}

fn is_thread_local(kind: u32) -> bool {
    [
        elf::R_X86_64_DTPMOD64,
        elf::R_X86_64_DTPOFF64,
        elf::R_X86_64_TPOFF64,
        elf::R_X86_64_TLSDESC,
    ]
    .iter()
    .any(|known| known.0 == kind)
}

/// The relative relocations of `DT_RELR`: an even word is the address of a slot, an odd one has a bit for each of the 63 slots
/// behind the last (gABI, "Relative Relocation Table"). What is added stands in the slot.
fn packed(
    dynamic: &Dynamic,
    word: impl Fn(u64) -> Option<u64>,
    slots: &mut Vec<(u64, Value)>,
) -> Option<()> {
    let (table, size) = (dynamic.value(elf::DT_RELR), dynamic.value(elf::DT_RELRSZ));
    let mut next = 0u64;
    for at in (table..table.checked_add(size)?).step_by(8) {
        let entry = word(at)?;
        if entry & 1 == 0 {
            slots.push((entry, Value::Own(word(entry)?)));
            next = entry.checked_add(8)?;
            continue;
        }
        for bit in (0..63).filter(|bit| entry >> (bit + 1) & 1 != 0) {
            let place = next.checked_add(bit * 8)?;
            slots.push((place, Value::Own(word(place)?)));
        }
        next = next.checked_add(63 * 8)?;
    }
    Some(())
}

fn symbols(parsed: &ElfFile64) -> HashMap<usize, Symbol> {
    parsed
        .dynamic_symbols()
        .filter_map(|symbol| {
            let raw = symbol.elf_symbol();
            let known = Symbol {
                name: symbol.name().ok()?.to_owned(),
                address: (!symbol.is_undefined()).then(|| symbol.address()),
                weak: symbol.is_weak(),
                picks: raw.st_type() == elf::STT_GNU_IFUNC,
            };
            Some((symbol.index().0, known))
        })
        .collect()
}
