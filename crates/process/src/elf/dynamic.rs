//! Reads the symbols an ELF object shows to the loader, and finds them as the loader does. Used by `symbols`,
//! `interpreters` and `imports`.
//!
//! The dynamic section names the tables by address, not by file offset, so that one reader serves
//! both places: an [`Image`] is a file seen through its program header, or the guest's memory.
//!
//! `DT_GNU_HASH` (binutils `bfd/elflink.c`, glibc `elf/dl-lookup.c`):
//!
//! ```text
//! u32 buckets | u32 first | u32 words | u32 shift      the first hashed symbol, Bloom filter's size
//! u64 bloom[words]          two bits per name: most names that are not here are refuted by one look
//! u32 bucket[buckets]       the first symbol of each bucket, 0 for none
//! u32 chain[…]              from symbol `first` on: its hash, bit 0 replaced by "last of its bucket"
//! ```
//!
//! A chain is read onwards only, so it cannot run in a circle. The nodes of the older `DT_HASH` (gABI,
//! "Hash Table") can; a walk there ends after as many steps as there are symbols.
//!
//! A symbol may be there several times, once per version (`DT_VERSYM`). The one without
//! `VERSYM_HIDDEN` is the default, to which new programs are linked, and the one found here. Where every
//! version is hidden, the first is: old programs still call it.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf;
use object::pod;

use super::imports::{Of, Relocations, Slot};
use super::table::{Entry, Table, gnu_hash, sysv_hash};
use super::{Bytes, Headers, LARGEST_TABLE, read_table};

/// A dynamic section longer than this is not read to its end. Real ones have some 40 entries.
const LONGEST_DYNAMIC: u64 = 0x1_0000;
/// Symbols of one hash bucket that are looked at for a name. Linkers make buckets of a few; a damaged or hostile file may have all of its
/// symbols in one.
const LONGEST_CHAIN: usize = 0x1_0000;

/// An ELF object seen by the addresses it was linked for.
pub trait Image {
    /// Reads `size` bytes at a link-time address; `None` if they are not all there, or too many.
    fn read(&self, address: u64, size: u64) -> Option<Vec<u8>>;
    /// The link-time address a pointer in the dynamic section stands for.
    fn link_address(&self, value: u64) -> Option<u64>;
    /// How many bytes there are from `address` to the end of what can be read there.
    fn rest(&self, address: u64) -> u64;
}

/// A file as an image.
pub struct FileImage<'a, B: Bytes + ?Sized> {
    /// The bytes of the whole file.
    pub bytes: &'a B,
    /// The file's headers, which say where in it the bytes of an address are.
    pub headers: &'a Headers,
}

impl<B: Bytes + ?Sized> Image for FileImage<'_, B> {
    fn read(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        read_table(self.bytes, self.headers.file_offset(address, size)?, size)
    }
    fn link_address(&self, value: u64) -> Option<u64> {
        Some(value)
    }
    fn rest(&self, address: u64) -> u64 {
        let found = self.headers.loads().find_map(|load| {
            load.file_size
                .checked_sub(address.checked_sub(load.address)?)
        });
        found.unwrap_or(0)
    }
}

/// A loaded object as an image.
pub struct MemoryImage<'a> {
    /// The memory of the guest that has loaded the object.
    pub memory: &'a dyn vm::Memory,
    /// What the loader added to every link-time address.
    pub bias: u64,
    /// The link-time addresses the object was given by the loader.
    pub extent: Range<u64>,
}

impl Image for MemoryImage<'_> {
    fn read(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        if size > self.rest(address).min(LARGEST_TABLE) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.memory
            .read(address.wrapping_add(self.bias), &mut bytes)
            .ok()?;
        Some(bytes)
    }

    /// glibc replaces the pointers of a writable dynamic section by true addresses
    /// (`elf/get-dynamic-info.h`, `ADJUST_DYN_INFO`), musl and the kernel's vdso leave them alone.
    fn link_address(&self, value: u64) -> Option<u64> {
        let relocated = value.wrapping_sub(self.bias);
        [relocated, value]
            .into_iter()
            .find(|address| self.extent.contains(address))
    }

    fn rest(&self, address: u64) -> u64 {
        if self.extent.contains(&address) {
            self.extent.end - address
        } else {
            0
        }
    }
}

