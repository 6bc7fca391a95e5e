//! A symbol table with its strings, and finding a name in it. Used by `dynamic`, `symbols` and others here, and by most
//! crates above.
//!
//! Layout: gABI, "Symbol Table" (`Elf64_Sym`, 24 bytes). Both tables are kept as the bytes they
//! were read as; a symbol is decoded when it is looked at.

use std::sync::OnceLock;

use object::LittleEndian as LE;
use object::elf;
use object::pod;

use super::{Bytes, Headers, Section, read_table, string};

/// What a symbol stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A function that is called at its address (`STT_FUNC`).
    Function,
    /// A function that chooses and returns the true function (`STT_GNU_IFUNC`). The address is the
    /// chooser's: calling it runs the choice, patching it misses every later call.
    Indirect,
    /// A variable or constant (`STT_OBJECT`).
    Data,
    /// Not said (`STT_NOTYPE`): labels in hand-written assembly, marks of the linker.
    Untyped,
}

/// A defined symbol as it stands in the file: its address is without the load bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Where its name starts in the strings.
    pub name: u32,
    /// Address, before the load bias.
    pub address: u64,
    /// Size in bytes; 0 = not said.
    pub size: u64,
    /// What it stands for.
    pub kind: Kind,
    /// Whether it is visible only inside its own source file or object.
    pub local: bool,
}

/// Symbols and their strings.
#[derive(Debug, Default)]
pub struct Table {
    symbols: Vec<u8>,
    strings: Vec<u8>,
    by_hash: OnceLock<Vec<(u32, u32)>>,
}

impl Table {
    /// A table over the bytes of a symbol section and its string section.
    pub fn new(symbols: Vec<u8>, strings: Vec<u8>) -> Table {
        Table {
            symbols,
            strings,
            by_hash: OnceLock::new(),
        }
    }

    /// Reads `.symtab` (or another kind of symbol section) of a file.
    pub fn of_section(
        bytes: &(impl Bytes + ?Sized),
        sections: &[Section],
        kind: elf::SectionType,
    ) -> Option<Table> {
        let symbols = sections.iter().find(|section| section.kind == kind)?;
        let strings = sections.get(symbols.link as usize)?;
        if strings.kind != elf::SHT_STRTAB {
            return None;
        }
        Some(Table::new(
            read_table(bytes, symbols.offset, symbols.size)?,
            read_table(bytes, strings.offset, strings.size)?,
        ))
    }

    /// Reads `.symtab` of a file through its headers.
    pub fn full(bytes: &(impl Bytes + ?Sized), headers: &Headers) -> Option<Table> {
        Table::of_section(bytes, &headers.sections(bytes), elf::SHT_SYMTAB)
    }

    /// Returns the number of entries, undefined ones included.
    pub fn len(&self) -> u32 {
        let count = self.symbols.len() / size_of::<elf::Sym64<LE>>();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Returns whether there is no entry at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry at `index` if it is defined and has an address in memory.
    ///
    /// Left out are undefined and thread-local symbols, sections and file names, and absolute values (`SHN_ABS`), which
    /// are numbers such as a version's mark and no addresses.
    pub fn entry(&self, index: u32) -> Option<Entry> {
        let at = (index as usize).checked_mul(size_of::<elf::Sym64<LE>>())?;
        let (symbol, _) = pod::from_bytes::<elf::Sym64<LE>>(self.symbols.get(at..)?).ok()?;
        let section = symbol.st_shndx.get(LE);
        let reserved = section.0 >= elf::SHN_LORESERVE && section != elf::SHN_XINDEX;
        if section == elf::SHN_UNDEF || reserved {
            return None;
        }
        let kind = match symbol.st_type() {
            elf::STT_FUNC => Kind::Function,
            elf::STT_GNU_IFUNC => Kind::Indirect,
            elf::STT_OBJECT => Kind::Data,
            elf::STT_NOTYPE => Kind::Untyped,
            _ => return None,
        };
        Some(Entry {
            name: symbol.st_name.get(LE),
            address: symbol.st_value.get(LE),
            size: symbol.st_size.get(LE),
            kind,
            local: symbol.st_bind() == elf::STB_LOCAL,
        })
    }

    /// Returns the name of the entry at `index`, defined or not, unless it is known to be no function.
    pub fn callable(&self, index: u32) -> Option<&[u8]> {
        let at = (index as usize).checked_mul(size_of::<elf::Sym64<LE>>())?;
        let (symbol, _) = pod::from_bytes::<elf::Sym64<LE>>(self.symbols.get(at..)?).ok()?;
        let kinds = [elf::STT_FUNC, elf::STT_GNU_IFUNC, elf::STT_NOTYPE];
        kinds
            .contains(&symbol.st_type())
            .then(|| self.name(symbol.st_name.get(LE)))?
    }

    /// Returns every defined entry with its index.
    pub fn entries(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        (0..self.len()).filter_map(|index| Some((index, self.entry(index)?)))
    }

    /// Returns the name that starts at `at`, exactly as stored.
    pub fn string(&self, at: u32) -> Option<&[u8]> {
        string(&self.strings, at)
    }

    /// Returns the name that starts at `at`, without the version that linkers append in `.symtab`
    /// (`memcpy@@GLIBC_2.14`).
    pub fn name(&self, at: u32) -> Option<&[u8]> {
        let name = self.string(at)?;
        match memchr::memchr(b'@', name) {
            Some(version) if version > 0 => Some(&name[..version]),
            _ => Some(name),
        }
    }

    /// Finds a name through an index of hashes that the first call builds. Among symbols of the same name one that is
    /// visible to others wins, then the first.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let by_hash = self.by_hash.get_or_init(|| {
            let mut index: Vec<(u32, u32)> = self
                .entries()
                .filter_map(|(index, entry)| Some((gnu_hash(self.name(entry.name)?), index)))
                .collect();
            index.sort_unstable();
            index
        });
        let hash = gnu_hash(name);
        let first = by_hash.partition_point(|&(found, _)| found < hash);
        let mut local = None;
        for &(_, index) in by_hash[first..]
            .iter()
            .take_while(|&&(found, _)| found == hash)
        {
            let Some(entry) = self.entry(index) else {
                continue;
            };
            if self.name(entry.name) != Some(name) {
                continue;
            }
            if !entry.local {
                return Some(index);
            }
            local = local.or(Some(index));
        }
        local
    }
}

/// Returns the hash of `DT_GNU_HASH` tables: h × 33 + c, beginning with 5381.
pub fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| {
        hash.wrapping_mul(33).wrapping_add(byte.into())
    })
}

/// Returns the hash of `DT_HASH` tables: gABI, "Hash Table".
pub fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}
