//! Reads the loader's own list of what it has loaded, which a debugger may read at any time. Used by the crates `hooks`
//! and `patch`.
//!
//! The program's dynamic section has an entry `DT_DEBUG`, which the loader fills with the address of
//! this (glibc 2.36 `elf/link.h`, `struct r_debug_extended`; musl's `struct debug` agrees up to `r_ldbase`):
//!
//! ```text
//!  r_debug      0 r_version (int)   1; 2: r_next is there, glibc 2.35 or later
//!               8 r_map             first link_map
//!              16 r_brk             a function called when a change begins and when it has ended
//!              24 r_state (int)     0 consistent, 1 adding, 2 deleting
//!              32 r_ldbase          load bias of the loader
//!              40 r_next            the next namespace (dlmopen), if r_version >= 2
//!  link_map     0 l_addr            load bias
//!               8 l_name            path as the loader opened it; "" for the program
//!              16 l_ld              dynamic section, in memory
//!              24 l_next            32 l_prev
//! ```
//!
//! A program started through the loader (`ld.so ./program`) has its `DT_DEBUG` where the kernel does not
//! say; then, and for static programs that call `dlopen`, the symbol `_r_debug` leads to the same place.
//!
//! A running guest may change the list while it is read. What is then seen can be wrong but not endless:
//! both walks are bounded, and [`LinkMap::consistent`] is false if the loader was at work.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use object::elf;
use vm::{Fault, Memory};

use crate::elf::ElfError;
use crate::maps::PAGE;
use crate::modules::Module;
use crate::symbols::Symbols;

/// More namespaces than glibc has (`DL_NNS` is 16).
const MOST_NAMESPACES: usize = 64;

/// More objects than any process loads; real ones have up to some hundreds.
const MOST_ENTRIES: usize = 1 << 14;

/// The longest path that is read (`PATH_MAX`).
const LONGEST_NAME: u64 = 4096;

/// An entry of the loader's list: one loaded object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Address of its `link_map`, which is also what `dlopen` returns.
    pub at: u64,
    /// Number of the namespace that it is in: 0 is the program's own, others come from `dlmopen`.
    pub namespace: usize,
    /// Load bias: what is added to an address in the file to get the one in memory.
    pub bias: u64,
    /// The path as the loader opened it, below the guest's root; empty for the program itself.
    pub path: PathBuf,
    /// Address of its dynamic section in memory.
    pub dynamic: u64,
}

/// The state of the loader's list when it was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkMap {
    /// `r_version` of `struct r_debug`.
    pub version: u32,
    /// Address of the function that the loader calls around every change. It does nothing, and is there to be hooked or
    /// to hold a breakpoint. It is the same for all namespaces.
    pub brk: u64,
    /// Load bias of the loader (`r_ldbase`).
    pub loader: u64,
    /// Whether no namespace was being changed when it was read.
    pub consistent: bool,
    /// Everything loaded, namespace by namespace, in load order.
    pub entries: Vec<Entry>,
}

/// The entries that were added and removed between two readings of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Entries in the new list only.
    pub loaded: Vec<&'a Entry>,
    /// Entries in the old list only.
    pub unloaded: Vec<&'a Entry>,
}

/// Returns the difference of two readings.
///
/// An object that was unloaded and loaded again at the same addresses between them, with its `link_map` at the same
/// place, seems unchanged. Its code is new all the same, so code that has patched it must compare the patched bytes.
pub fn changes<'a>(old: &'a LinkMap, new: &'a LinkMap) -> Changes<'a> {
    let before: HashSet<&Entry> = old.entries.iter().collect();
    let after: HashSet<&Entry> = new.entries.iter().collect();
    Changes {
        loaded: new
            .entries
            .iter()
            .filter(|entry| !before.contains(entry))
            .collect(),
        unloaded: old
            .entries
            .iter()
            .filter(|entry| !after.contains(entry))
            .collect(),
    }
}