/// The entries of a dynamic section that are used here.
#[derive(Debug, Default, Clone, Copy)]
struct Pointers {
    symbols: Option<u64>,
    strings: Option<u64>,
    strings_size: u64,
    gnu_hash: Option<u64>,
    sysv_hash: Option<u64>,
    versions: Option<u64>,
    soname: Option<u32>,
    relocations: Relocations,
}

/// The kind of hash table by which names are found among the dynamic symbols.
#[derive(Debug)]
enum Index {
    Gnu {
        first: u32,
        shift: u32,
        bloom: Vec<u8>,
        buckets: Vec<u8>,
        chain: Vec<u8>,
    },
    SysV {
        buckets: Vec<u8>,
        chain: Vec<u8>,
    },
}

/// The dynamic symbols of one object.
#[derive(Debug)]
pub struct Dynamic {
    table: Table,
    index: Index,
    versions: Vec<u8>,
    soname: Option<u32>,
    needed: Vec<u32>,
    slots: Vec<Slot>,
}

impl Dynamic {
    /// Reads the tables that the dynamic section of `headers` points to. `Ok(None)` for an object
    /// without one, as a static program is.
    pub fn read(image: &impl Image, headers: &Headers) -> Result<Option<Dynamic>, &'static str> {
        let Some(segment) = headers.segment(elf::PT_DYNAMIC) else {
            return Ok(None);
        };
        let size = segment.memory_size.min(LONGEST_DYNAMIC);
        let section = image
            .read(segment.address, size)
            .ok_or("the dynamic section cannot be read")?;
        let pointers = pointers(&section);
        let (Some(symbols), Some(strings)) = (pointers.symbols, pointers.strings) else {
            return Ok(None);
        };
        let at = |value: u64| image.link_address(value);
        let (index, count) = match (pointers.gnu_hash, pointers.sysv_hash) {
            (Some(hash), _) => at(hash).and_then(|hash| read_gnu(image, hash)),
            (None, Some(hash)) => at(hash).and_then(|hash| read_sysv(image, hash)),
            (None, None) => return Ok(None),
        }
        .ok_or("the hash table of the dynamic symbols is damaged")?;
        let slots = pointers.relocations.slots(image);
        // If the object exports nothing, the hash table does not tell how many symbols there are (ld).
        let called = slots.iter().filter_map(|slot| match slot.of {
            Of::Symbol(symbol) => symbol.checked_add(1),
            Of::Picked(_) => None,
        });
        let most = called.max().unwrap_or(0).max(count);
        let symbols = at(symbols)
            .and_then(|symbols| {
                let read = |count: u32| image.read(symbols, u64::from(count) * 24);
                read(most).or_else(|| read(count))
            })
            .ok_or("the dynamic symbols lie outside of the object")?;
        let strings = at(strings)
            .and_then(|strings| image.read(strings, pointers.strings_size))
            .ok_or("the dynamic strings lie outside of the object")?;
        // Without readable versions every symbol counts as the default one.
        let versions = pointers
            .versions
            .and_then(at)
            .and_then(|versions| image.read(versions, u64::from(count) * 2))
            .unwrap_or_default();
        Ok(Some(Dynamic {
            table: Table::new(symbols, strings),
            index,
            versions,
            soname: pointers.soname,
            needed: needed(&section),
            slots,
        }))
    }

    /// The symbols and their names.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The name that programs linked to the object know it by (`DT_SONAME`).
    pub fn soname(&self) -> Option<&[u8]> {
        self.table
            .string(self.soname?)
            .filter(|name| !name.is_empty())
    }

    /// The names of the libraries that the loader loads for it (`DT_NEEDED`).
    pub fn needed(&self) -> impl Iterator<Item = &[u8]> {
        self.needed.iter().filter_map(|at| self.table.string(*at))
    }

    /// Names of the functions that the object calls through slots of its own, defined elsewhere or not.
    pub fn imports(&self) -> impl Iterator<Item = &[u8]> {
        self.slots.iter().filter_map(|slot| match slot.of {
            Of::Symbol(index) => self.table.callable(index),
            Of::Picked(_) => None,
        })
    }

    /// The words that the loader fills with functions' addresses.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether the symbol is the default version of its name (or has no version at all).
    pub fn is_default(&self, index: u32) -> bool {
        let at = index as usize * 2;
        match self.versions.get(at..at + 2) {
            Some(version) => version[1] & 0x80 == 0,
            None => true,
        }
    }

    /// Finds a defined symbol by name; the default version first.
    pub fn find(&self, name: &[u8]) -> Option<(u32, Entry)> {
        match &self.index {
            Index::Gnu {
                first,
                shift,
                bloom,
                buckets,
                chain,
            } => {
                let hash = gnu_hash(name);
                if !may_hold(bloom, *shift, hash) {
                    return None;
                }
                let bucket = hash.checked_rem(u32::try_from(buckets.len() / 4).ok()?)?;
                let start = word(buckets, bucket)?.checked_sub(*first)?;
                let mut last = false;
                let hashes = (start..).map_while(|at| {
                    let found = word(chain, at).filter(|_| !last)?;
                    last = found & 1 == 1;
                    Some((at, found))
                });
                let same = hashes
                    .take(LONGEST_CHAIN)
                    .filter(|(_, found)| found | 1 == hash | 1);
                self.best(name, same.filter_map(|(at, _)| at.checked_add(*first)))
            }
            Index::SysV { buckets, chain } => {
                let bucket = sysv_hash(name).checked_rem(u32::try_from(buckets.len() / 4).ok()?)?;
                let first = word(buckets, bucket).filter(|&index| index != 0);
                let chained = std::iter::successors(first, |&index| {
                    word(chain, index).filter(|&index| index != 0)
                });
                self.best(name, chained.take(LONGEST_CHAIN.min(chain.len() / 4)))
            }
        }
    }

    fn best(&self, name: &[u8], indices: impl Iterator<Item = u32>) -> Option<(u32, Entry)> {
        let mut hidden = None;
        for index in indices {
            let Some(entry) = self.table.entry(index) else {
                continue;
            };
            if self.table.string(entry.name) != Some(name) {
                continue;
            }
            if self.is_default(index) {
                return Some((index, entry));
            }
            hidden = hidden.or(Some((index, entry)));
        }
        hidden
    }
}

fn pointers(section: &[u8]) -> Pointers {
    let mut pointers = Pointers::default();
    let mut rest = section;
    while let Ok((entry, after)) = pod::from_bytes::<elf::Dyn64<LE>>(rest) {
        rest = after;
        let value = entry.d_val.get(LE);
        match entry.d_tag.get(LE) {
            elf::DT_NULL => break,
            elf::DT_SYMTAB => pointers.symbols = Some(value),
            elf::DT_STRTAB => pointers.strings = Some(value),
            elf::DT_STRSZ => pointers.strings_size = value,
            elf::DT_GNU_HASH => pointers.gnu_hash = Some(value),
            elf::DT_HASH => pointers.sysv_hash = Some(value),
            elf::DT_VERSYM => pointers.versions = Some(value),
            elf::DT_SONAME => pointers.soname = u32::try_from(value).ok(),
            elf::DT_JMPREL => pointers.relocations.slots = Some(value),
            elf::DT_PLTRELSZ => pointers.relocations.slots_size = value,
            elf::DT_RELA => pointers.relocations.others = Some(value),
            elf::DT_RELASZ => pointers.relocations.others_size = value,
            elf::DT_RELACOUNT => pointers.relocations.relative = value,
            _ => {}
        }
    }
    pointers
}

/// Returns where the names of the libraries that are needed begin in the table of strings.
fn needed(section: &[u8]) -> Vec<u32> {
    let (mut needed, mut rest) = (Vec::new(), section);
    while let Ok((entry, after)) = pod::from_bytes::<elf::Dyn64<LE>>(rest) {
        rest = after;
        match entry.d_tag.get(LE) {
            elf::DT_NULL => break,
            elf::DT_NEEDED => needed.extend(u32::try_from(entry.d_val.get(LE))),
            _ => {}
        }
    }
    needed
}