/// Returns the address of a guest's `r_debug`, by `DT_DEBUG` of the program. `None` for a static program, and before
/// the loader has begun.
pub fn find(program: &Module, memory: &dyn Memory) -> Result<Option<u64>, ElfError> {
    let Some(dynamic) = program.headers.segment(elf::PT_DYNAMIC) else {
        return Ok(None);
    };
    let start = dynamic.address.wrapping_add(program.bias);
    let words = dynamic.memory_size.min(1 << 16) / 16;
    let read = |at: u64| {
        memory.u64(at).map_err(|_| ElfError::Memory {
            what: "the dynamic section",
            at,
        })
    };
    for at in (0..words).map(|index| start.wrapping_add(index * 16)) {
        let tag = read(at)?;
        if tag == elf::DT_NULL.0 as u64 {
            break;
        }
        if tag == elf::DT_DEBUG.0 as u64 {
            return Ok(Some(read(at.wrapping_add(8))?).filter(|&at| at != 0));
        }
    }
    Ok(None)
}

/// Returns the same address by the symbol `_r_debug` of the loader or of a static program, for where [`find`] finds
/// nothing. An `r_debug` that nobody has filled yet does not count.
pub fn find_by_symbol(symbols: &Symbols, memory: &dyn Memory) -> Option<u64> {
    let at = symbols.symbol("_r_debug")?.address;
    memory
        .u32(at)
        .is_ok_and(|version| version > 0)
        .then_some(at)
}

/// Reads the list whose `r_debug` lies at `at`.
pub fn read(memory: &dyn Memory, at: u64) -> Result<LinkMap, ElfError> {
    let mut list = LinkMap {
        consistent: true,
        ..LinkMap::default()
    };
    let mut seen = HashSet::new();
    let mut namespace = Some(at);
    while let Some(at) = namespace.filter(|&at| seen.len() < MOST_NAMESPACES && seen.insert(at)) {
        namespace = read_namespace(memory, at, seen.len() - 1, &mut list).map_err(|fault| {
            ElfError::Memory {
                what: "the loader's list",
                at: fault.at,
            }
        })?;
    }
    Ok(list)
}

/// Reads one namespace into `list` and returns the next.
fn read_namespace(
    memory: &dyn Memory,
    at: u64,
    number: usize,
    list: &mut LinkMap,
) -> Result<Option<u64>, Fault> {
    let field = |offset: u64| at.wrapping_add(offset);
    let version = memory.u32(at)?;
    if number == 0 {
        list.version = version;
        list.brk = memory.u64(field(16))?;
        list.loader = memory.u64(field(32))?;
    }
    list.consistent &= memory.u32(field(24))? == 0;
    let mut seen = HashSet::new();
    let mut entry = memory.u64(field(8))?;
    while entry != 0 && list.entries.len() < MOST_ENTRIES {
        if !seen.insert(entry) {
            // The list can be circular only while it is changed.
            list.consistent = false;
            break;
        }
        let mut bytes = [0; 32];
        memory.read(entry, &mut bytes)?;
        let word = |index: usize| {
            bytes
                .as_chunks()
                .0
                .get(index)
                .map_or(0, |&word| u64::from_le_bytes(word))
        };
        list.entries.push(Entry {
            at: entry,
            namespace: number,
            bias: word(0),
            path: PathBuf::from(OsString::from_vec(read_string(memory, word(1))?)),
            dynamic: word(2),
        });
        entry = word(3);
    }
    let next = if version >= 2 {
        memory.u64(field(40))?
    } else {
        0
    };
    Ok(Some(next).filter(|&next| next != 0))
}

/// Reads up to a NUL, but never beyond the page that it lies in. A null pointer is an empty string.
fn read_string(memory: &dyn Memory, at: u64) -> Result<Vec<u8>, Fault> {
    let mut string = Vec::new();
    let mut from = at;
    while at != 0 && (string.len() as u64) < LONGEST_NAME {
        // Most paths are short and copying a page takes long, so small pieces are read, cut at the page's end.
        let mut piece = [0; 128];
        let length = (PAGE - from % PAGE).min(piece.len() as u64);
        let piece = &mut piece[..length as usize];
        memory.read(from, piece)?;
        if let Some(end) = memchr::memchr(0, piece) {
            string.extend_from_slice(&piece[..end]);
            break;
        }
        string.extend_from_slice(piece);
        from = from.wrapping_add(length);
    }
    Ok(string)
}