/// Reads a `DT_GNU_HASH` table. Also returns how many symbols there are, which nothing else in memory says.
fn read_gnu(image: &impl Image, at: u64) -> Option<(Index, u32)> {
    let header = image.read(at, 16)?;
    let (buckets, first) = (word(&header, 0)?, word(&header, 1)?);
    let (words, shift) = (word(&header, 2)?, word(&header, 3)?);
    let bloom_at = at.checked_add(16)?;
    let buckets_at = bloom_at.checked_add(u64::from(words) * 8)?;
    let chain_at = buckets_at.checked_add(u64::from(buckets) * 4)?;
    let bloom = image.read(bloom_at, u64::from(words) * 8)?;
    let buckets = image.read(buckets_at, u64::from(buckets) * 4)?;
    let highest = (0..buckets.len() as u32 / 4)
        .filter_map(|bucket| word(&buckets, bucket))
        .max();
    let count = match highest.filter(|&highest| highest >= first) {
        Some(highest) => chain_end(image, chain_at, highest - first)?.checked_add(first)?,
        // Every bucket is empty: there are only the symbols before the hashed ones, all undefined.
        None => first,
    };
    let chain = image.read(chain_at, u64::from(count - first) * 4)?;
    Some((
        Index::Gnu {
            first,
            shift,
            bloom,
            buckets,
            chain,
        },
        count,
    ))
}

/// Returns one past the last entry of the chain that `from` is in.
fn chain_end(image: &impl Image, chain: u64, from: u32) -> Option<u32> {
    const PIECE: u64 = 1024;
    let mut index = from;
    // The search stops where a readable symbol table would end, because a sparse file contains zeros without end.
    while u64::from(index) * 24 < LARGEST_TABLE {
        let at = chain.checked_add(u64::from(index) * 4)?;
        let piece = image.read(at, image.rest(at).min(PIECE) / 4 * 4)?;
        if piece.is_empty() {
            return None;
        }
        let words = piece.len() as u32 / 4;
        if let Some(last) =
            (0..words).find(|&at| word(&piece, at).is_some_and(|hash| hash & 1 == 1))
        {
            return index.checked_add(last)?.checked_add(1);
        }
        index = index.checked_add(words)?;
    }
    None
}

fn read_sysv(image: &impl Image, at: u64) -> Option<(Index, u32)> {
    let header = image.read(at, 8)?;
    let (buckets, count) = (word(&header, 0)?, word(&header, 1)?);
    let buckets_at = at.checked_add(8)?;
    let chain_at = buckets_at.checked_add(u64::from(buckets) * 4)?;
    let buckets = image.read(buckets_at, u64::from(buckets) * 4)?;
    let chain = image.read(chain_at, u64::from(count) * 4)?;
    Some((Index::SysV { buckets, chain }, count))
}

/// Whether, by the Bloom filter, a name with this hash may exist.
fn may_hold(bloom: &[u8], shift: u32, hash: u32) -> bool {
    let words = bloom.len() / 8;
    if words == 0 {
        return true;
    }
    let at = (hash / 64) as usize % words * 8;
    let Some(word) = bloom.get(at..at + 8).and_then(|word| word.try_into().ok()) else {
        return true;
    };
    let word = u64::from_le_bytes(word);
    let second = hash.checked_shr(shift).unwrap_or(0);
    (word >> (hash % 64)) & (word >> (second % 64)) & 1 == 1
}

fn word(words: &[u8], index: u32) -> Option<u32> {
    let at = (index as usize).checked_mul(4)?;
    Some(u32::from_le_bytes(words.get(at..)?.first_chunk().copied()?))
}
